//! Who does the work of one connection, request after request, where its caller waits. If the caller goes before it is
//! done, it goes on by itself: nobody who hangs up skips the record or strands a reservation.
//!
//! The work of a request is a large thing, and most of it says nothing at first. A clerk is made once for a connection,
//! so none of it is made, moved and given back for each request.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use http::{Response, StatusCode};
use tokio::sync::oneshot;

use super::http_bodies::ReplyBody;
use super::reply;
use super::responder::Responder;
use crate::Gateway;
use crate::deadline_timer::DeadlineTimer;

type RequestFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the clerk of a connection is while nobody asks. It is empty before the first request, and during each.
pub(super) struct RequestRunnerSlot<J>(Mutex<Option<RequestRunner<J>>>);

struct RequestRunner<J> {
    future: RequestFuture,
    job_slot: Arc<JobSlot<J>>,
    /// Of all its work, which is one task.
    deadline_timer: Arc<DeadlineTimer>,
}

/// What is handed to a clerk. Whoever puts something in lets the clerk go on; so nobody has to call it.
struct JobSlot<J>(Mutex<JobSlotState<J>>);

struct JobSlotState<J> {
    job: Option<(J, Responder)>,
    /// Whether the clerk has done all that it was given.
    is_idle: bool,
    /// Whether nothing more comes.
    is_closed: bool,
}

impl<J> Default for RequestRunnerSlot<J> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<J: Send + 'static> RequestRunnerSlot<J> {
    /// Has one request done, and gives its answer. What is left to do then is done without the caller.
    pub async fn run_request<W>(
        &self,
        gw: &Arc<Gateway>,
        job: J,
        does: impl Fn(Arc<Gateway>, J, Responder) -> W + Send + 'static,
    ) -> Response<ReplyBody>
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let runner = lock(&self.0).take();
        let runner = runner.unwrap_or_else(|| {
            let gw = Arc::clone(gw);
            RequestRunner::new(move |job, line| does(Arc::clone(&gw), job, line))
        });
        let (responder, answer) = Responder::new(Arc::clone(&runner.deadline_timer));
        runner.job_slot.submit(job, responder);
        let answer =
            DetachOnDrop { runner: Some(runner), response: answer, runner_slot: self, detach: |work| gw.spawn(work) }
                .await;
        answer.unwrap_or_else(|_| {
            reply::http_error_response(StatusCode::INTERNAL_SERVER_ERROR, "the gateway could not answer")
        })
    }
}

impl<J: Send + 'static> RequestRunner<J> {
    fn new<W>(does: impl Fn(J, Responder) -> W + Send + 'static) -> Self
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let job_slot = Arc::new(JobSlot(Mutex::new(JobSlotState { job: None, is_idle: true, is_closed: false })));
        let own = Arc::clone(&job_slot);
        let future = Box::pin(async move {
            while let Some((job, responder)) = own.next_job().await {
                does(job, responder).await;
            }
        });
        Self { future, job_slot, deadline_timer: Arc::default() }
    }
}

impl<J> JobSlot<J> {
    fn submit(&self, job: J, responder: Responder) {
        let mut slot_state = lock(&self.0);
        (slot_state.job, slot_state.is_idle) = (Some((job, responder)), false);
    }

    /// The next job; none if there will be no more.
    async fn next_job(&self) -> Option<(J, Responder)> {
        poll_fn(|_| {
            let mut slot_state = lock(&self.0);
            match slot_state.job.take() {
                Some(job) => Poll::Ready(Some(job)),
                None if slot_state.is_closed => Poll::Ready(None),
                None => {
                    slot_state.is_idle = true;
                    Poll::Pending
                }
            }
        })
        .await
    }

    fn is_idle(&self) -> bool {
        lock(&self.0).is_idle
    }

    fn close(&self) {
        lock(&self.0).is_closed = true;
    }
}

fn lock<T>(own: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic while holding it leaves it whole: each change is one step.
    own.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Work under way, and the answer that it gives before it is done or with it.
struct DetachOnDrop<'d, J, A, L: Fn(RequestFuture)> {
    runner: Option<RequestRunner<J>>,
    response: oneshot::Receiver<A>,
    runner_slot: &'d RequestRunnerSlot<J>,
    /// Takes work that nobody waits for any more.
    detach: L,
}

