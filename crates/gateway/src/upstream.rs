//! A server behind the gateway: where it is, what it offers, and how messages get there.

mod client;
mod exchange;
mod offer;
mod secret;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use gatelodge_store::ServerName;
use http::Uri;
use http::header::{HeaderMap, HeaderName, HeaderValue};
use tokio::sync::{Mutex, Semaphore};

pub use client::TlsError;
pub(crate) use client::{Client, ModernHead, Outgoing, SendError};
pub(crate) use exchange::Exchange;
pub(crate) use offer::{Offer, Offers};
pub use secret::MIN_SECRET;
pub(crate) use secret::Secrets;

/// A header that is sent with each request to an upstream.
#[derive(Clone, PartialEq, Eq)]
pub struct InjectedHeader {
    /// Its name.
    pub name: HeaderName,
    /// Its value, with everything from the environment in its place.
    pub value: HeaderValue,
    /// What must never be seen on the caller's side: the values from the environment.
    pub secrets: Vec<String>,
}

// A header's value may be a secret, and configurations get printed.
impl fmt::Debug for InjectedHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ***", self.name)
    }
}

/// What is configured of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UpstreamConfig {
    /// Its name, the last part of its URL at the gateway.
    pub name: ServerName,
    /// Where it listens.
    pub url: Uri,
    /// What is sent with each request.
    pub headers: Vec<InjectedHeader>,
    /// Whether the call log keeps the values of arguments.
    pub log_arguments: bool,
}

/// A server in force.
#[derive(Debug)]
pub struct Upstream {
    config: UpstreamConfig,
    headers: HeaderMap,
    secrets: Secrets,
    pub(crate) in_flight: Arc<Semaphore>,
    pub(crate) offers: Offers,
    /// Whether it speaks without handshakes: 0 unknown, 1 yes, 2 no. Written by whoever asked it, read by every request
    /// of a modern client.
    speaks_modern: AtomicU8,
    /// Held while it is asked, so that many requests ask once.
    pub(crate) probing: Mutex<()>,
}

impl Upstream {
    pub(crate) fn new(config: UpstreamConfig, in_flight: usize) -> Self {
        let mut headers = HeaderMap::new();
        for header in &config.headers {
            let mut value = header.value.clone();
            value.set_sensitive(true);
            headers.append(header.name.clone(), value);
        }
        // A key may stand in the URL as well.
        let query: Vec<String> = config.url.query().map_or_else(Vec::new, |query| {
            let values = query.split('&').map(|pair| pair.split_once('=').map_or(pair, |(_, value)| value));
            values.map(str::to_owned).collect()
        });
        let secrets = Secrets::new(config.headers.iter().flat_map(|header| &header.secrets).chain(&query));
        Self {
            config,
            headers,
            secrets,
            in_flight: Arc::new(Semaphore::new(in_flight)),
            offers: Offers::default(),
            speaks_modern: AtomicU8::new(0),
            probing: Mutex::default(),
        }
    }

    /// What was configured.
    pub fn config(&self) -> &UpstreamConfig {
        &self.config
    }

    pub(crate) fn name(&self) -> &ServerName {
        &self.config.name
    }

    pub(crate) fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    pub(crate) fn secrets(&self) -> &Secrets {
        &self.secrets
    }

    pub(crate) fn speaks_modern(&self) -> Option<bool> {
        match self.speaks_modern.load(Ordering::Relaxed) {
            1 => Some(true),
            2 => Some(false),
            _ => None,
        }
    }

    pub(crate) fn set_speaks_modern(&self, speaks: bool) {
        self.speaks_modern.store(if speaks { 1 } else { 2 }, Ordering::Relaxed);
    }
}
