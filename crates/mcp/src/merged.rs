//! Many servers as one: what names a thing of a server, as a client of all of them sees it, and back.
//!
//! A server's name is of `a-z`, `0-9` and `-`, so what separates it from the rest is always the first of its kind.

mod inward;
mod outward;
mod together;

use std::borrow::Cow;

pub use inward::Past;
pub use outward::{answer_of, message_of};
pub use together::{marked, union};

/// Between a server and the name of a tool, a prompt or a task.
const BETWEEN: &str = "__";
/// Hosts know by this scheme what they show to people, so it stays.
const SHOWN: &str = "ui://";

/// The name of a tool, a prompt or a task of a server.
pub fn name_of(server: &str, own: &str) -> String {
    format!("{server}{BETWEEN}{own}")
}

/// The server that a name begins with, and the server's own name of the thing.
pub fn of_name(name: &str) -> Option<(&str, &str)> {
    name.split_once(BETWEEN)
}

/// The URI, or the template of URIs, of a resource of a server: under a scheme of its own, which nobody fetches past us.
pub fn uri_of(server: &str, own: &str) -> String {
    match own.strip_prefix(SHOWN) {
        Some(rest) => format!("{SHOWN}x-{server}+{rest}"),
        None => format!("x-{server}+{own}"),
    }
}

/// The server that a URI begins with, and the server's own URI.
pub fn of_uri(uri: &str) -> Option<(&str, Cow<'_, str>)> {
    match uri.strip_prefix(SHOWN) {
        Some(rest) => {
            let (server, own) = rest.strip_prefix("x-")?.split_once('+')?;
            Some((server, format!("{SHOWN}{own}").into()))
        }
        None => {
            let (server, own) = uri.strip_prefix("x-")?.split_once('+')?;
            // Each resource has one URI only.
            (!own.starts_with(SHOWN)).then_some((server, own.into()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_uris_are_found_again_whatever_they_are() {
        for own in ["read", "a__b", "__", "", "x-desk+", "näh", "desk__read"] {
            assert_eq!(of_name(&name_of("my-desk", own)), Some(("my-desk", own)));
        }
        let uris = ["file:///a", "ui://view/1", "note://x-a+b", "{+uri}", "no-scheme", "", "x-desk+ui", "ui:/one"];
        for own in uris {
            assert_eq!(of_uri(&uri_of("my-desk", own)), Some(("my-desk", own.into())), "{own}");
        }
        assert_eq!(uri_of("desk", "ui://view/1"), "ui://x-desk+view/1");
        for other in ["read", "file:///a", "x-desk", "x-desk+ui://view/1", "ui://view", ""] {
            assert_eq!(of_uri(other), None, "{other}");
        }
    }
}
