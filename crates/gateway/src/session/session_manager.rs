//! Opens, finds and ends sessions: in memory, in the store and at their upstreams.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use gatelodge_mcp::code;
use gatelodge_mcp::http_headers::ProtocolError;
use gatelodge_mutants::mutant;
use gatelodge_store::{Clock, IdDigest, ServerName, SessionRow, Sessions};
use http::StatusCode;
use tokio::sync::OwnedSemaphorePermit;
use tracing::warn;

use super::resource_subscriptions::ResourceSubscriptions;
use super::session_persistence::{SessionPersistence, is_session_id, with_store_timeout};
use super::{Session, SessionPool, SessionRegistry, lock};
use crate::config_snapshot::{ActiveConfig, ActiveGrant};
use crate::settings::GatewaySettings;
use crate::upstream::{Permit, Upstream, UpstreamClient, UpstreamSessionLink};

/// Exclusive sessions that have been idle for this long are ended; the shared session is kept.
const SPARE_SESSION_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Log levels longer than this are not stored. The protocol's level names have at most nine bytes.
const MAX_LOG_LEVEL_BYTES: usize = 64;
/// A session used within this time is marked in the store as used now. The time is longer than the interval between two
/// writes.
const RECENT_USE_WINDOW: Duration = Duration::from_secs(120);

/// All sessions of the gateway.
pub(crate) struct SessionManager {
    pub registry: SessionRegistry,
    pub pool: SessionPool,
    persistence: SessionPersistence,
    config: Arc<ActiveConfig>,
    upstream_client: Arc<UpstreamClient>,
    clock: Arc<dyn Clock>,
    idle_timeout: Duration,
    connect_timeout: Duration,
}

impl SessionManager {
    pub fn new(
        rows: Arc<dyn Sessions>,
        config: Arc<ActiveConfig>,
        upstream_client: Arc<UpstreamClient>,
        settings: &GatewaySettings,
    ) -> Self {
        Self {
            registry: SessionRegistry::new(settings.max_sessions, settings.session_idle_timeout),
            pool: SessionPool::default(),
            persistence: SessionPersistence::new(rows),
            clock: Arc::clone(&config.clock),
            config,
            upstream_client,
            idle_timeout: settings.session_idle_timeout,
            connect_timeout: settings.connect_timeout,
        }
    }

    /// Stores a newly opened session.
    pub async fn persist(&self, session: &Session) {
        if let Err(error) = with_store_timeout(self.persistence.rows.put(session.to_row(self.clock.now()))).await {
            warn!(error = %error, "cannot persist a session, it will not survive a restart: {error}");
        }
    }

    /// Stores the subscriptions of a session, if the session is stored.
    pub async fn persist_subscriptions(&self, subscriptions: &ResourceSubscriptions) {
        let writing = async {
            let _write_guard = Some(subscriptions.lock_for_write().await)
                .filter(|_| !mutant!("subscription-rows-written-in-any-order"));
            let (id, uris) = subscriptions.to_row();
            self.persistence.rows.set_subscriptions(id, uris).await
        };
        if let Err(error) = with_store_timeout(writing).await {
            warn!(error = %error, "cannot persist a session's subscriptions, they will not survive a restart: {error}");
        }
    }

    /// Sets the log level of a session's client, and stores it if the session is stored.
    pub async fn persist_log_level(&self, session: &Session, level: &str) {
        session.set_client_log_level(level);
        if level.len() > MAX_LOG_LEVEL_BYTES {
            return;
        }
        if let Err(error) =
            with_store_timeout(self.persistence.rows.set_log_level(session.id_hash(), level.to_owned())).await
        {
            warn!(error = %error, "cannot persist a session's log level, it will not survive a restart: {error}");
        }
    }

    /// Finds a session by its id, in memory or in the store. A session of another grant is not found.
    ///
    /// # Errors
    /// The store cannot be read, or the session limit is reached. The client keeps its session and may retry.
    pub async fn find_or_restore(
        &self,
        id: &str,
        grant: &ActiveGrant,
        server: Option<&ServerName>,
    ) -> Result<Option<Arc<Session>>, ProtocolError> {
        if let Some(session) = self.registry.find(id, &grant.config.id, server) {
            return Ok(Some(session));
        }
        let hash = IdDigest::of(&[id]);
        if !is_session_id(id) || self.registry.contains(id) || self.persistence.is_missing(&hash) {
            return Ok(None);
        }
        let found = self.persistence.look_up(hash).await.map_err(|error| {
            warn!(error = %error, "cannot look up a session: {error}");
            retry_later("stored sessions cannot be read; try again later")
        })?;
        match found {
            Some(row) if row.grant == grant.config.id && row.server.as_ref() == server => {
                self.restore(id, row, grant).await
            }
            Some(_) => Ok(None),
            None => {
                lock(&self.persistence.missing).insert(hash);
                Ok(None)
            }
        }
    }

