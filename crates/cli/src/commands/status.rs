//! `gatelodge status`: prints whether a gateway is running, its servers and grants, and which attachments are in
//! observe mode.

use std::time::Duration;

use anyhow::Result;
use gatelodge_server::{GatewayStatusFile, PolicyCache, config, process_environment};
use gatelodge_store::ChainHead;
use serde::Serialize;

use super::grant::list_grants;
use crate::cli::StatusArgs;
use crate::commands::time_text::local_time;
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::{CommandExitCode, ExitError};
use crate::mcp_client;
use crate::stdout_output;
use crate::store_command_context::{self, StoreCommandContext, StoreCreationMode};

/// Time limit for asking the gateway whether it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(3);

/// The content of the status report.
#[derive(Debug, Serialize)]
struct StatusReport {
    data: String,
    gateway: GatewayRunState,
    /// Servers in the configuration of the running gateway. If no gateway is running, the servers that it would have if
    /// it were started now.
    servers: Vec<String>,
    grants: GrantSummary,
    /// Attachments in observe mode, in which no call is refused.
    observing: Vec<String>,
    /// Warnings about configuration entries that were left out or overridden.
    #[serde(rename = "remarks")]
    warnings: Vec<String>,
    /// Errors that keep the gateway from loading the configuration file, one line each.
    #[serde(rename = "refused")]
    config_errors: Vec<String>,
    head: ChainHead,
    admin_head: ChainHead,
}

#[derive(Debug, Serialize)]
struct GatewayRunState {
    state: &'static str,
    /// Content of the gateway's status file, if the gateway responds.
    #[serde(flatten)]
    status_file: Option<GatewayStatusFile>,
}

#[derive(Debug, Serialize)]
struct GrantSummary {
    /// Number of grants that are neither expired nor revoked. If the configuration file has errors, its grants are not
    /// counted.
    #[serde(rename = "live")]
    active: usize,
    /// Number of grants in the running gateway's active configuration.
    #[serde(rename = "in_force")]
    running: Option<usize>,
    expired: Vec<String>,
    revoked: Vec<String>,
}

impl GrantSummary {
    fn text(&self) -> String {
        match self.running {
            Some(running) if running > self.active => {
                format!("{} live, {running} active in the running gateway", self.active)
            }
            _ => format!("{} live", self.active),
        }
    }
}

pub fn run(args: StatusArgs) -> Result<CommandExitCode> {
    let mut store = args.store.clone();
    let mut errors = Vec::new();
    // An invalid file is reported as part of the status, so that the rest is still printed.
    if let Some(path) = &args.store.config {
        let loaded = config::load_config_file(path, &process_environment::find_variable, &mut PolicyCache::default())?;
        if loaded.config.is_none() {
            errors = loaded.diagnostics.log_lines();
            store.config = None;
            store.data = store.data.or(loaded.store.map(|store| store.data));
            if store.data.is_none() {
                let what = "the configuration has errors and does not name a data directory";
                return Err(ExitError(CommandExitCode::Findings, format!("{what}: {}", errors.join("; "))).into());
            }
        }
    }
    store_command_context::with_store(&store, StoreCreationMode::Existing, async |ctx| {
        let mut status = load_status(&ctx).await?;
        if !errors.is_empty() {
            status.config_errors.clone_from(&errors);
        }
        if args.json {
            stdout_output::print_json(&status)?;
        } else {
            stdout_output::print(&status_text(&status))?;
        }
        Ok(if status.config_errors.is_empty() { CommandExitCode::Success } else { CommandExitCode::Findings })
    })
}

fn config_errors_text(errors: &[String]) -> String {
    let lines: String = errors.iter().map(|error| format!("  {}\n", escape_for_terminal(error))).collect();
    format!("The configuration has errors; a running gateway keeps its previous configuration:\n{lines}")
}

