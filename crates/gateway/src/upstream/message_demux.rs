//! Routes a server's messages on a multiplexed connection to the calls and streams that wait for them.

mod demux_state;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use gatelodge_json::{JsonLimits, read, split_object};
use gatelodge_mcp::{Method, RequestId, ServerMessage, ServerNotification, ServerResponse, code, read_server_message};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use self::demux_state::{DemuxPendingCall, DemuxState};
use super::ToolRegistry;

/// Maximum number of messages queued for a receiver that does not read them. Further messages are dropped.
const MESSAGE_QUEUE_LENGTH: usize = 256;
/// Number of bytes that one permit of the budget for queued messages stands for.
const QUEUE_BUDGET_UNIT_BYTES: usize = 1 << 10;
const SUBSCRIPTION_ID_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// A queued message with its share of the queue budget.
#[derive(Debug)]
pub(crate) struct DemuxQueueMessage {
    pub message: Bytes,
    /// Whether the message arrived before its receiver was registered.
    pub is_before_call: bool,
    _budget_permit: OwnedSemaphorePermit,
}

/// The clients that share a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpstreamConnectionSharing {
    /// The client of one session.
    Session,
    /// Stateless clients of any grant. Messages that belong to no request are dropped.
    Shared,
}

/// Routes the messages of one connection.
#[derive(Debug)]
pub(crate) struct MessageDemux {
    state: Mutex<DemuxState>,
    /// Limits the total size of all queued messages to one message of maximum size: limiting only their number would
    /// not limit memory.
    queue_budget: Arc<Semaphore>,
    scope: UpstreamConnectionSharing,
    tool_registry: Arc<ToolRegistry>,
    limits: JsonLimits,
    dropped_messages: Counter,
    has_answered: AtomicBool,
    never_started: AtomicBool,
    /// Notified once, when the connection ends; the task that holds the connection waits for it.
    ended: Notify,
}

impl MessageDemux {
    pub fn new(
        tool_registry: Arc<ToolRegistry>,
        max_bytes: usize,
        dropped_messages: Counter,
        scope: UpstreamConnectionSharing,
    ) -> Self {
        let limits = JsonLimits { max_bytes, ..JsonLimits::REPLY };
        Self {
            state: Mutex::default(),
            queue_budget: Arc::new(Semaphore::new(budget_units(max_bytes).min(Semaphore::MAX_PERMITS))),
            scope,
            tool_registry,
            limits,
            dropped_messages,
            has_answered: AtomicBool::new(false),
            never_started: AtomicBool::new(false),
            ended: Notify::new(),
        }
    }

    pub fn tool_registry(&self) -> &Arc<ToolRegistry> {
        &self.tool_registry
    }

    pub fn max_bytes(&self) -> usize {
        self.limits.max_bytes
    }

    pub fn count_dropped(&self) {
        self.dropped_messages.inc();
    }

    /// Registers a call and returns receivers for its messages and its reply; `None` if the connection has ended.
    pub fn register_call(
        &self,
        call: &str,
        may_receive_requests: bool,
    ) -> Option<(mpsc::Receiver<DemuxQueueMessage>, oneshot::Receiver<Bytes>)> {
        let mut state = self.lock();
        if state.is_ended {
            return None;
        }
        let ((events, events_receiver), (reply, reply_receiver)) =
            (mpsc::channel(MESSAGE_QUEUE_LENGTH), oneshot::channel());
        if state.stream_listener.is_none() {
            state.unclaimed.drain(..).for_each(|message| drop(events.try_send(message)));
        }
        state.pending_calls.insert(call.into(), DemuxPendingCall { events, reply, may_receive_requests });
        Some((events_receiver, reply_receiver))
    }

    /// Registers the receiver of messages that belong to no request, replacing an earlier one.
    pub fn listen(&self) -> Option<mpsc::Receiver<DemuxQueueMessage>> {
        let mut state = self.lock();
        if state.is_ended {
            return None;
        }
        let (events, events_receiver) = mpsc::channel(MESSAGE_QUEUE_LENGTH);
        state.unclaimed.drain(..).for_each(|message| drop(events.try_send(message)));
        state.stream_listener = Some(events);
        Some(events_receiver)
    }

