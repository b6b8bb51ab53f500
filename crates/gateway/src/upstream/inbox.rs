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

use super::Offers;

/// Messages that wait for one who does not read; beyond that they are dropped.
const WAITING: usize = 256;
/// Messages that belong to nobody who is there yet.
const UNHEARD: usize = 64;
/// What room for waiting messages is counted in.
const PIECE: usize = 1 << 10;
/// Calls that were given up, of which it is known whether the server has done with them.
const OWED: usize = 64;
const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// A message that waits, and its share of the room for such.
#[derive(Debug)]
pub(crate) struct Event {
    pub message: Bytes,
    /// Whether it was said before anybody was there for it.
    pub is_early: bool,
    _room: OwnedSemaphorePermit,
}

/// Whose requests a connection carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those of one session.
    Session,
    /// Requests that stand alone, of any grant. What it says to nobody in particular, nobody gets.
    Anybody,
}

/// Hands out what a server says.
#[derive(Debug)]
pub(crate) struct Inbox {
    table: Mutex<Table>,
    /// All messages that wait have as much room as the largest one: their number alone would not bound them.
    room: Arc<Semaphore>,
    whose: Whose,
    offers: Arc<Offers>,
    limits: JsonLimits,
    dropped: Counter,
    has_answered: AtomicBool,
    never_started: AtomicBool,
    /// Told once, when it is over; the task that holds the connection open listens.
    over: Notify,
}

#[derive(Debug, Default)]
struct Table {
    /// By the ids of calls, of which later ones are larger.
    waiting: BTreeMap<Box<str>, Waiting>,
    hearing: Option<mpsc::Sender<Event>>,
    unheard: VecDeque<Event>,
    is_over: bool,
    /// Whether it is over because nobody wants it any more.
    is_unwanted: bool,
    /// Whether somebody went away without an answer, which may come yet.
    is_owed: bool,
    /// Those of them for which the server may ask something yet.
    owed: BTreeSet<Box<str>>,
}

#[derive(Debug)]
struct Waiting {
    events: mpsc::Sender<Event>,
    answer: oneshot::Sender<Bytes>,
    /// Whether the server may ask the client something for it.
    may_be_asked: bool,
}

impl Inbox {
    pub fn new(offers: Arc<Offers>, max_bytes: usize, dropped: Counter, whose: Whose) -> Self {
        let limits = JsonLimits { max_bytes, ..JsonLimits::REPLY };
        Self {
            table: Mutex::default(),
            room: Arc::new(Semaphore::new(pieces(max_bytes).min(Semaphore::MAX_PERMITS))),
            whose,
            offers,
            limits,
            dropped,
            has_answered: AtomicBool::new(false),
            never_started: AtomicBool::new(false),
            over: Notify::new(),
        }
    }

    pub fn offers(&self) -> &Arc<Offers> {
        &self.offers
    }

    pub fn max_bytes(&self) -> usize {
        self.limits.max_bytes
    }

    pub fn count_dropped(&self) {
        self.dropped.inc();
    }

    /// Waits for the answer to a call, and for what is said until then; none if nothing comes any more.
    pub fn wait_for(
        &self,
        call: &str,
        may_be_asked: bool,
    ) -> Option<(mpsc::Receiver<Event>, oneshot::Receiver<Bytes>)> {
        let mut table = self.lock();
        if table.is_over {
            return None;
        }
        let ((events, heard), (answer, answered)) = (mpsc::channel(WAITING), oneshot::channel());
        if table.hearing.is_none() {
            table.unheard.drain(..).for_each(|message| drop(events.try_send(message)));
        }
        table.waiting.insert(call.into(), Waiting { events, answer, may_be_asked });
        Some((heard, answered))
    }

    /// What belongs to no request, from now on.
    pub fn hear(&self) -> Option<mpsc::Receiver<Event>> {
        let mut table = self.lock();
        if table.is_over {
            return None;
        }
        let (events, heard) = mpsc::channel(WAITING);
        table.unheard.drain(..).for_each(|message| drop(events.try_send(message)));
        table.hearing = Some(events);
        Some(heard)
    }

