//! `gatelodge doctor`: looks for what could be wrong, each with what to do about it.

mod client_bypass;
mod doctor_checks;

use anyhow::Result;
use serde::Serialize;

use crate::cli::DoctorArgs;
use crate::config::{self, DEFAULT_ADMIN_ADDRESS, DEFAULT_GATEWAY_ADDRESS, GatewayConfig};
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::CommandExitCode;
use crate::{admin_context, app, process_environment, stdout_output};

/// What one check found.
#[derive(Debug, Serialize)]
pub struct CheckResult {
    name: &'static str,
    #[serde(rename = "verdict")]
    status: CheckStatus,
    #[serde(rename = "says")]
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CheckStatus {
    /// Nothing is wrong.
    Fine,
    /// Something may be.
    Warning,
    /// Something is.
    Wrong,
}

impl CheckResult {
    /// Nothing is wrong.
    pub fn fine(name: &'static str, says: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Fine, message: says.into(), fix: None }
    }

    /// Something may be wrong.
    pub fn warning(name: &'static str, says: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Warning, message: says.into(), fix: Some(fix.into()) }
    }

    /// Something is wrong.
    pub fn wrong(name: &'static str, says: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: CheckStatus::Wrong, message: says.into(), fix: Some(fix.into()) }
    }
}

pub fn run(args: &DoctorArgs) -> Result<CommandExitCode> {
    let checks = admin_context::block_on(run_checks(args))?;
    if args.json {
        stdout_output::print_json(&checks)?;
    } else {
        stdout_output::print(&checks.iter().map(check_text).collect::<String>())?;
    }
    let is_wrong = checks.iter().any(|check| check.status == CheckStatus::Wrong);
    Ok(if is_wrong { CommandExitCode::Findings } else { CommandExitCode::Success })
}

async fn run_checks(args: &DoctorArgs) -> Result<Vec<CheckResult>> {
    let mut checks = Vec::new();
    let config = check_config(args, &mut checks)?;
    let store = admin_context::resolve_store_config(&args.store, config.as_ref())?;
    let clock = app::system_clock();
    let listen = config.as_ref().map(|config| config.gateway.clone());
    let note = app::running_note(&store.data);
    checks.push(doctor_checks::check_data_directory(&store.data, listen.as_ref()).await);
    let stores = doctor_checks::check_databases(&store, &clock, &mut checks);
    if let Some(stores) = &stores {
        checks.push(doctor_checks::check_clock(stores, clock.as_ref()).await);
        checks.extend(doctor_checks::variables(stores).await);
    }
    let entries = config.as_ref().map(|config| config.entries.clone()).unwrap_or_default();
    let picture = doctor_checks::servers(stores.as_ref(), &entries, note.as_ref(), &mut checks).await;
    checks.extend(client_bypass::check_bypasses(args, &picture)?);
    let own = note.as_ref();
    let of_config = listen.as_ref();
    checks.push(doctor_checks::port(
        "port for agents",
        of_config.map(|at| at.listen),
        DEFAULT_GATEWAY_ADDRESS,
        own.map(|note| note.listen),
    ));
    checks.push(doctor_checks::port(
        "port for admin",
        of_config.map(|at| at.admin_listen),
        DEFAULT_ADMIN_ADDRESS,
        own.map(|note| note.admin),
    ));
    checks.push(doctor_checks::open_files(&listen.unwrap_or_default()));
    Ok(checks)
}

fn check_config(args: &DoctorArgs, checks: &mut Vec<CheckResult>) -> Result<Option<GatewayConfig>> {
    let Some(path) = &args.store.config else { return Ok(None) };
    let loaded = config::load_config_file(path, &process_environment::find_variable)?;
    let name = "configuration";
    let lines = loaded.diagnostics.log_lines();
    if loaded.config.is_some() && lines.is_empty() {
        checks.push(CheckResult::fine(name, "no faults"));
    }
    let fix = "`gatelodge serve --check --config FILE` shows the place";
    for line in lines {
        let is_warning = line.contains(": warning[");
        checks.push(if is_warning {
            CheckResult::warning(name, line, fix)
        } else {
            CheckResult::wrong(name, line, fix)
        });
    }
    Ok(loaded.config)
}

fn check_text(check: &CheckResult) -> String {
    let mark = match check.status {
        CheckStatus::Fine => "ok     ",
        CheckStatus::Warning => "warning",
        CheckStatus::Wrong => "WRONG  ",
    };
    let fix = check.fix.as_ref().map(|fix| format!("\n         fix: {}", escape_for_terminal(fix))).unwrap_or_default();
    format!("{mark}  {}: {}{fix}\n", check.name, escape_for_terminal(&check.message))
}
