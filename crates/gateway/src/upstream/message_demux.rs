//! Who waits for what a server says on a connection that carries many messages.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use gatelodge_json::{JsonLimits, read, split_object};
use gatelodge_mcp::{
    Method, RequestId, ServerMessage as Said, ServerNotification, ServerResponse, code, read_server_message,
};
use gatelodge_mutants::mutant;
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::ToolRegistry;

/// Messages that wait for one who does not read; beyond that they are dropped.
const MESSAGE_QUEUE_LENGTH: usize = 256;
/// Messages that belong to nobody who is there yet.
const MAX_UNCLAIMED_MESSAGES: usize = 64;
/// What room for waiting messages is counted in.
const QUEUE_BUDGET_UNIT_BYTES: usize = 1 << 10;
/// Calls that were given up, of which it is known whether the server has done with them.
const MAX_ABANDONED_CALLS: usize = 64;
const SUBSCRIPTION_ID_KEY: &str = "io.modelcontextprotocol/subscriptionId";

/// A message that waits, and its share of the room for such.
#[derive(Debug)]
pub(crate) struct QueuedMessage {
    pub message: Bytes,
    /// Whether it was said before anybody was there for it.
    pub is_before_call: bool,
    _budget_permit: OwnedSemaphorePermit,
}

/// Whose requests a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionScope {
    /// Those of one session.
    Session,
    /// Requests that stand alone, of any grant. What it says to nobody in particular, nobody gets.
    Shared,
}

/// Hands out what a server says.
#[derive(Debug)]
pub(crate) struct MessageDemux {
    state: Mutex<DemuxState>,
    /// All messages that wait have as much room as the largest one: their number alone would not bound them.
    queue_budget: Arc<Semaphore>,
    scope: ConnectionScope,
    tool_registry: Arc<ToolRegistry>,
    limits: JsonLimits,
    dropped_messages: Counter,
    has_answered: AtomicBool,
    never_started: AtomicBool,
    /// Told once, when it is over; the task that holds the connection open listens.
    ended: Notify,
}

#[derive(Debug, Default)]
struct DemuxState {
    /// By the ids of calls, of which later ones are larger.
    pending_calls: BTreeMap<Box<str>, PendingCall>,
    stream_listener: Option<mpsc::Sender<QueuedMessage>>,
    unclaimed: VecDeque<QueuedMessage>,
    is_ended: bool,
    /// Whether it is over because nobody wants it any more.
    is_closed_locally: bool,
    /// Whether somebody went away without an answer, which may come yet.
    has_abandoned_call: bool,
    /// Those of them for which the server may ask something yet.
    abandoned_calls: BTreeSet<Box<str>>,
}

#[derive(Debug)]
struct PendingCall {
    events: mpsc::Sender<QueuedMessage>,
    reply: oneshot::Sender<Bytes>,
    /// Whether the server may ask the client something for it.
    may_receive_requests: bool,
}

