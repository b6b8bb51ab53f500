//! `server test`: connects to a server the way the gateway would, and lists its tools.

use std::time::Duration;

use anyhow::Result;
use gatelodge_gateway::{UpstreamConfig, UpstreamTransport};
use http::HeaderMap;
use serde::Serialize;
use serde_json::Value;

use crate::cli::{NamedItemArgs, StoreArgs};
use crate::diagnostic_report::{count_noun, escape_for_terminal};
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use crate::mcp_client::{McpClient, McpClientError, McpProtocolChoice, ServerProbe, probe_command};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCommandContext, StoreCreationMode};

/// Time limit for testing a server over HTTP.
const HTTP_TIMEOUT: Duration = Duration::from_secs(10);
/// Time limit for testing a server that has to be started as a process.
const START_TIMEOUT: Duration = Duration::from_secs(25);

/// A server's name, protocol revision and tools.
#[derive(Debug, Serialize)]
pub struct ServerTestReport {
    server: String,
    revision: String,
    /// Names of the server's tools.
    pub tools: Vec<String>,
}

pub fn run(args: NamedItemArgs) -> Result<CommandExitCode> {
    with_server(&args.store, &args.name, async |server| print_report(&server, args.json).await)
}

/// Calls `work` with the named server's configuration. Opens the store only if the server is not in the configuration
/// file.
pub fn with_server(
    args: &StoreArgs,
    name: &str,
    work: impl AsyncFnOnce(UpstreamConfig) -> Result<CommandExitCode>,
) -> Result<CommandExitCode> {
    let Ok(config) = store_command_context::load_config(args)? else {
        return Err(store_command_context::invalid_config_error());
    };
    let servers = config.map(|config| config.entries.servers).unwrap_or_default();
    match servers.into_iter().find(|server| server.name.as_str() == name) {
        Some(server) => store_command_context::block_on(work(server)),
        None => store_command_context::with_store(args, StoreCreationMode::Existing, async |ctx| {
            work(load_server(&ctx, name).await?).await
        }),
    }
}

async fn print_report(server: &UpstreamConfig, json: bool) -> Result<CommandExitCode> {
    match probe_redacted(server).await {
        Ok(report) if json => stdout_output::print_json(&report)?,
        Ok(report) => {
            let (name, revision) = (&report.server, &report.revision);
            let tools = count_noun(report.tools.len(), "tool");
            stdout_output::print(&format!("{name}, revision {revision}, {tools}\n"))?;
            report.tools.iter().try_for_each(|tool| stdout_output::print(&format!("  {tool}\n")))?;
        }
        Err(error) => return Err(probe_error(server, &error)),
    }
    Ok(CommandExitCode::Success)
}

async fn load_server(ctx: &StoreCommandContext, name: &str) -> Result<UpstreamConfig> {
    let active_config = ctx.effective_config().await?;
    if let Some(server) = active_config.servers.into_iter().find(|server| server.name.as_str() == name) {
        return Ok(server);
    }
    // A warning says why the server was left out; without one, it does not exist.
    let why = active_config.warnings.into_iter().find(|warning| warning.starts_with(&format!("server `{name}`")));
    Err(UsageError(why.unwrap_or_else(|| format!("there is no server `{}`", escape_for_terminal(name)))).into())
}

/// Connects to a server and lists its tools. The server's secrets are removed from the result.
pub async fn probe_redacted(server: &UpstreamConfig) -> Result<ServerTestReport, McpClientError> {
    let probe = probe_server(server).await?;
    let names = probe.tools.iter().map(|tool| tool.get("name").and_then(Value::as_str).unwrap_or("?"));
    let tools = names.map(|name| redact_text(server, name)).collect();
    Ok(ServerTestReport {
        server: redact_text(server, &probe.server),
        revision: redact_text(server, &probe.revision),
        tools,
    })
}

/// Connects to a server with the same headers or environment as the gateway, and lists its tools.
pub async fn probe_server(server: &UpstreamConfig) -> Result<ServerProbe, McpClientError> {
    match &server.transport {
        UpstreamTransport::Process(child) => probe_command(child, START_TIMEOUT).await,
        UpstreamTransport::Http(http) => {
            let mut headers = HeaderMap::new();
            for header in &http.headers {
                headers.insert(header.name.clone(), header.value.clone());
            }
            let mut client = McpClient::open(http.url.clone(), headers, McpProtocolChoice::Auto, HTTP_TIMEOUT).await?;
            let tools = client.list_tools().await?;
            let probe = ServerProbe { server: client.server_label.clone(), revision: client.revision.clone(), tools };
            client.close().await;
            Ok(probe)
        }
    }
}

/// Creates the error to report when a server's tools could not be listed.
pub fn probe_error(server: &UpstreamConfig, error: &McpClientError) -> anyhow::Error {
    ExitError(probe_exit_code(error), format!("server `{}`: {}", server.name, redact_text(server, &error.to_string())))
        .into()
}

/// Removes the server's secrets from `text` and escapes the rest for the terminal.
pub fn redact_text(server: &UpstreamConfig, text: &str) -> String {
    escape_for_terminal(&server.secret_redactor().redact_text(text))
}

fn probe_exit_code(error: &McpClientError) -> CommandExitCode {
    match error {
        McpClientError::Unreachable(_) => CommandExitCode::Unreachable,
        McpClientError::Status(..) | McpClientError::Protocol(_) | McpClientError::Rpc(_) => CommandExitCode::Findings,
    }
}
