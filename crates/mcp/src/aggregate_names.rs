//! Many servers as one: what names a thing of a server, as a client of all of them sees it, and back.
//!
//! A server's name is of `a-z`, `0-9` and `-`, so what separates it from the rest is always the first of its kind.

mod capability_union;
mod client_to_server;
mod server_to_client;

use std::borrow::Cow;

pub use capability_union::{merge_capabilities, with_meta_member};
pub use client_to_server::UnknownTarget;
pub use server_to_client::{prefix_message, prefix_response};

/// Between a server and the name of a tool, a prompt or a task.
const NAME_SEPARATOR: &str = "__";
/// Hosts know by this scheme what they show to people, so it stays.
const UI_SCHEME: &str = "ui://";

/// The name of a tool, a prompt or a task of a server.
pub fn prefix_name(server: &str, own: &str) -> String {
    format!("{server}{NAME_SEPARATOR}{own}")
}

/// The server that a name begins with, and the server's own name of the thing.
pub fn split_prefixed_name(name: &str) -> Option<(&str, &str)> {
    name.split_once(NAME_SEPARATOR)
}

/// The URI, or the template of URIs, of a resource of a server: under a scheme of its own, which nobody fetches past us.
pub fn prefix_uri(server: &str, own: &str) -> String {
    match own.strip_prefix(UI_SCHEME) {
        Some(rest) => format!("{UI_SCHEME}x-{server}+{rest}"),
        None => format!("x-{server}+{own}"),
    }
}

/// The server that a URI begins with, and the server's own URI.
pub fn split_prefixed_uri(uri: &str) -> Option<(&str, Cow<'_, str>)> {
    match uri.strip_prefix(UI_SCHEME) {
        Some(rest) => {
            let (server, own) = rest.strip_prefix("x-")?.split_once('+')?;
            Some((server, format!("{UI_SCHEME}{own}").into()))
        }
        None => {
            let (server, own) = uri.strip_prefix("x-")?.split_once('+')?;
            // Each resource has one URI only.
            (!own.starts_with(UI_SCHEME)).then_some((server, own.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_uris_are_found_again_whatever_they_are() {
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
