//! Client for servers that support only HTTP+SSE, the transport of revision 2024-11-05. Messages arrive on one long
//! event stream and are sent by POST to the URL in its first event. The connection is the session.

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
use super::http::UpstreamHttpClient;
use super::message_demux::{MessageDemux, UpstreamConnectionSharing};
use super::{SecretRedactor, Upstream, UpstreamHttpConfig, UpstreamRequest, UpstreamRequestKind, UpstreamSendError};

/// Maximum number of cancellations queued for sending. Further ones are dropped.
const NOTIFICATION_QUEUE_LENGTH: usize = 64;
/// How long the server may take to accept a cancellation.
const NOTIFICATION_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait for the response to a POST after the reply has arrived. Servers send both at about the same time.
const LATE_POST_TIMEOUT: Duration = Duration::from_secs(1);

/// An open connection. It is closed when the last reference is dropped.
#[derive(Debug)]
pub(crate) struct UpstreamSseConnection {
    post_target: Arc<SsePostTarget>,
    demux: Arc<MessageDemux>,
    notifications: mpsc::Sender<Bytes>,
    /// The server's redactor. A reconfigured server has a new one, so comparing the pointers shows whether the
    /// connection belongs to the current configuration.
    redactor: Arc<SecretRedactor>,
}

/// Where and how messages are posted.
#[derive(Debug)]
struct SsePostTarget {
    http: UpstreamHttpClient,
    headers: HeaderMap,
    endpoint: Uri,
}

impl UpstreamSseConnection {
    /// Opens a connection; `None` if the server does not offer an event stream.
    ///
    /// # Errors
    /// The stream names an endpoint at another origin.
    pub(super) async fn open(
        http: &UpstreamHttpClient,
        upstream: &Upstream,
        config: &UpstreamHttpConfig,
        dropped_messages: &Counter,
    ) -> Result<Option<Arc<Self>>, UpstreamSendError> {
        let opening = tokio::time::timeout(http.connect_timeout(), open_event_stream(http, upstream, config));
        let Ok(Ok((mut stream, endpoint))) = opening.await else { return Ok(None) };
        let Some(endpoint) = gatelodge_mcp::http_headers::resolve_endpoint(&config.url, &endpoint) else {
            let what = "the server names a message endpoint that is not of its own origin";
            return Err(UpstreamSendError::InvalidResponse(what.to_owned()));
        };
        let name = upstream.name().to_string();
        let demux = Arc::new(MessageDemux::new(
            Arc::clone(&upstream.tool_registry),
            http.max_bytes(),
            dropped_messages.clone(),
            UpstreamConnectionSharing::Session,
        ));
        let target = Arc::new(SsePostTarget { http: http.clone(), headers: upstream.headers().clone(), endpoint });
        let (notifications, queue) = mpsc::channel(NOTIFICATION_QUEUE_LENGTH);
        tokio::spawn(send_notifications(Arc::clone(&target), queue));
        let reading = Arc::clone(&demux);
        tokio::spawn(async move {
            let broken = tokio::select! {
                broken = read_events(&mut stream, &reading) => broken,
                () = reading.wait_for_end() => None,
            };
            reading.mark_ended(false);
            match broken {
                Some(why) => warn!(server.name = name, "closed the event stream of `{name}`: {why}"),
                None => info!(server.name = name, "the event stream of `{name}` has ended"),
            }
        });
        Ok(Some(Arc::new(Self { post_target: target, demux, notifications, redactor: Arc::clone(&upstream.secrets) })))
    }

    /// Returns whether the stream has ended.
    pub fn is_ended(&self) -> bool {
        self.demux.is_ended()
    }

    /// Returns whether the connection was opened for the current configuration of a server.
    pub fn belongs_to(&self, upstream: &Upstream) -> bool {
        Arc::ptr_eq(&self.redactor, &upstream.secrets)
    }

    /// Closes the connection for all its users.
    pub fn close(&self) {
        self.demux.close();
    }

    pub fn demux(&self) -> &MessageDemux {
        &self.demux
    }

    pub fn end_message(&self) -> String {
        "the connection to the server has ended".to_owned()
    }

    /// Sends a message and waits until it is accepted.
    pub async fn send(&self, outgoing: UpstreamRequest) -> Result<(), UpstreamSendError> {
        if self.is_ended() {
            return Err(UpstreamSendError::NotSent(self.end_message()));
        }
        post_message(&self.post_target, &self.demux, &self.redactor, outgoing).await
    }

