//! The one executable: parses what was asked, hands it to a command, and tells how it ended.

mod address;
mod ask;
mod cli;
mod client;
mod clients;
mod commands;
mod config;
mod demo;
mod desk;
mod environment;
mod exit;
mod file;
mod headers;
mod keep;
mod output;
mod report;
mod wire;

use std::process::{ExitCode, Termination};

use clap::Parser;

use cli::{Cli, Command};
use exit::Exit;

fn main() -> ExitCode {
    // Before anything else: a keeper is one of many, and has little to do.
    match keep::run_if_asked() {
        Some(code) => code.into(),
        None => run().report(),
    }
}

fn run() -> Exit {
    // Ends with code 2 and a usage message where the words are wrong.
    let Cli { command } = Cli::parse();
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
        Command::Calls(args) => commands::calls::run(args),
        Command::Audit(command) => commands::audit::run(command),
        Command::Status(args) => commands::status::run(args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Docs(args) => commands::docs::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        report::error(&error);
        Exit::of_error(&error)
    })
}
