//! Runs each request inside its connection's task. If the client disconnects, the request is detached and finishes on
//! its own, so its record and reservation are always completed.
//!
//! The future of a request is large and mostly uninitialized at first. A runner is created once per connection and
//! reused, so that it is not allocated, moved and freed for each request. With a spawned task per request instead, a
//! small call takes 24 % more instructions (`bench/instructions.py`, 16 connections: 194,300 instead of 156,100).

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

/// Holds the runner of a connection while it is idle. The slot is empty before the first request and while a request is
/// running.
pub(super) struct RequestRunnerSlot<J>(Mutex<Option<RequestRunner<J>>>);

struct RequestRunner<J> {
    future: RequestFuture,
    job_slot: Arc<JobSlot<J>>,
    /// One timer for all requests, since the runner is a single task.
    deadline_timer: Arc<DeadlineTimer>,
}

/// Passes requests to a runner. The submitting side polls the runner itself, so no wake-up is needed.
struct JobSlot<J>(Mutex<JobSlotState<J>>);

struct JobSlotState<J> {
    job: Option<(J, Responder)>,
    /// Whether the runner has finished all submitted requests.
    is_idle: bool,
    /// Whether no more requests will be submitted.
    is_closed: bool,
}

impl<J> Default for RequestRunnerSlot<J> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<J: Send + 'static> RequestRunnerSlot<J> {
    /// Runs one request and returns its response. Work that remains after the response continues without the client.
    pub async fn run_request<W>(
        &self,
        gw: &Arc<Gateway>,
        job: J,
        handler: impl Fn(Arc<Gateway>, J, Responder) -> W + Send + 'static,
    ) -> Response<ReplyBody>
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let runner = lock(&self.0).take();
        let runner = runner.unwrap_or_else(|| {
            let gw = Arc::clone(gw);
            RequestRunner::new(move |job, responder| handler(Arc::clone(&gw), job, responder))
        });
        let (responder, answer) = Responder::new(Arc::clone(&runner.deadline_timer));
        runner.job_slot.submit(job, responder);
        let answer =
            DetachOnDrop { runner: Some(runner), response: answer, runner_slot: self, detach: |work| gw.spawn(work) }
                .await;
        answer.unwrap_or_else(|_| {
            reply::http_error_response(StatusCode::INTERNAL_SERVER_ERROR, "the gateway could not handle the request")
        })
    }
}

impl<J: Send + 'static> RequestRunner<J> {
    fn new<W>(handler: impl Fn(J, Responder) -> W + Send + 'static) -> Self
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let job_slot = Arc::new(JobSlot(Mutex::new(JobSlotState { job: None, is_idle: true, is_closed: false })));
        let own = Arc::clone(&job_slot);
        let future = Box::pin(async move {
            while let Some((job, responder)) = own.next_job().await {
                handler(job, responder).await;
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

    /// Returns the next request, or `None` once the slot is closed.
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
    // The state is valid even after a panic, because each change is a single assignment.
    own.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Drives a running request until its response is available; when dropped, detaches the remaining work.
struct DetachOnDrop<'d, J, A, L: Fn(RequestFuture)> {
    runner: Option<RequestRunner<J>>,
    response: oneshot::Receiver<A>,
    runner_slot: &'d RequestRunnerSlot<J>,
    /// Spawns the remaining work of a request whose client has disconnected.
    detach: L,
}

impl<J, A, L: Fn(RequestFuture) + Unpin> Future for DetachOnDrop<'_, J, A, L> {
    type Output = Result<A, oneshot::error::RecvError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let own = self.get_mut();
        // Taken out, so that a future that panicked is dropped and never polled again.
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

    /// Submits a job that is a future, and returns the sender of its response.
    fn submit<'d>(
        runner_slot: &'d RequestRunnerSlot<RequestFuture>,
        job: RequestFuture,
    ) -> (oneshot::Sender<u8>, DetachOnDrop<'d, RequestFuture, u8, impl Fn(RequestFuture) + Unpin>) {
        let (sender, answer) = oneshot::channel();
        let runner =
            lock(&runner_slot.0).take().unwrap_or_else(|| RequestRunner::new(|job: RequestFuture, _responder| job));
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
    async fn request_of_a_disconnected_client_still_finishes() {
        let (done, is_done) = oneshot::channel();
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let runner_slot = RequestRunnerSlot::default();
        let (_answer, running) = submit(
            &runner_slot,
            Box::pin(async move {
                let _ = may_go_on.await;
                let _ = done.send(());
            }),
        );
        let mut running = Box::pin(running);
        assert!(polled(running.as_mut()).is_pending());
        drop(running);
        go_on.send(()).expect("the job waits");
        is_done.await.expect("it was done");
        assert!(lock(&runner_slot.0).is_none(), "a detached runner handler not return to the slot");
    }

    #[tokio::test]
    async fn panicking_request_gives_no_response_and_does_not_hang() {
        let runner_slot = RequestRunnerSlot::default();
        let (answer, running) = submit(&runner_slot, Box::pin(async { panic!("as planned") }));
        let mut running = Box::pin(running);
        assert!(polled(running.as_mut()).is_pending(), "the panic was caught");
        drop(answer);
        assert!(running.await.is_err());
        assert!(lock(&runner_slot.0).is_none(), "a runner that panicked is not used again");
    }

    #[tokio::test]
    async fn runner_is_reused_for_consecutive_requests() {
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
            let (answer, mut running) = submit(&runner_slot, job);
            while lock(&runner_slot.0).is_none() {
                assert!(polled(Pin::new(&mut running)).is_pending());
            }
            answer.send(7).expect("the future waits");
            assert_eq!(running.await, Ok(7));
            assert_eq!(made.load(Ordering::Relaxed), round + 1);
            assert!(lock(&runner_slot.0).is_some(), "the runner is back in its slot");
        }
    }

    fn polled<F: Future>(work: Pin<&mut F>) -> Poll<F::Output> {
        work.poll(&mut Context::from_waker(std::task::Waker::noop()))
    }
}
