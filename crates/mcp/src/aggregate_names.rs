//! Names and URIs at the aggregate endpoint: adds a server prefix to tools, prompts, tasks and resources, and splits it
//! off again.
//!
//! Server names consist of `a-z`, `0-9` and `-`, so the first separator always ends the server name.

mod capability_union;
mod client_message_rewrite;
mod server_message_rewrite;

use std::borrow::Cow;

pub use capability_union::{merge_capabilities, with_meta_member};
pub use client_message_rewrite::UnroutableSubscriptionTarget;
pub use server_message_rewrite::{prefix_message, prefix_response};

/// Separates the server name from the name of a tool, prompt or task.
const NAME_SEPARATOR: &str = "__";
/// The scheme of UI resources. MCP hosts recognize these resources by it, so the server prefix is inserted after the
/// scheme.
const UI_SCHEME: &str = "ui://";

/// The name of a server's tool, prompt or task at the aggregate endpoint.
///
/// ```
/// use gatelodge_mcp::aggregate_names::{prefix_name, split_prefixed_name};
///
/// assert_eq!(prefix_name("billing", "refund"), "billing__refund");
/// assert_eq!(split_prefixed_name("billing__refund"), Some(("billing", "refund")));
/// ```
pub fn prefix_name(server: &str, own: &str) -> String {
    format!("{server}{NAME_SEPARATOR}{own}")
}

/// Splits a prefixed name into the server and the server's own name.
pub fn split_prefixed_name(name: &str) -> Option<(&str, &str)> {
    name.split_once(NAME_SEPARATOR)
}

/// The URI or URI template of a server's resource at the aggregate endpoint. The prefix changes the scheme, so that
/// clients do not try to fetch the resource directly, bypassing the gateway.
pub fn prefix_uri(server: &str, own: &str) -> String {
    match own.strip_prefix(UI_SCHEME) {
        Some(rest) => format!("{UI_SCHEME}x-{server}+{rest}"),
        None => format!("x-{server}+{own}"),
    }
}

/// Splits a prefixed URI into the server and the server's own URI.
pub fn split_prefixed_uri(uri: &str) -> Option<(&str, Cow<'_, str>)> {
    match uri.strip_prefix(UI_SCHEME) {
        Some(rest) => {
            let (server, own) = rest.strip_prefix("x-")?.split_once('+')?;
            Some((server, format!("{UI_SCHEME}{own}").into()))
        }
        None => {
            let (server, own) = uri.strip_prefix("x-")?.split_once('+')?;
            // Each resource has exactly one URI.
            (!own.starts_with(UI_SCHEME)).then_some((server, own.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixed_names_and_uris_split_into_the_originals() {
        for own in ["read", "a__b", "__", "", "x-desk+", "näh", "desk__read"] {
            assert_eq!(split_prefixed_name(&prefix_name("my-desk", own)), Some(("my-desk", own)));
        }
        let uris = ["file:///a", "ui://view/1", "note://x-a+b", "{+uri}", "no-scheme", "", "x-desk+ui", "ui:/one"];
        for own in uris {
            assert_eq!(split_prefixed_uri(&prefix_uri("my-desk", own)), Some(("my-desk", own.into())), "{own}");
        }
        assert_eq!(prefix_uri("desk", "ui://view/1"), "ui://x-desk+view/1");
        for other in ["read", "file:///a", "x-desk", "x-desk+ui://view/1", "ui://view", ""] {
            assert_eq!(split_prefixed_uri(other), None, "{other}");
        }
    }
}
