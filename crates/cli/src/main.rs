//! The one executable: parses what was asked, hands it to a command, and tells how it ended.

mod admin_context;
mod app;
mod cli;
mod client_config;
mod commands;
mod config;
mod demo;
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

use cli::{Cli, Command};
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
    let (Cli { command }, json) = match cli::read() {
        Ok(read) => read,
        Err(error) => {
            if error.use_stderr() && cli::is_json_written() {
                let text = error.to_string();
                let first = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
                let _ = stdout_output::print_error_json(first, CommandExitCode::Usage);
            }
            // With code 2 and a usage message, or what was asked for by `--help`.
            error.exit()
        }
    };
    let outcome = match command {
        Command::Up(args) => commands::up::run(args),
        Command::Serve(args) => commands::serve::run(args),
        Command::Wrap(args) => commands::wrap::run(args),
        Command::Bridge(args) => commands::bridge::run(args),
        Command::Init(args) => commands::init::run(&args),
        Command::Connect(args) => commands::connect::run(&args),
        Command::Call(args) => commands::call::run(&args),
        Command::Server(command) => commands::server::run(command),
        Command::Grant(command) => commands::grant::run(command),
        Command::Policy(command) => commands::policy::run(command),
        Command::Catalogue(command) => commands::catalogue::run(command),
        Command::Scan(args) => commands::scan::run(args),
        Command::Precheck(args) => commands::precheck::run(&args),
        Command::Stack(args) => commands::stack::run(&args),
        Command::Calls(args) => commands::calls::run(args),
        Command::Audit(command) => commands::audit::run(command),
        Command::Pharo(args) => commands::pharo::run(args),
        Command::Status(args) => commands::status::run(args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Docs(args) => commands::docs::run(&args),
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
