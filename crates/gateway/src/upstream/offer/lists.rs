//! Lists that were made of an offer: the same offer under the same policy gives the same list again.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;
use gatelodge_mcp::Era;

use crate::live::Door;
use crate::visit::{Crossing, Visit};

/// The most lists that are kept of one offer; a list may have megabytes.
const MOST: usize = 8;

/// All that a list depends on beside the offer.
#[derive(Debug)]
struct For {
    door: Door,
    era: Era,
    crossing: Crossing,
}

impl For {
    fn of(visit: &Visit) -> Self {
        Self { door: visit.door.clone(), era: visit.era(), crossing: visit.crossing() }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.door.is_same(&other.door) && (self.era, self.crossing) == (other.era, other.crossing)
    }
}

/// Lists of one offer, the newest last. An offer is replaced when the server's tools, or what is accepted of them, are
/// others; its lists go with it.
#[derive(Debug, Default)]
pub(crate) struct Lists(Mutex<Vec<(For, Bytes)>>);

impl Lists {
    /// The list that such a visitor was given before, or a new one; none if none can be made.
    pub fn list(&self, visit: &Visit, make: impl FnOnce() -> Option<String>) -> Option<Bytes> {
        let wanted = For::of(visit);
        let lock = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, list)) = lock().iter().find(|(own, _)| own.is_same(&wanted)) {
            return Some(list.clone());
        }
        let list = Bytes::from(make()?);
        let mut lists = lock();
        if lists.len() >= MOST {
            lists.remove(0);
        }
        lists.push((wanted, list.clone()));
        Some(list)
    }
}
