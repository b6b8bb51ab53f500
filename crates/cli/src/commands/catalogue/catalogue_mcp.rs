//! `catalogue mcp`: the catalogue as an MCP server over the standard streams. One message at a time: each answer is a look
//! into memory.

mod catalogue_methods;
mod catalogue_tools;

use std::io::{BufRead, Read, Write};

use anyhow::{Context, Result};
use gatelodge_json::JsonLimits;
use gatelodge_mcp::{code, error_response, to_single_line};

use super::index_access;
use crate::cli::CatalogueMcpArgs;
use crate::exit_code::CommandExitCode;
use catalogue_tools::CatalogueServer;

pub fn run(args: &CatalogueMcpArgs) -> Result<CommandExitCode> {
    // Where there is no directory to keep them in, nothing has changed yet.
    let changes = index_access::index_paths(&args.index_source.store).ok().map(|(index, changes)| {
        index_access::publish_staged_changes(&index, &changes);
        changes
    });
    let desk = CatalogueServer {
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
        let said = match (is_rest, is_whole) {
            // What is too long is told once, at its end, and the rest of it dropped.
            (false, true) => catalogue_methods::answer(&desk, line.trim_ascii_end()),
            (_, false) => None,
            (true, true) => {
                let what = format!("a message has more than {max} bytes");
                Some(error_response(None, code::INVALID_REQUEST, &what, None))
            }
        };
        is_rest = !is_whole;
        if let Some(said) = said {
            let written = writeln!(output, "{}", to_single_line(&said)).and_then(|()| output.flush());
            if written.is_err() {
                // The client has gone.
                return Ok(CommandExitCode::Success);
            }
        }
    }
}
