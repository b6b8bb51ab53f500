//! `policy schema`: for editors.

use anyhow::Result;

use super::print_json;
use crate::exit::Exit;

pub fn run() -> Result<Exit> {
    print_json(&gatelodge_policy::policy_json_schema())?;
    Ok(Exit::Fine)
}
