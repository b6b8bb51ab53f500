//! `gatelodge policy …`: checks, tests, drafts and stores policies.

mod check_policy;
mod draft_policy;
mod explain_policy;
pub mod file_diagnostics;
mod format_policy;
mod import_intercept_policy;
mod list_policies;
mod print_policy_schema;
pub mod put_policy;
mod run_policy_cases;

use anyhow::Result;
use gatelodge_store::PolicyName;

use crate::cli::PolicySubcommand;
use crate::diagnostic_report;
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output::{print, print_json};

/// Runs one `policy` subcommand.
pub fn run(command: PolicySubcommand) -> Result<CommandExitCode> {
    match command {
        PolicySubcommand::Check(args) => check_policy::run(&args),
        PolicySubcommand::Test(args) => run_policy_cases::run(&args),
        PolicySubcommand::Explain(args) => explain_policy::run(&args),
        PolicySubcommand::Import(args) => import_intercept_policy::run(&args),
        PolicySubcommand::Draft(args) => draft_policy::run(args),
        PolicySubcommand::Schema => print_policy_schema::run(),
        PolicySubcommand::Fmt(args) => format_policy::run(&args),
        PolicySubcommand::Put(args) => put_policy::run(args),
        PolicySubcommand::List(args) => list_policies::list_policies(args),
        PolicySubcommand::Show(args) => list_policies::show_policy(args),
        PolicySubcommand::Versions(args) => list_policies::list_versions(args),
        PolicySubcommand::Rollback(args) => put_policy::rollback(args),
    }
}

/// Parses a policy name.
fn parse_policy_name(text: &str) -> Result<PolicyName, UsageError> {
    text.parse().map_err(|error| {
        UsageError(format!("`{}` is not a policy name: {error}", diagnostic_report::escape_for_terminal(text)))
    })
}
