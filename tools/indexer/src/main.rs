//! `gatelodge-indexer`: crawls packages, trains and evaluates the classifier, builds the index and exports the site.
//!
//! It is a separate program so that no parser for foreign source code is linked into the gateway. The parts without
//! side effects are in the library of this package; this program does the fetching, storing and printing.

mod cli;
mod commands;
mod console_output;
mod exit;
mod file_io;
mod installed_index;
mod process_environment;

use clap::Parser;

use cli::{IndexerCli, IndexerCommand};
use exit::IndexerExitCode;

/// Replaces the system allocator, which is slower for a crawl that allocates and frees many small values on several
/// threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> IndexerExitCode {
    // Ends the process with code 2 and a usage message, or with 0 after `--help`.
    let IndexerCli { command } = IndexerCli::parse();
    let is_json = matches!(&command, IndexerCommand::Eval(args) if args.json);
    let outcome = match command {
        IndexerCommand::Crawl(command) => commands::crawl_registry::run(command),
        IndexerCommand::Read(args) => commands::read_package::run(&args),
        IndexerCommand::Index(args) => commands::build_index::run(&args),
        IndexerCommand::Export(args) => commands::export_site::run(&args),
        IndexerCommand::Train(args) => commands::train::run(&args),
        IndexerCommand::Eval(args) => commands::evaluate_classifier::run(&args),
    };
    outcome.unwrap_or_else(|error| {
        let (exit, message) = (IndexerExitCode::of_error(&error), format!("{error:#}"));
        console_output::say(&format!("error: {}", console_output::shown(&message)));
        if is_json {
            // If this cannot be written either, the exit code still reports the error.
            let _ = console_output::json(&serde_json::json!({"error": {"message": message, "exit_code": exit as u8}}));
        }
        exit
    })
}
