//! A client with exactly one session, over stdio or a single HTTP+SSE connection. Messages arrive one by one and leave
//! through a queue; both transports use the same request path.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use gatelodge_mcp::http_headers::{ProtocolError, check_meta, error_status, has_stateless_meta};
use gatelodge_mcp::{
    ClientCapabilities, ClientMessage, Method, ProtocolGeneration, code, error_response, read_client_message,
};
use gatelodge_store::CallOutcome;
use http::StatusCode;
use tokio::sync::{mpsc, oneshot};

use super::request_endpoint::dispatch_to_server;
use crate::methods::{initialize, policy_exempt_messages, standalone_stream};
use crate::request_context::{ClientProtocol, RequestContext, StatelessClient, StreamRevalidation};
use crate::responder::{ClientSessionCell, Responder};
use crate::services::GatewayServices;
use crate::session::{CancellableRequests, ClientInfo, Session};
use crate::telemetry::RequestTrace;

/// A client's session and its queue of outgoing messages.
#[derive(Debug)]
pub(crate) struct SingleSessionClient {
    /// Each item is one message. The transport's writer task receives them; a closed channel means that the client has
    /// disconnected.
    messages: mpsc::Sender<Bytes>,
    session_slot: ClientSessionCell,
    generations: &'static [ProtocolGeneration],
    /// Stateless requests in flight.
    stateless_requests: Arc<CancellableRequests>,
}

impl SingleSessionClient {
    /// Creates a client that may use the given protocol generations.
    pub fn new(
        messages: mpsc::Sender<Bytes>,
        session_slot: ClientSessionCell,
        generations: &'static [ProtocolGeneration],
    ) -> Self {
        Self { messages, session_slot, generations, stateless_requests: Arc::default() }
    }

    /// Returns the client's session; `None` before the handshake and after the session has ended.
    pub fn session(&self, gw: &GatewayServices, ctx: &RequestContext) -> Option<Arc<Session>> {
        let session = self.session_slot.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        gw.sessions.registry.find(session.id(), &ctx.grant.config.id, Some(ctx.upstream.name()))
    }

    /// Waits until the client disconnects.
    pub async fn wait_for_disconnect(&self) {
        self.messages.closed().await;
    }

    pub fn is_disconnected(&self) -> bool {
        self.messages.is_closed()
    }

    /// Ends the session of a client that has disconnected.
    pub async fn end_session(&self, gw: &GatewayServices, ctx: &RequestContext) {
        end_session(gw, ctx, &self.session_slot).await;
    }

    /// Handles one message. Requests run concurrently; notifications and responses are forwarded in order. For a
    /// handshake, returns a receiver that closes when the handshake is complete.
    pub async fn handle_message(
        &self,
        gw: &Arc<GatewayServices>,
        mut ctx: RequestContext,
        text: Bytes,
    ) -> Option<oneshot::Receiver<()>> {
        let mut responder = Responder::to_message_queue(self.messages.clone(), Arc::clone(&self.session_slot));
        let message = match read_client_message(&text, &gw.settings.request_limits) {
            Ok(message) => message,
            Err(cause) => {
                responder.reject(&cause, error_status(&cause, ProtocolGeneration::Stateful)).await;
                gw.record_rejection(gw.new_recorder(&ctx), cause.code, &cause.message).await;
                return None;
            }
        };
        ctx.trace = RequestTrace::of(&message, None, &gw.telemetry).map(Box::new);
        if let ClientMessage::Notification(notification) = &message
            && *notification.method() == Method::Cancelled
            && let Some(in_flight) =
                notification.reference().ok().flatten().and_then(|id| self.stateless_requests.find(&id))
        {
            // A stateless request: the call itself knows how to cancel it at the server.
            in_flight.cancel_signal.notify_one();
            let mut recorder = gw.new_recorder(&ctx);
            recorder.set_method(notification.method().name());
            gw.write_row(recorder.outcome_row(CallOutcome::Ok, None)).await;
            return None;
        }
        match self.detect_client_protocol(gw, &ctx, &message) {
            Ok(client_protocol) => ctx.client_protocol = client_protocol,
            Err(ProtocolError { code, message: what, data, .. }) => {
                if let ClientMessage::Request(request) = &message {
                    responder.finish(error_response(Some(request.id()), code, &what, data.as_deref()).into()).await;
                }
                gw.record_rejection(gw.new_recorder(&ctx), code, &what).await;
                return None;
            }
        }
        match message {
            ClientMessage::Request(request) => {
                let is_handshake =
                    *request.method() == Method::Initialize && ctx.generation() == ProtocolGeneration::Stateful;
                if ctx.generation() == ProtocolGeneration::Stateless {
                    // Cancellable from now on, before anything is sent.
                    responder.register_cancellable(&self.stateless_requests, request.id(), None);
                }
                let finished = self.spawn_request(gw, ctx, text, responder, is_handshake);
                is_handshake.then_some(finished)
            }
            ClientMessage::Notification(_) | ClientMessage::Response(_) => {
                policy_exempt_messages::forward_one_way(gw, &ctx, &message).await;
                None
            }
        }
    }

