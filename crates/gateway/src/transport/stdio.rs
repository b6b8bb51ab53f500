//! Serves one client over stdio instead of HTTP, one message per line, using the same request path.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use gatelodge_mcp::ProtocolGeneration;
use gatelodge_store::{ServerName, TokenHash};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};

use crate::client::single_session_client::{SingleSessionClient, end_session};
use crate::config_snapshot::ActiveConfig;
use crate::request_context::{RequestContext, STDIO_ADDRESS};
use crate::responder::ClientSessionCell;
use crate::services::GatewayServices;

/// How long the client may take to read the last messages.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);
/// Maximum number of messages queued for a client that does not read them. When the queue is full, the upstream waits.
const MESSAGE_QUEUE_LENGTH: usize = 64;

/// Serves one client for one grant and one server until its input ends or the gateway stops; then waits a limited
/// time for running calls to finish.
///
/// # Errors
/// The grant or the server is not in the active configuration, or writing the output failed.
pub(crate) async fn serve_stdio(
    gw: &Arc<GatewayServices>,
    grant: &TokenHash,
    server: &ServerName,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> std::io::Result<()> {
    gw.start_telemetry();
    let (messages, queue) = mpsc::channel(MESSAGE_QUEUE_LENGTH);
    let session_slot = ClientSessionCell::default();
    let (ended, end) = oneshot::channel();
    let reading = async {
        let client = SingleSessionClient::new(
            messages,
            Arc::clone(&session_slot),
            &[ProtocolGeneration::Stateful, ProtocolGeneration::Stateless],
        );
        let read = tokio::select! {
            read = read_stdio(gw, grant, server, input, client) => read,
            () = gw.run_stdio_housekeeping() => Ok(()),
        };
        gw.shutdown.stop();
        gw.drain().await;
        if let Ok(ctx) = stdio_context(&gw.config, grant, server) {
            end_session(gw, &ctx, &session_slot).await;
        }
        let _ = ended.send(());
        read
    };
    let writing = async {
        tokio::select! {
            written = write_messages(output, queue) => written,
            // All senders are gone by then, so the writer ends too; if not, the client does not read.
            () = async { let _ = end.await; tokio::time::sleep(FINAL_WRITE_TIMEOUT).await } => Ok(()),
        }
    };
    let (read, written) = tokio::join!(reading, writing);
    read.and(written)
}

async fn read_stdio(
    gw: &Arc<GatewayServices>,
    grant: &TokenHash,
    server: &ServerName,
    input: impl AsyncRead + Unpin,
    client: SingleSessionClient,
) -> std::io::Result<()> {
    let mut input = BufReader::new(input);
    loop {
        let next = read_line(&mut input, gw.settings.request_limits.max_bytes);
        let line = tokio::select! {
            line = next => line?,
            () = client.wait_for_disconnect() => return Ok(()),
            () = gw.shutdown.wait() => return Ok(()),
        };
        let Some(line) = line else { return Ok(()) };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let ctx = stdio_context(&gw.config, grant, server)?;
        let handled = tokio::select! {
            handled = client.handle_message(gw, ctx, line.into()) => handled,
            // A client that does not read would block here.
            () = gw.shutdown.wait() => return Ok(()),
        };
        let Some(handshake) = handled else { continue };
        // Messages after a handshake belong to its session. If the client leaves meanwhile, do not wait for it.
        tokio::select! {
            _ = handshake => {}
            () = wait_for_end(&mut input) => return Ok(()),
            () = gw.shutdown.wait() => return Ok(()),
        }
    }
}

fn stdio_context(config: &ActiveConfig, grant: &TokenHash, server: &ServerName) -> std::io::Result<RequestContext> {
    let gone = || std::io::Error::other("the grant or the server is no longer in the active configuration");
    config.find_request_context(grant, server, &STDIO_ADDRESS.into()).ok_or_else(gone)
}

/// Reads the next line; `None` at the end of the input. A line of more than `max` bytes is truncated to `max + 1`
/// bytes, so that the caller still refuses it as too long.
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

/// Skips to the end of the line.
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

/// Waits until the client closes the input. Never returns if the client sends more input first.
async fn wait_for_end(input: &mut (impl AsyncBufReadExt + Unpin)) {
    if input.fill_buf().await.is_ok_and(|bytes| !bytes.is_empty()) {
        std::future::pending().await
    }
}

async fn write_messages(
    mut output: impl AsyncWrite + Unpin,
    mut messages: mpsc::Receiver<Bytes>,
) -> std::io::Result<()> {
    while let Some(text) = messages.recv().await {
        output.write_all(&crate::upstream::to_line(&text)).await?;
        output.flush().await?;
    }
    Ok(())
}
