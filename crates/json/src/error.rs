//! Why a text was refused, and where.

use std::fmt;

/// A refusal of the reader: what is wrong, and the byte at which it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct JsonError {
    /// What is wrong.
    pub kind: JsonErrorKind,
    /// Offset of the first byte of the offending text.
    pub start: usize,
    /// Offset behind the last byte of the offending text.
    pub end: usize,
}

/// What can be wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JsonErrorKind {
    /// Nothing but white space.
    #[error("the text is empty")]
    Empty,
    /// More bytes than the limit.
    #[error("the text is larger than {limit} bytes")]
    TooLarge {
        /// The limit in force.
        limit: usize,
    },
    /// Not UTF-8.
    #[error("the text is not valid UTF-8")]
    InvalidUtf8,
    /// A byte order mark before the value.
    #[error("a byte order mark stands before the value")]
    ByteOrderMark,
    /// Lists and objects nested deeper than the limit.
    #[error("nested deeper than {limit} levels")]
    TooDeep {
        /// The limit in force.
        limit: usize,
    },
    /// An object with more members than the limit.
    #[error("an object has more than {limit} members")]
    TooManyMembers {
        /// The limit in force.
        limit: usize,
    },
    /// The text ended inside a value.
    #[error("the text ends before {0}")]
    UnexpectedEnd(&'static str),
    /// Something else stood where the named thing was due.
    #[error("expected {0}")]
    Expected(&'static str),
    /// A comma before a closing bracket.
    #[error("a comma stands before the closing bracket")]
    TrailingComma,
    /// Text behind the value.
    #[error("text follows the value")]
    TrailingText,
    /// A comment where comments are not allowed.
    #[error("comments are not allowed here")]
    Comment,
    /// A comment without its end.
    #[error("the comment is not closed")]
    UnclosedComment,
    /// A raw control character in a string.
    #[error("a raw control character stands in a string")]
    ControlCharacter,
    /// An escape that JSON does not know.
    #[error("the escape is not one that JSON knows")]
    InvalidEscape,
    /// Half of a surrogate pair.
    #[error("half of a surrogate pair is no character")]
    LoneSurrogate,
    /// A number not written as JSON writes numbers.
    #[error("a number is not written as JSON writes numbers")]
    InvalidNumber,
    /// A number of more digits than [`crate::MAX_NUMBER_DIGITS`], or an exponent beyond reason.
    #[error("a number has more digits than can be compared")]
    NumberTooLong,
    /// A number beyond 10^308 in magnitude.
    #[error("a number is beyond 10^308 in magnitude")]
    NumberTooLarge,
    /// The same member name twice in one object.
    #[error("the key `{0}` is repeated")]
    DuplicateKey(String),
}

impl JsonError {
    pub(crate) fn new(kind: JsonErrorKind, start: usize, end: usize) -> Self {
        Self { kind, start, end }
    }

    /// Returns the line and column of the fault in the text it was found in.
    pub fn location(&self, text: &[u8]) -> LineColumn {
        LineColumn::of(text, self.start)
    }
}

/// A line and a column, both from 1; columns are counted in code points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineColumn {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

impl LineColumn {
    /// Finds the place of a byte offset.
    pub fn of(text: &[u8], offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line = 1 + memchr::memchr_iter(b'\n', before).count();
        let line_start = memchr::memrchr(b'\n', before).map_or(0, |at| at + 1);
        // A continuation byte belongs to the code point before it.
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
