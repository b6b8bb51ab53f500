//! The same for a server that is run: three lines to its input, and what it answers.

use std::process::Stdio;
use std::time::Duration;

use gatelodge_gateway::UpstreamProcessConfig;
use gatelodge_mcp::Revision;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::{ClientError, MOST_PAGES, message, server_words};
use crate::process_supervisor;

/// The most of its complaints that is told.
const MAX_COMPLAINT: u64 = 4_096;

/// What a server says of itself, and its tools.
pub struct Told {
    pub server: String,
    pub revision: String,
    pub tools: Vec<Value>,
}

/// Runs a server, greets it and lists its tools.
pub async fn tools_of(config: &UpstreamProcessConfig, time: Duration) -> Result<Told, ClientError> {
    let broken = |error: std::io::Error| ClientError::Unreachable(format!("cannot run `{}`: {error}", config.program));
    let mut process = command(config).map_err(broken)?.spawn().map_err(broken)?;
    let told = match tokio::time::timeout(time, greet(&mut process)).await {
        Ok(told) => told,
        Err(_) => Err(ClientError::Unreachable(format!("no answer within {} s", time.as_secs()))),
    };
    // Closing its input ends it.
    drop(process.stdin.take());
    match told {
        Err(ClientError::Unreachable(why)) => Err(ClientError::Unreachable(with_complaint(&mut process, why).await)),
        told => told,
    }
}

fn command(config: &UpstreamProcessConfig) -> std::io::Result<Command> {
    let keeper = process_supervisor::supervisor_command()?;
    let mut words = keeper.iter();
    let mut command = Command::new(words.next().cloned().unwrap_or_default());
    command.args(words).arg(config.grace.as_millis().to_string()).arg(&config.program).args(&config.arguments);
    command.env_clear().envs(config.env.iter().map(|(name, value)| (name, value)));
    if let Some(directory) = &config.directory {
        command.current_dir(directory);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

async fn greet(process: &mut Child) -> Result<Told, ClientError> {
    let output = process.stdout.take().ok_or_else(over)?;
    let mut lines = BufReader::new(output).lines();
    let params = message::handshake(Revision::R2025_11_25.as_str());
    say(process, &message::request(1, "initialize", &params)).await?;
    let greeted = answer(&mut lines, 1).await?;
    say(process, &message::notification("notifications/initialized")).await?;
    let tools = list(process, &mut lines).await?;
    let revision = greeted.get("protocolVersion").and_then(Value::as_str).unwrap_or("?").to_owned();
    Ok(Told { server: server_words(greeted.get("serverInfo")), revision, tools })
}

/// All tools, over all pages.
async fn list(process: &mut Child, lines: &mut Lines<BufReader<ChildStdout>>) -> Result<Vec<Value>, ClientError> {
    let mut tools = Vec::new();
    let mut params = json!({});
    // The first id was the handshake's.
    for id in (2..).take(MOST_PAGES) {
        say(process, &message::request(id, "tools/list", &params)).await?;
        let mut page = answer(lines, id).await?;
        if let Some(Value::Array(listed)) = page.get_mut("tools").map(Value::take) {
            tools.extend(listed);
        }
        match page.get("nextCursor").and_then(Value::as_str) {
            Some(cursor) => params = json!({"cursor": cursor}),
            None => break,
        }
    }
    Ok(tools)
}

async fn say(process: &mut Child, message: &str) -> Result<(), ClientError> {
    let input = process.stdin.as_mut().ok_or_else(over)?;
    input.write_all(format!("{message}\n").as_bytes()).await.map_err(|_| over())
}

async fn answer(lines: &mut Lines<BufReader<ChildStdout>>, id: u64) -> Result<Value, ClientError> {
    while let Ok(Some(line)) = lines.next_line().await {
        // Anything else is a notification, a question, or no message at all.
        let Ok(said) = serde_json::from_str::<Value>(&line) else { continue };
        if said.get("id") != Some(&json!(id)) || said.get("method").is_some() {
            continue;
        }
        return match said.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(ClientError::Refused(message::refused(said.get("error").unwrap_or(&Value::Null)))),
        };
    }
    Err(over())
}

fn over() -> ClientError {
    ClientError::Unreachable("the process has ended".to_owned())
}

async fn with_complaint(process: &mut Child, why: String) -> String {
    let mut complaint = Vec::new();
    if let Some(errors) = process.stderr.take() {
        let mut errors = errors.take(MAX_COMPLAINT);
        let _ = tokio::time::timeout(Duration::from_secs(1), errors.read_to_end(&mut complaint)).await;
    }
    let last = String::from_utf8_lossy(&complaint).lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    last.map_or_else(|| why.clone(), |line| format!("{why}: {line}"))
}
