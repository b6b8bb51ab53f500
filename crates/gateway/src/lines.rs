//! One client over its standard streams, in place of HTTP: a text to a line. The same road for all.

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::head::{Misfit, check_meta, names_stateless};
use gatelodge_mcp::{Era, Message, Method, code, error, read_message};
use gatelodge_store::{ServerName, TokenHash};
use http::StatusCode;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use crate::Gateway;
use crate::http::line::{Line, Slot};
use crate::http::mcp::dispatch;
use crate::http::reply;
use crate::methods::{initialize, pass, pool, stream};
use crate::session::ClientInfo;
use crate::trace::Trace;
use crate::visit::{Modern, STDIO, Side, Visit};

/// How long the client may take for the last texts.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Texts that wait for a client that does not read; beyond that the upstream waits.
const WAITING: usize = 64;

impl Gateway {
    /// Serves the client at the other end, by one grant and for one server, until its input ends or the gateway stops;
    /// then waits for calls to end, within bounds.
    ///
    /// # Errors
    /// The grant or the server is not in force, or the output cannot be written.
    pub async fn run_lines(
        self: &Arc<Self>,
        grant: &TokenHash,
        server: &ServerName,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) -> std::io::Result<()> {
        self.telemetry.start();
        let (texts, queue) = mpsc::channel(WAITING);
        let slot = Slot::default();
        let (ended, end) = oneshot::channel();
        let reading = async {
            let read = self.read_lines(grant, server, input, texts, &slot).await;
            self.stop();
            self.drain().await;
            self.end_session(grant, server, &slot).await;
            let _ = ended.send(());
            read
        };
        let writing = async {
            tokio::select! {
                written = write(output, queue) => written,
                // Everybody who could say something has ended by then, and so has this; else it is not worth waiting.
                () = async { let _ = end.await; tokio::time::sleep(LAST_WORDS).await } => Ok(()),
            }
        };
        let (read, written) = tokio::join!(reading, writing);
        read.and(written)
    }

    async fn read_lines(
        self: &Arc<Self>,
        grant: &TokenHash,
        server: &ServerName,
        input: impl AsyncRead + Unpin,
        texts: mpsc::Sender<Bytes>,
        slot: &Slot,
    ) -> std::io::Result<()> {
        let mut input = BufReader::new(input);
        loop {
            let next = next_line(&mut input, self.settings.request.bytes);
            let line = tokio::select! {
                line = next => line?,
                () = texts.closed() => return Ok(()),
                () = self.stopping() => return Ok(()),
            };
            let Some(line) = line else { return Ok(()) };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let visit = self.visit(grant, server)?;
            let taken = tokio::select! {
                taken = self.take(visit, line.into(), &texts, slot) => taken,
                // A client that reads nothing would hold us here.
                () = self.stopping() => return Ok(()),
            };
            let Some(handshake) = taken else { continue };
            // What follows a handshake belongs to its session. A client that goes meanwhile does not wait for it.
            tokio::select! {
                _ = handshake => {}
                () = end_of(&mut input) => return Ok(()),
                () = self.stopping() => return Ok(()),
            }
        }
    }

    fn visit(&self, grant: &TokenHash, server: &ServerName) -> std::io::Result<Visit> {
        let live = self.live();
        let found = live.grant(grant).cloned().zip(live.server(server).cloned());
        let door = found.as_ref().and_then(|(grant, _)| grant.config.doors.get(server).cloned());
        let Some(((grant, upstream), door)) = found.zip(door) else {
            return Err(std::io::Error::other("the grant or the server is not in force any more"));
        };
        Ok(Visit { grant, door, upstream, address: STDIO.into(), side: Side::Legacy(None), trace: None })
    }

