//! Reads and writes the three pipes of a process.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tracing::debug;

use super::stderr_tail::StderrTail;
use crate::upstream::SecretRedactor;
use crate::upstream::message_demux::MessageDemux;

/// Returns a message as a single line. Line breaks in JSON occur only between tokens, so they can be replaced by
/// spaces.
pub(crate) fn to_line(text: &Bytes) -> Bytes {
    let mut line = BytesMut::with_capacity(text.len() + 1);
    line.extend(text.iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte }));
    line.put_u8(b'\n');
    line.freeze()
}

/// Writes lines until all senders are dropped or the connection ends; then closes the input.
pub(super) async fn write_stdin(mut input: ChildStdin, mut lines: mpsc::Receiver<Bytes>, demux: Arc<MessageDemux>) {
    let writing = async {
        while let Some(line) = lines.recv().await {
            input.write_all(&line).await?;
        }
        std::io::Result::Ok(())
    };
    tokio::select! {
        // A process that does not accept input cannot be used any more.
        written = writing => if written.is_err() { demux.mark_ended(false) },
        () = demux.wait_for_end() => {}
    }
}

/// Reads messages until the output ends. Returns the reason if reading stopped earlier.
pub(super) async fn read_stdout(output: ChildStdout, demux: &MessageDemux) -> Option<String> {
    let max_bytes = demux.max_bytes();
    let mut output = BufReader::with_capacity(64 << 10, output);
    loop {
        let mut line = Vec::new();
        let limit = max_bytes as u64 + 1;
        match (&mut output).take(limit).read_until(b'\n', &mut line).await {
            Ok(0) | Err(_) => return None,
            Ok(_) if line.len() > max_bytes => return Some(format!("a line is longer than {max_bytes} bytes")),
            Ok(_) => {}
        }
        // Without the line ending.
        line.truncate(line.trim_ascii_end().len());
        if !line.is_empty() && !demux.deliver(line.into()) {
            demux.count_dropped();
        }
    }
}

/// Keeps the last lines that a process writes to its standard error.
pub(super) async fn read_stderr(
    errors: ChildStderr,
    tail: Arc<StderrTail>,
    secrets: Arc<SecretRedactor>,
    name: String,
) {
    let mut errors = BufReader::new(errors);
    let mut line = Vec::new();
    // Reads more than is kept: a secret that is cut at the end of the line would not be found.
    let limit = StderrTail::MAX_STDERR_LINE_BYTES + secrets.max_secret_bytes();
    let mut is_rest = false;
    while let Ok(1..) = (&mut errors).take(limit as u64).read_until(b'\n', &mut line).await {
        let is_cut = line.len() == limit && !line.ends_with(b"\n");
        if !is_rest {
            let mut text = secrets.redact_text(String::from_utf8_lossy(&line).trim_end());
            if is_cut {
                text.truncate(text.floor_char_boundary(text.len().saturating_sub(secrets.max_secret_bytes())));
            }
            debug!(server.name = name, "{name}: {}", gatelodge_mcp::quote_excerpt(&text));
            tail.push(&text);
        }
        is_rest = is_cut;
        line.clear();
    }
}