    /// Whether a question can only be for one call, and for none that was given up.
    pub fn has_one_call(&self) -> bool {
        let table = self.lock();
        table.owed.is_empty() && table.waiting.values().filter(|waiting| waiting.may_be_asked).count() == 1
    }

    /// Whether somebody waits for the answer to a call, and not just to a list.
    pub fn is_awaited(&self) -> bool {
        self.lock().waiting.values().any(|waiting| waiting.may_be_asked)
    }

    pub fn forget(&self, call: &str) {
        let mut table = self.lock();
        let Some(waiting) = table.waiting.remove(call) else { return };
        table.is_owed = true;
        if waiting.may_be_asked {
            table.owed.insert(call.into());
        }
        if table.owed.len() > OWED {
            table.owed.pop_first();
        }
    }

    /// Ends it where the server may ask something yet for a call that was given up, and nobody waits for anything.
    pub fn end_if_owed(&self) {
        let mut table = self.lock();
        if !table.owed.is_empty() && table.waiting.is_empty() {
            *table = Table { is_over: true, is_unwanted: true, ..Table::default() };
            self.over.notify_one();
        }
    }

    /// Hands a message out. False if it belongs to nobody.
    pub fn deliver(&self, message: Bytes) -> bool {
        match read_server_message(&message, &self.limits) {
            // Whoever waits for it is told at once that it cannot be read, and not when its time is over.
            Err(_) => answers(&message).is_some_and(|call| self.answer(&call, message.clone())),
            Ok(Said::Response(reply)) => {
                self.has_answered.store(true, Ordering::Relaxed);
                let waiting = match reply.id() {
                    Some(id) => id.as_str().and_then(|id| self.lock().take(id)),
                    None if self.whose == Whose::Session && speaks_of_a_message(&reply) => self.lock().take_only_one(),
                    None => None,
                };
                waiting.is_some_and(|waiting| waiting.answer.send(message.clone()).is_ok())
            }
            Ok(Said::Notification(said)) => {
                if *said.method() == Method::ToolsListChanged {
                    self.offers.forget();
                }
                let Some(event) = self.event(&message) else { return false };
                match self.call_of(&said) {
                    Some(call) => self.lock().tell_call(&call, event),
                    None if *said.method() == Method::Progress || self.whose == Whose::Anybody => false,
                    None => self.lock().tell_anybody(event),
                }
            }
            Ok(Said::Request(_)) if self.whose == Whose::Anybody => false,
            Ok(Said::Request(_)) => self.event(&message).is_some_and(|event| self.lock().ask_anybody(event)),
        }
    }

    fn answer(&self, call: &str, message: Bytes) -> bool {
        let waiting = self.lock().take(call);
        waiting.is_some_and(|waiting| waiting.answer.send(message).is_ok())
    }

    /// Finds room for a message to wait; none if there is none.
    fn event(&self, message: &Bytes) -> Option<Event> {
        let share = u32::try_from(pieces(message.len())).ok()?;
        let room = Arc::clone(&self.room).try_acquire_many_owned(share).ok()?;
        Some(Event { message: message.clone(), is_early: false, _room: room })
    }

    /// The call that a notification belongs to, if it says.
    fn call_of(&self, said: &ServerNotification<'_>) -> Option<String> {
        if *said.method() == Method::Progress {
            return said.reference()?.as_str().map(str::to_owned);
        }
        let document = read(said.params()?.as_bytes(), &self.limits).ok()?;
        let call = document.root().get("_meta")?.get(SUBSCRIPTION)?.as_str()?;
        Some(call.into_owned())
    }

    pub fn has_answered(&self) -> bool {
        self.has_answered.load(Ordering::Relaxed)
    }

    pub fn is_over(&self) -> bool {
        self.lock().is_over
    }

    /// Whether the server ran at all.
    pub fn has_started(&self) -> bool {
        !self.never_started.load(Ordering::Acquire)
    }

    /// Nothing comes any more: whoever waits is told so.
    pub fn end(&self, never_started: bool) {
        self.never_started.fetch_or(never_started, Ordering::AcqRel);
        let mut table = self.lock();
        *table = Table { is_over: true, is_unwanted: table.is_unwanted, ..Table::default() };
        self.over.notify_one();
    }

