//! `gatelodge init`: the servers of your clients, moved behind the gateway.

mod choose;
mod import;
mod plan;
mod render;
mod rewrite;
pub mod scan;
mod told;
mod undo;
mod variable;
mod write;

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};

use crate::cli::{InitArgs, StoreArgs};
use crate::commands::connect::{gateway_target::GatewayTarget, home_directory, own_program_path, user_directories};
use crate::diagnostic_report::{count_noun, escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::process_environment::quote_for_shell;
use crate::{config, prompt, stdout_output};
use import::{Import, Leave};
use plan::{Plan, Present};
use rewrite::{Gateway, Rewrite};
use scan::{Finding, Scan};
use write::{Done, Work};

pub fn run(args: &InitArgs) -> Result<CommandExitCode> {
    // Beside the configuration, and named after it.
    let journal_file = std::path::absolute(args.config.with_extension("init.json"))?;
    if args.undo {
        return undo::run(args, &journal_file);
    }
    let clients = choose::clients(&args.clients)?;
    let home = home_directory(args.home.as_deref())?;
    let project = args.project.as_ref().map(std::path::absolute).transpose()?;
    let places = user_directories(home.clone(), project.as_deref())?;
    let mut scan = scan::scan(&places, &clients);
    let written = args.config.exists().then(|| args.config.clone());
    let peek = GatewayTarget::load(&StoreArgs { config: written, data: None })?;
    let gateway = peek.server_url("");
    if !args.json {
        look(&scan, &home.0, &gateway)?;
    }
    for (spot, found) in scan.elsewhere(&places, &clients).iter().filter(|(_, found)| !found.is_empty()) {
        let (name, folder) = (spot.client.name, escape_for_terminal(spot.project_folder().unwrap_or_default()));
        let count = count_noun(found.len(), "server");
        print_stderr(&format!("{name} has {count} for `{folder}`; `--project {folder}` looks there"));
    }
    let found = told::found(&scan, &gateway);
    let chosen = choose::servers(args, &scan.seen, &gateway)?;
    let findings = std::mem::take(&mut scan.findings);
    let ended = Ended { found, findings, ..Ended::default() };
    let Some(chosen) = chosen else { return end(args, ended) };
    if journal_file.exists() {
        let config = args.config.display();
        let what = format!("`init` has been here: take it back with `gatelodge init --undo --config {config}`");
        return Err(UsageError(format!("{what}, or name another `--config`")).into());
    }
    let present = Present::read(&args.config)?;
    let leave = Leave { copy_secrets: args.copy_secrets, project: project.as_deref() };
    let import = import::import(&scan.seen, &chosen, present.taken(), leave);
    let plan = plan::plan(present, &import, &scan.seen, args.copy_secrets)?;
    move_over(args, scan, import, plan, Reach { peek, journal_file, ended })
}

/// Where things are, and what is to be told in the end.
struct Reach {
    peek: GatewayTarget,
    journal_file: PathBuf,
    ended: Ended,
}

/// Shows what will be written, asks, and writes it.
fn move_over(args: &InitArgs, mut scan: Scan, mut import: Import, plan: Plan, reach: Reach) -> Result<CommandExitCode> {
    let Reach { peek, journal_file, mut ended } = reach;
    import.remarks.iter().for_each(|remark| print_stderr(remark));
    ended.findings.append(&mut import.findings);
    if import.servers.is_empty() {
        print_stderr("there is nothing to import");
        return end(args, ended);
    }
    announce(&plan, &import);
    let program = args.program.clone().unwrap_or_else(own_program_path);
    let gateway = Gateway { url: &|server| peek.server_url(server), program: &program, tokens: &plan.tokens };
    let mut rewrite = rewrite::rewrite(&mut scan, &import, &plan.grants, &gateway);
    ended.is_rewritten = may_rewrite(args, &rewrite)?;
    if !prompt::confirm(args.yes, "Write all this?")? {
        return Err(UsageError("nothing was written".to_owned()).into());
    }
    let mut theirs = Vec::new();
    if ended.is_rewritten {
        theirs.append(&mut rewrite.outputs);
        ended.findings.append(&mut rewrite.findings);
    }
    let work = Work { folders: plan.folders, ours: plan.outputs, theirs };
    let Done { written, findings } = write::write(work, &journal_file)?;
    ended.findings.extend(findings);
    ended.written = written;
    ended.by_hand = rewrite.by_hand;
    ended.variables = import.variables.to_set(args.copy_secrets).iter().map(|&name| name.to_owned()).collect();
    ended.copied = args.copy_secrets && import.variables.known().next().is_some();
    ended.data =
        Some(std::path::absolute(peek.data)?).filter(|data| Some(data) != config::default_data_directory().as_ref());
    end(args, ended)
}

fn look(scan: &Scan, home: &std::path::Path, gateway: &str) -> Result<()> {
    if scan.seen.is_empty() {
        print_stderr("no client has a server in its configuration");
        return Ok(());
    }
    stdout_output::print(&told::table(scan, home, gateway))
}

/// Says what will be written.
fn announce(plan: &Plan, import: &Import) {
    print_stderr("\nto be written:");
    plan.outputs.iter().for_each(|output| print_stderr(&format!("  {}", output.snapshot.path().display())));
    let names: Vec<&str> = import.servers.iter().map(|server| server.name.as_str()).collect();
    print_stderr(&format!("servers: {}", names.join(", ")));
    print_stderr("their policies ALLOW EVERYTHING and record it, up to 120 calls a minute, until you tighten them\n");
}

/// Whether the clients are rewritten: as a flag says, or a person; else they are left alone.
fn may_rewrite(args: &InitArgs, rewrite: &Rewrite) -> Result<bool> {
    if args.no_rewrite || rewrite.outputs.is_empty() && rewrite.findings.is_empty() {
        return Ok(false);
    }
    if !args.rewrite && !prompt::is_interactive() {
        print_stderr("the clients stay as they are; `--rewrite` points them to the gateway");
        return Ok(false);
    }
    rewrite.shown.iter().for_each(|change| print_stderr(change));
    Ok(args.rewrite || prompt::confirm(false, "Point these entries to the gateway?")?)
}

/// How it ended.
#[derive(Default)]
struct Ended {
    found: Value,
    findings: Vec<Finding>,
    written: Vec<PathBuf>,
    /// The data directory, where it is not the usual one.
    data: Option<PathBuf>,
    variables: Vec<String>,
    by_hand: Vec<String>,
    copied: bool,
    is_rewritten: bool,
}

fn end(args: &InitArgs, ended: Ended) -> Result<CommandExitCode> {
    for Finding { subject, message } in &ended.findings {
        print_stderr(&format!("{}: {}", escape_for_terminal(subject), escape_for_terminal(message)));
    }
    let next = if ended.written.is_empty() { Vec::new() } else { next(args, &ended) };
    if args.json {
        stdout_output::print_json(&json!({
            "found": ended.found, "findings": ended.findings, "written": ended.written, "set": ended.variables,
            "by_hand": ended.by_hand, "rewritten": ended.is_rewritten, "next": next,
        }))?;
    } else if !next.is_empty() {
        ended.by_hand.iter().for_each(|text| print_stderr(&format!("to be changed by hand:\n{text}")));
        stdout_output::print(&format!(
            "next:\n{}\n",
            next.iter().map(|line| format!("  {line}\n")).collect::<String>().trim_end()
        ))?;
    }
    Ok(if ended.findings.is_empty() { CommandExitCode::Success } else { CommandExitCode::Findings })
}

/// The commands that come next.
fn next(args: &InitArgs, ended: &Ended) -> Vec<String> {
    let config = quote_for_shell(&args.config.display().to_string());
    let folder = args.config.parent().unwrap_or(std::path::Path::new("")).to_owned();
    let beside = |name: &str| {
        let path = std::path::absolute(folder.join(name)).unwrap_or_default();
        quote_for_shell(&path.display().to_string())
    };
    let mut next = Vec::new();
    if !ended.variables.is_empty() {
        next.push(format!("# set where the gateway starts: {}", ended.variables.join(", ")));
    }
    if ended.copied {
        next.push(format!("set -a; . {}; set +a", beside("gatelodge.env")));
    }
    next.push(format!("gatelodge serve --config {config}"));
    next.push(format!(". {}    # where the clients start", beside("tokens/export.sh")));
    // By its data, not by the configuration: the variables that this needs are not everywhere.
    let data = ended.data.iter().map(|data| format!(" --data {}", quote_for_shell(&data.display().to_string())));
    next.push(format!("gatelodge calls --follow{}", data.collect::<String>()));
    next
}
