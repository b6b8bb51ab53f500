//! `gatelodge init`: imports the servers from the user's clients and points the clients to the gateway.

mod choose_servers;
mod client_rewrite;
pub mod client_scan;
mod client_scan_report;
mod import_servers;
mod init_plan;
mod render_init_files;
mod server_env_variables;
mod undo_init;
mod write_init_files;

use std::path::PathBuf;

use anyhow::Result;
use gatelodge_clients::quote_for_shell;
use gatelodge_server::config;
use serde_json::{Value, json};

use crate::cli::{InitArgs, StoreArgs};
use crate::commands::connect::{gateway_target::GatewayTarget, home_directory, own_program_path, user_directories};
use crate::diagnostic_report::{count_noun, escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::{stdout_output, terminal_prompt};
use client_rewrite::{ClientConnectionSettings, ClientRewrite};
use client_scan::{ClientConfigProblem, ClientScan};
use import_servers::{ServerImport, ServerImportOptions};
use init_plan::{ExistingConfig, InitPlan};
use write_init_files::{InitWriteOutcome, InitWriteSet};

pub fn run(args: &InitArgs) -> Result<CommandExitCode> {
    // Next to the configuration, and named after it.
    let journal_file = std::path::absolute(args.config.with_extension("init.json"))?;
    if args.undo {
        return undo_init::run(args, &journal_file);
    }
    let clients = choose_servers::choose_clients(&args.clients)?;
    let home = home_directory(args.home.as_deref())?;
    let project = args.project.as_ref().map(std::path::absolute).transpose()?;
    let directories = user_directories(home.clone(), project.as_deref())?;
    let mut scan = client_scan::scan_clients(&directories, &clients);
    let written = args.config.exists().then(|| args.config.clone());
    let target = GatewayTarget::load(&StoreArgs { config: written, data: None })?;
    let gateway = target.server_url("");
    if !args.json {
        print_scan(&scan, &home.0, &gateway)?;
    }
    for (location, found) in
        scan.other_project_servers(&directories, &clients).iter().filter(|(_, found)| !found.is_empty())
    {
        let (name, folder) =
            (location.client.name, escape_for_terminal(location.project_directory().unwrap_or_default()));
        let count = count_noun(found.len(), "server");
        print_stderr(&format!("{name} has {count} for `{folder}`; `--project {folder}` includes them"));
    }
    let found = client_scan_report::scan_json(&scan, &gateway);
    let chosen = choose_servers::choose_servers(args, &scan.servers, &gateway)?;
    let problems = std::mem::take(&mut scan.problems);
    let report = InitReport { found, problems, ..InitReport::default() };
    let Some(chosen) = chosen else { return finish(args, report) };
    if journal_file.exists() {
        let config = args.config.display();
        let what = format!("`init` has already run: undo it with `gatelodge init --undo --config {config}`");
        return Err(UsageError(format!("{what}, or name another `--config`")).into());
    }
    let existing = ExistingConfig::read(&args.config)?;
    let options = ServerImportOptions { copy_secrets: args.copy_secrets, project: project.as_deref() };
    let import = import_servers::import_servers(&scan.servers, &chosen, existing.reserved_names(), options);
    let plan = init_plan::plan_files(existing, &import, &scan.servers, args.copy_secrets)?;
    apply_import(args, scan, import, plan, InitContext { target, journal_file, report })
}

/// State that is passed between the steps of `init`: the gateway, the undo journal and the report so far.
struct InitContext {
    target: GatewayTarget,
    journal_file: PathBuf,
    report: InitReport,
}

/// Prints the plan, asks for confirmation, and writes the files.
fn apply_import(
    args: &InitArgs,
    mut scan: ClientScan,
    mut import: ServerImport,
    plan: InitPlan,
    context: InitContext,
) -> Result<CommandExitCode> {
    let InitContext { target, journal_file, mut report } = context;
    import.notes.iter().for_each(|remark| print_stderr(remark));
    report.problems.append(&mut import.problems);
    if import.servers.is_empty() {
        print_stderr("nothing to import");
        return finish(args, report);
    }
    print_plan(&plan, &import);
    let program = args.program.clone().unwrap_or_else(own_program_path);
    let gateway = ClientConnectionSettings {
        url: &|server| target.server_url(server),
        program: &program,
        token_directory: &plan.token_directory,
    };
    let mut rewrite = client_rewrite::plan_rewrite(&mut scan, &import, &plan.grants, &gateway);
    report.is_rewritten = confirm_rewrite(args, &rewrite)?;
    if !terminal_prompt::confirm(args.yes, "Write all this?")? {
        return Err(UsageError("nothing was written".to_owned()).into());
    }
    let mut client_files = Vec::new();
    if report.is_rewritten {
        client_files.append(&mut rewrite.writes);
        report.problems.append(&mut rewrite.problems);
    }
    let work = InitWriteSet { folders: plan.folders, own_files: plan.writes, client_files };
    let InitWriteOutcome { written, problems } = write_init_files::write_files(work, &journal_file)?;
    report.problems.extend(problems);
    report.written = written;
    report.manual_changes = rewrite.manual_changes;
    report.variables = import.variables.required_names(args.copy_secrets).iter().map(|&name| name.to_owned()).collect();
    report.has_copied_secrets = args.copy_secrets && import.variables.known_values().next().is_some();
    report.data =
        Some(std::path::absolute(target.data)?).filter(|data| Some(data) != config::default_data_directory().as_ref());
    finish(args, report)
}

fn print_scan(scan: &ClientScan, home: &std::path::Path, gateway: &str) -> Result<()> {
    if scan.servers.is_empty() {
        print_stderr("no client has a server in its configuration");
        return Ok(());
    }
    stdout_output::print(&client_scan_report::scan_table(scan, home, gateway))
}

/// Prints which files would be written and which servers would be imported.
fn print_plan(plan: &InitPlan, import: &ServerImport) {
    print_stderr("\nfiles to write:");
    plan.writes.iter().for_each(|output| print_stderr(&format!("  {}", output.snapshot.path().display())));
    let names: Vec<&str> = import.servers.iter().map(|server| server.name.as_str()).collect();
    print_stderr(&format!("servers: {}", names.join(", ")));
    print_stderr("their policies ALLOW EVERYTHING and record it, up to 120 calls a minute, until you tighten them\n");
}

/// Decides from the flags, or by asking the user, whether to rewrite the clients' files. Without a terminal, the files
/// are left unchanged unless `--rewrite` is given.
fn confirm_rewrite(args: &InitArgs, rewrite: &ClientRewrite) -> Result<bool> {
    if args.no_rewrite || rewrite.writes.is_empty() && rewrite.problems.is_empty() {
        return Ok(false);
    }
    if !args.rewrite && !terminal_prompt::is_interactive() {
        print_stderr("the clients' files stay unchanged; `--rewrite` points the clients to the gateway");
        return Ok(false);
    }
    rewrite.diffs.iter().for_each(|change| print_stderr(change));
    Ok(args.rewrite || terminal_prompt::confirm(false, "Point these entries to the gateway?")?)
}

/// The result of `init`, for the summary and for `--json`.
#[derive(Default)]
struct InitReport {
    found: Value,
    problems: Vec<ClientConfigProblem>,
    written: Vec<PathBuf>,
    /// The data directory; `None` if it is the default one.
    data: Option<PathBuf>,
    variables: Vec<String>,
    manual_changes: Vec<String>,
    has_copied_secrets: bool,
    is_rewritten: bool,
}

fn finish(args: &InitArgs, report: InitReport) -> Result<CommandExitCode> {
    for ClientConfigProblem { subject, message } in &report.problems {
        print_stderr(&format!("{}: {}", escape_for_terminal(subject), escape_for_terminal(message)));
    }
    let next = if report.written.is_empty() { Vec::new() } else { next_steps(args, &report) };
    if args.json {
        stdout_output::print_json(&json!({
            "found": report.found, "findings": report.problems, "written": report.written, "set": report.variables,
            "by_hand": report.manual_changes, "rewritten": report.is_rewritten, "next": next,
        }))?;
    } else if !next.is_empty() {
        report.manual_changes.iter().for_each(|text| print_stderr(&format!("change by hand:\n{text}")));
        stdout_output::print(&format!(
            "next:\n{}\n",
            next.iter().map(|line| format!("  {line}\n")).collect::<String>().trim_end()
        ))?;
    }
    Ok(if report.problems.is_empty() { CommandExitCode::Success } else { CommandExitCode::Findings })
}

/// Returns the commands that the user should run next.
fn next_steps(args: &InitArgs, report: &InitReport) -> Vec<String> {
    let config = quote_for_shell(&args.config.display().to_string());
    let folder = args.config.parent().unwrap_or(std::path::Path::new("")).to_owned();
    let path_next_to_config = |name: &str| {
        let path = std::path::absolute(folder.join(name)).unwrap_or_default();
        quote_for_shell(&path.display().to_string())
    };
    let mut next = Vec::new();
    if !report.variables.is_empty() {
        next.push(format!("# set where the gateway starts: {}", report.variables.join(", ")));
        // Of a header that a person would otherwise take for the token alone.
        if let Some(name) = report.variables.iter().find(|name| name.ends_with("_AUTHORIZATION")) {
            next.push(format!("# {name} holds the whole value of the header, for example `Bearer …`"));
        }
    }
    if report.has_copied_secrets {
        next.push(format!("set -a; . {}; set +a", path_next_to_config("gatelodge.env")));
    }
    next.push(format!("gatelodge serve --config {config}"));
    next.push(format!(". {}    # where the clients start", path_next_to_config("tokens/export.sh")));
    // `--data` instead of `--config`: the variables that the configuration needs may not be set in this shell.
    let data = report.data.iter().map(|data| format!(" --data {}", quote_for_shell(&data.display().to_string())));
    next.push(format!("gatelodge calls --follow{}", data.collect::<String>()));
    next
}
