//! The numbers and bits of an index file: what its reader here and its writer in `gatelodge-indexer` share.
//!
//! A file is an envelope (magic, format, two lengths, checksum) and a compressed body of columns. What a column holds is
//! in the order in which the writer writes it.

use gatelodge_policy::Category;
use serde::{Deserialize, Serialize};

use super::index_metadata::IndexMetadata;
use super::package_facts::ToolHints;
use crate::data_flow::DataFlow;
use crate::risk_signals::RiskSignalKind;
use crate::tool_spec::MAX_NAME_BYTES;

/// The first bytes of a file.
pub const FILE_MAGIC: &[u8; 8] = b"GLINDEX\n";
/// The format that is written.
pub const FORMAT: u32 = 2;
/// Length of the envelope in front of the compressed body: magic, format, two lengths, checksum.
pub const HEADER_BYTES: usize = 8 + 4 + 8 + 8 + 4;
/// The largest body, decompressed: eight times what 15,000 servers take.
pub const MOST_BYTES: usize = 64 << 20;
/// The categories by their numbers in a file.
pub const CATEGORIES_BY_NUMBER: [Category; 6] =
    [Category::Read, Category::Write, Category::Execute, Category::Destructive, Category::Financial, Category::Unknown];
/// The types of parameters by their numbers in a file; the first means that the type is not known.
pub const KINDS: [&str; 7] = ["", "string", "integer", "number", "boolean", "array", "object"];
/// Marks a required parameter, next to its type.
pub const REQUIRED_BIT: u8 = 0x80;

pub(super) const FLOWS_BY_BIT: [DataFlow; 3] =
    [DataFlow::ReadsPrivate, DataFlow::ReadsUntrusted, DataFlow::SendsOutward];
/// The bit next to the flows of a tool that is offered only under a setting.
pub(super) const OPTIONAL_BIT: u8 = 1 << 7;

/// The first column of a body.
#[derive(Debug, Serialize, Deserialize)]
pub struct IndexHeader {
    /// Date and counts.
    #[serde(rename = "about")]
    pub metadata: IndexMetadata,
    /// The signals by their bits.
    pub signals: Vec<String>,
}

/// Signals as bits, in the order of [`RiskSignalKind::ALL`].
pub fn signal_bits(signals: &[RiskSignalKind]) -> u32 {
    let bit = |kind: &RiskSignalKind| RiskSignalKind::ALL.iter().position(|own| own == kind).unwrap_or_default();
    signals.iter().fold(0, |bits, kind| bits | 1 << bit(kind))
}

/// Flows as bits, with the bit for a tool that is offered only under a setting.
pub fn flow_bits(flow: &[DataFlow], optional: bool) -> u8 {
    let flows = FLOWS_BY_BIT.iter().enumerate().filter(|(_, own)| flow.contains(own));
    flows.fold(if optional { OPTIONAL_BIT } else { 0 }, |bits, (at, _)| bits | 1 << at)
}

/// Two bits for each claim: not given, no, yes.
pub fn claim_bits(claims: &ToolHints) -> u8 {
    let all = [claims.read_only, claims.destructive, claims.idempotent, claims.open_world];
    let bits = |claim: Option<bool>| claim.map_or(0, |claim| 1 + u8::from(claim));
    all.into_iter().enumerate().fold(0, |all, (at, claim)| all | bits(claim) << (2 * at))
}

/// Whether a text has the form `2026-11-16`.
pub fn is_date(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(fits)
}

/// Whether a text can be the name of a package, a tool or a parameter.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME_BYTES
}

/// Whether a text can be a version; it stands in each event of a server.
pub fn is_version(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES
}