    /// Returns whether a server request can belong to only one call, and to no abandoned one.
    pub fn has_single_call(&self) -> bool {
        let state = self.lock();
        state.abandoned_calls.is_empty()
            && state.pending_calls.values().filter(|pending| pending.may_receive_requests).count() == 1
    }

    /// Returns whether any call is pending, not counting list requests.
    pub fn has_pending_call(&self) -> bool {
        self.lock().pending_calls.values().any(|pending| pending.may_receive_requests)
    }

    pub fn abandon_call(&self, call: &str) {
        self.lock().abandon_call(call);
    }

    /// Ends the connection if the server may still send requests for an abandoned call and nothing is pending.
    pub fn close_if_abandoned(&self) {
        let mut state = self.lock();
        if !state.abandoned_calls.is_empty() && state.pending_calls.is_empty() {
            *state = DemuxState { is_ended: true, is_closed_locally: true, ..DemuxState::default() };
            self.ended.notify_one();
        }
    }

    /// Routes a message. Returns false if it has no receiver.
    pub fn deliver(&self, message: Bytes) -> bool {
        match read_server_message(&message, &self.limits) {
            // The pending call fails immediately and not at its deadline.
            Err(_) => find_replied_call(&message).is_some_and(|call| self.deliver_reply(&call, message.clone())),
            Ok(ServerMessage::Response(reply)) => {
                self.has_answered.store(true, Ordering::Relaxed);
                let pending = match reply.id() {
                    Some(id) => id.as_str().and_then(|id| self.lock().take_call(id)),
                    None if self.scope == UpstreamConnectionSharing::Session && is_message_error(&reply) => {
                        self.lock().take_single_call()
                    }
                    None => None,
                };
                pending.is_some_and(|pending| pending.reply.send(message.clone()).is_ok())
            }
            Ok(ServerMessage::Notification(notification)) => {
                if *notification.method() == Method::ToolsListChanged {
                    self.tool_registry.invalidate();
                }
                let Some(event) = self.reserve_queue_space(&message) else { return false };
                match self.find_call_id(&notification) {
                    Some(call) => self.lock().send_to_call(&call, event),
                    None if *notification.method() == Method::Progress
                        || self.scope == UpstreamConnectionSharing::Shared =>
                    {
                        false
                    }
                    None => self.lock().route_notification(event),
                }
            }
            Ok(ServerMessage::Request(_)) if self.scope == UpstreamConnectionSharing::Shared => false,
            Ok(ServerMessage::Request(_)) => {
                self.reserve_queue_space(&message).is_some_and(|event| self.lock().route_request(event))
            }
        }
    }

    fn deliver_reply(&self, call: &str, message: Bytes) -> bool {
        let pending = self.lock().take_call(call);
        pending.is_some_and(|pending| pending.reply.send(message).is_ok())
    }

    /// Reserves queue space for a message; `None` if the budget is used up.
    fn reserve_queue_space(&self, message: &Bytes) -> Option<DemuxQueueMessage> {
        let share = u32::try_from(budget_units(message.len())).ok()?;
        let permit = Arc::clone(&self.queue_budget).try_acquire_many_owned(share).ok()?;
        Some(DemuxQueueMessage { message: message.clone(), is_before_call: false, _budget_permit: permit })
    }

    /// Returns the call named by a notification, if any.
    fn find_call_id(&self, notification: &ServerNotification<'_>) -> Option<String> {
        if *notification.method() == Method::Progress {
            return notification.reference()?.as_str().map(str::to_owned);
        }
        let document = read(notification.params()?.as_bytes(), &self.limits).ok()?;
        let call = document.root().get("_meta")?.get(SUBSCRIPTION_ID_KEY)?.as_str()?;
        Some(call.into_owned())
    }

