//! The receivers of a connection's messages, and the messages that wait for one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bytes::Bytes;
use gatelodge_mutants::mutant;
use tokio::sync::{mpsc, oneshot};

use super::DemuxQueueMessage;

/// Maximum number of messages kept for a receiver that has not been registered yet.
const MAX_UNCLAIMED_MESSAGES: usize = 64;
/// Maximum number of abandoned calls remembered until the server answers them.
const MAX_ABANDONED_CALLS: usize = 64;

#[derive(Debug, Default)]
pub(super) struct DemuxState {
    /// Pending calls by call id. Ids are ordered by time.
    pub pending_calls: BTreeMap<Box<str>, DemuxPendingCall>,
    pub stream_listener: Option<mpsc::Sender<DemuxQueueMessage>>,
    pub unclaimed: VecDeque<DemuxQueueMessage>,
    pub is_ended: bool,
    /// Whether the gateway closed the connection.
    pub is_closed_locally: bool,
    /// Whether any call has been abandoned; its reply may still arrive.
    pub has_abandoned_call: bool,
    /// Abandoned calls for which the server may still send requests.
    pub abandoned_calls: BTreeSet<Box<str>>,
}

#[derive(Debug)]
pub(super) struct DemuxPendingCall {
    pub events: mpsc::Sender<DemuxQueueMessage>,
    pub reply: oneshot::Sender<Bytes>,
    /// Whether the server may send requests to the client during this call.
    pub may_receive_requests: bool,
}

impl DemuxState {
    /// Removes a call that has been answered.
    pub fn take_call(&mut self, call: &str) -> Option<DemuxPendingCall> {
        self.abandoned_calls.remove(call);
        self.pending_calls.remove(call)
    }

    /// Removes the only pending call, to which a response without an id must belong. Returns `None` if several calls
    /// are pending or any was abandoned, because the response is then ambiguous.
    pub fn take_single_call(&mut self) -> Option<DemuxPendingCall> {
        if (self.pending_calls.len() != 1 || self.has_abandoned_call) && !mutant!("anonymous-error-ends-any-call") {
            return None;
        }
        self.pending_calls.pop_last().map(|(_, pending)| pending)
    }

    pub fn send_to_call(&self, call: &str, event: DemuxQueueMessage) -> bool {
        self.pending_calls.get(call).is_some_and(|pending| pending.events.try_send(event).is_ok())
    }

    /// Sends a server request to the newest call that may receive requests, or otherwise routes it like a notification.
    pub fn route_request(&mut self, event: DemuxQueueMessage) -> bool {
        match self.pending_calls.values().rfind(|pending| pending.may_receive_requests) {
            Some(pending) => pending.events.try_send(event).is_ok(),
            None => self.route_notification(event),
        }
    }

    /// Sends a notification to the stream listener, or else to the newest call. If there is neither, keeps it for the
    /// next receiver.
    pub fn route_notification(&mut self, event: DemuxQueueMessage) -> bool {
        if self.stream_listener.as_ref().is_some_and(mpsc::Sender::is_closed) {
            self.stream_listener = None;
        }
        let latest = self.pending_calls.last_key_value().map(|(_, pending)| &pending.events);
        if let Some(events) = self.stream_listener.as_ref().or(latest) {
            return events.try_send(event).is_ok();
        }
        let has_room = self.unclaimed.len() < MAX_UNCLAIMED_MESSAGES;
        if !has_room {
            self.unclaimed.pop_front();
        }
        self.unclaimed.push_back(DemuxQueueMessage { is_before_call: true, ..event });
        has_room
    }

    /// Removes a call that is no longer awaited.
    pub fn abandon_call(&mut self, call: &str) {
        let Some(pending) = self.pending_calls.remove(call) else { return };
        self.has_abandoned_call = true;
        if pending.may_receive_requests {
            self.abandoned_calls.insert(call.into());
        }
        if self.abandoned_calls.len() > MAX_ABANDONED_CALLS {
            self.abandoned_calls.pop_first();
        }
    }
}
