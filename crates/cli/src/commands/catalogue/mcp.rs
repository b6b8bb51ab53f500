//! stub
use crate::cli::CatalogueMcpArgs;
use crate::exit::Exit;
use anyhow::Result;
pub fn run(_args: &CatalogueMcpArgs) -> Result<Exit> {
    Ok(Exit::Fine)
}