    /// Takes one message. Requests run beside one another; what wants no answer is passed on in its order. What is given
    /// for a handshake is closed when it is over.
    async fn take(
        self: &Arc<Self>,
        mut visit: Visit,
        text: Bytes,
        texts: &mpsc::Sender<Bytes>,
        slot: &Slot,
    ) -> Option<oneshot::Receiver<()>> {
        let line = Line::of_texts(texts.clone(), Arc::clone(slot));
        let message = match read_message(&text, &self.settings.request) {
            Ok(message) => message,
            Err(fault) => {
                let (status, answer) = reply::wire_error(&fault, Era::Legacy);
                line.finish_with(status, answer.into()).await;
                self.reject(&visit, fault.code, &fault.message).await;
                return None;
            }
        };
        visit.trace = Trace::of(&message, None, &self.telemetry);
        match self.side(&visit, &message, slot).await {
            Ok(side) => visit.side = side,
            Err(Misfit { code, message: what, data, .. }) => {
                if let Message::Request(request) = &message {
                    line.finish(error(Some(request.id()), code, &what, data.as_deref()).into()).await;
                }
                self.reject(&visit, code, &what).await;
                return None;
            }
        }
        match message {
            Message::Request(request) => {
                let (gw, texts, slot) = (Arc::clone(self), texts.clone(), Arc::clone(slot));
                let is_handshake = *request.method() == Method::Initialize && visit.era() == Era::Legacy;
                let (done, over) = oneshot::channel();
                self.spawn(async move {
                    if is_handshake {
                        // A client that begins anew has done with what it had.
                        gw.end_session(&visit.grant.config.token, visit.upstream.name(), &slot).await;
                    }
                    if let Ok(Message::Request(request)) = read_message(&text, &gw.settings.request) {
                        dispatch(&gw, &visit, &request, line).await;
                    }
                    if is_handshake {
                        gw.hear(visit, &texts, &slot);
                    }
                    drop(done);
                });
                is_handshake.then_some(over)
            }
            Message::Notification(_) | Message::Response(_) => {
                pass::one_way(self, &visit, &message).await;
                None
            }
        }
    }

    /// How the client speaks, by this message alone.
    async fn side(&self, visit: &Visit, message: &Message<'_>, slot: &Slot) -> Result<Side, Misfit> {
        let misfit = |what: &str| Misfit::new(StatusCode::BAD_REQUEST, code::INVALID_REQUEST, what);
        let begin = || misfit("begin with `initialize`");
        let session = slot.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Message::Request(request) = message else {
            return session.map(|session| Side::Legacy(Some(session))).ok_or_else(begin);
        };
        if names_stateless(request) {
            let revision = check_meta(request, &visit.upstream.spoken())?;
            let modern =
                Modern { revision, client: ClientInfo::of(request.meta().client_info()), params: None, far: None };
            let joined = pool::joined(self, visit, request, modern).await;
            return joined.map(Side::Modern).map_err(|refusal| misfit(&refusal.message()));
        }
        if *request.method() == Method::Initialize {
            return Ok(Side::Legacy(None));
        }
        session.map(|session| Side::Legacy(Some(session))).ok_or_else(begin)
    }

    /// Passes on what belongs to no request, for as long as the session lives.
    fn hear(self: &Arc<Self>, mut visit: Visit, texts: &mpsc::Sender<Bytes>, slot: &Slot) {
        let Some(session) = slot.lock().unwrap_or_else(PoisonError::into_inner).clone() else { return };
        visit.side = Side::Legacy(Some(Arc::clone(&session)));
        let end = session.open_stream();
        let (gw, texts) = (Arc::clone(self), texts.downgrade());
        self.spawn(async move {
            let Some(texts) = texts.upgrade() else { return };
            tokio::select! {
                () = stream::follow(&gw, &visit, &texts, |text| Bytes::copy_from_slice(text.as_bytes())) => {}
                () = end.notified() => {}
                () = gw.stopping() => {}
            }
            session.close_stream(&end);
        });
    }

    async fn end_session(&self, grant: &TokenHash, server: &ServerName, slot: &Slot) {
        let session = slot.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let (Some(session), Ok(mut visit)) = (session, self.visit(grant, server)) {
            visit.side = Side::Legacy(Some(session));
            initialize::end(self, &visit).await;
        }
    }
}

/// The next line; none at the end. One that is too long ends the reading: nothing can be said of what follows.
async fn next_line(input: &mut (impl AsyncBufReadExt + Unpin), max: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = input.take(max as u64 + 1).read_until(b'\n', &mut line).await?;
    match read {
        0 => Ok(None),
        _ if line.len() > max => Err(std::io::Error::other(format!("a message has more than {max} bytes"))),
        _ => Ok(Some(line)),
    }
}

/// Waits for the end of the input. Where something comes before it, this waits for ever.
async fn end_of(input: &mut (impl AsyncBufReadExt + Unpin)) {
    if input.fill_buf().await.is_ok_and(|bytes| !bytes.is_empty()) {
        std::future::pending().await
    }
}

async fn write(mut output: impl AsyncWrite + Unpin, mut texts: mpsc::Receiver<Bytes>) -> std::io::Result<()> {
    while let Some(text) = texts.recv().await {
        output.write_all(&crate::upstream::as_line(&text)).await?;
        output.flush().await?;
    }
    Ok(())
}
