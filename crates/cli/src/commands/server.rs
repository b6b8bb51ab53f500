//! `gatelodge server …`: adds, lists, tests and removes servers, and accepts their tools.

mod accept_tools;
mod add_server;
mod drift_text;
mod list_servers;
mod override_category;
pub mod test_server_connection;
mod tool_risks;

use anyhow::Result;
use gatelodge_admin::{ChangeServerError, header_template, server_url};
use gatelodge_gateway::UpstreamTransport;
use gatelodge_server::{StoredConfig, load_stored_config};
use gatelodge_store::{ServerName, StoreError, StoredServer};
use jiff::Timestamp;
use serde::Serialize;
use serde_json::json;

pub use list_servers::source_text;

use crate::cli::{NamedItemArgs, ServerSubcommand};
use crate::diagnostic_report::print_stderr;
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCommandContext, StoreCreationMode};

/// Runs one `server` subcommand.
pub fn run(command: ServerSubcommand) -> Result<CommandExitCode> {
    match command {
        ServerSubcommand::Add(args) => add_server::run(args),
        ServerSubcommand::List(args) => list_servers::run(args),
        ServerSubcommand::Show(args) => list_servers::show(args),
        ServerSubcommand::Remove(args) => remove(args),
        ServerSubcommand::Test(args) => test_server_connection::run(args),
        ServerSubcommand::Diff(args) => accept_tools::diff_tools(args),
        ServerSubcommand::Accept(args) => accept_tools::accept_tools(args),
        ServerSubcommand::Classify(args) => override_category::run(args),
    }
}

/// The printed fields of a server. The values of its headers are left out.
#[derive(Debug, Serialize)]
struct ServerView {
    name: String,
    url: String,
    /// Names of the headers that are sent to the server.
    headers: Vec<String>,
    /// Environment variables to which the headers refer; empty for servers defined in the configuration file.
    variables: Vec<String>,
    /// Whether call arguments are logged.
    log_arguments: bool,
    #[serde(rename = "from")]
    source: &'static str,
    created_at: Option<Timestamp>,
    /// Labels of the grants to which the server is attached.
    grants: Vec<String>,
}

fn remove(args: NamedItemArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let name = parse_server_name(&args.name)?;
        ctx.administration().remove_server(&name).await.map_err(change_server_error)?;
        if args.json {
            stdout_output::print_json(&json!({"name": name, "removed": true}))?;
        }
        print_stderr(&format!("removed server `{name}` and its attachments to grants"));
        Ok(CommandExitCode::Success)
    })
}

/// Builds the error for a server that was not added or removed.
fn change_server_error(error: ChangeServerError) -> anyhow::Error {
    match error {
        ChangeServerError::DefinedInFile(_) => UsageError(error.to_string()).into(),
        ChangeServerError::Store(error) => error.into(),
    }
}

/// Parses a server name.
pub fn parse_server_name(text: &str) -> Result<ServerName, UsageError> {
    text.parse().map_err(|error| {
        UsageError(format!("`{}` is not a server name: {error}", crate::diagnostic_report::escape_for_terminal(text)))
    })
}

/// Returns all servers, starting with those defined in the configuration file.
async fn all_servers(ctx: &StoreCommandContext) -> Result<Vec<ServerView>> {
    let stored = load_stored_config(&ctx.stores).await?;
    let entries = ctx.config_entries();
    let configured = entries.servers.iter().map(|server| {
        let (target, headers) = match &server.transport {
            UpstreamTransport::Http(http) => {
                let names = http.headers.iter().map(|header| header.name.to_string());
                (server_url::redact_url(&http.url.to_string()), names.collect())
            }
            UpstreamTransport::Process(child) => {
                (format!("runs {}", crate::diagnostic_report::escape_for_terminal(&child.program)), Vec::new())
            }
        };
        let grants = entries.grants.iter().filter(|grant| grant.servers.contains_key(&server.name));
        let mut grants: Vec<String> = grants.map(|grant| grant.label.to_string()).collect();
        grants.extend(grant_labels(&stored, &server.name));
        let (variables, log_arguments) = (Vec::new(), server.log_arguments);
        let name = server.name.to_string();
        ServerView { name, url: target, headers, variables, log_arguments, source: "file", created_at: None, grants }
    });
    let mut all: Vec<ServerView> = configured.collect();
    for server in &stored.servers {
        if !all.iter().any(|view| view.name == server.name.as_str()) {
            all.push(view_of_stored(server, &stored));
        }
    }
    // The demo server of `gatelodge up` exists only in the running gateway.
    for name in
        gatelodge_server::find_running_gateway(&ctx.store_config.data).map(|status| status.servers).unwrap_or_default()
    {
        if !all.iter().any(|view| view.name == name) {
            all.push(view_of_unlisted(name, "only in the running gateway", "process"));
        }
    }
    Ok(all)
}

/// Creates the view of a server that is neither in the configuration file nor in the store. `place` is a text such as
/// "only in the running gateway" that is printed instead of a URL.
fn view_of_unlisted(name: String, place: &str, from: &'static str) -> ServerView {
    ServerView {
        name,
        url: place.to_owned(),
        headers: Vec::new(),
        variables: Vec::new(),
        log_arguments: false,
        source: from,
        created_at: None,
        grants: Vec::new(),
    }
}

fn view_of_stored(server: &StoredServer, stored: &StoredConfig) -> ServerView {
    ServerView {
        name: server.name.to_string(),
        url: server_url::redact_url(&server.url),
        headers: server.headers.keys().cloned().collect(),
        variables: server.headers.values().flat_map(|value| header_template::referenced_variables(value)).collect(),
        log_arguments: server.log_arguments,
        source: "store",
        created_at: Some(server.created_at),
        grants: grant_labels(stored, &server.name),
    }
}

fn grant_labels(stored: &StoredConfig, server: &ServerName) -> Vec<String> {
    let live = stored.grants.iter().filter(|grant| grant.revoked_at.is_none());
    let reaching = live.filter(|grant| grant.attachments.iter().any(|attachment| attachment.server == *server));
    reaching.map(|grant| grant.label.clone()).collect()
}

fn require_server(all: Vec<ServerView>, name: &str) -> Result<ServerView> {
    let found = all.into_iter().find(|view| view.name == name);
    found.ok_or_else(|| {
        StoreError::NotFound(format!("server `{}`", crate::diagnostic_report::escape_for_terminal(name))).into()
    })
}
