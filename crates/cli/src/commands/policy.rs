//! `gatelodge policy …`: the verbs.

mod check;
mod explain;
mod findings;
mod fmt;
mod import;
mod schema;
mod test;

use anyhow::Result;

use crate::cli::PolicyCommand;
use crate::exit::Exit;
use crate::output::{json as print_json, print};

/// Runs a verb of `policy`.
pub fn run(command: PolicyCommand) -> Result<Exit> {
    match command {
        PolicyCommand::Check(args) => check::run(&args),
        PolicyCommand::Test(args) => test::run(&args),
        PolicyCommand::Explain(args) => explain::run(&args),
        PolicyCommand::Import(args) => import::run(&args),
        PolicyCommand::Schema => schema::run(),
        PolicyCommand::Fmt(args) => fmt::run(&args),
    }
}
