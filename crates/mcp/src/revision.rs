//! The released revisions of the protocol and their two generations.

use std::fmt;
use std::str::FromStr;

use crate::message_error::quote_excerpt;

/// A released revision, ordered by date.
///
/// ```
/// use gatelodge_mcp::{ProtocolGeneration, Revision};
///
/// let revision: Revision = "2026-07-28".parse().expect("a released revision");
/// assert_eq!(revision.generation(), ProtocolGeneration::Stateless);
/// assert!("2026-07-29".parse::<Revision>().is_err());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Revision {
    /// 2024-11-05: HTTP with a separate event stream.
    R2024_11_05,
    /// 2025-03-26: one URL, sessions, batches.
    R2025_03_26,
    /// 2025-06-18: no batches, a version header.
    R2025_06_18,
    /// 2025-11-25: tasks, elicitation by URL.
    R2025_11_25,
    /// 2026-07-28: no handshake, no sessions.
    R2026_07_28,
}

/// The two generations of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ProtocolGeneration {
    /// There is a handshake and a session, and servers may send requests.
    Stateful,
    /// Every request is self-contained.
    Stateless,
}

/// Error for text that does not name a released revision.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown protocol revision {}", quote_excerpt(.0))]
pub struct ParseRevisionError(String);

impl Revision {
    /// All revisions, oldest first.
    pub const ALL: [Self; 5] =
        [Self::R2024_11_05, Self::R2025_03_26, Self::R2025_06_18, Self::R2025_11_25, Self::R2026_07_28];

    /// The revision as written on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::R2024_11_05 => "2024-11-05",
            Self::R2025_03_26 => "2025-03-26",
            Self::R2025_06_18 => "2025-06-18",
            Self::R2025_11_25 => "2025-11-25",
            Self::R2026_07_28 => "2026-07-28",
        }
    }

    /// The protocol generation of the revision.
    pub fn generation(self) -> ProtocolGeneration {
        if self < Self::R2026_07_28 { ProtocolGeneration::Stateful } else { ProtocolGeneration::Stateless }
    }
}

impl FromStr for Revision {
    type Err = ParseRevisionError;

    fn from_str(text: &str) -> Result<Self, ParseRevisionError> {
        let named = Self::ALL.into_iter().find(|revision| revision.as_str() == text);
        named.ok_or_else(|| ParseRevisionError(text.to_owned()))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
