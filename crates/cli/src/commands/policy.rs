//! `gatelodge policy …`: the verbs.

mod check;
mod explain;
mod fmt;
mod import;
mod schema;
mod test;

use anyhow::Result;
use gatelodge_policy::Policy;

use crate::cli::PolicyCommand;
use crate::exit::Exit;
use crate::file::Source;
use crate::output::{json as print_json, print};
use crate::report;

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

/// Loads a policy, or prints its faults.
fn load(source: &Source) -> Option<Policy> {
    match gatelodge_policy::parse(&source.text, source.format(None)) {
        Ok(policy) => Some(policy),
        Err(faults) => {
            report::faults(source, &faults);
            None
        }
    }
}
