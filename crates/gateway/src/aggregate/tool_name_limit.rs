//! Names that clients may have no room for.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use gatelodge_mcp::aggregate_names::prefix_name;
use gatelodge_store::ServerName;
use tracing::warn;

use crate::Gateway;
use crate::request_context::RequestContext;

/// The longest name that clients have room for: Claude Code takes 64 characters with `mcp__`, what the client calls the
/// gateway, and `__` before it, which leaves 48 for one called `gatelodge`. Cursor takes 60 in all.
const MAX_TOOL_NAME_CHARS: usize = 48;
/// Names that a warning was given of; beyond that there are no more warnings.
const MAX_WARNED_NAMES: usize = 10_000;

/// Names that a warning was given of.
#[derive(Debug, Default)]
pub(crate) struct WarnedNames(Mutex<HashSet<String>>);

/// Whether clients have room for the name that a tool has at `/mcp`.
pub fn fits_tool_name_limit(server: &ServerName, tool: &str) -> bool {
    is_within_limit(&prefix_name(server.as_str(), tool))
}

fn is_within_limit(name: &str) -> bool {
    name.chars().count() <= MAX_TOOL_NAME_CHARS
}

impl Gateway {
    /// Warns of names that clients may have no room for, once of each.
    pub(super) fn warn_of_long_names<'n>(&self, ctx: &RequestContext, names: impl Iterator<Item = &'n str>) {
        for name in names.filter(|name| !is_within_limit(name)) {
            let mut warned = self.warned_names.0.lock().unwrap_or_else(PoisonError::into_inner);
            if warned.len() < MAX_WARNED_NAMES && warned.insert(name.to_owned()) {
                let (server, length, name) =
                    (ctx.upstream.name(), name.chars().count(), gatelodge_mcp::quote_excerpt(name));
                warn!(server.name = %server, "the name {name} has {length} characters, and some clients have room for {MAX_TOOL_NAME_CHARS}: give `{server}` a shorter name, or connect them to `/mcp/{server}`");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_with_all_that_clients_put_before_it() {
        let server: ServerName = "desk".parse().expect("a name");
        assert!(fits_tool_name_limit(&server, &"a".repeat(42)) && !fits_tool_name_limit(&server, &"a".repeat(43)));
        assert!(fits_tool_name_limit(&server, &"ä".repeat(42)), "characters count, not bytes");
    }
}
