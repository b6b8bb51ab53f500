//! Lists that were made of an offer: the same offer under the same policy gives the same list again.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use gatelodge_mcp::{ProtocolGeneration, RequestId};
use gatelodge_mutants::mutant;

use crate::config_snapshot::ServerAccess;
use crate::message_body::MessageBody;
use crate::request_context::{ProtocolTranslation, RequestContext};
use crate::upstream::SecretRedactor;

/// The most lists that are kept of one offer; a list may have megabytes.
const MAX_CACHED_LISTS: usize = 8;

/// All that a list depends on beside the offer.
#[derive(Debug)]
struct ToolListCacheKey {
    server_access: ServerAccess,
    generation: ProtocolGeneration,
    translation: ProtocolTranslation,
    /// What was cut from it.
    redactor: Arc<SecretRedactor>,
}

impl ToolListCacheKey {
    fn of(ctx: &RequestContext) -> Self {
        let redactor = Arc::clone(ctx.upstream.secret_redactor());
        Self {
            server_access: ctx.server_access.clone(),
            generation: ctx.generation(),
            translation: ctx.translation(),
            redactor,
        }
    }

    fn matches(&self, other: &Self) -> bool {
        (self.server_access.has_same_rules(&other.server_access) || mutant!("cached-list-shared-between-policies"))
            && (self.generation, self.translation) == (other.generation, other.translation)
            && Arc::ptr_eq(&self.redactor, &other.redactor)
    }
}

/// The answer that lists something, without secrets, for whoever asks: all but the id.
#[derive(Debug, Clone)]
pub(crate) struct CachedToolList {
    before: Arc<str>,
    after: Bytes,
}

impl CachedToolList {
    /// Takes what stands before the id, and what behind it.
    pub fn new(before: String, after: String, secrets: &SecretRedactor) -> Self {
        Self { before: secrets.redact_json(before).into(), after: secrets.redact(after.into()) }
    }

    pub fn with_id(&self, id: &RequestId<'_>, secrets: &SecretRedactor) -> MessageBody {
        let id = secrets.redact_json(id.raw().to_owned());
        MessageBody::from_head_and_tail(format!("{}{id}", self.before), self.after.clone())
    }
}

/// Lists of one offer, the newest last. An offer is replaced when the server's tools, or what is accepted of them, are
/// others; its lists go with it.
#[derive(Debug, Default)]
pub(crate) struct ToolListCache(Mutex<Vec<(ToolListCacheKey, CachedToolList)>>);

impl ToolListCache {
    /// The list that such a visitor was given before, or a new one; none if none can be made.
    pub fn get_or_build(
        &self,
        ctx: &RequestContext,
        make: impl FnOnce() -> Option<CachedToolList>,
    ) -> Option<CachedToolList> {
        let wanted = ToolListCacheKey::of(ctx);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, list)) = lock().iter().find(|(own, _)| own.matches(&wanted)) {
            return Some(list.clone());
        }
        let list = make()?;
        let mut lists = lock();
        if lists.len() >= MAX_CACHED_LISTS {
            lists.remove(0);
        }
        lists.push((wanted, list.clone()));
        Some(list)
    }
}
