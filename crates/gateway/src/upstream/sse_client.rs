//! A server that speaks only HTTP+SSE, the transport of 2024-11-05: what it says comes as events of one long answer,
//! and what we say goes to the address that its first event names. The connection is the session.

mod event_stream;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::SseEventKind;
use http::{HeaderMap, StatusCode, Uri};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tracing::{info, warn};

use self::event_stream::UpstreamEventStream;
use super::http_client::UpstreamHttpClient;
use super::message_demux::{ConnectionScope, MessageDemux};
use super::{SecretRedactor, SendError, Upstream, UpstreamHttpConfig, UpstreamRequest, UpstreamRequestKind};

/// Cancellations that wait to be sent; beyond that they are dropped.
const NOTIFICATION_QUEUE_LENGTH: usize = 64;
/// How long a server may take to take such a one.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// Servers answer a POST about when they answer what it asks for; one that does not is not worth waiting for.
const LATE_POST_TIMEOUT: Duration = Duration::from_secs(1);

/// A connection that is open. It is closed when nobody has it any more.
#[derive(Debug)]
pub(crate) struct UpstreamSseConnection {
    post_target: Arc<SsePostTarget>,
    demux: Arc<MessageDemux>,
    notifications: mpsc::Sender<Bytes>,
    /// Those of its server, by which it is known.
    redactor: Arc<SecretRedactor>,
}

/// The way of our messages.
#[derive(Debug)]
struct SsePostTarget {
    http: UpstreamHttpClient,
    headers: HeaderMap,
    endpoint: Uri,
}

impl UpstreamSseConnection {
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
        let opening = tokio::time::timeout(http.connect_time(), open_event_stream(http, upstream, to));
        let Ok(Ok((mut stream, named))) = opening.await else { return Ok(None) };
        let Some(endpoint) = gatelodge_mcp::http_headers::resolve_endpoint(&to.url, &named) else {
            let what = "the server wants messages at an address that is not of its own origin";
            return Err(SendError::InvalidResponse(what.to_owned()));
        };
        let name = upstream.name().to_string();
        let demux = Arc::new(MessageDemux::new(
            Arc::clone(&upstream.tool_registry),
            http.max_bytes(),
            dropped.clone(),
            ConnectionScope::Session,
        ));
        let target = Arc::new(SsePostTarget { http: http.clone(), headers: upstream.headers().clone(), endpoint });
        let (notes, queue) = mpsc::channel(NOTIFICATION_QUEUE_LENGTH);
        tokio::spawn(send_notifications(Arc::clone(&target), queue));
        let reading = Arc::clone(&demux);
        tokio::spawn(async move {
            let broken = tokio::select! {
                broken = read_events(&mut stream, &reading) => broken,
                () = reading.wait_for_end() => None,
            };
            reading.mark_ended(false);
            match broken {
                Some(why) => warn!(server.name = name, "the event stream of `{name}` was ended: {why}"),
                None => info!(server.name = name, "the event stream of `{name}` has ended"),
            }
        });
        Ok(Some(Arc::new(Self {
            post_target: target,
            demux,
            notifications: notes,
            redactor: Arc::clone(&upstream.secrets),
        })))
    }

    /// Whether nothing comes any more.
    pub fn is_ended(&self) -> bool {
        self.demux.is_ended()
    }

    /// Whether it goes to this server as it is configured now.
    pub fn belongs_to(&self, upstream: &Upstream) -> bool {
        Arc::ptr_eq(&self.redactor, &upstream.secrets)
    }

    /// Ends it, for all who have it.
    pub fn close(&self) {
        self.demux.close();
    }

    pub fn demux(&self) -> &MessageDemux {
        &self.demux
    }

    pub fn end_message(&self) -> String {
        "the connection to the server has ended".to_owned()
    }

    /// Sends a message, and waits until it is taken.
    pub async fn send(&self, outgoing: UpstreamRequest) -> Result<(), SendError> {
        if self.is_ended() {
            return Err(SendError::NotSent(self.end_message()));
        }
        post_message(&self.post_target, &self.demux, &self.redactor, outgoing).await
    }

    /// Sends a message beside whatever comes of it.
    pub(super) fn spawn_post(&self, outgoing: UpstreamRequest) -> PendingPost {
        let (target, demux, secrets) =
            (Arc::clone(&self.post_target), Arc::clone(&self.demux), Arc::clone(&self.redactor));
        let (waits, gone) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let too_late = async {
                let _ = gone.await;
                tokio::time::sleep(LATE_POST_TIMEOUT).await;
            };
            tokio::select! {
                sent = post_message(&target, &demux, &secrets, outgoing) => sent,
                () = too_late => Ok(()),
            }
        });
        PendingPost { task, _waiter: waits }
    }

    /// Sends a message that nobody waits for.
    pub fn try_send(&self, text: Bytes) {
        // One that takes nothing will not hear it.
        let _ = self.notifications.try_send(text);
    }
}

