//! `gatelodge doctor`: checks the installation for problems and says how to fix each one.

mod client_bypass;
mod doctor_checks;

use anyhow::Result;
use gatelodge_server::config::{self, DEFAULT_ADMIN_ADDRESS, DEFAULT_GATEWAY_ADDRESS, GatewayConfig};
use gatelodge_server::{PolicyCache, process_environment};
use serde::Serialize;

use crate::cli::DoctorArgs;
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::CommandExitCode;
use crate::{stdout_output, store_command_context};

/// Result of one `doctor` check.
#[derive(Debug, Serialize)]
pub struct DoctorCheckResult {
    name: &'static str,
    #[serde(rename = "verdict")]
    status: DoctorCheckStatus,
    #[serde(rename = "says")]
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fix: Option<String>,
}

/// Status of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DoctorCheckStatus {
    /// The check found no problem.
    Fine,
    /// The check found a possible problem.
    Warning,
    /// The check found a problem.
    Wrong,
}

impl DoctorCheckResult {
    /// Creates the result of a check that found no problem.
    pub fn fine(name: &'static str, message: impl Into<String>) -> Self {
        Self { name, status: DoctorCheckStatus::Fine, message: message.into(), fix: None }
    }

    /// Creates the result of a check that found a possible problem.
    pub fn warning(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: DoctorCheckStatus::Warning, message: message.into(), fix: Some(fix.into()) }
    }

    /// Creates the result of a check that found a problem.
    pub fn wrong(name: &'static str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, status: DoctorCheckStatus::Wrong, message: message.into(), fix: Some(fix.into()) }
    }
}

pub fn run(args: &DoctorArgs) -> Result<CommandExitCode> {
    let checks = store_command_context::block_on(run_checks(args))?;
    if args.json {
        stdout_output::print_json(&checks)?;
    } else {
        stdout_output::print(&checks.iter().map(check_text).collect::<String>())?;
    }
    let is_wrong = checks.iter().any(|check| check.status == DoctorCheckStatus::Wrong);
    Ok(if is_wrong { CommandExitCode::Findings } else { CommandExitCode::Success })
}

async fn run_checks(args: &DoctorArgs) -> Result<Vec<DoctorCheckResult>> {
    let mut checks = Vec::new();
    let config = check_config(args, &mut checks)?;
    let store = store_command_context::resolve_store_config(&args.store, config.as_ref())?;
    let clock = gatelodge_server::system_clock();
    let listen = config.as_ref().map(|config| config.gateway.clone());
    let status = gatelodge_server::find_running_gateway(&store.data);
    checks.push(doctor_checks::check_data_directory(&store.data, listen.as_ref()).await);
    let stores = doctor_checks::check_databases(&store, &clock, &mut checks).await;
    if let Some(stores) = &stores {
        checks.push(doctor_checks::check_clock(stores, clock.as_ref(), args.json).await);
        checks.extend(doctor_checks::check_variables(stores).await);
    }
    let entries = config.as_ref().map(|config| config.entries.clone()).unwrap_or_default();
    let active_config = doctor_checks::check_servers(stores.as_ref(), &entries, status.as_ref(), &mut checks).await;
    checks.extend(client_bypass::check_bypasses(args, &active_config)?);
    let running = status.as_ref();
    let configured = listen.as_ref();
    checks.push(doctor_checks::check_port(
        "port for agents",
        configured.map(|at| at.listen),
        DEFAULT_GATEWAY_ADDRESS,
        running.map(|status| status.listen),
    ));
    checks.push(doctor_checks::check_port(
        "port for admin",
        configured.map(|at| at.admin_listen),
        DEFAULT_ADMIN_ADDRESS,
        running.map(|status| status.admin),
    ));
    checks.push(doctor_checks::check_open_files(&listen.unwrap_or_default()));
    Ok(checks)
}

fn check_config(args: &DoctorArgs, checks: &mut Vec<DoctorCheckResult>) -> Result<Option<GatewayConfig>> {
    let Some(path) = &args.store.config else { return Ok(None) };
    let loaded = config::load_config_file(path, &process_environment::find_variable, &mut PolicyCache::default())?;
    let name = "configuration";
    let lines = loaded.diagnostics.log_lines();
    if loaded.config.is_some() && lines.is_empty() {
        checks.push(DoctorCheckResult::fine(name, "no errors"));
    }
    let fix = "`gatelodge serve --check --config FILE` shows where";
    for line in lines {
        let is_warning = line.contains(": warning[");
        checks.push(if is_warning {
            DoctorCheckResult::warning(name, line, fix)
        } else {
            DoctorCheckResult::wrong(name, line, fix)
        });
    }
    Ok(loaded.config)
}

fn check_text(check: &DoctorCheckResult) -> String {
    let mark = match check.status {
        DoctorCheckStatus::Fine => "ok     ",
        DoctorCheckStatus::Warning => "warning",
        DoctorCheckStatus::Wrong => "WRONG  ",
    };
    let fix = check.fix.as_ref().map(|fix| format!("\n         fix: {}", escape_for_terminal(fix))).unwrap_or_default();
    // `--json` keeps the names.
    let name = match check.name {
        "port for agents" => "address for clients",
        "port for admin" => "address for monitoring",
        name => name,
    };
    format!("{mark}  {name}: {}{fix}\n", escape_for_terminal(&check.message))
}
