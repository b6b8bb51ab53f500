//! Starts a stdio server, and lists its tools.

use std::process::Stdio;
use std::time::Duration;

use gatelodge_gateway::UpstreamProcessConfig;
use gatelodge_mcp::Revision;
use gatelodge_policy::format_duration;
use gatelodge_server::process_supervisor;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use super::{MAX_LIST_PAGES, McpClientError, rpc_message, server_label};

/// Maximum number of bytes read from the server's standard error, for the error message.
const MAX_STDERR_BYTES: u64 = 4_096;

/// Information about a server, and its tools.
pub struct ServerProbe {
    pub server: String,
    pub revision: String,
    pub tools: Vec<Value>,
}

/// Starts a server, performs the handshake and lists its tools.
pub async fn probe_command(config: &UpstreamProcessConfig, timeout: Duration) -> Result<ServerProbe, McpClientError> {
    let start_error =
        |error: std::io::Error| McpClientError::Unreachable(format!("cannot run `{}`: {error}", config.program));
    let mut process = supervised_command(config).map_err(start_error)?.spawn().map_err(start_error)?;
    let result = match tokio::time::timeout(timeout, probe_process(&mut process)).await {
        Ok(result) => result,
        Err(_) => Err(McpClientError::Unreachable(format!("no response within {}", format_duration(timeout)))),
    };
    // Closing its standard input stops the server.
    drop(process.stdin.take());
    match result {
        Err(McpClientError::Unreachable(reason)) => {
            Err(McpClientError::Unreachable(append_stderr(&mut process, reason).await))
        }
        result => result,
    }
}

fn supervised_command(config: &UpstreamProcessConfig) -> std::io::Result<Command> {
    let supervisor = process_supervisor::supervisor_command()?;
    let mut words = supervisor.iter();
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
    let initialized = read_result(&mut lines, 1).await?;
    write_message(process, &rpc_message::notification("notifications/initialized")).await?;
    let tools = list_tools(process, &mut lines).await?;
    let revision = initialized.get("protocolVersion").and_then(Value::as_str).unwrap_or("?").to_owned();
    Ok(ServerProbe { server: server_label(initialized.get("serverInfo")), revision, tools })
}

/// Lists all tools, reading every page.
async fn list_tools(
    process: &mut Child,
    lines: &mut Lines<BufReader<ChildStdout>>,
) -> Result<Vec<Value>, McpClientError> {
    let mut tools = Vec::new();
    let mut params = json!({});
    // Id 1 was the handshake.
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
        // Skips notifications, server requests, and lines that are not messages.
        let Ok(message) = serde_json::from_str::<Value>(&line) else { continue };
        if message.get("id") != Some(&json!(id)) || message.get("method").is_some() {
            continue;
        }
        return match message.get("result") {
            Some(result) => Ok(result.clone()),
            None => {
                Err(McpClientError::Rpc(rpc_message::parse_rpc_error(message.get("error").unwrap_or(&Value::Null))))
            }
        };
    }
    Err(process_ended_error())
}

fn process_ended_error() -> McpClientError {
    McpClientError::Unreachable("the process has ended".to_owned())
}

async fn append_stderr(process: &mut Child, reason: String) -> String {
    let mut stderr = Vec::new();
    if let Some(errors) = process.stderr.take() {
        let mut errors = errors.take(MAX_STDERR_BYTES);
        let _ = tokio::time::timeout(Duration::from_secs(1), errors.read_to_end(&mut stderr)).await;
    }
    let last = String::from_utf8_lossy(&stderr).lines().rfind(|line| !line.trim().is_empty()).map(str::to_owned);
    last.map_or_else(|| reason.clone(), |line| format!("{reason}: {line}"))
}
