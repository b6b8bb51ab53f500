//! Errors of the reader, with their location.

use std::fmt;

/// Error of the reader: its kind and the offending bytes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct JsonError {
    /// Kind of the error.
    pub kind: JsonErrorKind,
    /// Offset of the first byte of the offending text.
    pub start: usize,
    /// Offset after the last byte of the offending text.
    pub end: usize,
}

/// Kinds of errors in a JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonErrorKind {
    /// Nothing but white space.
    #[error("the text is empty")]
    Empty,
    /// More bytes than the limit.
    #[error("the text is larger than {limit} bytes")]
    TooLarge {
        /// The limit that applies.
        limit: usize,
    },
    /// Not UTF-8.
    #[error("the text is not valid UTF-8")]
    InvalidUtf8,
    /// A byte order mark in front of the value.
    #[error("the text starts with a byte order mark")]
    ByteOrderMark,
    /// Lists and objects nested deeper than the limit.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit that applies.
        limit: usize,
    },
    /// An object with more members than the limit.
    #[error("an object has more than {limit} members")]
    TooManyMembers {
        /// The limit that applies.
        limit: usize,
    },
    /// The text ended inside a value.
    #[error("the text ends before {0}")]
    UnexpectedEnd(&'static str),
    /// Something other than the named element.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A comma before a closing bracket.
    #[error("trailing comma in front of the closing bracket")]
    TrailingComma,
    /// Text after the value.
    #[error("text follows the value")]
    TrailingText,
    /// A comment where comments are not allowed.
    #[error("comments are not allowed here")]
    Comment,
    /// A block comment without `*/`.
    #[error("the comment is not closed")]
    UnclosedComment,
    /// An unescaped control character in a string.
    #[error("a string contains an unescaped control character")]
    ControlCharacter,
    /// An escape that JSON does not define.
    #[error("invalid escape sequence")]
    InvalidEscape,
    /// Half of a surrogate pair.
    #[error("a surrogate escape has no counterpart")]
    LoneSurrogate,
    /// A number outside the JSON grammar.
    #[error("a number is malformed")]
    InvalidNumber,
    /// A number with more digits than [`crate::MAX_NUMBER_DIGITS`], or an exponent that does not fit an `i64`.
    #[error("a number has too many digits")]
    NumberTooLong,
    /// A number beyond 10^308 in magnitude.
    #[error("the magnitude of a number exceeds 10^308")]
    NumberTooLarge,
    /// The same member name twice in one object.
    #[error("the key `{0}` is repeated")]
    DuplicateKey(String),
}

impl JsonError {
    pub(crate) fn new(kind: JsonErrorKind, start: usize, end: usize) -> Self {
        Self { kind, start, end }
    }

    /// Returns the line and column of the error in `text`, the text that was parsed.
    pub fn location(&self, text: &[u8]) -> LineColumn {
        LineColumn::of(text, self.start)
    }
}

/// Line and column, both starting at 1. Columns count code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineColumn {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl LineColumn {
    /// Returns the location of a byte offset.
    pub fn of(text: &[u8], offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        // Continuation bytes belong to the preceding code point.
        let is_first = |byte: &&u8| (**byte & 0xC0) != 0x80;
        let column = 1 + before.iter().skip(line_start).filter(is_first).count();
        Self { line, column }
    }
}

impl fmt::Display for LineColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
