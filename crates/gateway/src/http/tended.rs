//! A request's work, done where its caller waits. If the caller goes before it is done, it goes on by itself: nobody who
//! hangs up skips the record or strands a reservation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::{Response, StatusCode};
use tokio::sync::oneshot;

use super::body::Body;
use super::line::Line;
use super::reply;
use crate::Gateway;

type Work = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Does the work of one request, and gives its answer. What is left to do then is done without the caller.
pub(super) async fn tended<W>(gw: &Arc<Gateway>, work: impl FnOnce(Arc<Gateway>, Line) -> W) -> Response<Body>
where
    W: Future<Output = ()> + Send + 'static,
{
    let (line, answer) = Line::new();
    let work: Work = Box::pin(work(Arc::clone(gw), line));
    let answer = Tended { work: Some(work), answer, let_go: |work| gw.spawn(work) }.await;
    answer.unwrap_or_else(|_| reply::http_error(StatusCode::INTERNAL_SERVER_ERROR, "the gateway could not answer"))
}

/// Work under way, and the answer that it gives before it is done or with it.
struct Tended<A, L: Fn(Work)> {
    work: Option<Work>,
    answer: oneshot::Receiver<A>,
    /// Takes work that nobody waits for any more.
    let_go: L,
}

impl<A, L: Fn(Work) + Unpin> Future for Tended<A, L> {
    type Output = Result<A, oneshot::error::RecvError>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let own = self.get_mut();
        // Taken out, so that work that panics is gone, and nobody asks for it again.
        if let Some(mut work) = own.work.take() {
            let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(cx)));
            own.work = matches!(polled, Ok(Poll::Pending)).then_some(work);
        }
        Pin::new(&mut own.answer).poll(cx)
    }
}

impl<A, L: Fn(Work)> Drop for Tended<A, L> {
    fn drop(&mut self) {
        if let Some(work) = self.work.take() {
            (self.let_go)(work);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tended(work: Work) -> (oneshot::Sender<u8>, Tended<u8, impl Fn(Work) + Unpin>) {
        let (sender, answer) = oneshot::channel();
        (sender, Tended { work: Some(work), answer, let_go: |work| drop(tokio::spawn(work)) })
    }

    #[tokio::test]
    async fn work_whose_caller_has_gone_is_done_all_the_same() {
        let (done, is_done) = oneshot::channel();
        let (go_on, may_go_on) = oneshot::channel::<()>();
        let (_answer, tended) = tended(Box::pin(async move {
            let _ = may_go_on.await;
            let _ = done.send(());
        }));
        let mut tended = Box::pin(tended);
        assert!(polled(tended.as_mut()).is_pending());
        drop(tended);
        go_on.send(()).expect("somebody waits");
        is_done.await.expect("it was done");
    }

    #[tokio::test]
    async fn work_that_panics_leaves_its_caller_without_an_answer_and_not_waiting() {
        let (answer, tended) = tended(Box::pin(async { panic!("as planned") }));
        let mut tended = Box::pin(tended);
        assert!(polled(tended.as_mut()).is_pending(), "the panic went no further");
        drop(answer);
        assert!(tended.await.is_err());
    }

    fn polled<F: Future>(work: Pin<&mut F>) -> Poll<F::Output> {
        work.poll(&mut Context::from_waker(std::task::Waker::noop()))
    }
}
