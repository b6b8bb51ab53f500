//! One client over its standard streams, in place of HTTP: a text to a line. The same road for all.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::ProtocolGeneration;
use gatelodge_store::{ServerName, TokenHash};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use crate::Gateway;
use crate::http_server::responder::SessionSlot;
use crate::request_context::{RequestContext, STDIO_ADDRESS};
use crate::single_session::{SingleSessionClient, end_session};

/// How long the client may take for the last texts.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Texts that wait for a client that does not read; beyond that the upstream waits.
const MESSAGE_QUEUE_LENGTH: usize = 64;

impl Gateway {
    /// Serves the client at the other end, by one grant and for one server, until its input ends or the gateway stops;
    /// then waits for calls to end, within bounds.
    ///
    /// # Errors
    /// The grant or the server is not in force, or the output cannot be written.
    pub async fn serve_stdio(
        self: &Arc<Self>,
        grant: &TokenHash,
        server: &ServerName,
        input: impl AsyncRead + Unpin,
        output: impl AsyncWrite + Unpin,
    ) -> std::io::Result<()> {
        self.telemetry.start();
        let (texts, queue) = mpsc::channel(MESSAGE_QUEUE_LENGTH);
        let slot = SessionSlot::default();
        let (ended, end) = oneshot::channel();
        let reading = async {
            let client = SingleSessionClient::new(
                texts,
                Arc::clone(&slot),
                &[ProtocolGeneration::Stateful, ProtocolGeneration::Stateless],
            );
            let read = tokio::select! {
                read = self.read_stdio(grant, server, input, client) => read,
                () = self.run_stdio_housekeeping() => Ok(()),
            };
            self.stop();
            self.drain().await;
            if let Ok(ctx) = self.stdio_context(grant, server) {
                end_session(self, &ctx, &slot).await;
            }
            let _ = ended.send(());
            read
        };
        let writing = async {
            tokio::select! {
                written = write_messages(output, queue) => written,
                // Everybody who could say something has ended by then, and so has this; else it is not worth waiting.
                () = async { let _ = end.await; tokio::time::sleep(FINAL_WRITE_TIMEOUT).await } => Ok(()),
            }
        };
        let (read, written) = tokio::join!(reading, writing);
        read.and(written)
    }

    async fn read_stdio(
        self: &Arc<Self>,
        grant: &TokenHash,
        server: &ServerName,
        input: impl AsyncRead + Unpin,
        client: SingleSessionClient,
    ) -> std::io::Result<()> {
        let mut input = BufReader::new(input);
        loop {
            let next = read_line(&mut input, self.settings.request_limits.max_bytes);
            let line = tokio::select! {
                line = next => line?,
                () = client.wait_for_disconnect() => return Ok(()),
                () = self.wait_for_shutdown() => return Ok(()),
            };
            let Some(line) = line else { return Ok(()) };
            if line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let ctx = self.stdio_context(grant, server)?;
            let taken = tokio::select! {
                taken = client.handle_message(self, ctx, line.into()) => taken,
                // A client that reads nothing would hold us here.
                () = self.wait_for_shutdown() => return Ok(()),
            };
            let Some(handshake) = taken else { continue };
            // What follows a handshake belongs to its session. A client that goes meanwhile does not wait for it.
            tokio::select! {
                _ = handshake => {}
                () = wait_for_end(&mut input) => return Ok(()),
                () = self.wait_for_shutdown() => return Ok(()),
            }
        }
    }

    fn stdio_context(&self, grant: &TokenHash, server: &ServerName) -> std::io::Result<RequestContext> {
        let gone = || std::io::Error::other("the grant or the server is not in force any more");
        self.find_request_context(grant, server, &STDIO_ADDRESS.into()).ok_or_else(gone)
    }
}

/// The next line; none at the end. Of one that is too long there is just enough to be refused for that.
async fn read_line(input: &mut (impl AsyncBufReadExt + Unpin), max: usize) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let read = (&mut *input).take(max as u64 + 1).read_until(b'\n', &mut line).await?;
    if line.last() == Some(&b'\n') {
        line.pop();
    } else if line.len() > max {
        discard_line(input).await?;
    }
    Ok((read > 0).then_some(line))
}

/// Reads to the end of a line, and keeps nothing of it.
async fn discard_line(input: &mut (impl AsyncBufReadExt + Unpin)) -> std::io::Result<()> {
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
async fn wait_for_end(input: &mut (impl AsyncBufReadExt + Unpin)) {
    if input.fill_buf().await.is_ok_and(|bytes| !bytes.is_empty()) {
        std::future::pending().await
    }
}

async fn write_messages(mut output: impl AsyncWrite + Unpin, mut texts: mpsc::Receiver<Bytes>) -> std::io::Result<()> {
    while let Some(text) = texts.recv().await {
        output.write_all(&crate::upstream::to_line(&text)).await?;
        output.flush().await?;
    }
    Ok(())
}
