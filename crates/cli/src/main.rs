//! The one executable: parses what was asked, hands it to a command, and tells how it ended.

mod cli;
mod commands;
mod exit;
mod file;
mod report;

use clap::Parser;

use cli::{Cli, Command};
use exit::Exit;

fn main() -> Exit {
    // Ends with code 2 and a usage message where the words are wrong.
    let Cli { command } = Cli::parse();
    let outcome = match command {
        Command::Policy(command) => commands::policy::run(command),
    };
    outcome.unwrap_or_else(|error| {
        report::error(&error);
        Exit::of_error(&error)
    })
}
