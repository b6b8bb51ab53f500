//! `catalogue mcp`: runs an MCP server for the catalogue over stdio. Messages are handled one at a time, which is fast
//! enough because responses are computed from memory.

mod catalogue_mcp_methods;
mod catalogue_mcp_tools;

use std::io::{BufRead, Read, Write};

use anyhow::{Context, Result};
use gatelodge_json::JsonLimits;
use gatelodge_mcp::{code, error_response, to_single_line};

use super::index_access;
use crate::cli::CatalogueMcpArgs;
use crate::exit_code::CommandExitCode;
use catalogue_mcp_tools::CatalogueMcpServer;

pub fn run(args: &CatalogueMcpArgs) -> Result<CommandExitCode> {
    // Without a data directory there are no recorded changes.
    let changes = index_access::index_paths(&args.index_source.store).ok().map(|(index, changes)| {
        index_access::publish_staged_changes(&index, &changes);
        changes
    });
    let catalogue = CatalogueMcpServer {
        index: index_access::open_index(&args.index_source)?,
        change_log: changes,
        is_custom_index: args.index_source.index.is_some(),
    };
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let max = JsonLimits::REQUEST.max_bytes as u64;
    let mut line = Vec::new();
    let mut is_rest = false;
    loop {
        line.clear();
        let read = (&mut input).take(max + 1).read_until(b'\n', &mut line).context("cannot read standard input")?;
        if read == 0 {
            return Ok(CommandExitCode::Success);
        }
        let is_whole = line.ends_with(b"\n") || read as u64 <= max;
        let response = match (is_rest, is_whole) {
            // A message that is too long is dropped and reported once, at its end.
            (false, true) => catalogue_mcp_methods::handle_line(&catalogue, line.trim_ascii_end()),
            (_, false) => None,
            (true, true) => {
                let message = format!("the message is longer than {max} bytes");
                Some(error_response(None, code::INVALID_REQUEST, &message, None))
            }
        };
        is_rest = !is_whole;
        if let Some(response) = response {
            let written = writeln!(output, "{}", to_single_line(&response)).and_then(|()| output.flush());
            if written.is_err() {
                // The client has gone.
                return Ok(CommandExitCode::Success);
            }
        }
    }
}
