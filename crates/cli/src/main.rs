//! Entry point: parses the arguments, runs the command and reports its exit code.

mod cli;
mod client_config_redaction;
mod client_files;
mod commands;
mod demo_server;
mod diagnostic_report;
mod exit_code;
mod file_output;
mod logging;
mod mcp_client;
mod own_program;
mod stdout_output;
mod store_command_context;
mod terminal_prompt;

use std::process::{ExitCode, Termination};

use gatelodge_server::process_supervisor;

use cli::{Cli, CliCommand};
use exit_code::CommandExitCode;

/// A call makes many small allocations and frees them on the same thread; mimalloc is faster at that than the system
/// allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Checked before anything else: a supervisor runs for each stdio server, and must start fast and stay small.
    match process_supervisor::run_if_requested() {
        Some(code) => code.into(),
        None => run_command().report(),
    }
}

fn run_command() -> CommandExitCode {
    let (Cli { command }, json) = match cli::parse_arguments() {
        Ok(parsed) => parsed,
        Err(error) => {
            if error.use_stderr() && cli::is_json_requested() {
                let text = error.to_string();
                let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
                let _ = stdout_output::print_error_json(first, CommandExitCode::Usage);
            }
            // Exits with code 2 and a usage message, or prints the help and exits with 0.
            error.exit()
        }
    };
    let outcome = match command {
        CliCommand::Up(args) => commands::up::run(args),
        CliCommand::Serve(args) => commands::serve::run(args),
        CliCommand::Wrap(args) => commands::wrap::run(args),
        CliCommand::Bridge(args) => commands::bridge::run(args),
        CliCommand::Init(args) => commands::init::run(&args),
        CliCommand::Connect(args) => commands::connect::run(&args),
        CliCommand::Call(args) => commands::call::run(&args),
        CliCommand::Server(command) => commands::server::run(command),
        CliCommand::Grant(command) => commands::grant::run(command),
        CliCommand::Policy(command) => commands::policy::run(command),
        CliCommand::Catalogue(command) => commands::catalogue::run(command),
        CliCommand::Scan(args) => commands::scan::run(args),
        CliCommand::Precheck(args) => commands::precheck::run(&args),
        CliCommand::Stack(args) => commands::stack::run(&args),
        CliCommand::Calls(args) => commands::calls::run(args),
        CliCommand::Audit(command) => commands::audit::run(command),
        CliCommand::Pharo(args) => commands::pharo::run(args),
        CliCommand::Status(args) => commands::status::run(args),
        CliCommand::Doctor(args) => commands::doctor::run(&args),
        CliCommand::Docs(args) => commands::docs::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        let exit = CommandExitCode::of_error(&error);
        diagnostic_report::print_error(&error);
        if json {
            // If this cannot be written either, the exit code still reports the failure.
            let _ = stdout_output::print_error_json(&format!("{error:#}"), exit);
        }
        exit
    })
}
