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
const MOST: usize = 8;

/// All that a list depends on beside the offer.
#[derive(Debug)]
struct For {
    door: ServerAccess,
    era: ProtocolGeneration,
    crossing: ProtocolTranslation,
    /// What was cut from it.
    secrets: Arc<SecretRedactor>,
}

impl For {
    fn of(visit: &RequestContext) -> Self {
        let secrets = Arc::clone(visit.upstream.secret_redactor());
        Self { door: visit.server_access.clone(), era: visit.generation(), crossing: visit.translation(), secrets }
    }

    fn is_same(&self, other: &Self) -> bool {
        (self.door.has_same_rules(&other.door) || mutant!("cached-list-shared-between-policies"))
            && (self.era, self.crossing) == (other.era, other.crossing)
            && Arc::ptr_eq(&self.secrets, &other.secrets)
    }
}

/// The answer that lists something, without secrets, for whoever asks: all but the id.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    before: Arc<str>,
    behind: Bytes,
}

impl Listed {
    /// Takes what stands before the id, and what behind it.
    pub fn new(before: String, behind: String, secrets: &SecretRedactor) -> Self {
        Self { before: secrets.redact_json(before).into(), behind: secrets.redact(behind.into()) }
    }

    pub fn under(&self, id: &RequestId<'_>, secrets: &SecretRedactor) -> MessageBody {
        let id = secrets.redact_json(id.raw().to_owned());
        MessageBody::from_head_and_tail(format!("{}{id}", self.before), self.behind.clone())
    }
}

/// Lists of one offer, the newest last. An offer is replaced when the server's tools, or what is accepted of them, are
/// others; its lists go with it.
#[derive(Debug, Default)]
pub(crate) struct Lists(Mutex<Vec<(For, Listed)>>);

impl Lists {
    /// The list that such a visitor was given before, or a new one; none if none can be made.
    pub fn list(&self, visit: &RequestContext, make: impl FnOnce() -> Option<Listed>) -> Option<Listed> {
        let wanted = For::of(visit);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, list)) = lock().iter().find(|(own, _)| own.is_same(&wanted)) {
            return Some(list.clone());
        }
        let list = make()?;
        let mut lists = lock();
        if lists.len() >= MOST {
            lists.remove(0);
        }
        lists.push((wanted, list.clone()));
        Some(list)
    }
}
