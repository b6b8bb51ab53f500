//! A header with a credential, which the gateway adds to the requests that it sends.

use std::fmt;

use http::header::{HeaderName, HeaderValue};

/// A header sent with each request to an upstream.
#[derive(Clone, PartialEq, Eq)]
pub struct InjectedHeader {
    /// Name of the header.
    pub name: HeaderName,
    /// Value, with environment variables expanded.
    pub value: HeaderValue,
    /// The values taken from the environment, which must never reach a client.
    pub secrets: Vec<String>,
}

// A header's value may be a secret, and configurations get printed.
impl fmt::Debug for InjectedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}
