//! `gatelodge catalogue …`: what tools can do.

mod classify;
mod crawl;
mod eval;
pub mod known;

use anyhow::Result;

use crate::cli::CatalogueCommand;
use crate::exit::Exit;

pub fn run(command: CatalogueCommand) -> Result<Exit> {
    match command {
        CatalogueCommand::Classify(args) => classify::run(&args),
        CatalogueCommand::Eval(args) => eval::run(&args),
        CatalogueCommand::Crawl(command) => crawl::run(command),
    }
}
