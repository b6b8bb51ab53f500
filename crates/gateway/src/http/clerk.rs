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

use super::body::Body;
use super::line::Line;
use super::reply;
use crate::Gateway;
use crate::deadline_timer::DeadlineTimer;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where the clerk of a connection is while nobody asks. It is empty before the first request, and during each.
pub(super) struct Desk<J>(Mutex<Option<Clerk<J>>>);

struct Clerk<J> {
    work: Work,
    tray: Arc<Tray<J>>,
    /// Of all its work, which is one task.
    alarm: Arc<DeadlineTimer>,
}

/// What is handed to a clerk. Whoever puts something in lets the clerk go on; so nobody has to call it.
struct Tray<J>(Mutex<Handed<J>>);

struct Handed<J> {
    job: Option<(J, Line)>,
    /// Whether the clerk has done all that it was given.
    is_idle: bool,
    /// Whether nothing more comes.
    is_closed: bool,
}

impl<J> Default for Desk<J> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<J: Send + 'static> Desk<J> {
    /// Has one request done, and gives its answer. What is left to do then is done without the caller.
    pub async fn answer<W>(
        &self,
        gw: &Arc<Gateway>,
        job: J,
        does: impl Fn(Arc<Gateway>, J, Line) -> W + Send + 'static,
    ) -> Response<Body>
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let clerk = lock(&self.0).take();
        let clerk = clerk.unwrap_or_else(|| {
            let gw = Arc::clone(gw);
            Clerk::new(move |job, line| does(Arc::clone(&gw), job, line))
        });
        let (line, answer) = Line::new(Arc::clone(&clerk.alarm));
        clerk.tray.put(job, line);
        let answer = Tended { clerk: Some(clerk), answer, desk: self, let_go: |work| gw.spawn(work) }.await;
        answer.unwrap_or_else(|_| reply::http_error(StatusCode::INTERNAL_SERVER_ERROR, "the gateway could not answer"))
    }
}

impl<J: Send + 'static> Clerk<J> {
    fn new<W>(does: impl Fn(J, Line) -> W + Send + 'static) -> Self
    where
        W: Future<Output = ()> + Send + 'static,
    {
        let tray = Arc::new(Tray(Mutex::new(Handed { job: None, is_idle: true, is_closed: false })));
        let own = Arc::clone(&tray);
        let work = Box::pin(async move {
            while let Some((job, line)) = own.next().await {
                does(job, line).await;
            }
        });
        Self { work, tray, alarm: Arc::default() }
    }
}

impl<J> Tray<J> {
    fn put(&self, job: J, line: Line) {
        let mut handed = lock(&self.0);
        (handed.job, handed.is_idle) = (Some((job, line)), false);
    }

    /// The next job; none if there will be no more.
    async fn next(&self) -> Option<(J, Line)> {
        poll_fn(|_| {
            let mut handed = lock(&self.0);
            match handed.job.take() {
                Some(job) => Poll::Ready(Some(job)),
                None if handed.is_closed => Poll::Ready(None),
                None => {
                    handed.is_idle = true;
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
struct Tended<'d, J, A, L: Fn(Work)> {
    clerk: Option<Clerk<J>>,
    answer: oneshot::Receiver<A>,
    desk: &'d Desk<J>,
    /// Takes work that nobody waits for any more.
    let_go: L,
}

impl<J, A, L: Fn(Work) + Unpin> Future for Tended<'_, J, A, L> {
    type Output = Result<A, oneshot::error::RecvError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let own = self.get_mut();
        // Taken out, so that work that panics is gone, and nobody asks for it again.
        if let Some(mut clerk) = own.clerk.take() {
            let polled = catch_unwind(AssertUnwindSafe(|| clerk.work.as_mut().poll(cx)));
            match polled {
                Ok(Poll::Pending) if clerk.tray.is_idle() => *lock(&own.desk.0) = Some(clerk),
                Ok(Poll::Pending) => own.clerk = Some(clerk),
                Ok(Poll::Ready(())) | Err(_) => {}
            }
        }
        Pin::new(&mut own.answer).poll(cx)
    }
}

impl<J, A, L: Fn(Work)> Drop for Tended<'_, J, A, L> {
    fn drop(&mut self) {
        if let Some(clerk) = self.clerk.take() {
            clerk.tray.close();
            (self.let_go)(clerk.work);
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
        desk: &'d Desk<Work>,
        job: Work,
    ) -> (oneshot::Sender<u8>, Tended<'d, Work, u8, impl Fn(Work) + Unpin>) {
        let (sender, answer) = oneshot::channel();
        let clerk = lock(&desk.0).take().unwrap_or_else(|| Clerk::new(|job: Work, _line| job));
        clerk.tray.put(job, Line::new(Arc::default()).0);
        (sender, Tended { clerk: Some(clerk), answer, desk, let_go: |work| drop(tokio::spawn(work)) })
    }

    #[tokio::test]
    async fn work_whose_caller_has_gone_is_done_all_the_same() {
        let (done, is_done) = oneshot::channel();
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let desk = Desk::default();
        let (_answer, tended) = tended(
            &desk,
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
        assert!(lock(&desk.0).is_none(), "whoever went on by itself does not come back");
    }

    #[tokio::test]
    async fn work_that_panics_leaves_its_caller_without_an_answer_and_not_waiting() {
        let desk = Desk::default();
        let (answer, tended) = tended(&desk, Box::pin(async { panic!("as planned") }));
        let mut tended = Box::pin(tended);
        assert!(polled(tended.as_mut()).is_pending(), "the panic went no further");
        drop(answer);
        assert!(tended.await.is_err());
        assert!(lock(&desk.0).is_none(), "nobody works on with what panicked");
    }

    #[tokio::test]
    async fn one_clerk_does_one_request_after_another() {
        let (desk, made) = (Desk::default(), Arc::new(AtomicUsize::new(0)));
        for round in 0..3 {
            let count = Arc::clone(&made);
            let mut steps = VecDeque::from([(), ()]);
            let job: Work = Box::pin(poll_fn(move |cx| {
                cx.waker().wake_by_ref();
                if steps.pop_front().is_some() {
                    return Poll::Pending;
                }
                count.fetch_add(1, Ordering::Relaxed);
                Poll::Ready(())
            }));
            let (answer, mut tended) = tended(&desk, job);
            while lock(&desk.0).is_none() {
                assert!(polled(Pin::new(&mut tended)).is_pending());
            }
            answer.send(7).expect("somebody waits");
            assert_eq!(tended.await, Ok(7));
            assert_eq!(made.load(Ordering::Relaxed), round + 1);
            assert!(lock(&desk.0).is_some(), "it is there for the next");
        }
    }

    fn polled<F: Future>(work: Pin<&mut F>) -> Poll<F::Output> {
        work.poll(&mut Context::from_waker(std::task::Waker::noop()))
    }
}
