//! A strict JSON parser.
//!
//! It scans its input once and records the byte range of each value, without copying the text or building a tree of
//! owned values. Input that two parsers could interpret differently (repeated keys, lone surrogates, huge numbers) is
//! refused, and the error gives the location. The crate is independent of MCP and policies.

mod decimal;
mod document;
mod error;
mod invisible_chars;
mod parser;
mod scanner;
mod segmented_text;
mod special_bytes;
mod split_object;
mod string_escape;

pub use decimal::{Decimal, MAX_NUMBER_DIGITS};
pub use document::{ArrayElements, JsonDocument, JsonDocumentText, JsonKind, JsonValue, NodeIndex, ObjectMembers};
pub use error::{JsonError, JsonErrorKind, LineColumn};
pub use invisible_chars::{escape_for_terminal, escape_unprintable, is_invisible, is_unprintable, quote_for_display};
pub use parser::{JsonLimits, read, read_with_comments};
pub use segmented_text::{SegmentedText, StringSegments, read_segmented};
pub use split_object::{RawMember, split_object, split_object_str};
pub use string_escape::{quote_into, unescape};
