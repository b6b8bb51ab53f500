//! A server on a multiplexed connection: a process, or an HTTP+SSE stream.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_store::CallId;
use http::StatusCode;
use tokio::sync::{mpsc, oneshot};

use super::message_demux::{DemuxQueueMessage, MessageDemux};
use super::sse::{PendingPost, UpstreamSseConnection};
use super::upstream_response::UpstreamResponseSource;
use super::{
    ServerProcess, UpstreamRequest, UpstreamRequestKind, UpstreamResponse, UpstreamSendError, UpstreamSessionLink,
};

/// The connection to the server.
#[derive(Debug, Clone)]
pub(super) enum MultiplexedPeer {
    Process(Arc<ServerProcess>),
    Sse(Arc<UpstreamSseConnection>),
}

impl MultiplexedPeer {
    /// Sends a request and returns the start of the response.
    pub async fn send(self, outgoing: UpstreamRequest) -> Result<UpstreamResponse, UpstreamSendError> {
        let (status, source) = match (outgoing.kind, outgoing.call) {
            (UpstreamRequestKind::SendMessage, Some(call)) => {
                (StatusCode::OK, UpstreamResponseSource::Multiplexed(self.send_request(call, outgoing).await?))
            }
            (UpstreamRequestKind::SendMessage, None) => {
                self.send_notification(outgoing).await?;
                (StatusCode::ACCEPTED, UpstreamResponseSource::Empty)
            }
            (UpstreamRequestKind::OpenStream, _) => {
                (StatusCode::OK, UpstreamResponseSource::Multiplexed(self.listen()?))
            }
            (UpstreamRequestKind::EndSession, _) => {
                self.demux().close();
                (StatusCode::OK, UpstreamResponseSource::Empty)
            }
        };
        let link = match self {
            Self::Process(process) => UpstreamSessionLink::Process(process),
            Self::Sse(connection) => UpstreamSessionLink::Sse(connection),
        };
        Ok(UpstreamResponse { status, session_link: link, resume_target: None, source })
    }

    /// Sends a request whose JSON-RPC id is the call id.
    async fn send_request(
        &self,
        call: CallId,
        outgoing: UpstreamRequest,
    ) -> Result<MultiplexedResponse, UpstreamSendError> {
        let (events, reply) = self
            .demux()
            .register_call(call.as_str(), outgoing.may_send_requests)
            .ok_or_else(|| self.not_sent_error())?;
        let peer = self.clone();
        let mut response = MultiplexedResponse {
            events,
            reply: Some(reply),
            call: Some(call),
            peer,
            pending_post: None,
            is_before_call: false,
        };
        match self {
            Self::Process(process) => process.send(&outgoing.body.into_bytes()).await?,
            // Some servers respond to the POST only when they have finished the request.
            Self::Sse(connection) => response.pending_post = Some(connection.spawn_post(outgoing)),
        }
        Ok(response)
    }

    async fn send_notification(&self, outgoing: UpstreamRequest) -> Result<(), UpstreamSendError> {
        match self {
            Self::Process(process) => process.send(&outgoing.body.into_bytes()).await,
            Self::Sse(connection) => connection.send(outgoing).await,
        }
    }

    /// Starts receiving messages that belong to no request, replacing an earlier listener.
    fn listen(&self) -> Result<MultiplexedResponse, UpstreamSendError> {
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

    fn not_sent_error(&self) -> UpstreamSendError {
        UpstreamSendError::NotSent(self.end_message())
    }

    /// Abandons a call and sends `notifications/cancelled`, if that is possible without waiting.
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

/// The messages of one call, or those that belong to no request.
#[derive(Debug)]
pub(crate) struct MultiplexedResponse {
    events: mpsc::Receiver<DemuxQueueMessage>,
    /// The reply; `None` once it has been received, and for messages that belong to no request.
    reply: Option<oneshot::Receiver<Bytes>>,
    call: Option<CallId>,
    peer: MultiplexedPeer,
    /// The POST in progress, until it is accepted.
    pending_post: Option<PendingPost>,
    /// Whether the last message arrived before the call was registered.
    is_before_call: bool,
}

impl MultiplexedResponse {
    pub fn is_before_call(&self) -> bool {
        self.is_before_call
    }

    /// Returns whether this is the only call for which the server may send requests.
    pub fn is_single_call(&self) -> bool {
        self.peer.demux().has_single_call()
    }

    pub async fn next_message(&mut self) -> Result<Option<Bytes>, UpstreamSendError> {
        let Some(reply) = &mut self.reply else {
            return Ok(if self.call.is_some() { None } else { self.events.recv().await.map(|event| event.message) });
        };
        let message = loop {
            tokio::select! {
                // Messages sent before the reply come first.
                biased;
                Some(event) = self.events.recv() => {
                    self.is_before_call = event.is_before_call;
                    return Ok(Some(event.message));
                }
                message = &mut *reply => break message,
                sent = wait_until_posted(&mut self.pending_post) => if let Err(error) = sent {
                    return Err(self.abandon_with(error));
                },
            }
        };
        self.reply = None;
        message.map(Some).map_err(|_| match self.peer.demux().has_started() {
            true => UpstreamSendError::ConnectionLost(self.peer.end_message()),
            false => self.peer.not_sent_error(),
        })
    }

    /// Abandons the call because its request was not accepted.
    fn abandon_with(&mut self, error: UpstreamSendError) -> UpstreamSendError {
        self.abandon();
        error
    }

    /// Stops waiting for the reply.
    pub fn abandon(&mut self) {
        self.reply = None;
        if let Some(call) = self.call {
            self.peer.demux().abandon_call(call.as_str());
        }
    }
}

/// Waits until the POST is accepted. Never returns if it has already been accepted.
async fn wait_until_posted(pending_post: &mut Option<PendingPost>) -> Result<(), UpstreamSendError> {
    let sent = match pending_post {
        Some(post) => post.wait_until_accepted().await,
        None => return std::future::pending().await,
    };
    *pending_post = None;
    sent
}

impl Drop for MultiplexedResponse {
    /// Cancels the call if its reply is still awaited, so that the server can stop.
    fn drop(&mut self) {
        if let (Some(call), Some(_)) = (self.call, &self.reply) {
            self.peer.cancel(call);
        }
    }
}
