//! One client over the standard streams: a message to a line, both eras on one process.

use std::sync::Arc;

use gatelodge_json::JsonLimits;
use gatelodge_mcp::http_headers::{ProtocolError, check_meta, names_stateless};
use gatelodge_mcp::{
    ClientMessage, ClientNotification, ClientRequest, Method, ProtocolGeneration, Revision, code, error_response,
    to_single_line,
};
use gatelodge_mutants::mutant;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::mcp_server::{Deed, Pharo, is_of_later_revision, misfit, read, unreadable};

/// Texts that wait for a client that does not read.
const MAX_QUEUED_MESSAGES: usize = 64;
/// The client has the process to itself.
const STDIO_SESSION: &str = "stdio";

/// Serves the client until its input ends; then calls and their answers have the time that the settings say.
///
/// # Errors
/// A stream cannot be read or written.
pub async fn serve_stdio(
    pharo: Arc<Pharo>,
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
            // A client that does not read its last answers does not want them.
            () = async { let _ = end.await; tokio::time::sleep(pharo.settings.last_words).await } => Ok(()),
        }
    };
    let (read, written) = tokio::join!(reading, writing);
    read.and(written)
}

async fn read_messages(
    pharo: &Arc<Pharo>,
    mut input: impl AsyncBufRead + Unpin,
    texts: mpsc::Sender<String>,
) -> std::io::Result<()> {
    let (mut calls, mut streams) = (JoinSet::new(), JoinSet::new());
    loop {
        let line = tokio::select! {
            line = next_line(&mut input) => line?,
            () = texts.closed() => break,
        };
        // What has ended is not kept.
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
    let _ = tokio::time::timeout(pharo.settings.last_calls, async { while calls.join_next().await.is_some() {} }).await;
    Ok(())
}

/// Takes one message. Streams never end by themselves; they are kept apart so that nobody waits for them.
async fn handle_line(
    pharo: &Arc<Pharo>,
    line: Vec<u8>,
    texts: &mpsc::Sender<String>,
    calls: &mut JoinSet<()>,
    streams: &mut JoinSet<()>,
) {
    match read(&line) {
        Err(wire_error) if is_of_later_revision(&wire_error) => {}
        Err(wire_error) => drop(texts.send(unreadable(&wire_error)).await),
        Ok(ClientMessage::Notification(said)) => handle_cancelled(pharo, &said),
        // Nothing is ever asked of the client, so nothing of it is an answer.
        Ok(ClientMessage::Response(_)) => {}
        Ok(ClientMessage::Request(request)) => {
            let era = match request_generation(&request) {
                Err(why) => return drop(texts.send(misfit(Some(request.id()), &why)).await),
                Ok(era) => era,
            };
            if mutant!("request-registered-after-next-line") {
                return begin_late(pharo, &line, era, texts, calls);
            }
            // Before the next line is read: it may cancel this one.
            let (operation, active_request) = match pharo.begin(&request, era, Some(STDIO_SESSION)) {
                Err((_, answer)) => return drop(texts.send(answer).await),
                Ok(begun) => begun,
            };
            let (pharo, texts) = (Arc::clone(pharo), texts.clone());
            let tasks = if operation == Deed::Listen { streams } else { calls };
            tasks.spawn(async move {
                let Ok(ClientMessage::Request(request)) = read(&line) else { return };
                let Some(answer) = pharo.answer(&request, (operation, era), &active_request, &texts).await else {
                    return;
                };
                let active_request = (!mutant!("stdio-answer-frees-slot-unread")).then_some(active_request);
                if let Ok(place) = texts.reserve().await {
                    // Only now: a client that does not read cannot pile up answers.
                    drop(active_request);
                    place.send(answer);
                }
            });
        }
    }
}

/// Mutant of [`take`]: the request begins in its own task, so that the next line may come first.
fn begin_late(
    pharo: &Arc<Pharo>,
    line: &[u8],
    era: ProtocolGeneration,
    texts: &mpsc::Sender<String>,
    calls: &mut JoinSet<()>,
) {
    let (pharo, texts, line) = (Arc::clone(pharo), texts.clone(), line.to_vec());
    calls.spawn(async move {
        let Ok(ClientMessage::Request(request)) = read(&line) else { return };
        let Ok((operation, active_request)) = pharo.begin(&request, era, Some(STDIO_SESSION)) else { return };
        if let Some(answer) = pharo.answer(&request, (operation, era), &active_request, &texts).await {
            let _ = texts.send(answer).await;
        }
    });
}

/// How the client speaks, by this request alone.
fn request_generation(request: &ClientRequest<'_>) -> Result<ProtocolGeneration, ProtocolError> {
    if names_stateless(request) {
        check_meta(request, &Revision::ALL).map(Revision::generation)
    } else {
        Ok(ProtocolGeneration::Stateful)
    }
}

fn handle_cancelled(pharo: &Pharo, said: &ClientNotification<'_>) {
    if *said.method() == Method::Cancelled
        && let Ok(Some(id)) = said.reference()
    {
        pharo.running.cancel(STDIO_SESSION, &id);
    }
}

enum InputLine {
    Whole(Vec<u8>),
    TooLong,
}

/// The next line; none at the end. Of one that is too long the rest is read and dropped.
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
        // Fewer bytes than were asked for, and no end of the line: the end of the input.
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