impl Drop for UpstreamSseConnection {
    fn drop(&mut self) {
        self.demux.close();
    }
}

/// A message on its way.
#[derive(Debug)]
pub(super) struct PendingPost {
    task: JoinHandle<Result<(), SendError>>,
    /// Dropped by who does not wait any more; the task hears it.
    _waiter: oneshot::Sender<()>,
}

impl PendingPost {
    /// Waits until it is taken.
    pub async fn wait_until_accepted(&mut self) -> Result<(), SendError> {
        let broken = |_| Err(SendError::ConnectionLost("the message could not be sent".to_owned()));
        (&mut self.task).await.unwrap_or_else(broken)
    }
}

/// Opens the stream and waits for the address that its first event names.
async fn open_event_stream(
    http: &UpstreamHttpClient,
    upstream: &Upstream,
    to: &UpstreamHttpConfig,
) -> Result<(UpstreamEventStream, String), SendError> {
    let response =
        http.request(upstream.headers(), &to.url, UpstreamRequest::empty(UpstreamRequestKind::OpenStream)).await?;
    let mut stream = UpstreamEventStream::from_response(response, http.max_bytes())?;
    match stream.next_event().await? {
        Some((SseEventKind::Endpoint, named)) => Ok((stream, String::from_utf8_lossy(&named).into_owned())),
        _ => Err(SendError::InvalidResponse("the stream does not begin with an address for messages".to_owned())),
    }
}

/// Hands out what comes until the stream ends. Why it was not read to its end.
async fn read_events(stream: &mut UpstreamEventStream, demux: &MessageDemux) -> Option<String> {
    loop {
        match stream.next_event().await {
            Ok(Some((SseEventKind::Message, message))) if demux.deliver(message.clone()) => {}
            // The address is named once; another would be somebody else's.
            Ok(Some(_)) => demux.count_dropped(),
            Ok(None) | Err(SendError::ConnectionLost(_)) => return None,
            Err(error) => return Some(error.to_string()),
        }
    }
}

/// Sends one message, which the server has to take.
async fn post_message(
    target: &SsePostTarget,
    demux: &MessageDemux,
    secrets: &SecretRedactor,
    outgoing: UpstreamRequest,
) -> Result<(), SendError> {
    let posted = target.http.post(&target.headers, &target.endpoint, outgoing).await;
    let status = posted.map_err(|error| error.redact(secrets))?;
    if status == StatusCode::NOT_FOUND {
        demux.mark_ended(false);
        return Err(SendError::ConnectionLost("the server has forgotten the connection".to_owned()));
    }
    if status.is_success() { Ok(()) } else { Err(SendError::Status(status.as_u16())) }
}

async fn send_notifications(target: Arc<SsePostTarget>, mut notes: mpsc::Receiver<Bytes>) {
    while let Some(note) = notes.recv().await {
        let posting = target.http.post(&target.headers, &target.endpoint, UpstreamRequest::notification(note));
        let _ = tokio::time::timeout(NOTIFICATION_TIMEOUT, posting).await;
    }
}
