//! The one executable: parses what was asked, hands it to a command, and tells how it ended.

mod address;
mod cli;
mod client;
mod commands;
mod config;
mod demo;
mod environment;
mod exit;
mod file;
mod headers;
mod output;
mod report;
mod wire;

use clap::Parser;

use cli::{Cli, Command};
use exit::Exit;

fn main() -> Exit {
    // Ends with code 2 and a usage message where the words are wrong.
    let Cli { command } = Cli::parse();
    let outcome = match command {
        Command::Up(args) => commands::up::run(args),
        Command::Serve(args) => commands::serve::run(args),
        Command::Call(args) => commands::call::run(&args),
        Command::Policy(command) => commands::policy::run(command),
    };
    outcome.unwrap_or_else(|error| {
        report::error(&error);
        Exit::of_error(&error)
    })
}
