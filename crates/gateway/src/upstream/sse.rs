//! A server that speaks only HTTP+SSE, the transport of 2024-11-05: what it says comes as events of one long answer,
//! and what we say goes to the address that its first event names. The connection is the session.

mod stream;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::SseEventKind;
use http::{HeaderMap, StatusCode, Uri};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use self::stream::EventStream;
use super::http_client::UpstreamHttpClient;
use super::inbox::{Inbox, Whose};
use super::{SecretRedactor, SendError, Upstream, UpstreamHttpConfig, UpstreamRequest, UpstreamRequestKind};

/// Cancellations that wait to be sent; beyond that they are dropped.
const WAITING_NOTES: usize = 64;
/// How long a server may take to take such a one.
const NOTE_TIME: Duration = Duration::from_secs(10);
/// Servers answer a POST about when they answer what it asks for; one that does not is not worth waiting for.
const LATE: Duration = Duration::from_secs(1);

/// A connection that is open. It is closed when nobody has it any more.
#[derive(Debug)]
pub(crate) struct Sse {
    wire: Arc<Wire>,
    inbox: Arc<Inbox>,
    notes: mpsc::Sender<Bytes>,
    /// Those of its server, by which it is known.
    secrets: Arc<SecretRedactor>,
}

/// The way of our messages.
#[derive(Debug)]
struct Wire {
    http: UpstreamHttpClient,
    headers: HeaderMap,
    endpoint: Uri,
}

impl Sse {
    /// Opens a connection; none if the server has no such stream.
    ///
    /// # Errors
    /// It has one that cannot be used: it names an address at another origin.
    pub(super) async fn open(
        http: &UpstreamHttpClient,
        upstream: &Upstream,
        to: &UpstreamHttpConfig,
        dropped: &Counter,
    ) -> Result<Option<Arc<Self>>, SendError> {
        let opening = tokio::time::timeout(http.connect_time(), greeted(http, upstream, to));
        let Ok(Ok((mut stream, named))) = opening.await else { return Ok(None) };
        let Some(endpoint) = gatelodge_mcp::http_headers::resolve_endpoint(&to.url, &named) else {
            let what = "the server wants messages at an address that is not of its own origin";
            return Err(SendError::InvalidResponse(what.to_owned()));
        };
        let name = upstream.name().to_string();
        let inbox = Arc::new(Inbox::new(
            Arc::clone(&upstream.tool_registry),
            http.max_bytes(),
            dropped.clone(),
            Whose::Session,
        ));
        let wire = Arc::new(Wire { http: http.clone(), headers: upstream.headers().clone(), endpoint });
        let (notes, queue) = mpsc::channel(WAITING_NOTES);
        tokio::spawn(send_notes(Arc::clone(&wire), queue));
        let reading = Arc::clone(&inbox);
        tokio::spawn(async move {
            let broken = tokio::select! {
                broken = read(&mut stream, &reading) => broken,
                () = reading.ended() => None,
            };
            reading.end(false);
            match broken {
                Some(why) => warn!(server.name = name, "the event stream of `{name}` was ended: {why}"),
                None => info!(server.name = name, "the event stream of `{name}` has ended"),
            }
        });
        Ok(Some(Arc::new(Self { wire, inbox, notes, secrets: Arc::clone(&upstream.secrets) })))
    }

    /// Whether nothing comes any more.
    pub fn is_over(&self) -> bool {
        self.inbox.is_over()
    }

    /// Whether it goes to this server as it is configured now.
    pub fn is_of(&self, upstream: &Upstream) -> bool {
        Arc::ptr_eq(&self.secrets, &upstream.secrets)
    }

    /// Ends it, for all who have it.
    pub fn end(&self) {
        self.inbox.leave();
    }

    pub fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    pub fn last_words(&self) -> String {
        "the connection to the server has ended".to_owned()
    }

