//! `gatelodge-indexer`: crawls packages, trains and evaluates the classifier, builds the index and exports the site.
//!
//! It is a program of its own so that no parser of foreign source code is linked into the gateway. The pure parts are
//! in the library of this package; this program fetches, stores and prints.

mod cli;
mod commands;
mod data_dir;
mod environment;
mod exit;
mod file;
mod output;

use clap::Parser;

use cli::{Cli, Command};
use exit::Exit;

/// A crawl allocates and frees many small values on several threads; the system's allocator is slower at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Exit {
    // Ends the process with code 2 and a usage message, or with 0 after `--help`.
    let Cli { command } = Cli::parse();
    let is_json = matches!(&command, Command::Eval(args) if args.json);
    let outcome = match command {
        Command::Crawl(command) => commands::crawl_registry::run(command),
        Command::Index(args) => commands::build_index::run(&args),
        Command::Export(args) => commands::export_site::run(&args),
        Command::Train(args) => commands::train::run(&args),
        Command::Eval(args) => commands::evaluate_classifier::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        let (exit, message) = (Exit::of_error(&error), format!("{error:#}"));
        output::say(&format!("error: {}", output::shown(&message)));
        if is_json {
            // If this cannot be written either, the exit code still tells.
            let _ = output::json(&serde_json::json!({"error": {"message": message, "exit_code": exit as u8}}));
        }
        exit
    })
}
