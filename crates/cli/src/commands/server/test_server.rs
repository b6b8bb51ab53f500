//! `server test`: connects as the gateway would, and tells what the server offers.

use std::time::Duration;

use anyhow::Result;
use gatelodge_gateway::{UpstreamConfig, UpstreamTransport};
use http::HeaderMap;
use serde::Serialize;
use serde_json::Value;

use crate::admin_context::{self, AdminContext, StoreMode};
use crate::app::{load_stored_config, merge_config};
use crate::cli::{NamedItemArgs, StoreArgs};
use crate::diagnostic_report::{count_noun, escape_for_terminal};
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use crate::mcp_client::{McpClient, McpClientError, ProtocolChoice, ServerProbe, probe_command};
use crate::{process_environment, stdout_output};

/// How long a server may take.
const HTTP_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one that has to be started may take.
const START_TIMEOUT: Duration = Duration::from_secs(25);

/// What a server said.
#[derive(Debug, Serialize)]
pub struct ServerTestReport {
    server: String,
    revision: String,
    /// The names of its tools.
    pub tools: Vec<String>,
}

pub fn run(args: NamedItemArgs) -> Result<CommandExitCode> {
    with_server(&args.store, &args.name, async |server| print_report(&server, args.json).await)
}

/// Does one thing with a server that is configured. One of the file needs no store.
pub fn with_server(
    args: &StoreArgs,
    name: &str,
    work: impl AsyncFnOnce(UpstreamConfig) -> Result<CommandExitCode>,
) -> Result<CommandExitCode> {
    let Ok(config) = admin_context::load_config(args)? else { return Err(admin_context::invalid_config_error()) };
    let servers = config.map(|config| config.entries.servers).unwrap_or_default();
    match servers.into_iter().find(|server| server.name.as_str() == name) {
        Some(server) => admin_context::block_on(work(server)),
        None => admin_context::with_store(args, StoreMode::Existing, async |desk| {
            work(load_server(&desk, name).await?).await
        }),
    }
}

async fn print_report(server: &UpstreamConfig, json: bool) -> Result<CommandExitCode> {
    match probe_redacted(server).await {
        Ok(offered) if json => stdout_output::print_json(&offered)?,
        Ok(offered) => {
            let (name, revision) = (&offered.server, &offered.revision);
            let tools = count_noun(offered.tools.len(), "tool");
            stdout_output::print(&format!("{name}, revision {revision}, {tools}\n"))?;
            offered.tools.iter().try_for_each(|tool| stdout_output::print(&format!("  {tool}\n")))?;
        }
        Err(error) => return Err(probe_error(server, &error)),
    }
    Ok(CommandExitCode::Success)
}

async fn load_server(desk: &AdminContext, name: &str) -> Result<UpstreamConfig> {
    let picture = merge_config(
        &desk.config_entries(),
        &load_stored_config(&desk.stores).await?,
        &process_environment::find_variable,
    );
    if let Some(server) = picture.servers.into_iter().find(|server| server.name.as_str() == name) {
        return Ok(server);
    }
    // Left out, or not there at all.
    let why = picture.warnings.into_iter().find(|remark| remark.starts_with(&format!("server `{name}`")));
    Err(UsageError(why.unwrap_or_else(|| format!("there is no server `{}`", escape_for_terminal(name)))).into())
}

/// Greets a server and tells what it offers, without its secrets.
pub async fn probe_redacted(server: &UpstreamConfig) -> Result<ServerTestReport, McpClientError> {
    let told = probe_server(server).await?;
    let names = told.tools.iter().map(|tool| tool.get("name").and_then(Value::as_str).unwrap_or("?"));
    let tools = names.map(|name| redact_text(server, name)).collect();
    Ok(ServerTestReport {
        server: redact_text(server, &told.server),
        revision: redact_text(server, &told.revision),
        tools,
    })
}

/// Greets a server and lists its tools, with what the gateway sends or gives it.
pub async fn probe_server(server: &UpstreamConfig) -> Result<ServerProbe, McpClientError> {
    match &server.transport {
        UpstreamTransport::Process(child) => probe_command(child, START_TIMEOUT).await,
        UpstreamTransport::Http(http) => {
            let mut headers = HeaderMap::new();
            for header in &http.headers {
                headers.insert(header.name.clone(), header.value.clone());
            }
            let mut client = McpClient::open(http.url.clone(), headers, ProtocolChoice::Auto, HTTP_TIMEOUT).await?;
            let tools = client.list_tools().await?;
            let told = ServerProbe { server: client.server_label.clone(), revision: client.revision.clone(), tools };
            client.close().await;
            Ok(told)
        }
    }
}

/// The error for a server that did not tell what it offers.
pub fn probe_error(server: &UpstreamConfig, error: &McpClientError) -> anyhow::Error {
    ExitError(probe_exit_code(error), format!("server `{}`: {}", server.name, redact_text(server, &error.to_string())))
        .into()
}

/// Takes the server's secrets out of what it said.
pub fn redact_text(server: &UpstreamConfig, text: &str) -> String {
    escape_for_terminal(&server.secret_redactor().redact_text(text))
}

fn probe_exit_code(error: &McpClientError) -> CommandExitCode {
    match error {
        McpClientError::Unreachable(_) => CommandExitCode::Unreachable,
        McpClientError::Status(..) | McpClientError::Protocol(_) | McpClientError::Rpc(_) => CommandExitCode::Findings,
    }
}