    /// Sends a message, and waits until it is taken.
    pub async fn tell(&self, outgoing: UpstreamRequest) -> Result<(), SendError> {
        if self.is_over() {
            return Err(SendError::NotSent(self.last_words()));
        }
        deliver(&self.wire, &self.inbox, &self.secrets, outgoing).await
    }

    /// Sends a message beside whatever comes of it.
    pub(super) fn begin(&self, outgoing: UpstreamRequest) -> Sending {
        let (wire, inbox, secrets) = (Arc::clone(&self.wire), Arc::clone(&self.inbox), Arc::clone(&self.secrets));
        let (waits, gone) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let too_late = async {
                let _ = gone.await;
                tokio::time::sleep(LATE).await;
            };
            tokio::select! {
                sent = deliver(&wire, &inbox, &secrets, outgoing) => sent,
                () = too_late => Ok(()),
            }
        });
        Sending { task, _waits: waits }
    }

    /// Sends a message that nobody waits for.
    pub fn note(&self, text: Bytes) {
        // One that takes nothing will not hear it.
        let _ = self.notes.try_send(text);
    }
}

impl Drop for Sse {
    fn drop(&mut self) {
        self.inbox.leave();
    }
}

/// A message on its way.
#[derive(Debug)]
pub(super) struct Sending {
    task: JoinHandle<Result<(), SendError>>,
    /// Dropped by who does not wait any more; the task hears it.
    _waits: oneshot::Sender<()>,
}

impl Sending {
    /// Waits until it is taken.
    pub async fn taken(&mut self) -> Result<(), SendError> {
        let broken = |_| Err(SendError::ConnectionLost("the message could not be sent".to_owned()));
        (&mut self.task).await.unwrap_or_else(broken)
    }
}

/// Opens the stream and waits for the address that its first event names.
async fn greeted(
    http: &UpstreamHttpClient,
    upstream: &Upstream,
    to: &UpstreamHttpConfig,
) -> Result<(EventStream, String), SendError> {
    let response =
        http.request(upstream.headers(), &to.url, UpstreamRequest::empty(UpstreamRequestKind::OpenStream)).await?;
    let mut stream = EventStream::of(response, http.max_bytes())?;
    match stream.next().await? {
        Some((SseEventKind::Endpoint, named)) => Ok((stream, String::from_utf8_lossy(&named).into_owned())),
        _ => Err(SendError::InvalidResponse("the stream does not begin with an address for messages".to_owned())),
    }
}

/// Hands out what comes until the stream ends. Why it was not read to its end.
async fn read(stream: &mut EventStream, inbox: &Inbox) -> Option<String> {
    loop {
        match stream.next().await {
            Ok(Some((SseEventKind::Message, message))) if inbox.deliver(message.clone()) => {}
            // The address is named once; another would be somebody else's.
            Ok(Some(_)) => inbox.count_dropped(),
            Ok(None) | Err(SendError::ConnectionLost(_)) => return None,
            Err(fault) => return Some(fault.to_string()),
        }
    }
}

/// Sends one message, which the server has to take.
async fn deliver(
    wire: &Wire,
    inbox: &Inbox,
    secrets: &SecretRedactor,
    outgoing: UpstreamRequest,
) -> Result<(), SendError> {
    let posted = wire.http.post(&wire.headers, &wire.endpoint, outgoing).await;
    let status = posted.map_err(|fault| fault.redact(secrets))?;
    if status == StatusCode::NOT_FOUND {
        inbox.end(false);
        return Err(SendError::ConnectionLost("the server has forgotten the connection".to_owned()));
    }
    if status.is_success() { Ok(()) } else { Err(SendError::Status(status.as_u16())) }
}

async fn send_notes(wire: Arc<Wire>, mut notes: mpsc::Receiver<Bytes>) {
    while let Some(note) = notes.recv().await {
        let posting = wire.http.post(&wire.headers, &wire.endpoint, UpstreamRequest::notification(note));
        let _ = tokio::time::timeout(NOTE_TIME, posting).await;
    }
}
