//! The same for a server that is run: three lines to its input, and what it answers.

use std::process::Stdio;
use std::time::Duration;

use gatelodge_gateway::UpstreamProcessConfig;
use gatelodge_mcp::Revision;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::{MAX_LIST_PAGES, McpClientError, rpc_message, server_label};
use crate::process_supervisor;

/// The most of its complaints that is told.
const MAX_STDERR_BYTES: u64 = 4_096;

/// What a server says of itself, and its tools.
pub struct ServerProbe {
    pub server: String,
    pub revision: String,
    pub tools: Vec<Value>,
}

/// Runs a server, greets it and lists its tools.
pub async fn probe_command(config: &UpstreamProcessConfig, time: Duration) -> Result<ServerProbe, McpClientError> {
    let broken =
        |error: std::io::Error| McpClientError::Unreachable(format!("cannot run `{}`: {error}", config.program));
    let mut process = supervised_command(config).map_err(broken)?.spawn().map_err(broken)?;
    let told = match tokio::time::timeout(time, probe_process(&mut process)).await {
        Ok(told) => told,
        Err(_) => Err(McpClientError::Unreachable(format!("no answer within {} s", time.as_secs()))),
    };
    // Closing its input ends it.
    drop(process.stdin.take());
    match told {
        Err(McpClientError::Unreachable(why)) => {
            Err(McpClientError::Unreachable(append_stderr(&mut process, why).await))
        }
        told => told,
    }
}

fn supervised_command(config: &UpstreamProcessConfig) -> std::io::Result<Command> {
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

async fn probe_process(process: &mut Child) -> Result<ServerProbe, McpClientError> {
    let output = process.stdout.take().ok_or_else(process_ended_error)?;
    let mut lines = BufReader::new(output).lines();
    let params = rpc_message::initialize_params(Revision::R2025_11_25.as_str());
    write_message(process, &rpc_message::request(1, "initialize", &params)).await?;
    let greeted = read_result(&mut lines, 1).await?;
    write_message(process, &rpc_message::notification("notifications/initialized")).await?;
    let tools = list_tools(process, &mut lines).await?;
    let revision = greeted.get("protocolVersion").and_then(Value::as_str).unwrap_or("?").to_owned();
    Ok(ServerProbe { server: server_label(greeted.get("serverInfo")), revision, tools })
}

/// All tools, over all pages.
async fn list_tools(
    process: &mut Child,
    lines: &mut Lines<BufReader<ChildStdout>>,
) -> Result<Vec<Value>, McpClientError> {
    let mut tools = Vec::new();
    let mut params = json!({});
    // The first id was the handshake's.
    for id in (2..).take(MAX_LIST_PAGES) {
        write_message(process, &rpc_message::request(id, "tools/list", &params)).await?;
        let mut page = read_result(lines, id).await?;
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

async fn write_message(process: &mut Child, message: &str) -> Result<(), McpClientError> {
    let input = process.stdin.as_mut().ok_or_else(process_ended_error)?;
    input.write_all(format!("{message}\n").as_bytes()).await.map_err(|_| process_ended_error())
}

async fn read_result(lines: &mut Lines<BufReader<ChildStdout>>, id: u64) -> Result<Value, McpClientError> {
    while let Ok(Some(line)) = lines.next_line().await {
        // Anything else is a notification, a question, or no message at all.
        let Ok(said) = serde_json::from_str::<Value>(&line) else { continue };
        if said.get("id") != Some(&json!(id)) || said.get("method").is_some() {
            continue;
        }
        return match said.get("result") {
            Some(result) => Ok(result.clone()),
            None => Err(McpClientError::Rpc(rpc_message::parse_rpc_error(said.get("error").unwrap_or(&Value::Null)))),
        };
    }
    Err(process_ended_error())
}

fn process_ended_error() -> McpClientError {
    McpClientError::Unreachable("the process has ended".to_owned())
}

async fn append_stderr(process: &mut Child, why: String) -> String {
    let mut complaint = Vec::new();
    if let Some(errors) = process.stderr.take() {
        let mut errors = errors.take(MAX_STDERR_BYTES);
        let _ = tokio::time::timeout(Duration::from_secs(1), errors.read_to_end(&mut complaint)).await;
    }
    let last = String::from_utf8_lossy(&complaint).lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    last.map_or_else(|| why.clone(), |line| format!("{why}: {line}"))
}
