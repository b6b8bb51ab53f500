//! The connection of a session to its upstream, and how often it was opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use super::lazy_box::LazyBox;
use super::lock;
use crate::upstream::{ServerProcess, UpstreamSessionLink};

/// The link to the upstream. Set by the handshake and each time it is repeated.
#[derive(Debug)]
pub(crate) struct UpstreamLink {
    current: Mutex<UpstreamSessionLink>,
    handshake_attempts: AtomicU64,
    epoch: AtomicU64,
    /// Held while the handshake is repeated, so that concurrent calls that find the session lost repeat it only once.
    pub reopen_lock: LazyBox<tokio::sync::Mutex<()>>,
}

impl UpstreamLink {
    pub fn new(link: UpstreamSessionLink) -> Self {
        Self {
            current: Mutex::new(link),
            handshake_attempts: AtomicU64::new(0),
            epoch: AtomicU64::new(0),
            reopen_lock: LazyBox::default(),
        }
    }

    pub fn current(&self) -> UpstreamSessionLink {
        lock(&self.current).clone()
    }

    /// Returns whether the session was restored and has not been opened since.
    pub fn is_not_opened(&self) -> bool {
        matches!(*lock(&self.current), UpstreamSessionLink::NotOpened)
    }

    /// Returns the process dedicated to this session, if it has one.
    pub fn server_process(&self) -> Option<Arc<ServerProcess>> {
        match &*lock(&self.current) {
            UpstreamSessionLink::Process(process) => Some(Arc::clone(process)),
            _ => None,
        }
    }

    /// Installs a new link and counts it as an attempt.
    pub(super) fn replace(&self, link: UpstreamSessionLink) {
        // Before the link: a reader of the new link sees the new epoch too.
        self.epoch.fetch_add(1, Ordering::AcqRel);
        *lock(&self.current) = link;
        self.note_handshake_attempt();
    }

    /// Counts an attempt to open the upstream session.
    pub fn note_handshake_attempt(&self) {
        self.handshake_attempts.fetch_add(1, Ordering::AcqRel);
    }

    /// Returns the number of attempts to open the upstream session since the client's handshake.
    pub fn handshake_attempts(&self) -> u64 {
        self.handshake_attempts.load(Ordering::Acquire)
    }

    /// Returns how many times the upstream session has been replaced.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }
}
