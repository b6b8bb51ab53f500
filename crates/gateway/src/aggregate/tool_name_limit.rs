//! Warns about tool names on the aggregate endpoint that are too long for some clients.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use gatelodge_mcp::aggregate_names::prefix_name;
use gatelodge_store::ServerName;
use tracing::warn;

use crate::request_context::RequestContext;

/// Longest name that is safe with known clients. Claude Code allows 64 characters for `mcp__`, its own name for the
/// gateway, `__` and the tool's name, which leaves 48 if the gateway is called `gatelodge`. Cursor allows 60 in total.
const MAX_TOOL_NAME_CHARS: usize = 48;
/// Maximum number of names to remember; beyond that, no more warnings are logged.
const MAX_WARNED_NAMES: usize = 10_000;

/// Names for which a warning has been logged.
#[derive(Debug, Default)]
pub(crate) struct WarnedNames(Mutex<HashSet<String>>);

/// Returns whether a tool's name on the aggregate endpoint is short enough for known clients.
pub fn fits_tool_name_limit(server: &ServerName, tool: &str) -> bool {
    is_within_limit(&prefix_name(server.as_str(), tool))
}

fn is_within_limit(name: &str) -> bool {
    name.chars().count() <= MAX_TOOL_NAME_CHARS
}

impl WarnedNames {
    /// Logs a warning for each name that is too long, once per name.
    pub(super) fn warn_of_long_names<'n>(&self, ctx: &RequestContext, names: impl Iterator<Item = &'n str>) {
        for name in names.filter(|name| !is_within_limit(name)) {
            let mut warned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if warned.len() < MAX_WARNED_NAMES && warned.insert(name.to_owned()) {
                let (server, length, name) =
                    (ctx.upstream.name(), name.chars().count(), gatelodge_mcp::quote_excerpt(name));
                warn!(server.name = %server, "the tool name {name} has {length} characters, but some clients allow only {MAX_TOOL_NAME_CHARS}: rename `{server}` to something shorter, or connect clients to `/mcp/{server}`");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregate_name_fits_with_all_prefixes_that_clients_add() {
        let server: ServerName = "desk".parse().expect("a name");
        assert!(fits_tool_name_limit(&server, &"a".repeat(42)) && !fits_tool_name_limit(&server, &"a".repeat(43)));
        assert!(fits_tool_name_limit(&server, &"ä".repeat(42)), "characters count, not bytes");
    }
}
