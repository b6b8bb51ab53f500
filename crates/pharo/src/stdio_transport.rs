//! Serves one client over standard input and output, one message per line, and supports both protocol generations in
//! the same process.

use std::sync::Arc;

use gatelodge_json::JsonLimits;
use gatelodge_mcp::http_headers::{ProtocolError, check_meta, has_stateless_meta};
use gatelodge_mcp::{
    ClientMessage, ClientNotification, ClientRequest, Method, ProtocolGeneration, Revision, code, error_response,
    to_single_line,
};
use gatelodge_mutants::mutant;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::mcp_server::{
    McpOperation, PharoServer, is_unknown_notification, parse_error_reply, protocol_error_reply, read,
};

/// Maximum number of outgoing messages that are queued while the client is not reading.
const MAX_QUEUED_MESSAGES: usize = 64;
/// Session that all requests belong to, because the process has only one client.
const STDIO_SESSION: &str = "stdio";

/// Serves the client until its input ends. Calls that are still running then get the configured time to finish and
/// reply.
///
/// # Errors
/// A stream cannot be read or written.
pub async fn serve_stdio(
    pharo: Arc<PharoServer>,
    input: impl AsyncRead + Unpin,
    output: impl AsyncWrite + Unpin,
) -> std::io::Result<()> {
    let (texts, queue) = mpsc::channel(MAX_QUEUED_MESSAGES);
    let (ended, end) = oneshot::channel();
    let reading = async {
        let read = read_messages(&pharo, BufReader::new(input), texts).await;
        let _ = ended.send(());
        read
    };
    let writing = async {
        tokio::select! {
            written = write_messages(output, queue) => written,
            // A client that does not read its last replies does not want them.
            () = async { let _ = end.await; tokio::time::sleep(pharo.settings.output_drain_timeout).await } => Ok(()),
        }
    };
    let (read, written) = tokio::join!(reading, writing);
    read.and(written)
}

async fn read_messages(
    pharo: &Arc<PharoServer>,
    mut input: impl AsyncBufRead + Unpin,
    texts: mpsc::Sender<String>,
) -> std::io::Result<()> {
    let (mut calls, mut streams) = (JoinSet::new(), JoinSet::new());
    loop {
        let line = tokio::select! {
            line = next_line(&mut input) => line?,
            () = texts.closed() => break,
        };
        // Removes finished tasks.
        while calls.try_join_next().is_some() || streams.try_join_next().is_some() {}
        match line {
            None => break,
            Some(InputLine::TooLong) => {
                let what = format!("a message has more than {} bytes", JsonLimits::REQUEST.max_bytes);
                let _ = texts.send(error_response(None, code::INVALID_REQUEST, &what, None)).await;
            }
            Some(InputLine::Whole(line)) if line.iter().all(u8::is_ascii_whitespace) => {}
            Some(InputLine::Whole(line)) => handle_line(pharo, line, &texts, &mut calls, &mut streams).await,
        }
    }
    drop((texts, streams));
    let _ =
        tokio::time::timeout(pharo.settings.call_drain_timeout, async { while calls.join_next().await.is_some() {} })
            .await;
    Ok(())
}

