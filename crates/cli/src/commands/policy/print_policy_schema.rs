//! `policy schema`: prints the JSON schema for policies, for use in editors.

use anyhow::Result;

use super::print_json;
use crate::exit_code::CommandExitCode;

pub fn run() -> Result<CommandExitCode> {
    print_json(&gatelodge_policy::policy_json_schema())?;
    Ok(CommandExitCode::Success)
}
