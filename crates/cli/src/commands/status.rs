//! `gatelodge status`: what there is, what only observes, and whether a gateway runs.

use std::time::Duration;

use anyhow::Result;
use gatelodge_store::ChainHead;
use serde::Serialize;

use super::grant::list_grants;
use crate::admin_context::{self, AdminContext, StoreMode};
use crate::app::{self, GatewayStatusFile, load_stored_config, merge_config};
use crate::cli::StatusArgs;
use crate::config;
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::{CommandExitCode, ExitError};
use crate::mcp_client;
use crate::process_environment;
use crate::stdout_output;

/// How long a gateway may take to say that it is ready.
const READY_TIMEOUT: Duration = Duration::from_secs(3);

/// What is told.
#[derive(Debug, Serialize)]
struct StatusReport {
    data: String,
    gateway: GatewayState,
    /// The servers in force, or that would be.
    servers: Vec<String>,
    grants: GrantSummary,
    /// Attachments whose policy refuses nothing.
    observing: Vec<String>,
    /// What was left out or overruled.
    #[serde(rename = "remarks")]
    warnings: Vec<String>,
    /// What the gateway did not take up, one line for each fault.
    #[serde(rename = "refused")]
    config_errors: Vec<String>,
    head: ChainHead,
    admin_head: ChainHead,
}

#[derive(Debug, Serialize)]
struct GatewayState {
    state: &'static str,
    /// What it says of itself, if it answers.
    #[serde(flatten)]
    status_file: Option<GatewayStatusFile>,
}

#[derive(Debug, Serialize)]
struct GrantSummary {
    /// Those that are known here: none of the file's where it has faults.
    #[serde(rename = "live")]
    active: usize,
    /// How many the running gateway has in force.
    in_force: Option<usize>,
    expired: Vec<String>,
    revoked: Vec<String>,
}

impl GrantSummary {
    fn text(&self) -> String {
        match self.in_force {
            Some(in_force) if in_force > self.active => {
                format!("{} live, {in_force} in force in the running gateway", self.active)
            }
            _ => format!("{} live", self.active),
        }
    }
}

pub fn run(args: StatusArgs) -> Result<CommandExitCode> {
    let mut store = args.store.clone();
    let mut faults = Vec::new();
    // A broken file is told by the status itself, so that the rest can be seen.
    if let Some(path) = &args.store.config {
        let loaded = config::load_config_file(path, &process_environment::find_variable)?;
        if loaded.config.is_none() {
            faults = loaded.diagnostics.log_lines();
            store.config = None;
            store.data = store.data.or(loaded.store.map(|store| store.data));
            if store.data.is_none() {
                let what = "the configuration has faults, and does not say where data is";
                return Err(ExitError(CommandExitCode::Findings, format!("{what}: {}", faults.join("; "))).into());
            }
        }
    }
    admin_context::with_store(&store, StoreMode::Existing, async |desk| {
        let mut status = load_status(&desk).await?;
        if !faults.is_empty() {
            status.config_errors.clone_from(&faults);
        }
        if args.json {
            stdout_output::print_json(&status)?;
        } else {
            stdout_output::print(&status_text(&status))?;
        }
        Ok(if status.config_errors.is_empty() { CommandExitCode::Success } else { CommandExitCode::Findings })
    })
}

fn config_errors_text(faults: &[String]) -> String {
    let lines: String = faults.iter().map(|fault| format!("  {}\n", escape_for_terminal(fault))).collect();
    format!("The configuration has faults; a running gateway keeps what it had:\n{lines}")
}

async fn load_status(desk: &AdminContext) -> Result<StatusReport> {
    let gateway = gateway_state(desk).await;
    // A running gateway knows best what it took up: it has another environment, and perhaps another file.
    let (servers, remarks) = match &gateway.status_file {
        Some(note) => (note.servers.clone(), note.warnings.clone()),
        None => {
            let picture = merge_config(
                &desk.config_entries(),
                &load_stored_config(&desk.stores).await?,
                &process_environment::find_variable,
            );
            (picture.servers.iter().map(|server| server.name.to_string()).collect(), picture.warnings)
        }
    };
    let grants = list_grants::all_grants(desk).await?;
    let labels = |state: &str| -> Vec<String> {
        grants.iter().filter(|grant| grant.state == state).map(|grant| escape_for_terminal(&grant.label)).collect()
    };
    Ok(StatusReport {
        data: desk.store_config.data.display().to_string(),
        config_errors: gateway.status_file.as_ref().map(|note| note.config_errors.clone()).unwrap_or_default(),
        grants: GrantSummary {
            active: labels("live").len(),
            in_force: gateway.status_file.as_ref().map(|note| note.grants),
            expired: labels("expired"),
            revoked: labels("revoked"),
        },
        gateway,
        servers,
        observing: observing_attachments(&grants),
        warnings: remarks,
        head: desk.stores.ledger.head().await?,
        admin_head: desk.stores.admin_log.head().await?,
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

/// Asks at the admin address whether a gateway is ready.
async fn gateway_state(desk: &AdminContext) -> GatewayState {
    let note = app::find_note(&desk.store_config.data);
    let configured = desk.config.as_ref().map(|config| config.gateway.admin_listen);
    let Some(address) = note.as_ref().map(|note| note.admin).or(configured) else {
        return GatewayState { state: "not running", status_file: None };
    };
    let url = format!("http://{address}/readyz").parse();
    let answer = match url {
        Ok(url) => mcp_client::get_status(url, READY_TIMEOUT).await.ok(),
        Err(_) => None,
    };
    match answer {
        Some(200) => GatewayState { state: "ready", status_file: note },
        Some(_) => GatewayState { state: "not ready", status_file: note },
        None => GatewayState { state: "not running", status_file: None },
    }
}

fn status_text(status: &StatusReport) -> String {
    let mut rows = vec![vec!["data".to_owned(), escape_for_terminal(&status.data)]];
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    let place = match &status.gateway.status_file {
        Some(note) => format!(" at http://{}/mcp/<server>, since {}", note.listen, note.loaded_at),
        None => String::new(),
    };
    row("gateway", format!("{}{place}", status.gateway.state));
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
        out.push_str(&format!("\nOBSERVE ONLY: grant {observed}. Nothing its policy says is refused.\n"));
    }
    status.warnings.iter().for_each(|remark| out.push_str(&format!("\nnote: {}\n", escape_for_terminal(remark))));
    if !status.config_errors.is_empty() {
        out.push_str(&format!("\n{}", config_errors_text(&status.config_errors)));
    }
    out
}
