//! `gatelodge doctor`: looks for what could be wrong, each with what to do about it.

mod checks;
mod clients;

use anyhow::Result;
use serde::Serialize;

use crate::cli::DoctorArgs;
use crate::config::{self, DEFAULT_ADMIN_ADDRESS, DEFAULT_GATEWAY_ADDRESS, GatewayConfig};
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::CommandExitCode;
use crate::{admin_context, app, process_environment, stdout_output};

/// What one check found.
#[derive(Debug, Serialize)]
pub struct Check {
    name: &'static str,
    verdict: Verdict,
    says: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Nothing is wrong.
    Fine,
    /// Something may be.
    Warning,
    /// Something is.
    Wrong,
}

impl Check {
    /// Nothing is wrong.
    pub fn fine(name: &'static str, says: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Fine, says: says.into(), fix: None }
    }

    /// Something may be wrong.
    pub fn warning(name: &'static str, says: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Warning, says: says.into(), fix: Some(fix.into()) }
    }

    /// Something is wrong.
    pub fn wrong(name: &'static str, says: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Wrong, says: says.into(), fix: Some(fix.into()) }
    }
}

pub fn run(args: &DoctorArgs) -> Result<CommandExitCode> {
    let checks = admin_context::block_on(all(args))?;
    if args.json {
        stdout_output::print_json(&checks)?;
    } else {
        stdout_output::print(&checks.iter().map(text).collect::<String>())?;
    }
    let is_wrong = checks.iter().any(|check| check.verdict == Verdict::Wrong);
    Ok(if is_wrong { CommandExitCode::Findings } else { CommandExitCode::Success })
}

async fn all(args: &DoctorArgs) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    let config = configuration(args, &mut checks)?;
    let store = admin_context::resolve_store_config(&args.store, config.as_ref())?;
    let clock = app::system_clock();
    let listen = config.as_ref().map(|config| config.gateway.clone());
    let note = app::running_note(&store.data);
    checks.push(checks::directory(&store.data, listen.as_ref()).await);
    let stores = checks::schema(&store, &clock, &mut checks);
    if let Some(stores) = &stores {
        checks.push(checks::time(stores, clock.as_ref()).await);
        checks.extend(checks::variables(stores).await);
    }
    let entries = config.as_ref().map(|config| config.entries.clone()).unwrap_or_default();
    let picture = checks::servers(stores.as_ref(), &entries, note.as_ref(), &mut checks).await;
    checks.extend(clients::bypassing(args, &picture)?);
    let own = note.as_ref();
    let of_config = listen.as_ref();
    checks.push(checks::port(
        "port for agents",
        of_config.map(|at| at.listen),
        DEFAULT_GATEWAY_ADDRESS,
        own.map(|note| note.listen),
    ));
    checks.push(checks::port(
        "port for admin",
        of_config.map(|at| at.admin_listen),
        DEFAULT_ADMIN_ADDRESS,
        own.map(|note| note.admin),
    ));
    checks.push(checks::open_files(&listen.unwrap_or_default()));
    Ok(checks)
}

fn configuration(args: &DoctorArgs, checks: &mut Vec<Check>) -> Result<Option<GatewayConfig>> {
    let Some(path) = &args.store.config else { return Ok(None) };
    let loaded = config::load_config_file(path, &process_environment::find_variable)?;
    let name = "configuration";
    let lines = loaded.diagnostics.log_lines();
    if loaded.config.is_some() && lines.is_empty() {
        checks.push(Check::fine(name, "no faults"));
    }
    let fix = "`gatelodge serve --check --config FILE` shows the place";
    for line in lines {
        let is_warning = line.contains(": warning[");
        checks.push(if is_warning { Check::warning(name, line, fix) } else { Check::wrong(name, line, fix) });
    }
    Ok(loaded.config)
}

fn text(check: &Check) -> String {
    let mark = match check.verdict {
        Verdict::Fine => "ok     ",
        Verdict::Warning => "warning",
        Verdict::Wrong => "WRONG  ",
    };
    let fix = check.fix.as_ref().map(|fix| format!("\n         fix: {}", escape_for_terminal(fix))).unwrap_or_default();
    format!("{mark}  {}: {}{fix}\n", check.name, escape_for_terminal(&check.says))
}