    /// Nobody wants anything any more.
    pub fn leave(&self) {
        let mut table = self.lock();
        table.is_unwanted |= !table.is_over;
        drop(table);
        self.end(false);
    }

    /// Whether it ends because nobody wants it any more, not by itself.
    pub fn is_unwanted(&self) -> bool {
        self.lock().is_unwanted
    }

    /// Waits for the end.
    pub async fn ended(&self) {
        self.over.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Which call a message answers that cannot be read, if that much of it can: it may be too deep, say.
fn answers(message: &[u8]) -> Option<String> {
    let limits = JsonLimits { max_bytes: message.len(), max_depth: usize::MAX, max_members: usize::MAX };
    let parts = split_object(message, &limits).ok()?;
    let find = |key: &str| parts.iter().find(|part| part.key == key);
    // Only an answer has neither a method nor a doubt whose it is.
    let id = find("id").filter(|_| find("method").is_none())?;
    RequestId::read(id.value)?.as_str().map(str::to_owned)
}

/// Whether an error is about a message that could not be read. A notification, too, may be answered by an error that names
/// nobody, but not by such a one: we send none that cannot be read.
fn speaks_of_a_message(reply: &ServerResponse<'_>) -> bool {
    let about = [code::PARSE_ERROR, code::INVALID_REQUEST];
    reply.error().is_some_and(|error| about.iter().any(|code| error.code == code.to_string()))
}

fn pieces(bytes: usize) -> usize {
    bytes / PIECE + 1
}

impl Table {
    /// Who waits for a call that is answered.
    fn take(&mut self, call: &str) -> Option<Waiting> {
        self.owed.remove(call);
        self.waiting.remove(call)
    }

    /// The one call that waits. What answers nobody by name can only be for it; of several, nobody could say for which,
    /// nor where somebody went away before.
    fn take_only_one(&mut self) -> Option<Waiting> {
        if (self.waiting.len() != 1 || self.is_owed) && !mutant!("anonymous-error-ends-any-call") {
            return None;
        }
        self.waiting.pop_last().map(|(_, waiting)| waiting)
    }

    fn tell_call(&self, call: &str, event: Event) -> bool {
        self.waiting.get(call).is_some_and(|waiting| waiting.events.try_send(event).is_ok())
    }

    /// To the latest call that it may be for, else to whoever hears.
    fn ask_anybody(&mut self, event: Event) -> bool {
        match self.waiting.values().rfind(|waiting| waiting.may_be_asked) {
            Some(waiting) => waiting.events.try_send(event).is_ok(),
            None => self.tell_anybody(event),
        }
    }

    /// To whoever hears what belongs to no request, else to the latest call, else to the next who comes.
    fn tell_anybody(&mut self, event: Event) -> bool {
        if self.hearing.as_ref().is_some_and(mpsc::Sender::is_closed) {
            self.hearing = None;
        }
        let latest = self.waiting.last_key_value().map(|(_, waiting)| &waiting.events);
        if let Some(events) = self.hearing.as_ref().or(latest) {
            return events.try_send(event).is_ok();
        }
        let has_room = self.unheard.len() < UNHEARD;
        if !has_room {
            self.unheard.pop_front();
        }
        self.unheard.push_back(Event { is_early: true, ..event });
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_cannot_be_read_ends_its_call() {
        let inbox = Inbox::new(Arc::default(), 1 << 16, Counter::default(), Whose::Session);
        let (_events, answer) = inbox.wait_for("call-1", true).expect("it runs");
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
        let inbox = Inbox::new(Arc::default(), 1 << 16, Counter::default(), Whose::Session);
        for fault in FAULTS {
            let fault = Bytes::from_static(fault.as_bytes());
            assert!(!inbox.deliver(fault.clone()), "nobody waits");
            let (_events, one) = inbox.wait_for("call-1", true).expect("it runs");
            let (_events, mut other) = inbox.wait_for("call-2", false).expect("it runs");
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
        let shared = Inbox::new(Arc::default(), 1 << 16, Counter::default(), Whose::Anybody);
        let (_events, mut own) = shared.wait_for("call-1", true).expect("it runs");
        assert!(!shared.deliver(fault()), "another grant may have called");
        assert!(own.try_recv().is_err());

        let inbox = Inbox::new(Arc::default(), 1 << 16, Counter::default(), Whose::Session);
        let (_events, mut own) = inbox.wait_for("call-1", true).expect("it runs");
        let refused = br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32601,"message":"what?"}}"#;
        assert!(!inbox.deliver(Bytes::from_static(refused)), "it may be about a notification");
        let _gone = inbox.wait_for("call-0", true).expect("it runs");
        inbox.forget("call-0");
        assert!(!inbox.deliver(fault()), "it may be about the call that was given up");
        assert!(own.try_recv().is_err());
    }

    #[test]
    fn a_question_goes_to_a_call_even_if_somebody_hears_and_not_to_a_list() {
        let inbox = Inbox::new(Arc::default(), 1 << 16, Counter::default(), Whose::Session);
        let question = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
        let mut hearing = inbox.hear().expect("it runs");
        let (mut call, _answer) = inbox.wait_for("call-1", true).expect("it runs");
        let (mut list, _list) = inbox.wait_for("call-2", false).expect("it runs");
        assert!(inbox.deliver(question.clone()) && inbox.has_one_call());
        assert!(call.try_recv().is_ok() && list.try_recv().is_err() && hearing.try_recv().is_err());
        let _other = inbox.wait_for("call-3", true).expect("it runs");
        assert!(!inbox.has_one_call(), "nothing says whose it is");
        inbox.forget("call-1");
        inbox.forget("call-3");
        assert!(inbox.deliver(question) && hearing.try_recv().is_ok());
    }

    #[test]
    fn while_a_call_that_was_given_up_is_not_answered_no_question_is_for_the_next() {
        let inbox = Inbox::new(Arc::default(), 1 << 16, Counter::default(), Whose::Session);
        let _list = inbox.wait_for("call-0", false).expect("it runs");
        let given_up = inbox.wait_for("call-1", true).expect("it runs");
        inbox.forget("call-1");
        drop(given_up);
        inbox.end_if_owed();
        let _next = inbox.wait_for("call-2", true).expect("a list waits, so it runs on");
        assert!(!inbox.has_one_call(), "it may be for the one before");
        assert!(!inbox.deliver(Bytes::from_static(br#"{"jsonrpc":"2.0","id":"call-1","result":{}}"#)));
        assert!(inbox.has_one_call(), "the server has done with that");
    }

    #[test]
    fn what_nobody_waits_for_is_ended_if_a_call_was_given_up_in_it_and_not_answered() {
        let question = Bytes::from_static(br#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#);
        for (late, is_over) in [(None, true), (Some(r#"{"jsonrpc":"2.0","id":"call-1","result":{}}"#), false)] {
            let inbox = Inbox::new(Arc::default(), 1 << 16, Counter::default(), Whose::Session);
            let _given_up = inbox.wait_for("call-1", true).expect("it runs");
            inbox.forget("call-1");
            assert!(inbox.deliver(question.clone()));
            if let Some(late) = late {
                assert!(!inbox.deliver(Bytes::from_static(late.as_bytes())), "nobody waits for it");
            }
            inbox.end_if_owed();
            assert_eq!(inbox.is_over(), is_over);
            if let Some((mut events, _answer)) = inbox.wait_for("call-2", true) {
                assert!(events.try_recv().is_ok_and(|event| event.is_early), "it is not this one's");
            }
        }
    }

    #[test]
    fn what_a_shared_process_says_to_nobody_in_particular_reaches_no_caller() {
        for (whose, heard) in [(Whose::Session, true), (Whose::Anybody, false)] {
            let inbox = Inbox::new(Arc::default(), 1 << 16, Counter::default(), whose);
            let (mut events, _answer) = inbox.wait_for("call-1", true).expect("it runs");
            for said in [
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"of another"}}"#,
                r#"{"jsonrpc":"2.0","id":1,"method":"roots/list"}"#,
            ] {
                assert_eq!(inbox.deliver(Bytes::from_static(said.as_bytes())), heard, "{whose:?}");
                assert_eq!(events.try_recv().is_ok(), heard, "{whose:?}");
            }
            let own = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"call-1"}}"#;
            assert!(inbox.deliver(Bytes::from_static(own.as_bytes())) && events.try_recv().is_ok());
        }
    }
}
