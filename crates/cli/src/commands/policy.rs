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

/// Prints a value as JSON.
fn print_json(value: &impl serde::Serialize) -> Result<()> {
    print(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Prints to standard output; whoever closed it early wanted no more.
fn print(text: &str) -> Result<()> {
    use std::io::Write;
    match anstream::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}
