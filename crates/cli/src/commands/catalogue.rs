//! `gatelodge catalogue …`: searches and updates the package index, and classifies tools.

mod catalogue_mcp;
pub mod classification_io;
mod classify_tools;
pub mod index_access;
mod index_change_feed;
mod index_changes;
mod search_index;
mod show_attack_patterns;
pub mod show_package;
mod update_index;

use anyhow::Result;

use crate::cli::{CatalogueSubcommand, LegacyCommandArgs};
use crate::exit_code::{CommandExitCode, UsageError};

/// Name of the separate program that builds the index and reads packages for `precheck --read`.
pub const INDEXER: &str = "gatelodge-indexer";
pub const INSTALL_INDEXER: &str = "`cargo install --path tools/indexer` in the source tree installs it";

pub fn run(command: CatalogueSubcommand) -> Result<CommandExitCode> {
    match command {
        CatalogueSubcommand::Search(args) => search_index::run(&args),
        CatalogueSubcommand::Show(args) => show_package::run(&args),
        CatalogueSubcommand::Attacks(args) => show_attack_patterns::run(&args),
        CatalogueSubcommand::Update(args) => update_index::run(&args),
        CatalogueSubcommand::Changes(args) => index_changes::run(&args),
        CatalogueSubcommand::Mcp(args) => catalogue_mcp::run(&args),
        CatalogueSubcommand::Classify(args) => classify_tools::run(&args),
        CatalogueSubcommand::Crawl(args) => Err(moved("crawl", &args)),
        CatalogueSubcommand::Eval(args) => Err(moved("eval", &args)),
        CatalogueSubcommand::Index(args) => Err(moved("index", &args)),
        CatalogueSubcommand::Export(args) => Err(moved("export", &args)),
    }
}

/// Returns the error for a subcommand that has moved to `gatelodge-indexer`.
fn moved(verb: &str, args: &LegacyCommandArgs) -> anyhow::Error {
    let words = args.rest.iter().map(|word| format!(" {}", gatelodge_clients::quote_for_shell(word)));
    let command = format!("{INDEXER} {verb}{}", words.collect::<String>());
    UsageError(format!("`catalogue {verb}` moved to a separate program: run `{command}` ({INSTALL_INDEXER})")).into()
}