    pub fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    pub fn is_ended(&self) -> bool {
        self.lock().is_ended
    }

    /// Returns whether the server was started at all.
    pub fn has_started(&self) -> bool {
        !self.never_started.load(Ordering::Acquire)
    }

    /// Marks the connection as ended; all receivers see closed channels.
    pub fn mark_ended(&self, never_started: bool) {
        self.never_started.fetch_or(never_started, Ordering::AcqRel);
        let mut state = self.lock();
        *state = DemuxState { is_ended: true, is_closed_locally: state.is_closed_locally, ..DemuxState::default() };
        self.ended.notify_one();
    }

    /// Closes the connection from the gateway's side.
    pub fn close(&self) {
        let mut state = self.lock();
        state.is_closed_locally |= !state.is_ended;
        drop(state);
        self.mark_ended(false);
    }

    /// Returns whether the gateway closed the connection.
    pub fn is_closed_locally(&self) -> bool {
        self.lock().is_closed_locally
    }

    /// Waits for the end of the connection.
    pub async fn wait_for_end(&self) {
        self.ended.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, DemuxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the call that an invalid message (one nested too deeply, for example) replies to, if its id can be read.
fn find_replied_call(message: &[u8]) -> Option<String> {
    let limits = JsonLimits { max_bytes: message.len(), max_depth: usize::MAX, max_members: usize::MAX };
    let parts = split_object(message, &limits).ok()?;
    let find = |key: &str| parts.iter().find(|part| part.key == key);
    // Only a response has an id and no method.
    let id = find("id").filter(|_| find("method").is_none())?;
    RequestId::read(id.value)?.as_str().map(str::to_owned)
}

/// Returns whether an error says that a message could not be parsed. Unlike other errors without an id, it cannot refer
/// to a notification, because the gateway sends no unparsable notifications.
fn is_message_error(reply: &ServerResponse<'_>) -> bool {
    let codes = [code::PARSE_ERROR, code::INVALID_REQUEST];
    reply.error().is_some_and(|error| codes.iter().any(|code| error.code == code.to_string()))
}

fn budget_units(bytes: usize) -> usize {
    bytes / QUEUE_BUDGET_UNIT_BYTES + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn reply_that_cannot_be_parsed_ends_its_call() {
        let demux = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), UpstreamConnectionSharing::Session);
        let (_events, reply) = demux.register_call("call-1", true).expect("it runs");
        let deep = format!(r#"{{"jsonrpc":"2.0","id":"call-1","result":{}1{}}}"#, "[".repeat(100), "]".repeat(100));
        assert!(demux.deliver(Bytes::from(deep)));
        assert!(reply.await.is_ok(), "the call is notified");
    }

    const ERRORS_WITHOUT_ID: [&str; 2] = [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"what?"}}"#,
    ];

    #[tokio::test]
    async fn error_without_an_id_belongs_to_the_only_pending_call() {
        let demux = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), UpstreamConnectionSharing::Session);
        for error in ERRORS_WITHOUT_ID {
            let error = Bytes::from_static(error.as_bytes());
            assert!(!demux.deliver(error.clone()), "no call is pending");
            let (_events, one) = demux.register_call("call-1", true).expect("it runs");
            let (_events, mut other) = demux.register_call("call-2", false).expect("it runs");
            assert!(!demux.deliver(error.clone()), "it is ambiguous");
            assert!(demux.deliver(Bytes::from_static(br#"{"jsonrpc":"2.0","id":"call-1","result":{}}"#)));
            assert!(one.await.is_ok() && other.try_recv().is_err(), "both are still pending");
            assert!(demux.deliver(error.clone()));
            assert_eq!(other.await.expect("a reply"), error);
        }
    }

    #[tokio::test]
    async fn ambiguous_error_without_an_id_is_dropped() {
        let error = || Bytes::from_static(ERRORS_WITHOUT_ID[0].as_bytes());
        let shared = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), UpstreamConnectionSharing::Shared);
        let (_events, mut own) = shared.register_call("call-1", true).expect("it runs");
        assert!(!shared.deliver(error()), "another grant may have called");
        assert!(own.try_recv().is_err());

        let demux = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), UpstreamConnectionSharing::Session);
        let (_events, mut own) = demux.register_call("call-1", true).expect("it runs");
        let refused = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"what?"}}"#;
        assert!(!demux.deliver(Bytes::from_static(refused)), "it may be about a notification");
        let _gone = demux.register_call("call-0", true).expect("it runs");
        demux.abandon_call("call-0");
        assert!(!demux.deliver(error()), "it may be about the abandoned call");
        assert!(own.try_recv().is_err());
    }

    #[test]
    fn server_request_goes_to_a_call_rather_than_to_a_listener_or_list() {
        let demux = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), UpstreamConnectionSharing::Session);
        let request = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
        let mut listener = demux.listen().expect("it runs");
        let (mut call, _reply) = demux.register_call("call-1", true).expect("it runs");
        let (mut list, _list) = demux.register_call("call-2", false).expect("it runs");
        assert!(demux.deliver(request.clone()) && demux.has_single_call());
        assert!(call.try_recv().is_ok() && list.try_recv().is_err() && listener.try_recv().is_err());
        let _other = demux.register_call("call-3", true).expect("it runs");
        assert!(!demux.has_single_call(), "it is ambiguous");
        demux.abandon_call("call-1");
        demux.abandon_call("call-3");
        assert!(demux.deliver(request) && listener.try_recv().is_ok());
    }

    #[test]
    fn server_request_is_ambiguous_until_an_abandoned_call_is_answered() {
        let demux = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), UpstreamConnectionSharing::Session);
        let _list = demux.register_call("call-0", false).expect("it runs");
        let abandoned = demux.register_call("call-1", true).expect("it runs");
        demux.abandon_call("call-1");
        drop(abandoned);
        demux.close_if_abandoned();
        let _next = demux.register_call("call-2", true).expect("a list is pending, so the connection stays open");
        assert!(!demux.has_single_call(), "it may be for the abandoned call");
        assert!(!demux.deliver(Bytes::from_static(br#"{"jsonrpc":"2.0","id":"call-1","result":{}}"#)));
        assert!(demux.has_single_call(), "the server has finished the abandoned call");
    }

    #[test]
    fn idle_connection_is_closed_if_an_abandoned_call_is_unanswered() {
        let request = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
        for (late, is_ended) in [(None, true), (Some(r#"{"jsonrpc":"2.0","id":"call-1","result":{}}"#), false)] {
            let demux =
                MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), UpstreamConnectionSharing::Session);
            let _abandoned = demux.register_call("call-1", true).expect("it runs");
            demux.abandon_call("call-1");
            assert!(demux.deliver(request.clone()));
            if let Some(late) = late {
                assert!(!demux.deliver(Bytes::from_static(late.as_bytes())), "no call waits for it");
            }
            demux.close_if_abandoned();
            assert_eq!(demux.is_ended(), is_ended);
            if let Some((mut events, _reply)) = demux.register_call("call-2", true) {
                assert!(events.try_recv().is_ok_and(|event| event.is_before_call), "it does not belong to this call");
            }
        }
    }

    #[test]
    fn messages_of_a_shared_process_without_a_call_reach_no_client() {
        for (scope, is_delivered) in
            [(UpstreamConnectionSharing::Session, true), (UpstreamConnectionSharing::Shared, false)]
        {
            let demux = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), scope);
            let (mut events, _reply) = demux.register_call("call-1", true).expect("it runs");
            for notification in [
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"of another"}}"#,
                r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
            ] {
                assert_eq!(demux.deliver(Bytes::from_static(notification.as_bytes())), is_delivered, "{scope:?}");
                assert_eq!(events.try_recv().is_ok(), is_delivered, "{scope:?}");
            }
            let own = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"call-1"}}"#;
            assert!(demux.deliver(Bytes::from_static(own.as_bytes())) && events.try_recv().is_ok());
        }
    }
}
