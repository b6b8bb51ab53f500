//! A caller that waits for its reservation and may stop waiting at any time.

use tokio::sync::oneshot::{self, error::TryRecvError};
use tokio::time::timeout;

use super::writer_queue::WriterQueue;
use super::writer_request::{ReserveReply, SharedWriterState, WriterRequest};
use super::{CALL_TIMEOUT, timeout_error, writer_ended_error};
use crate::model::{Reservation, ReserveOutcome, StoreError};

/// Waits for the reply to a reservation. If it is dropped before the reply is received, the charges are refunded.
pub(super) struct ReservationWaiter<'a> {
    pub reply: oneshot::Receiver<Result<ReserveReply, StoreError>>,
    pub queue: &'a WriterQueue,
    pub shared: &'a SharedWriterState,
}

impl ReservationWaiter<'_> {
    /// Returns whether the reply has arrived.
    pub fn has_reply(&self) -> bool {
        !self.reply.is_empty()
    }

    pub async fn outcome(mut self) -> Result<ReserveOutcome, StoreError> {
        // A reply that is already there, as for a leader, needs no timer.
        let answer = match self.reply.try_recv() {
            Ok(answer) => answer,
            Err(TryRecvError::Closed) => Err(writer_ended_error()),
            Err(TryRecvError::Empty) => match timeout(CALL_TIMEOUT, &mut self.reply).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(_)) => Err(writer_ended_error()),
                Err(_) => Err(timeout_error()),
            },
        };
        match answer? {
            ReserveReply::Taken(granted) => Ok(ReserveOutcome::Taken(Reservation { charges: granted.charges })),
            ReserveReply::Exhausted(exhausted) => Ok(ReserveOutcome::Exhausted(exhausted)),
        }
    }
}

impl Drop for ReservationWaiter<'_> {
    fn drop(&mut self) {
        // From here on the writer cannot reply and refunds by itself; a reply that was already sent is taken out.
        self.reply.close();
        if let Ok(Ok(ReserveReply::Taken(granted))) = self.reply.try_recv() {
            self.shared.add_orphan(granted);
            // If the queue is full, the writer checks for orphans anyway.
            let _ = self.queue.push(WriterRequest::Wake);
        }
    }
}
