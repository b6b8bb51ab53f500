//! A server at the other end of a connection that carries many messages: a process, or a stream of events.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_store::CallId;
use http::StatusCode;
use tokio::sync::{mpsc, oneshot};

use super::message_demux::{MessageDemux, QueuedMessage};
use super::server_process::ServerProcess;
use super::sse_client::{PendingPost, UpstreamSseConnection};
use super::upstream_response::{ResponseSource, UpstreamResponse};
use super::{SendError, UpstreamLink, UpstreamRequest, UpstreamRequestKind};

/// The other end.
#[derive(Debug, Clone)]
pub(super) enum MultiplexedPeer {
    Process(Arc<ServerProcess>),
    Sse(Arc<UpstreamSseConnection>),
}

impl MultiplexedPeer {
    /// Sends what a permit allows, and gives the beginning of the answer.
    pub async fn send(self, outgoing: UpstreamRequest) -> Result<UpstreamResponse, SendError> {
        let (status, source) = match (outgoing.kind, outgoing.call) {
            (UpstreamRequestKind::SendMessage, Some(call)) => {
                (StatusCode::OK, ResponseSource::Multiplexed(self.send_request(call, outgoing).await?))
            }
            (UpstreamRequestKind::SendMessage, None) => {
                self.send_notification(outgoing).await?;
                (StatusCode::ACCEPTED, ResponseSource::Empty)
            }
            (UpstreamRequestKind::OpenStream, _) => (StatusCode::OK, ResponseSource::Multiplexed(self.listen()?)),
            (UpstreamRequestKind::EndSession, _) => {
                self.demux().close();
                (StatusCode::OK, ResponseSource::Empty)
            }
        };
        let link = match self {
            Self::Process(process) => UpstreamLink::Process(process),
            Self::Sse(connection) => UpstreamLink::Sse(connection),
        };
        Ok(UpstreamResponse { status, session_link: link, resume_target: None, source })
    }

    /// Sends a request, whose id is that of the call.
    async fn send_request(&self, call: CallId, outgoing: UpstreamRequest) -> Result<MultiplexedResponse, SendError> {
        let (events, answer) = self
            .demux()
            .register_call(call.as_str(), outgoing.may_send_requests)
            .ok_or_else(|| self.not_sent_error())?;
        let peer = self.clone();
        let mut waiting = MultiplexedResponse {
            events,
            reply: Some(answer),
            call: Some(call),
            peer,
            pending_post: None,
            is_before_call: false,
        };
        match self {
            Self::Process(process) => process.send(&outgoing.body.into_bytes()).await?,
            // Some servers answer the POST only when they have done what it asks for.
            Self::Sse(connection) => waiting.pending_post = Some(connection.spawn_post(outgoing)),
        }
        Ok(waiting)
    }

    async fn send_notification(&self, outgoing: UpstreamRequest) -> Result<(), SendError> {
        match self {
            Self::Process(process) => process.send(&outgoing.body.into_bytes()).await,
            Self::Sse(connection) => connection.send(outgoing).await,
        }
    }

    /// What belongs to no request, from now on. Whoever heard it before does not any more.
    fn listen(&self) -> Result<MultiplexedResponse, SendError> {
        let events = self.demux().listen().ok_or_else(|| self.not_sent_error())?;
        Ok(MultiplexedResponse {
            events,
            reply: None,
            call: None,
            peer: self.clone(),
            pending_post: None,
            is_before_call: false,
        })
    }

    fn demux(&self) -> &MessageDemux {
        match self {
            Self::Process(process) => process.demux(),
            Self::Sse(connection) => connection.demux(),
        }
    }

    fn end_message(&self) -> String {
        match self {
            Self::Process(process) => process.exit_message(),
            Self::Sse(connection) => connection.end_message(),
        }
    }

    fn not_sent_error(&self) -> SendError {
        SendError::NotSent(self.end_message())
    }

    /// Says that nobody waits for the answer to a call any more, if that can be said without waiting.
    fn cancel(&self, call: CallId) {
        self.demux().abandon_call(call.as_str());
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{call}"}}}}"#);
        match self {
            Self::Process(process) => process.try_send(text.into()),
            Self::Sse(connection) => connection.try_send(text.into()),
        }
    }
}

/// What comes of a request, or what belongs to none.
#[derive(Debug)]
pub(crate) struct MultiplexedResponse {
    events: mpsc::Receiver<QueuedMessage>,
    /// None once it came, and for what belongs to no request.
    reply: Option<oneshot::Receiver<Bytes>>,
    call: Option<CallId>,
    peer: MultiplexedPeer,
    /// The request on its way, until it was taken.
    pending_post: Option<PendingPost>,
    /// Whether what came last was said before anybody was there for it.
    is_before_call: bool,
}

impl MultiplexedResponse {
    pub fn is_before_call(&self) -> bool {
        self.is_before_call
    }

    /// Whether no other call runs that the server may ask something for.
    pub fn is_single_call(&self) -> bool {
        self.peer.demux().has_single_call()
    }

    pub async fn next_message(&mut self) -> Result<Option<Bytes>, SendError> {
        let Some(answer) = &mut self.reply else {
            return Ok(if self.call.is_some() { None } else { self.events.recv().await.map(|event| event.message) });
        };
        let message = loop {
            tokio::select! {
                // What was said before the answer goes before it.
                biased;
                Some(event) = self.events.recv() => {
                    self.is_before_call = event.is_before_call;
                    return Ok(Some(event.message));
                }
                message = &mut *answer => break message,
                sent = wait_until_posted(&mut self.pending_post) => if let Err(error) = sent {
                    return Err(self.abandon_with(error));
                },
            }
        };
        self.reply = None;
        message.map(Some).map_err(|_| match self.peer.demux().has_started() {
            true => SendError::ConnectionLost(self.peer.end_message()),
            false => self.peer.not_sent_error(),
        })
    }

    /// The request was not taken, so no answer comes.
    fn abandon_with(&mut self, error: SendError) -> SendError {
        self.abandon();
        error
    }

    /// Waits for no answer any more.
    pub fn abandon(&mut self) {
        self.reply = None;
        if let Some(call) = self.call {
            self.peer.demux().abandon_call(call.as_str());
        }
    }
}

/// Waits until the request was taken; for ever once it was.
async fn wait_until_posted(sending: &mut Option<PendingPost>) -> Result<(), SendError> {
    let sent = match sending {
        Some(sending) => sending.wait_until_accepted().await,
        None => return std::future::pending().await,
    };
    *sending = None;
    sent
}

impl Drop for MultiplexedResponse {
    /// Nobody waits for the answer any more: the server may stop.
    fn drop(&mut self) {
        if let (Some(call), Some(_)) = (self.call, &self.reply) {
            self.peer.cancel(call);
        }
    }
}
