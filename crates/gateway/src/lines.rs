//! One client over its standard streams, in place of HTTP: a text to a line. The same road for all.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::ProtocolGeneration;
use gatelodge_store::{ServerName, TokenHash};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use crate::Gateway;
use crate::http::responder::SessionSlot;
use crate::request_context::{RequestContext, STDIO_ADDRESS};
use crate::seat::{Seat, end_session};

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
        let slot = SessionSlot::default();
        let (ended, end) = oneshot::channel();
        let reading = async {
            let seat =
                Seat::new(texts, Arc::clone(&slot), &[ProtocolGeneration::Stateful, ProtocolGeneration::Stateless]);
            let read = tokio::select! {
                read = self.read_lines(grant, server, input, seat) => read,
                () = self.run_stdio_housekeeping() => Ok(()),
            };
            self.stop();
            self.drain().await;
            if let Ok(visit) = self.local_visit(grant, server) {
                end_session(self, &visit, &slot).await;
            }
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
        seat: Seat,
    ) -> std::io::Result<()> {
        let mut input = BufReader::new(input);
        loop {
            let next = next_line(&mut input, self.settings.request_limits.max_bytes);
            let line = tokio::select! {
                line = next => line?,
                () = seat.gone() => return Ok(()),
                () = self.wait_for_shutdown() => return Ok(()),
            };
            let Some(line) = line else { return Ok(()) };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let visit = self.local_visit(grant, server)?;
            let taken = tokio::select! {
                taken = seat.take(self, visit, line.into()) => taken,
                // A client that reads nothing would hold us here.
                () = self.wait_for_shutdown() => return Ok(()),
            };
            let Some(handshake) = taken else { continue };
            // What follows a handshake belongs to its session. A client that goes meanwhile does not wait for it.
            tokio::select! {
                _ = handshake => {}
                () = end_of(&mut input) => return Ok(()),
                () = self.wait_for_shutdown() => return Ok(()),
            }
        }
    }

    fn local_visit(&self, grant: &TokenHash, server: &ServerName) -> std::io::Result<RequestContext> {
        let gone = || std::io::Error::other("the grant or the server is not in force any more");
        self.find_request_context(grant, server, &STDIO_ADDRESS.into()).ok_or_else(gone)
    }
}

/// The next line; none at the end. Of one that is too long there is just enough to be refused for that.
async fn next_line(input: &mut (impl AsyncBufReadExt + Unpin), max: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = (&mut *input).take(max as u64 + 1).read_until(b'\n', &mut line).await?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > max {
        pass_over(input).await?;
    }
    Ok((read > 0).then_some(line))
}

/// Reads to the end of a line, and keeps nothing of it.
async fn pass_over(input: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<()> {
    loop {
        let bytes = input.fill_buf().await?;
        let (length, end) = (bytes.len(), bytes.iter().position(|byte| *byte == b'\n'));
        input.consume(end.map_or(length, |end| end + 1));
        if end.is_some() || length == 0 {
            return Ok(());
        }
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
