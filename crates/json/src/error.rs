//! Errors that the parser reports, with their location.

use std::fmt;

/// An error reported by the parser: its kind and the byte range of the offending text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct JsonError {
    /// Kind of the error.
    pub kind: JsonErrorKind,
    /// Offset of the first byte of the offending text.
    pub start: usize,
    /// Offset just past the last byte of the offending text.
    pub end: usize,
}

/// Kinds of errors in JSON text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonErrorKind {
    /// The text contains nothing but white space.
    #[error("the text is empty")]
    Empty,
    /// The text has more bytes than the limit allows.
    #[error("the text is larger than {limit} bytes")]
    TooLarge {
        /// The limit that was exceeded.
        limit: usize,
    },
    /// The text is not valid UTF-8.
    #[error("the text is not valid UTF-8")]
    InvalidUtf8,
    /// The text starts with a byte order mark.
    #[error("the text starts with a byte order mark")]
    ByteOrderMark,
    /// Arrays and objects are nested deeper than the limit allows.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit that was exceeded.
        limit: usize,
    },
    /// An object has more members than the limit allows.
    #[error("an object has more than {limit} members")]
    TooManyMembers {
        /// The limit that was exceeded.
        limit: usize,
    },
    /// The text ends too early. The string says what is missing.
    #[error("the text ends before {0}")]
    UnexpectedEnd(&'static str),
    /// The text is not what the grammar requires at this point. The string says what was expected.
    #[error("expected {0}")]
    Expected(&'static str),
    /// There is a comma before a closing bracket.
    #[error("trailing comma in front of the closing bracket")]
    TrailingComma,
    /// There is text after the value.
    #[error("text follows the value")]
    TrailingText,
    /// There is a comment, but comments are not allowed.
    #[error("comments are not allowed here")]
    Comment,
    /// A block comment is not closed with `*/`.
    #[error("the comment is not closed")]
    UnclosedComment,
    /// A string contains an unescaped control character.
    #[error("a string contains an unescaped control character")]
    ControlCharacter,
    /// A string contains an escape that JSON does not define.
    #[error("invalid escape sequence")]
    InvalidEscape,
    /// A string contains only half of a surrogate pair.
    #[error("a surrogate escape has no counterpart")]
    LoneSurrogate,
    /// A number does not match the JSON grammar.
    #[error("a number is malformed")]
    InvalidNumber,
    /// A number has more digits than [`crate::MAX_NUMBER_DIGITS`], or its exponent does not fit into an `i64`.
    #[error("a number has too many digits")]
    NumberTooLong,
    /// The magnitude of a number exceeds 10^308.
    #[error("the magnitude of a number exceeds 10^308")]
    NumberTooLarge,
    /// An object has two members with the same name. The string is that name.
    #[error("the key `{0}` is repeated")]
    DuplicateKey(String),
}

impl JsonError {
    pub(crate) fn new(kind: JsonErrorKind, start: usize, end: usize) -> Self {
        Self { kind, start, end }
    }

    /// Returns the line and column of the error. `text` must be the text that was parsed.
    pub fn location(&self, text: &[u8]) -> LineColumn {
        LineColumn::of(text, self.start)
    }
}

/// A line and a column, both starting at 1. Columns are counted in code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineColumn {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl LineColumn {
    /// Returns the line and column of a byte offset.
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
