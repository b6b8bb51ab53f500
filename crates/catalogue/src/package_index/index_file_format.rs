//! Constants and bit layouts of index files, shared by the reader in this crate and the writer in `gatelodge-indexer`.
//!
//! An index file consists of an envelope (magic bytes, format version, two lengths, checksum) and a compressed body.
//! The body's columns are stored in the order in which the writer emits them.

use gatelodge_policy::Category;
use serde::{Deserialize, Serialize};

use super::index_metadata::IndexMetadata;
use super::package_facts::ToolHints;
use crate::data_flow_label::DataFlowLabel;
use crate::risk_signals::RiskSignalKind;
use crate::tool_spec::MAX_NAME_BYTES;

/// Magic bytes at the start of an index file.
pub const FILE_MAGIC: &[u8; 8] = b"GLINDEX\n";
/// Current format version.
pub const FORMAT: u32 = 2;
/// Length of the envelope before the compressed body: magic bytes, format version, two lengths, checksum.
pub const HEADER_BYTES: usize = 8 + 4 + 8 + 8 + 4;
/// Maximum size of the decompressed body: about eight times what 15,000 servers need.
pub const MAX_BODY_BYTES: usize = 64 << 20;
/// Categories, indexed by their number in the file.
pub const CATEGORIES_BY_NUMBER: [Category; 6] =
    [Category::Read, Category::Write, Category::Execute, Category::Destructive, Category::Financial, Category::Unknown];
/// Parameter types, indexed by their number in the file. The first entry means that the type is unknown.
pub const PARAMETER_TYPES_BY_NUMBER: [&str; 7] = ["", "string", "integer", "number", "boolean", "array", "object"];
/// Bit that marks a required parameter. It is stored with the parameter's type.
pub const REQUIRED_BIT: u8 = 0x80;

pub(super) const FLOWS_BY_BIT: [DataFlowLabel; 3] =
    [DataFlowLabel::ReadsPrivate, DataFlowLabel::ReadsUntrusted, DataFlowLabel::SendsOutward];
/// Bit that marks a tool as off by default. It is stored with the tool's data flows.
pub(super) const OPTIONAL_BIT: u8 = 1 << 7;

/// The first column of an index file's body.
#[derive(Debug, Serialize, Deserialize)]
pub struct IndexHeader {
    /// Date of the index, and statistics about it.
    #[serde(rename = "about")]
    pub metadata: IndexMetadata,
    /// Names of the risk signals, in the order of the bits that encode them.
    pub signals: Vec<String>,
}

/// Encodes risk signals as bits, in the order of [`RiskSignalKind::ALL`].
pub fn signal_bits(signals: &[RiskSignalKind]) -> u32 {
    let bit = |kind: &RiskSignalKind| RiskSignalKind::ALL.iter().position(|own| own == kind).unwrap_or_default();
    signals.iter().fold(0, |bits, kind| bits | 1 << bit(kind))
}

/// Encodes data flows as bits, together with the bit for tools that are off by default.
pub fn flow_bits(flow: &[DataFlowLabel], optional: bool) -> u8 {
    let flows = FLOWS_BY_BIT.iter().enumerate().filter(|(_, own)| flow.contains(own));
    flows.fold(if optional { OPTIONAL_BIT } else { 0 }, |bits, (at, _)| bits | 1 << at)
}

/// Encodes each hint in two bits: absent, false or true.
pub fn claim_bits(claims: &ToolHints) -> u8 {
    let all = [claims.read_only, claims.destructive, claims.idempotent, claims.open_world];
    let bits = |claim: Option<bool>| claim.map_or(0, |claim| 1 + u8::from(claim));
    all.into_iter().enumerate().fold(0, |all, (at, claim)| all | bits(claim) << (2 * at))
}

/// Returns whether `text` is formatted like a date, such as `2026-11-16`.
pub fn is_date(text: &str) -> bool {
    let fits = |(at, byte): (usize, u8)| if matches!(at, 4 | 7) { byte == b'-' } else { byte.is_ascii_digit() };
    text.len() == 10 && text.bytes().enumerate().all(fits)
}

/// Returns whether `text` can be the name of a package, tool or parameter.
pub fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_NAME_BYTES
}

/// Returns whether `text` can be a version. Versions are limited in length, because every change event contains one.
pub fn is_version(text: &str) -> bool {
    text.len() <= MAX_NAME_BYTES
}