    async fn restore(
        &self,
        id: &str,
        row: SessionRow,
        grant: &ActiveGrant,
    ) -> Result<Option<Arc<Session>>, ProtocolError> {
        let hash = row.id;
        let oldest = self.clock.now().checked_sub(self.idle_timeout).unwrap_or_default();
        if row.last_used_at < oldest {
            return Ok(None);
        }
        let permit = self.acquire_permit(grant).await;
        let permit = permit.ok_or_else(|| retry_later("too many sessions; try again when some have finished"))?;
        let restored = Session::restore(id, row, permit).and_then(|session| self.registry.insert(session));
        if self.persistence.is_missing(&hash) {
            // The session was ended during the look-up.
            self.registry.remove(id);
            return Ok(None);
        }
        Ok(restored)
    }

    /// Ends a session and deletes it from the store.
    pub async fn delete(&self, session: &Session) {
        self.end(session);
        let hash = session.id_hash();
        if let Err(error) = with_store_timeout(self.persistence.rows.delete(vec![hash])).await {
            warn!(error = %error, "cannot delete an ended session from the store, will retry: {error}");
            lock(&self.persistence.pending_deletes).push(hash);
        }
    }

    /// Ends a session. From then on, its id is not found.
    pub fn end(&self, session: &Session) {
        lock(&self.persistence.missing).insert(session.id_hash());
        self.registry.remove(session.id());
        session.clear_server_requests();
        // A client that only listens has no other way to learn that it needs a new session.
        session.streams.end();
    }

    /// Stores which sessions were used recently, and deletes expired ones.
    pub async fn persist_usage(&self) {
        let now = self.clock.now();
        let pending_deletes = std::mem::take(&mut *lock(&self.persistence.pending_deletes));
        let oldest = now.checked_sub(self.idle_timeout).unwrap_or_default();
        let rows = &self.persistence.rows;
        let writing = async {
            rows.touch(self.registry.recently_used(RECENT_USE_WINDOW), now).await?;
            rows.delete(pending_deletes.clone()).await?;
            rows.sweep(oldest).await
        };
        if let Err(error) = writing.await {
            warn!(error = %error, "cannot store which sessions are in use: {error}");
            lock(&self.persistence.pending_deletes).extend(pending_deletes);
        }
    }

    /// Acquires one of the grant's session slots. If none is free, ends idle sessions and tries again.
    pub async fn acquire_permit(&self, grant: &ActiveGrant) -> Option<OwnedSemaphorePermit> {
        let take = || Arc::clone(&grant.sessions).try_acquire_owned().ok().filter(|_| self.registry.has_capacity());
        if let Some(session_permit) = take() {
            return Some(session_permit);
        }
        self.end_idle().await;
        take()
    }

    /// Ends idle and expired sessions, in the gateway and at the upstream.
    pub async fn end_idle(&self) {
        let (snapshot, now) = (self.config.snapshot(), self.clock.now());
        let grants: HashSet<_> =
            snapshot.grants().filter(|grant| !grant.is_expired(now)).map(|grant| grant.config.id.clone()).collect();
        drop(snapshot);
        let ended = self.registry.remove_expired(|grant| grants.contains(grant));
        self.registry.sweep_server_sessions();
        for session in ended {
            let upstream =
                session.server().and_then(|server| self.config.snapshot().find_server(server.as_str()).cloned());
            if let Some(upstream) = upstream {
                self.end_at_upstream(&upstream, session.upstream_link.current()).await;
            }
        }
    }

    /// Ends unused exclusive sessions, since each is a process or a connection, and removes empty groups.
    pub fn end_spare(&self) {
        let ids = self.pool.take_unused(|id| self.registry.is_unused(id, SPARE_SESSION_IDLE_TIMEOUT));
        ids.iter().for_each(|id| self.registry.remove(id));
        self.pool.remove_closed(|id, grant, server| self.registry.exists(id, grant, server));
    }

    /// Closes processes and connections that the active configuration no longer has, after a change.
    pub fn drop_stale_links(&self) {
        let snapshot = self.config.snapshot();
        self.registry.drop_stale_links(|session, link| {
            let has_grant = snapshot.grants().any(|grant| grant.config.id == *session.grant());
            has_grant
                && session
                    .server()
                    .and_then(|server| snapshot.find_server(server.as_str()))
                    .is_some_and(|upstream| link.belongs_to(upstream))
        });
    }

    /// Ends an upstream session. Failures are ignored, because upstreams expire sessions themselves.
    pub async fn end_at_upstream(&self, upstream: &Upstream, link: UpstreamSessionLink) {
        if matches!(link, UpstreamSessionLink::NoSession | UpstreamSessionLink::NotOpened) || link.has_no_session_id() {
            return;
        }
        let _ = tokio::time::timeout(
            self.connect_timeout,
            self.upstream_client.send(upstream, Permit::for_session_end(link)),
        )
        .await;
    }
}

/// Returns an error after which the client keeps its session and may retry.
fn retry_later(what: &str) -> ProtocolError {
    ProtocolError::new(StatusCode::SERVICE_UNAVAILABLE, code::INTERNAL_ERROR, what)
}