    /// Runs a request in its own task. The returned receiver closes when the request is complete.
    fn spawn_request(
        &self,
        gw: &Arc<GatewayServices>,
        ctx: RequestContext,
        text: Bytes,
        responder: Responder,
        is_handshake: bool,
    ) -> oneshot::Receiver<()> {
        let (task, messages, session_slot) = (Arc::clone(gw), self.messages.clone(), Arc::clone(&self.session_slot));
        let (done, finished) = oneshot::channel();
        gw.tasks.spawn(async move {
            let gw = task;
            if is_handshake {
                // A client that sends `initialize` again abandons its session.
                end_session(&gw, &ctx, &session_slot).await;
            }
            if let Ok(ClientMessage::Request(request)) = read_client_message(&text, &gw.settings.request_limits) {
                dispatch_to_server(&gw, ctx.clone(), &request, responder).await;
            }
            if is_handshake {
                spawn_event_forwarder(&gw, &ctx, &messages, &session_slot);
            }
            drop(done);
        });
        finished
    }

    /// Determines the client's protocol from one message.
    fn detect_client_protocol(
        &self,
        gw: &GatewayServices,
        ctx: &RequestContext,
        message: &ClientMessage<'_>,
    ) -> Result<ClientProtocol, ProtocolError> {
        let no_session =
            || ProtocolError::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, "start with `initialize`");
        let session = || {
            let session = self.session(gw, ctx).ok_or_else(no_session)?;
            ctx.grant
                .check_session_revision(&session, || ctx.supported_revisions(ProtocolGeneration::Stateful))
                .map(|()| ClientProtocol::Stateful(Some(session)))
        };
        let ClientMessage::Request(request) = message else { return session() };
        if has_stateless_meta(request) {
            if !self.generations.contains(&ProtocolGeneration::Stateless) {
                return Err(no_session());
            }
            let revision = check_meta(request, &ctx.supported_revisions(ProtocolGeneration::Stateless))?;
            ctx.check_revision(revision)?;
            let client = ClientInfo::of(request.meta().client_info());
            let declared = ClientCapabilities::of(request.meta().client_capabilities());
            let wants_log = request.meta().log_level().is_some();
            let stateless = StatelessClient {
                revision,
                client,
                client_capabilities: declared,
                wants_log_messages: wants_log,
                param_headers: None,
                upstream_session: None,
                exclusive_session: None,
            };
            return Ok(ClientProtocol::Stateless(Box::new(stateless)));
        }
        if *request.method() == Method::Initialize {
            return ctx
                .grant
                .check_handshake_revision(request, || ctx.supported_revisions(ProtocolGeneration::Stateful))
                .map(|()| ClientProtocol::Stateful(None));
        }
        session()
    }
}

/// Forwards the upstream's standalone stream to the client under the active policy for as long as the session lives,
/// and sends `list_changed` when the policy changes.
fn spawn_event_forwarder(
    gw: &Arc<GatewayServices>,
    ctx: &RequestContext,
    messages: &mpsc::Sender<Bytes>,
    session_slot: &ClientSessionCell,
) {
    let Some(session) = session_slot.lock().unwrap_or_else(PoisonError::into_inner).clone() else { return };
    let end = session.streams.open();
    let (task, messages) = (Arc::clone(gw), messages.downgrade());
    let mut ctx = ctx.with_session(Arc::clone(&session));
    gw.tasks.spawn(async move {
        let gw = task;
        let Some(messages) = messages.upgrade() else { return };
        let written = |text: &str| Bytes::copy_from_slice(text.as_bytes());
        let (mut last_event_id, mut is_due) = (None, false);
        loop {
            let notifying = async {
                if is_due {
                    standalone_stream::notify_list_changes(&gw, &ctx, &messages, written).await;
                    is_due = false;
                }
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = standalone_stream::follow_upstream_stream(&gw, &ctx, last_event_id, &messages, written) => {}
                () = notifying => {}
                () = gw.wait_for_config_change(&ctx) => {}
                () = end.notified() => break,
                () = gw.shutdown.wait() => break,
            }
            last_event_id = session.streams.last_event_id();
            match gw.config.revalidate(&ctx) {
                StreamRevalidation::Unchanged => {}
                StreamRevalidation::Revoked => break,
                StreamRevalidation::Replaced(next) => {
                    is_due = true;
                    // Event ids of the old server mean nothing to the new one.
                    last_event_id = last_event_id.filter(|_| Arc::ptr_eq(&ctx.upstream, &next.upstream));
                    ctx = *next;
                }
            }
        }
        session.streams.close(&end);
    });
}

/// Stops the task started by [`spawn_event_forwarder`].
pub(crate) fn stop_event_forwarder(session_slot: &ClientSessionCell) {
    if let Some(session) = &*session_slot.lock().unwrap_or_else(PoisonError::into_inner) {
        session.streams.end();
    }
}

/// Ends the session of a client that has disconnected or is starting a new session.
pub(crate) async fn end_session(gw: &GatewayServices, ctx: &RequestContext, session_slot: &ClientSessionCell) {
    let session = session_slot.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(session) = session {
        initialize::end_session(gw, &ctx.with_session(session)).await;
    }
}

impl GatewayServices {
    /// Waits until the configuration under which a request was accepted changes.
    async fn wait_for_config_change(&self, ctx: &RequestContext) {
        let mut recheck = tokio::time::interval(standalone_stream::REVALIDATION_INTERVAL);
        while matches!(self.config.revalidate(ctx), StreamRevalidation::Unchanged) {
            recheck.tick().await;
        }
    }
}
