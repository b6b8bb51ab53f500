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
const TIME: Duration = Duration::from_secs(3);

/// What is told.
#[derive(Debug, Serialize)]
struct Status {
    data: String,
    gateway: Running,
    /// The servers in force, or that would be.
    servers: Vec<String>,
    grants: Grants,
    /// Attachments whose policy refuses nothing.
    observing: Vec<String>,
    /// What was left out or overruled.
    remarks: Vec<String>,
    /// What the gateway did not take up, one line for each fault.
    refused: Vec<String>,
    head: ChainHead,
    admin_head: ChainHead,
}

#[derive(Debug, Serialize)]
struct Running {
    state: &'static str,
    /// What it says of itself, if it answers.
    #[serde(flatten)]
    note: Option<GatewayStatusFile>,
}

#[derive(Debug, Serialize)]
struct Grants {
    /// Those that are known here: none of the file's where it has faults.
    live: usize,
    /// How many the running gateway has in force.
    in_force: Option<usize>,
    expired: Vec<String>,
    revoked: Vec<String>,
}

impl Grants {
    fn words(&self) -> String {
        match self.in_force {
            Some(in_force) if in_force > self.live => {
                format!("{} live, {in_force} in force in the running gateway", self.live)
            }
            _ => format!("{} live", self.live),
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
        let mut status = look(&desk).await?;
        if !faults.is_empty() {
            status.refused.clone_from(&faults);
        }
        if args.json {
            stdout_output::print_json(&status)?;
        } else {
            stdout_output::print(&text(&status))?;
        }
        Ok(if status.refused.is_empty() { CommandExitCode::Success } else { CommandExitCode::Findings })
    })
}

fn refused(faults: &[String]) -> String {
    let lines: String = faults.iter().map(|fault| format!("  {}\n", escape_for_terminal(fault))).collect();
    format!("The configuration has faults; a running gateway keeps what it had:\n{lines}")
}

async fn look(desk: &AdminContext) -> Result<Status> {
    let gateway = running(desk).await;
    // A running gateway knows best what it took up: it has another environment, and perhaps another file.
    let (servers, remarks) = match &gateway.note {
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
    Ok(Status {
        data: desk.store_config.data.display().to_string(),
        refused: gateway.note.as_ref().map(|note| note.config_errors.clone()).unwrap_or_default(),
        grants: Grants {
            live: labels("live").len(),
            in_force: gateway.note.as_ref().map(|note| note.grants),
            expired: labels("expired"),
            revoked: labels("revoked"),
        },
        gateway,
        servers,
        observing: observing(&grants),
        remarks,
        head: desk.stores.ledger.head().await?,
        admin_head: desk.stores.admin_log.head().await?,
    })
}

fn observing(grants: &[list_grants::GrantView]) -> Vec<String> {
    let mut found = Vec::new();
    for grant in grants.iter().filter(|grant| grant.state == "live") {
        let attached =
            grant.attachments.iter().filter(|attached| attached.mode == gatelodge_store::EnforcementMode::Observe);
        found.extend(attached.map(|attached| format!("{} at {}", escape_for_terminal(&grant.label), attached.server)));
    }
    found
}

/// Asks at the admin address whether a gateway is ready.
async fn running(desk: &AdminContext) -> Running {
    let note = app::find_note(&desk.store_config.data);
    let configured = desk.config.as_ref().map(|config| config.gateway.admin_listen);
    let Some(address) = note.as_ref().map(|note| note.admin).or(configured) else {
        return Running { state: "not running", note: None };
    };
    let url = format!("http://{address}/readyz").parse();
    let answer = match url {
        Ok(url) => mcp_client::get_status(url, TIME).await.ok(),
        Err(_) => None,
    };
    match answer {
        Some(200) => Running { state: "ready", note },
        Some(_) => Running { state: "not ready", note },
        None => Running { state: "not running", note: None },
    }
}

fn text(status: &Status) -> String {
    let mut rows = vec![vec!["data".to_owned(), escape_for_terminal(&status.data)]];
    let mut row = |name: &str, value: String| rows.push(vec![name.to_owned(), value]);
    let place = match &status.gateway.note {
        Some(note) => format!(" at http://{}/mcp/<server>, since {}", note.listen, note.loaded_at),
        None => String::new(),
    };
    row("gateway", format!("{}{place}", status.gateway.state));
    let servers = if status.servers.is_empty() { "none".to_owned() } else { status.servers.join(", ") };
    row("servers", servers);
    row("grants", status.grants.words());
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
    status.remarks.iter().for_each(|remark| out.push_str(&format!("\nnote: {}\n", escape_for_terminal(remark))));
    if !status.refused.is_empty() {
        out.push_str(&format!("\n{}", refused(&status.refused)));
    }
    out
}
