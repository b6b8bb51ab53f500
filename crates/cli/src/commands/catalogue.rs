//! `gatelodge catalogue …`: what tools can do.

mod attacks;
mod changes;
mod classify;
mod crawl;
mod eval;
mod export;
mod feed;
mod index;
pub mod known;
mod mcp;
pub mod open;
mod search;
pub mod show;
mod update;

use anyhow::Result;

use crate::cli::CatalogueCommand;
use crate::exit::Exit;

pub fn run(command: CatalogueCommand) -> Result<Exit> {
    match command {
        CatalogueCommand::Search(args) => search::run(&args),
        CatalogueCommand::Show(args) => show::run(&args),
        CatalogueCommand::Attacks(args) => attacks::run(&args),
        CatalogueCommand::Index(args) => index::run(&args),
        CatalogueCommand::Update(args) => update::run(&args),
        CatalogueCommand::Changes(args) => changes::run(&args),
        CatalogueCommand::Export(args) => export::run(&args),
        CatalogueCommand::Mcp(args) => mcp::run(&args),
        CatalogueCommand::Classify(args) => classify::run(&args),
        CatalogueCommand::Eval(args) => eval::run(&args),
        CatalogueCommand::Crawl(command) => crawl::run(command),
    }
}
