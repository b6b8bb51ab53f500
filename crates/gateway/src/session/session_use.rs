//! When a session was last used, and whether it is in use now.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Session, lock};

/// The use of one session.
#[derive(Debug)]
pub(super) struct SessionUse {
    /// Each [`SessionUseGuard`] holds a clone, and the session does not expire as idle while there are any.
    count: Arc<()>,
    last: Mutex<Instant>,
}

impl SessionUse {
    pub fn begin() -> Self {
        Self { count: Arc::default(), last: Mutex::new(Instant::now()) }
    }

    pub fn last(&self) -> Instant {
        *lock(&self.last)
    }

    pub fn touch(&self) {
        *lock(&self.last) = Instant::now();
    }

    /// Returns whether the session is not held, and was not used within `limit`.
    pub fn is_over_since(&self, limit: Duration) -> bool {
        Arc::strong_count(&self.count) == 1 && self.last().elapsed() > limit
    }
}

/// Marks a session as in use until the guard is dropped.
#[derive(Debug)]
pub(crate) struct SessionUseGuard {
    session: Arc<Session>,
    _use_count: Arc<()>,
}

impl SessionUseGuard {
    pub fn new(session: &Arc<Session>) -> Self {
        Self { session: Arc::clone(session), _use_count: Arc::clone(&session.usage.count) }
    }
}

impl Drop for SessionUseGuard {
    fn drop(&mut self) {
        // The idle time starts at the end of the use.
        self.session.usage.touch();
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use gatelodge_mcp::Revision;
    use gatelodge_store::GrantId;
    use tokio::sync::Semaphore;

    use super::*;
    use crate::session::ClientInfo;
    use crate::session::SessionParams;
    use crate::upstream::UpstreamSessionLink;

    #[test]
    fn session_is_unused_from_the_end_of_its_last_use() {
        let permit = Arc::new(Semaphore::new(1)).try_acquire_owned().expect("a permit");
        let params = SessionParams {
            grant: GrantId("ci".into()),
            server: None,
            revision: Revision::R2025_11_25,
            client_info: ClientInfo::default(),
            handshake: Bytes::new(),
            server_info: Bytes::new(),
            upstream_link: UpstreamSessionLink::NoSession,
            session_permit: permit,
            is_local: false,
            accepts_log_messages: false,
        };
        let (session, minute) = (Arc::new(Session::new(params).expect("a session")), Duration::from_secs(60));
        let long_ago = || Instant::now().checked_sub(minute * 2).expect("a time");
        let held = session.mark_in_use();
        *lock(&session.usage.last) = long_ago();
        assert!(!session.is_unused(minute), "it is in use");
        drop(held);
        assert!(!session.is_unused(minute), "it was in use until now");
        *lock(&session.usage.last) = long_ago();
        assert!(session.is_unused(minute));
    }
}