    /// Sends a message in its own task, so that replies can be read meanwhile.
    pub(super) fn spawn_post(&self, outgoing: UpstreamRequest) -> PendingPost {
        let (target, demux, secrets) =
            (Arc::clone(&self.post_target), Arc::clone(&self.demux), Arc::clone(&self.redactor));
        let (waiter, waiter_gone) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            let too_late = async {
                let _ = waiter_gone.await;
                tokio::time::sleep(LATE_POST_TIMEOUT).await;
            };
            tokio::select! {
                sent = post_message(&target, &demux, &secrets, outgoing) => sent,
                () = too_late => Ok(()),
            }
        });
        PendingPost { task, _waiter: waiter }
    }

    /// Queues a message without waiting.
    pub fn try_send(&self, text: Bytes) {
        // If the queue is full, the server does not accept messages and this one is dropped.
        let _ = self.notifications.try_send(text);
    }
}

impl Drop for UpstreamSseConnection {
    fn drop(&mut self) {
        self.demux.close();
    }
}

/// A POST in progress.
#[derive(Debug)]
pub(super) struct PendingPost {
    task: JoinHandle<Result<(), UpstreamSendError>>,
    /// Dropped when the caller stops waiting. The task then waits only a little longer for the response to the POST.
    _waiter: oneshot::Sender<()>,
}

impl PendingPost {
    /// Waits until the server accepts the message.
    pub async fn wait_until_accepted(&mut self) -> Result<(), UpstreamSendError> {
        let broken = |_| Err(UpstreamSendError::ConnectionLost("the message could not be sent".to_owned()));
        (&mut self.task).await.unwrap_or_else(broken)
    }
}

/// Opens the stream and waits for the `endpoint` event.
async fn open_event_stream(
    http: &UpstreamHttpClient,
    upstream: &Upstream,
    config: &UpstreamHttpConfig,
) -> Result<(UpstreamEventStream, String), UpstreamSendError> {
    let response =
        http.request(upstream.headers(), &config.url, UpstreamRequest::empty(UpstreamRequestKind::OpenStream)).await?;
    let mut stream = UpstreamEventStream::from_response(response, http.max_bytes())?;
    match stream.next_event().await? {
        Some((SseEventKind::Endpoint, endpoint)) => Ok((stream, String::from_utf8_lossy(&endpoint).into_owned())),
        _ => Err(UpstreamSendError::InvalidResponse(
            "the event stream does not start with an `endpoint` event".to_owned(),
        )),
    }
}

/// Routes messages until the stream ends. Returns the reason if reading stopped earlier.
async fn read_events(stream: &mut UpstreamEventStream, demux: &MessageDemux) -> Option<String> {
    loop {
        match stream.next_event().await {
            Ok(Some((SseEventKind::Message, message))) if demux.deliver(message.clone()) => {}
            // A second endpoint is ignored: only the first was checked.
            Ok(Some(_)) => demux.count_dropped(),
            Ok(None) | Err(UpstreamSendError::ConnectionLost(_)) => return None,
            Err(error) => return Some(error.to_string()),
        }
    }
}

/// Posts one message, which the server must accept.
async fn post_message(
    target: &SsePostTarget,
    demux: &MessageDemux,
    secrets: &SecretRedactor,
    outgoing: UpstreamRequest,
) -> Result<(), UpstreamSendError> {
    let posted = target.http.post(&target.headers, &target.endpoint, outgoing).await;
    let status = posted.map_err(|error| error.redact(secrets))?;
    if status == StatusCode::NOT_FOUND {
        demux.mark_ended(false);
        return Err(UpstreamSendError::ConnectionLost("the server no longer knows the connection".to_owned()));
    }
    if status.is_success() { Ok(()) } else { Err(UpstreamSendError::Status(status.as_u16())) }
}

async fn send_notifications(target: Arc<SsePostTarget>, mut notifications: mpsc::Receiver<Bytes>) {
    while let Some(text) = notifications.recv().await {
        let posting = target.http.post(&target.headers, &target.endpoint, UpstreamRequest::notification(text));
        let _ = tokio::time::timeout(NOTIFICATION_TIMEOUT, posting).await;
    }
}