async fn load_status(ctx: &StoreCommandContext) -> Result<StatusReport> {
    let gateway = gateway_state(ctx).await;
    // The running gateway's own list takes precedence: its environment, and perhaps its file, differ from ours.
    let (servers, warnings) = match &gateway.status_file {
        Some(file) => (file.servers.clone(), file.warnings.clone()),
        None => {
            let active_config = ctx.effective_config().await?;
            (active_config.servers.iter().map(|server| server.name.to_string()).collect(), active_config.warnings)
        }
    };
    let grants = list_grants::all_grants(ctx).await?;
    let labels = |state: &str| -> Vec<String> {
        grants.iter().filter(|grant| grant.state == state).map(|grant| escape_for_terminal(&grant.label)).collect()
    };
    Ok(StatusReport {
        data: ctx.store_config.data.display().to_string(),
        config_errors: gateway.status_file.as_ref().map(|file| file.config_errors.clone()).unwrap_or_default(),
        grants: GrantSummary {
            active: labels("live").len(),
            running: gateway.status_file.as_ref().map(|file| file.grants),
            expired: labels("expired"),
            revoked: labels("revoked"),
        },
        gateway,
        servers,
        observing: observing_attachments(&grants),
        warnings,
        head: ctx.stores.call_log.head().await?,
        admin_head: ctx.stores.admin_log.head().await?,
    })
}

fn observing_attachments(grants: &[list_grants::GrantView]) -> Vec<String> {
    let mut found = Vec::new();
    for grant in grants.iter().filter(|grant| grant.state == "live") {
        let attached =
            grant.attachments.iter().filter(|attached| attached.mode == gatelodge_store::EnforcementMode::Observe);
        found.extend(attached.map(|attached| format!("{} at {}", escape_for_terminal(&grant.label), attached.server)));
    }
    found
}

/// Asks the gateway at its admin address whether it is ready.
async fn gateway_state(ctx: &StoreCommandContext) -> GatewayRunState {
    let file = gatelodge_server::find_status_file(&ctx.store_config.data);
    let configured = ctx.config.as_ref().map(|config| config.gateway.admin_listen);
    let Some(address) = file.as_ref().map(|file| file.admin).or(configured) else {
        return GatewayRunState { state: "not running", status_file: None };
    };
    let url = format!("http://{address}/readyz").parse();
    let response = match url {
        Ok(url) => mcp_client::get_status(url, READY_TIMEOUT).await.ok(),
        Err(_) => None,
    };
    match response {
        Some(200) => GatewayRunState { state: "ready", status_file: file },
        Some(_) => GatewayRunState { state: "not ready", status_file: file },
        None => GatewayRunState { state: "not running", status_file: None },
    }
}

fn status_text(status: &StatusReport) -> String {
    let mut rows = vec![vec!["data".to_owned(), escape_for_terminal(&status.data)]];
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    let location = match &status.gateway.status_file {
        Some(file) => format!(" at http://{}/mcp/<server>, since {}", file.listen, local_time(file.loaded_at)),
        None => String::new(),
    };
    row("gateway", format!("{}{location}", status.gateway.state));
    let servers = if status.servers.is_empty() { "none".to_owned() } else { status.servers.join(", ") };
    row("servers", servers);
    row("grants", status.grants.text());
    for (what, labels) in [("expired", &status.grants.expired), ("revoked", &status.grants.revoked)] {
        if !labels.is_empty() {
            row("", format!("{} {what}: {}", labels.len(), labels.join(", ")));
        }
    }
    row("head", status.head.to_string());
    row("admin log", status.admin_head.to_string());
    let mut out = stdout_output::format_table(&rows);
    for observed in &status.observing {
        out.push_str(&format!("\nOBSERVE ONLY: grant {observed}. Its policy refuses nothing.\n"));
    }
    status.warnings.iter().for_each(|warning| out.push_str(&format!("\nnote: {}\n", escape_for_terminal(warning))));
    if !status.config_errors.is_empty() {
        out.push_str(&format!("\n{}", config_errors_text(&status.config_errors)));
    }
    out
}
