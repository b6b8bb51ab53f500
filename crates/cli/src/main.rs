//! The one executable: parses what was asked, hands it to a command, and tells how it ended.

mod admin_context;
mod app;
mod cli;
mod client_config;
mod commands;
mod config;
mod demo_server;
mod diagnostic_report;
mod exit_code;
mod header_template;
mod mcp_client;
mod otel_settings;
mod process_environment;
mod process_supervisor;
mod prompt;
mod server_url;
mod source_file;
mod stdout_output;

use std::process::{ExitCode, Termination};

use cli::{Cli, CliCommand};
use exit_code::CommandExitCode;

/// A call takes many small pieces of memory and gives them back on the same thread; the system's allocator is slower at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Before anything else: a keeper is one of many, and has little to do.
    match process_supervisor::run_if_requested() {
        Some(code) => code.into(),
        None => run_command().report(),
    }
}

fn run_command() -> CommandExitCode {
    let (Cli { command }, json) = match cli::parse_arguments() {
        Ok(read) => read,
        Err(error) => {
            if error.use_stderr() && cli::is_json_requested() {
                let text = error.to_string();
                let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
                let _ = stdout_output::print_error_json(first, CommandExitCode::Usage);
            }
            // With code 2 and a usage message, or what was asked for by `--help`.
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
            // If this cannot be written either, the exit code still tells.
            let _ = stdout_output::print_error_json(&format!("{error:#}"), exit);
        }
        exit
    })
}
