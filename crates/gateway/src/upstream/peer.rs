//! A server at the other end of a connection that carries many messages: a process, or a stream of events.

use std::sync::Arc;

use bytes::Bytes;
use gatelodge_store::CallId;
use http::StatusCode;
use tokio::sync::{mpsc, oneshot};

use super::child::Child;
use super::inbox::{Event, Inbox};
use super::sse::{Sending, Sse};
use super::upstream_response::{ResponseSource, UpstreamResponse};
use super::{SendError, UpstreamLink, UpstreamRequest, UpstreamRequestKind};

/// The other end.
#[derive(Debug, Clone)]
pub(super) enum Peer {
    Child(Arc<Child>),
    Sse(Arc<Sse>),
}

impl Peer {
    /// Sends what a permit allows, and gives the beginning of the answer.
    pub async fn send(self, outgoing: UpstreamRequest) -> Result<UpstreamResponse, SendError> {
        let (status, source) = match (outgoing.kind, outgoing.call) {
            (UpstreamRequestKind::SendMessage, Some(call)) => {
                (StatusCode::OK, ResponseSource::Multiplexed(self.ask(call, outgoing).await?))
            }
            (UpstreamRequestKind::SendMessage, None) => {
                self.tell(outgoing).await?;
                (StatusCode::ACCEPTED, ResponseSource::Empty)
            }
            (UpstreamRequestKind::OpenStream, _) => (StatusCode::OK, ResponseSource::Multiplexed(self.hear()?)),
            (UpstreamRequestKind::EndSession, _) => {
                self.inbox().leave();
                (StatusCode::OK, ResponseSource::Empty)
            }
        };
        let link = match self {
            Self::Child(child) => UpstreamLink::Process(child),
            Self::Sse(connection) => UpstreamLink::Sse(connection),
        };
        Ok(UpstreamResponse { status, session_link: link, resume_target: None, source })
    }

    /// Sends a request, whose id is that of the call.
    async fn ask(&self, call: CallId, outgoing: UpstreamRequest) -> Result<PeerAnswer, SendError> {
        let (events, answer) =
            self.inbox().wait_for(call.as_str(), outgoing.may_send_requests).ok_or_else(|| self.not_sent())?;
        let peer = self.clone();
        let mut waiting =
            PeerAnswer { events, answer: Some(answer), call: Some(call), peer, sending: None, is_early: false };
        match self {
            Self::Child(child) => child.tell(&outgoing.body.into_bytes()).await?,
            // Some servers answer the POST only when they have done what it asks for.
            Self::Sse(connection) => waiting.sending = Some(connection.begin(outgoing)),
        }
        Ok(waiting)
    }

    async fn tell(&self, outgoing: UpstreamRequest) -> Result<(), SendError> {
        match self {
            Self::Child(child) => child.tell(&outgoing.body.into_bytes()).await,
            Self::Sse(connection) => connection.tell(outgoing).await,
        }
    }

    /// What belongs to no request, from now on. Whoever heard it before does not any more.
    fn hear(&self) -> Result<PeerAnswer, SendError> {
        let events = self.inbox().hear().ok_or_else(|| self.not_sent())?;
        Ok(PeerAnswer { events, answer: None, call: None, peer: self.clone(), sending: None, is_early: false })
    }

    fn inbox(&self) -> &Inbox {
        match self {
            Self::Child(child) => child.inbox(),
            Self::Sse(connection) => connection.inbox(),
        }
    }

    fn last_words(&self) -> String {
        match self {
            Self::Child(child) => child.last_words(),
            Self::Sse(connection) => connection.last_words(),
        }
    }

    fn not_sent(&self) -> SendError {
        SendError::NotSent(self.last_words())
    }

    /// Says that nobody waits for the answer to a call any more, if that can be said without waiting.
    fn cancel(&self, call: CallId) {
        self.inbox().forget(call.as_str());
        let text =
            format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"{call}"}}}}"#);
        match self {
            Self::Child(child) => child.note(text.into()),
            Self::Sse(connection) => connection.note(text.into()),
        }
    }
}

/// What comes of a request, or what belongs to none.
#[derive(Debug)]
pub(crate) struct PeerAnswer {
    events: mpsc::Receiver<Event>,
    /// None once it came, and for what belongs to no request.
    answer: Option<oneshot::Receiver<Bytes>>,
    call: Option<CallId>,
    peer: Peer,
    /// The request on its way, until it was taken.
    sending: Option<Sending>,
    /// Whether what came last was said before anybody was there for it.
    is_early: bool,
}

impl PeerAnswer {
    pub fn is_early(&self) -> bool {
        self.is_early
    }

    /// Whether no other call runs that the server may ask something for.
    pub fn is_only_one(&self) -> bool {
        self.peer.inbox().has_one_call()
    }

    pub async fn next(&mut self) -> Result<Option<Bytes>, SendError> {
        let Some(answer) = &mut self.answer else {
            return Ok(if self.call.is_some() { None } else { self.events.recv().await.map(|event| event.message) });
        };
        let message = loop {
            tokio::select! {
                // What was said before the answer goes before it.
                biased;
                Some(event) = self.events.recv() => {
                    self.is_early = event.is_early;
                    return Ok(Some(event.message));
                }
                message = &mut *answer => break message,
                sent = taken(&mut self.sending) => if let Err(fault) = sent {
                    return Err(self.give_up(fault));
                },
            }
        };
        self.answer = None;
        message.map(Some).map_err(|_| match self.peer.inbox().has_started() {
            true => SendError::ConnectionLost(self.peer.last_words()),
            false => self.peer.not_sent(),
        })
    }

    /// The request was not taken, so no answer comes.
    fn give_up(&mut self, fault: SendError) -> SendError {
        self.leave();
        fault
    }

    /// Waits for no answer any more.
    pub fn leave(&mut self) {
        self.answer = None;
        if let Some(call) = self.call {
            self.peer.inbox().forget(call.as_str());
        }
    }
}

/// Waits until the request was taken; for ever once it was.
async fn taken(sending: &mut Option<Sending>) -> Result<(), SendError> {
    let sent = match sending {
        Some(sending) => sending.taken().await,
        None => return std::future::pending().await,
    };
    *sending = None;
    sent
}

impl Drop for PeerAnswer {
    /// Nobody waits for the answer any more: the server may stop.
    fn drop(&mut self) {
        if let (Some(call), Some(_)) = (self.call, &self.answer) {
            self.peer.cancel(call);
        }
    }
}