impl<J, A, L: Fn(RequestFuture) + Unpin> Future for DetachOnDrop<'_, J, A, L> {
    type Output = Result<A, oneshot::error::RecvError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let own = self.get_mut();
        // Taken out, so that work that panics is gone, and nobody asks for it again.
        if let Some(mut runner) = own.runner.take() {
            let polled = catch_unwind(AssertUnwindSafe(|| runner.future.as_mut().poll(cx)));
            match polled {
                Ok(Poll::Pending) if runner.job_slot.is_idle() => *lock(&own.runner_slot.0) = Some(runner),
                Ok(Poll::Pending) => own.runner = Some(runner),
                Ok(Poll::Ready(())) | Err(_) => {}
            }
        }
        Pin::new(&mut own.response).poll(cx)
    }
}

impl<J, A, L: Fn(RequestFuture)> Drop for DetachOnDrop<'_, J, A, L> {
    fn drop(&mut self) {
        if let Some(runner) = self.runner.take() {
            runner.job_slot.close();
            (self.detach)(runner.future);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// A clerk of jobs that are futures, and the desk it comes back to.
    fn tended<'d>(
        runner_slot: &'d RequestRunnerSlot<RequestFuture>,
        job: RequestFuture,
    ) -> (oneshot::Sender<u8>, DetachOnDrop<'d, RequestFuture, u8, impl Fn(RequestFuture) + Unpin>) {
        let (sender, answer) = oneshot::channel();
        let runner = lock(&runner_slot.0).take().unwrap_or_else(|| RequestRunner::new(|job: RequestFuture, _line| job));
        runner.job_slot.submit(job, Responder::new(Arc::default()).0);
        (
            sender,
            DetachOnDrop {
                runner: Some(runner),
                response: answer,
                runner_slot,
                detach: |work| drop(tokio::spawn(work)),
            },
        )
    }

    #[tokio::test]
    async fn work_whose_caller_has_gone_is_done_all_the_same() {
        let (done, is_done) = oneshot::channel();
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let runner_slot = RequestRunnerSlot::default();
        let (_answer, tended) = tended(
            &runner_slot,
            Box::pin(async move {
                let _ = may_go_on.await;
                let _ = done.send(());
            }),
        );
        let mut tended = Box::pin(tended);
        assert!(polled(tended.as_mut()).is_pending());
        drop(tended);
        go_on.send(()).expect("somebody waits");
        is_done.await.expect("it was done");
        assert!(lock(&runner_slot.0).is_none(), "whoever went on by itself does not come back");
    }

    #[tokio::test]
    async fn work_that_panics_leaves_its_caller_without_an_answer_and_not_waiting() {
        let runner_slot = RequestRunnerSlot::default();
        let (answer, tended) = tended(&runner_slot, Box::pin(async { panic!("as planned") }));
        let mut tended = Box::pin(tended);
        assert!(polled(tended.as_mut()).is_pending(), "the panic went no further");
        drop(answer);
        assert!(tended.await.is_err());
        assert!(lock(&runner_slot.0).is_none(), "nobody works on with what panicked");
    }

    #[tokio::test]
    async fn one_clerk_does_one_request_after_another() {
        let (runner_slot, made) = (RequestRunnerSlot::default(), Arc::new(AtomicUsize::new(0)));
        for round in 0..3 {
            let count = Arc::clone(&made);
            let mut steps = VecDeque::from([(), ()]);
            let job: RequestFuture = Box::pin(poll_fn(move |cx| {
                cx.waker().wake_by_ref();
                if steps.pop_front().is_some() {
                    return Poll::Pending;
                }
                count.fetch_add(1, Ordering::Relaxed);
                Poll::Ready(())
            }));
            let (answer, mut tended) = tended(&runner_slot, job);
            while lock(&runner_slot.0).is_none() {
                assert!(polled(Pin::new(&mut tended)).is_pending());
            }
            answer.send(7).expect("somebody waits");
            assert_eq!(tended.await, Ok(7));
            assert_eq!(made.load(Ordering::Relaxed), round + 1);
            assert!(lock(&runner_slot.0).is_some(), "it is there for the next");
        }
    }

    fn polled<F: Future>(work: Pin<&mut F>) -> Poll<F::Output> {
        work.poll(&mut Context::from_waker(std::task::Waker::noop()))
    }
}
