//! `gatelodge policy …`: the verbs.

mod check;
mod draft;
mod explain;
pub mod findings;
mod fmt;
mod import;
mod kept;
mod put;
mod schema;
mod test;

use anyhow::Result;
use gatelodge_store::PolicyName;

use crate::cli::PolicyCommand;
use crate::diagnostic_report;
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output::{print, print_json};

/// Runs a verb of `policy`.
pub fn run(command: PolicyCommand) -> Result<CommandExitCode> {
    match command {
        PolicyCommand::Check(args) => check::run(&args),
        PolicyCommand::Test(args) => test::run(&args),
        PolicyCommand::Explain(args) => explain::run(&args),
        PolicyCommand::Import(args) => import::run(&args),
        PolicyCommand::Draft(args) => draft::run(args),
        PolicyCommand::Schema => schema::run(),
        PolicyCommand::Fmt(args) => fmt::run(&args),
        PolicyCommand::Put(args) => put::run(args),
        PolicyCommand::List(args) => kept::list(args),
        PolicyCommand::Show(args) => kept::show(args),
        PolicyCommand::Versions(args) => kept::versions(args),
        PolicyCommand::Rollback(args) => put::rollback(args),
    }
}

/// Reads a policy's name.
fn name(text: &str) -> Result<PolicyName, UsageError> {
    text.parse().map_err(|error| {
        UsageError(format!("`{}` is not a policy's name: {error}", diagnostic_report::escape_for_terminal(text)))
    })
}