/// Handles one message. Streams never end on their own, so their tasks are kept in a separate set that is not awaited.
async fn handle_line(
    pharo: &Arc<PharoServer>,
    line: Vec<u8>,
    texts: &mpsc::Sender<String>,
    calls: &mut JoinSet<()>,
    streams: &mut JoinSet<()>,
) {
    match read(&line) {
        Err(wire_error) if is_unknown_notification(&wire_error) => {}
        Err(wire_error) => drop(texts.send(parse_error_reply(&wire_error)).await),
        Ok(ClientMessage::Notification(said)) => handle_cancelled(pharo, &said),
        // The server never sends requests, so a response has no counterpart.
        Ok(ClientMessage::Response(_)) => {}
        Ok(ClientMessage::Request(request)) => {
            let generation = match request_generation(&request) {
                Err(why) => return drop(texts.send(protocol_error_reply(Some(request.id()), &why)).await),
                Ok(generation) => generation,
            };
            if mutant!("request-registered-after-next-line") {
                let tasks = if *request.method() == Method::Listen { streams } else { calls };
                return begin_late(pharo, &line, generation, texts, tasks);
            }
            // Before the next line is read, because that may cancel this request.
            let (operation, active_request) = match pharo.begin(&request, generation, Some(STDIO_SESSION)) {
                Err((_, answer)) => return drop(texts.send(answer).await),
                Ok(started) => started,
            };
            let (pharo, texts) = (Arc::clone(pharo), texts.clone());
            let tasks = if operation == McpOperation::Listen { streams } else { calls };
            tasks.spawn(async move {
                let Ok(ClientMessage::Request(request)) = read(&line) else { return };
                let Some(answer) = pharo.respond(&request, (operation, generation), &active_request, &texts).await
                else {
                    return;
                };
                let active_request = (!mutant!("stdio-answer-frees-slot-unread")).then_some(active_request);
                if let Ok(permit) = texts.reserve().await {
                    // Only now, so that a client that does not read cannot accumulate replies.
                    drop(active_request);
                    permit.send(answer);
                }
            });
        }
    }
}

/// Faulty variant of [`handle_line`] for mutation tests: registers the request in its own task, so that the next line
/// may be handled first.
fn begin_late(
    pharo: &Arc<PharoServer>,
    line: &[u8],
    generation: ProtocolGeneration,
    texts: &mpsc::Sender<String>,
    tasks: &mut JoinSet<()>,
) {
    let (pharo, texts, line) = (Arc::clone(pharo), texts.clone(), line.to_vec());
    tasks.spawn(async move {
        let Ok(ClientMessage::Request(request)) = read(&line) else { return };
        let (operation, active_request) = match pharo.begin(&request, generation, Some(STDIO_SESSION)) {
            Err((_, answer)) => return drop(texts.send(answer).await),
            Ok(started) => started,
        };
        if let Some(answer) = pharo.respond(&request, (operation, generation), &active_request, &texts).await {
            let _ = texts.send(answer).await;
        }
    });
}

/// Returns the protocol generation, which is determined separately for each request.
fn request_generation(request: &ClientRequest<'_>) -> Result<ProtocolGeneration, ProtocolError> {
    if has_stateless_meta(request) {
        check_meta(request, &Revision::ALL).map(Revision::generation)
    } else {
        Ok(ProtocolGeneration::Stateful)
    }
}

fn handle_cancelled(pharo: &PharoServer, said: &ClientNotification<'_>) {
    if *said.method() == Method::Cancelled
        && let Ok(Some(id)) = said.reference()
    {
        pharo.active_requests.cancel(STDIO_SESSION, &id);
    }
}

enum InputLine {
    Whole(Vec<u8>),
    TooLong,
}

/// Returns the next line, or `None` at the end of the input. The rest of a line that is too long is read and dropped.
async fn next_line(input: &mut (impl AsyncBufRead + Unpin)) -> std::io::Result<Option<InputLine>> {
    let max = JsonLimits::REQUEST.max_bytes;
    let mut line = Vec::new();
    let mut is_too_long = false;
    loop {
        let read = (&mut *input).take(max as u64 + 1).read_until(b'\n', &mut line).await?;
        if read == 0 && !is_too_long {
            return Ok(None);
        }
        let is_ended = line.pop_if(|byte| *byte == b'\n').is_some();
        // Fewer bytes than requested and no line end: the end of the input.
        if is_ended || line.len() <= max {
            return Ok(Some(if is_too_long { InputLine::TooLong } else { InputLine::Whole(line) }));
        }
        is_too_long = true;
        line.clear();
    }
}

async fn write_messages(mut output: impl AsyncWrite + Unpin, mut texts: mpsc::Receiver<String>) -> std::io::Result<()> {
    while let Some(text) = texts.recv().await {
        let mut line = to_single_line(&text).into_owned();
        line.push('\n');
        output.write_all(line.as_bytes()).await?;
        output.flush().await?;
    }
    Ok(())
}
