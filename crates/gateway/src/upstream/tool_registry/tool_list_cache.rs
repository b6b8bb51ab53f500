//! Cache of the `tools/list` replies built from one tool listing. For the same listing and the same policy, the reply
//! is always the same.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gatelodge_mcp::{ProtocolGeneration, RequestId};
use gatelodge_mutants::mutant;

use crate::active_policy::GrantServerAccess;
use crate::body::MessageBody;
use crate::upstream::SecretRedactor;

/// Maximum number of lists kept per listing. A list may take several megabytes.
const MAX_CACHED_LISTS: usize = 8;

/// Everything that a list depends on, apart from the listing.
#[derive(Debug)]
pub(crate) struct ToolListCacheKey {
    pub server_access: GrantServerAccess,
    pub client_generation: ProtocolGeneration,
    pub upstream_generation: ProtocolGeneration,
    /// The redactor that was applied to the list.
    pub redactor: Arc<SecretRedactor>,
}

impl ToolListCacheKey {
    fn matches(&self, other: &Self) -> bool {
        (self.server_access.has_same_rules(&other.server_access) || mutant!("cached-list-shared-between-policies"))
            && self.client_generation == other.client_generation
            && self.upstream_generation == other.upstream_generation
            && Arc::ptr_eq(&self.redactor, &other.redactor)
    }
}

/// A redacted `tools/list` reply without its id.
#[derive(Debug, Clone)]
pub(crate) struct CachedToolList {
    before: Arc<str>,
    after: Bytes,
}

impl CachedToolList {
    /// Creates a cached reply from the text before and after its id, which differs for each request.
    pub fn new(before: String, after: String, secrets: &SecretRedactor) -> Self {
        Self { before: secrets.redact_json(before).into(), after: secrets.redact(after.into()) }
    }

    pub fn with_id(&self, id: &RequestId<'_>, secrets: &SecretRedactor) -> MessageBody {
        let id = secrets.redact_json(id.raw().to_owned());
        MessageBody::from_head_and_tail(format!("{}{id}", self.before), self.after.clone())
    }
}

/// Lists made from one listing, newest last. The cache is dropped with its listing when the server's tools or their
/// pins change.
#[derive(Debug, Default)]
pub(crate) struct ToolListCache(Mutex<Vec<(ToolListCacheKey, CachedToolList)>>);

impl ToolListCache {
    /// Returns the cached list for a request, or builds one; `None` if it cannot be built.
    pub fn get_or_build(
        &self,
        key: ToolListCacheKey,
        build: impl FnOnce() -> Option<CachedToolList>,
    ) -> Option<CachedToolList> {
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, list)) = lock().iter().find(|(own, _)| own.matches(&key)) {
            return Some(list.clone());
        }
        let list = build()?;
        let mut lists = lock();
        if lists.len() >= MAX_CACHED_LISTS {
            lists.remove(0);
        }
        lists.push((key, list.clone()));
        Some(list)
    }
}
