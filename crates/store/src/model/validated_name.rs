//! Validated names of servers and policies.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

/// Maximum length of a name. Clients prefix tool names with the server name and allow about 60 characters for both.
const MAX_NAME_BYTES: usize = 64;

/// Error for an invalid name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseNameError {
    /// The name is not a valid server name.
    #[error(
        "a server name has 1 to {MAX_NAME_BYTES} characters of a-z, 0-9 and `-`, and starts with a letter or digit"
    )]
    Server,
    /// The name is not a valid policy name.
    #[error(
        "a policy name has 1 to {MAX_NAME_BYTES} characters of A-Z, a-z, 0-9, `.`, `_` and `-`, and starts with a letter or digit"
    )]
    Policy,
}

macro_rules! names {
    ($($(#[$doc:meta])+ $name:ident, $error:ident, $allowed:expr;)+) => {$(
        $(#[$doc])+
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Returns the name as a string.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        // Hash and equality are those of the text, so maps can be searched by it.
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = ParseNameError;

            fn from_str(text: &str) -> Result<Self, ParseNameError> {
                let is_allowed: fn(u8) -> bool = $allowed;
                let starts_with_alphanumeric = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
                let is_name = starts_with_alphanumeric && text.len() <= MAX_NAME_BYTES && text.bytes().all(is_allowed);
                if is_name { Ok(Self(text.into())) } else { Err(ParseNameError::$error) }
            }
        }

        impl TryFrom<String> for $name {
            type Error = ParseNameError;

            fn try_from(text: String) -> Result<Self, ParseNameError> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )+};
}

names! {
    /// Name of a server. It contains no `_`, so the first `__` in `<server>__<tool>` is the separator.
    ///
    /// ```
    /// use gatelodge_store::ServerName;
    ///
    /// let name: ServerName = "notes-2".parse().expect("a name");
    /// assert_eq!(name.as_str(), "notes-2");
    /// assert!("Notes".parse::<ServerName>().is_err());
    /// ```
    ServerName, Server, |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-');
    /// Name of a policy.
    PolicyName, Policy, |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_valid() {
        for name in ["stripe", "prod-stripe-2", "0"] {
            assert_eq!(name.parse::<ServerName>().expect("a name").as_str(), name);
        }
        for name in ["", "Stripe", "a_b", "-a", "a b", "ä", "a/b", &"a".repeat(65)] {
            assert_eq!(name.parse::<ServerName>(), Err(ParseNameError::Server), "{name}");
        }
        assert!("Books_2.v1".parse::<PolicyName>().is_ok());
        for name in ["", ".hidden", "a/b", "a\n"] {
            assert_eq!(name.parse::<PolicyName>(), Err(ParseNameError::Policy), "{name}");
        }
    }
}