impl MessageDemux {
    pub fn new(
        tool_registry: Arc<ToolRegistry>,
        max_bytes: usize,
        dropped_messages: Counter,
        scope: ConnectionScope,
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

    /// Waits for the answer to a call, and for what is said until then; none if nothing comes any more.
    pub fn register_call(
        &self,
        call: &str,
        may_be_asked: bool,
    ) -> Option<(mpsc::Receiver<QueuedMessage>, oneshot::Receiver<Bytes>)> {
        let mut table = self.lock();
        if table.is_ended {
            return None;
        }
        let ((events, events_receiver), (answer, answered)) = (mpsc::channel(MESSAGE_QUEUE_LENGTH), oneshot::channel());
        if table.stream_listener.is_none() {
            table.unclaimed.drain(..).for_each(|message| drop(events.try_send(message)));
        }
        table
            .pending_calls
            .insert(call.into(), PendingCall { events, reply: answer, may_receive_requests: may_be_asked });
        Some((events_receiver, answered))
    }

    /// What belongs to no request, from now on.
    pub fn listen(&self) -> Option<mpsc::Receiver<QueuedMessage>> {
        let mut table = self.lock();
        if table.is_ended {
            return None;
        }
        let (events, events_receiver) = mpsc::channel(MESSAGE_QUEUE_LENGTH);
        table.unclaimed.drain(..).for_each(|message| drop(events.try_send(message)));
        table.stream_listener = Some(events);
        Some(events_receiver)
    }

    /// Whether a question can only be for one call, and for none that was given up.
    pub fn has_single_call(&self) -> bool {
        let table = self.lock();
        table.abandoned_calls.is_empty()
            && table.pending_calls.values().filter(|waiting| waiting.may_receive_requests).count() == 1
    }

    /// Whether somebody waits for the answer to a call, and not just to a list.
    pub fn has_pending_call(&self) -> bool {
        self.lock().pending_calls.values().any(|waiting| waiting.may_receive_requests)
    }

    pub fn abandon_call(&self, call: &str) {
        let mut table = self.lock();
        let Some(waiting) = table.pending_calls.remove(call) else { return };
        table.has_abandoned_call = true;
        if waiting.may_receive_requests {
            table.abandoned_calls.insert(call.into());
        }
        if table.abandoned_calls.len() > MAX_ABANDONED_CALLS {
            table.abandoned_calls.pop_first();
        }
    }

    /// Ends it where the server may ask something yet for a call that was given up, and nobody waits for anything.
    pub fn close_if_abandoned(&self) {
        let mut table = self.lock();
        if !table.abandoned_calls.is_empty() && table.pending_calls.is_empty() {
            *table = DemuxState { is_ended: true, is_closed_locally: true, ..DemuxState::default() };
            self.ended.notify_one();
        }
    }

    /// Hands a message out. False if it belongs to nobody.
    pub fn deliver(&self, message: Bytes) -> bool {
        match read_server_message(&message, &self.limits) {
            // Whoever waits for it is told at once that it cannot be read, and not when its time is over.
            Err(_) => find_replied_call(&message).is_some_and(|call| self.deliver_reply(&call, message.clone())),
            Ok(Said::Response(reply)) => {
                self.has_answered.store(true, Ordering::Relaxed);
                let waiting = match reply.id() {
                    Some(id) => id.as_str().and_then(|id| self.lock().take_call(id)),
                    None if self.scope == ConnectionScope::Session && is_message_error(&reply) => {
                        self.lock().take_single_call()
                    }
                    None => None,
                };
                waiting.is_some_and(|waiting| waiting.reply.send(message.clone()).is_ok())
            }
            Ok(Said::Notification(notification)) => {
                if *notification.method() == Method::ToolsListChanged {
                    self.tool_registry.invalidate();
                }
                let Some(event) = self.reserve_queue_space(&message) else { return false };
                match self.find_call_id(&notification) {
                    Some(call) => self.lock().send_to_call(&call, event),
                    None if *notification.method() == Method::Progress || self.scope == ConnectionScope::Shared => {
                        false
                    }
                    None => self.lock().route_notification(event),
                }
            }
            Ok(Said::Request(_)) if self.scope == ConnectionScope::Shared => false,
            Ok(Said::Request(_)) => {
                self.reserve_queue_space(&message).is_some_and(|event| self.lock().route_request(event))
            }
        }
    }

    fn deliver_reply(&self, call: &str, message: Bytes) -> bool {
        let waiting = self.lock().take_call(call);
        waiting.is_some_and(|waiting| waiting.reply.send(message).is_ok())
    }

    /// Finds room for a message to wait; none if there is none.
    fn reserve_queue_space(&self, message: &Bytes) -> Option<QueuedMessage> {
        let share = u32::try_from(budget_units(message.len())).ok()?;
        let room = Arc::clone(&self.queue_budget).try_acquire_many_owned(share).ok()?;
        Some(QueuedMessage { message: message.clone(), is_before_call: false, _budget_permit: room })
    }

    /// The call that a notification belongs to, if it says.
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

    /// Whether the server ran at all.
    pub fn has_started(&self) -> bool {
        !self.never_started.load(Ordering::Acquire)
    }

    /// Nothing comes any more: whoever waits is told so.
    pub fn mark_ended(&self, never_started: bool) {
        self.never_started.fetch_or(never_started, Ordering::AcqRel);
        let mut table = self.lock();
        *table = DemuxState { is_ended: true, is_closed_locally: table.is_closed_locally, ..DemuxState::default() };
        self.ended.notify_one();
    }

    /// Nobody wants anything any more.
    pub fn close(&self) {
        let mut table = self.lock();
        table.is_closed_locally |= !table.is_ended;
        drop(table);
        self.mark_ended(false);
    }

    /// Whether it ends because nobody wants it any more, not by itself.
    pub fn is_closed_locally(&self) -> bool {
        self.lock().is_closed_locally
    }

    /// Waits for the end.
    pub async fn wait_for_end(&self) {
        self.ended.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, DemuxState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which call a message answers that cannot be read, if that much of it can: it may be too deep, say.
fn find_replied_call(message: &[u8]) -> Option<String> {
    let limits = JsonLimits { max_bytes: message.len(), max_depth: usize::MAX, max_members: usize::MAX };
    let parts = split_object(message, &limits).ok()?;
    let find = |key: &str| parts.iter().find(|part| part.key == key);
    // Only an answer has neither a method nor a doubt whose it is.
    let id = find("id").filter(|_| find("method").is_none())?;
    RequestId::read(id.value)?.as_str().map(str::to_owned)
}

/// Whether an error is about a message that could not be read. A notification, too, may be answered by an error that names
/// nobody, but not by such a one: we send none that cannot be read.
fn is_message_error(reply: &ServerResponse<'_>) -> bool {
    let about = [code::PARSE_ERROR, code::INVALID_REQUEST];
    reply.error().is_some_and(|error| about.iter().any(|code| error.code == code.to_string()))
}

fn budget_units(bytes: usize) -> usize {
    bytes / QUEUE_BUDGET_UNIT_BYTES + 1
}

impl DemuxState {
    /// Who waits for a call that is answered.
    fn take_call(&mut self, call: &str) -> Option<PendingCall> {
        self.abandoned_calls.remove(call);
        self.pending_calls.remove(call)
    }

    /// The one call that waits. What answers nobody by name can only be for it; of several, nobody could say for which,
    /// nor where somebody went away before.
    fn take_single_call(&mut self) -> Option<PendingCall> {
        if (self.pending_calls.len() != 1 || self.has_abandoned_call) && !mutant!("anonymous-error-ends-any-call") {
            return None;
        }
        self.pending_calls.pop_last().map(|(_, waiting)| waiting)
    }

    fn send_to_call(&self, call: &str, event: QueuedMessage) -> bool {
        self.pending_calls.get(call).is_some_and(|waiting| waiting.events.try_send(event).is_ok())
    }

    /// To the latest call that it may be for, else to whoever hears.
    fn route_request(&mut self, event: QueuedMessage) -> bool {
        match self.pending_calls.values().rfind(|waiting| waiting.may_receive_requests) {
            Some(waiting) => waiting.events.try_send(event).is_ok(),
            None => self.route_notification(event),
        }
    }

    /// To whoever hears what belongs to no request, else to the latest call, else to the next who comes.
    fn route_notification(&mut self, event: QueuedMessage) -> bool {
        if self.stream_listener.as_ref().is_some_and(mpsc::Sender::is_closed) {
            self.stream_listener = None;
        }
        let latest = self.pending_calls.last_key_value().map(|(_, waiting)| &waiting.events);
        if let Some(events) = self.stream_listener.as_ref().or(latest) {
            return events.try_send(event).is_ok();
        }
        let has_room = self.unclaimed.len() < MAX_UNCLAIMED_MESSAGES;
        if !has_room {
            self.unclaimed.pop_front();
        }
        self.unclaimed.push_back(QueuedMessage { is_before_call: true, ..event });
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_cannot_be_read_ends_its_call() {
        let inbox = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), ConnectionScope::Session);
        let (_events, answer) = inbox.register_call("call-1", true).expect("it runs");
        let deep = format!(r#"{{"jsonrpc":"2.0","id":"call-1","result":{}1{}}}"#, "[".repeat(100), "]".repeat(100));
        assert!(inbox.deliver(Bytes::from(deep)));
        assert!(answer.await.is_ok(), "whoever waits finds out");
    }

    const FAULTS: [&str; 2] = [
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"what?"}}"#,
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"what?"}}"#,
    ];

    #[tokio::test]
    async fn an_error_without_an_id_is_that_of_the_one_call_that_waits() {
        let inbox = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), ConnectionScope::Session);
        for fault in FAULTS {
            let fault = Bytes::from_static(fault.as_bytes());
            assert!(!inbox.deliver(fault.clone()), "nobody waits");
            let (_events, one) = inbox.register_call("call-1", true).expect("it runs");
            let (_events, mut other) = inbox.register_call("call-2", false).expect("it runs");
            assert!(!inbox.deliver(fault.clone()), "nobody could say whose it is");
            assert!(inbox.deliver(Bytes::from_static(br#"{"jsonrpc":"2.0","id":"call-1","result":{}}"#)));
            assert!(one.await.is_ok() && other.try_recv().is_err(), "both wait still");
            assert!(inbox.deliver(fault.clone()));
            assert_eq!(other.await.expect("an answer"), fault);
        }
    }

    #[tokio::test]
    async fn an_error_without_an_id_that_may_be_for_another_reaches_nobody() {
        let fault = || Bytes::from_static(FAULTS[0].as_bytes());
        let shared = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), ConnectionScope::Shared);
        let (_events, mut own) = shared.register_call("call-1", true).expect("it runs");
        assert!(!shared.deliver(fault()), "another grant may have called");
        assert!(own.try_recv().is_err());

        let inbox = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), ConnectionScope::Session);
        let (_events, mut own) = inbox.register_call("call-1", true).expect("it runs");
        let refused = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"what?"}}"#;
        assert!(!inbox.deliver(Bytes::from_static(refused)), "it may be about a notification");
        let _gone = inbox.register_call("call-0", true).expect("it runs");
        inbox.abandon_call("call-0");
        assert!(!inbox.deliver(fault()), "it may be about the call that was given up");
        assert!(own.try_recv().is_err());
    }

    #[test]
    fn a_question_goes_to_a_call_even_if_somebody_hears_and_not_to_a_list() {
        let inbox = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), ConnectionScope::Session);
        let question = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
        let mut hearing = inbox.listen().expect("it runs");
        let (mut call, _answer) = inbox.register_call("call-1", true).expect("it runs");
        let (mut list, _list) = inbox.register_call("call-2", false).expect("it runs");
        assert!(inbox.deliver(question.clone()) && inbox.has_single_call());
        assert!(call.try_recv().is_ok() && list.try_recv().is_err() && hearing.try_recv().is_err());
        let _other = inbox.register_call("call-3", true).expect("it runs");
        assert!(!inbox.has_single_call(), "nothing says whose it is");
        inbox.abandon_call("call-1");
        inbox.abandon_call("call-3");
        assert!(inbox.deliver(question) && hearing.try_recv().is_ok());
    }

    #[test]
    fn while_a_call_that_was_given_up_is_not_answered_no_question_is_for_the_next() {
        let inbox = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), ConnectionScope::Session);
        let _list = inbox.register_call("call-0", false).expect("it runs");
        let given_up = inbox.register_call("call-1", true).expect("it runs");
        inbox.abandon_call("call-1");
        drop(given_up);
        inbox.close_if_abandoned();
        let _next = inbox.register_call("call-2", true).expect("a list waits, so it runs on");
        assert!(!inbox.has_single_call(), "it may be for the one before");
        assert!(!inbox.deliver(Bytes::from_static(br#"{"jsonrpc":"2.0","id":"call-1","result":{}}"#)));
        assert!(inbox.has_single_call(), "the server has done with that");
    }

    #[test]
    fn what_nobody_waits_for_is_ended_if_a_call_was_given_up_in_it_and_not_answered() {
        let question = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
        for (late, is_over) in [(None, true), (Some(r#"{"jsonrpc":"2.0","id":"call-1","result":{}}"#), false)] {
            let inbox = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), ConnectionScope::Session);
            let _given_up = inbox.register_call("call-1", true).expect("it runs");
            inbox.abandon_call("call-1");
            assert!(inbox.deliver(question.clone()));
            if let Some(late) = late {
                assert!(!inbox.deliver(Bytes::from_static(late.as_bytes())), "nobody waits for it");
            }
            inbox.close_if_abandoned();
            assert_eq!(inbox.is_ended(), is_over);
            if let Some((mut events, _answer)) = inbox.register_call("call-2", true) {
                assert!(events.try_recv().is_ok_and(|event| event.is_before_call), "it is not this one's");
            }
        }
    }

    #[test]
    fn what_a_shared_process_says_to_nobody_in_particular_reaches_no_caller() {
        for (scope, events_receiver) in [(ConnectionScope::Session, true), (ConnectionScope::Shared, false)] {
            let inbox = MessageDemux::new(Arc::default(), 1 << 16, Counter::default(), scope);
            let (mut events, _answer) = inbox.register_call("call-1", true).expect("it runs");
            for notification in [
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"of another"}}"#,
                r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
            ] {
                assert_eq!(inbox.deliver(Bytes::from_static(notification.as_bytes())), events_receiver, "{scope:?}");
                assert_eq!(events.try_recv().is_ok(), events_receiver, "{scope:?}");
            }
            let own = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"call-1"}}"#;
            assert!(inbox.deliver(Bytes::from_static(own.as_bytes())) && events.try_recv().is_ok());
        }
    }
}
