//! Splits an object into its members without looking into them.
//!
//! For what upstreams answer: the envelope is ours to read, the payload is the caller's.

use std::borrow::Cow;

use crate::error::{JsonError, JsonErrorKind};
use crate::parser::JsonLimits;
use crate::scanner::{CommentMode, Scanner};
use crate::string_escape::unescape;

/// The most members an object may be split into. An envelope has four; each key is compared with each.
const MAX_MEMBERS: usize = 256;

/// One member of a split object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMember<'a> {
    /// What the key stands for.
    pub key: Cow<'a, str>,
    /// The value as it is written; brackets and strings are balanced, the rest is not looked at.
    pub value: &'a str,
    /// Offset of the value's first byte in the text.
    pub start: usize,
    /// Where the longest string inside the value stands in the text, with its quotes; of equals the first.
    pub longest_string: (usize, usize),
}

/// Gives the members of the one object in the text.
///
/// # Errors
/// Not UTF-8, not an object, a repeated key, brackets or strings that do not close, anything beyond the limits.
pub fn split_object<'a>(bytes: &'a [u8], limits: &JsonLimits) -> Result<Vec<RawMember<'a>>, JsonError> {
    check_length(bytes, limits)?;
    let text = str::from_utf8(bytes)
        .map_err(|error| JsonError::new(JsonErrorKind::InvalidUtf8, error.valid_up_to(), error.valid_up_to() + 1))?;
    split_object_str(text, limits)
}

fn check_length(bytes: &[u8], limits: &JsonLimits) -> Result<(), JsonError> {
    if bytes.len() > limits.max_bytes {
        return Err(JsonError::new(JsonErrorKind::TooLarge { limit: limits.max_bytes }, limits.max_bytes, bytes.len()));
    }
    Ok(())
}

/// The same for what is known to be UTF-8: a long text is not looked through for that again.
///
/// # Errors
/// As for [`split_object`].
pub fn split_object_str<'a>(text: &'a str, limits: &JsonLimits) -> Result<Vec<RawMember<'a>>, JsonError> {
    check_length(text.as_bytes(), limits)?;
    let cursor = Scanner::new(text.as_bytes(), CommentMode::Refused);
    let mut splitter = ObjectSplitter { text, cursor, limits: *limits, closers: Vec::new() };
    splitter.read_object()
}

struct ObjectSplitter<'a> {
    text: &'a str,
    cursor: Scanner<'a>,
    limits: JsonLimits,
    /// What closes the lists and objects that are open inside a value, outermost first.
    closers: Vec<u8>,
}

impl<'a> ObjectSplitter<'a> {
    fn read_object(&mut self) -> Result<Vec<RawMember<'a>>, JsonError> {
        let limit = self.limits.max_members.min(MAX_MEMBERS);
        let mut parts: Vec<RawMember<'a>> = Vec::with_capacity(4);
        self.expect_byte(b'{', "an object")?;
        if self.cursor.next_token()? == Some(b'}') {
            self.cursor.position += 1;
            return self.expect_end(parts);
        }
        loop {
            let (key, start) = self.read_key()?;
            let end = self.cursor.position;
            if parts.iter().any(|earlier| earlier.key == key) {
                return Err(JsonError::new(JsonErrorKind::DuplicateKey(key.into_owned()), start, end));
            }
            if parts.len() >= limit {
                return Err(JsonError::new(JsonErrorKind::TooManyMembers { limit }, start, end));
            }
            parts.push(self.read_member(key)?);
            match self.cursor.next_token()? {
                Some(b',') => self.cursor.position += 1,
                Some(b'}') => {
                    self.cursor.position += 1;
                    return self.expect_end(parts);
                }
                found => return Err(self.unexpected(found, "a comma or `}`")),
            }
        }
    }

    /// Reads a key; gives what it stands for and where it begins.
    fn read_key(&mut self) -> Result<(Cow<'a, str>, usize), JsonError> {
        let found = self.cursor.next_token()?;
        if found != Some(b'"') {
            return Err(self.unexpected(found, "a key in double quotes"));
        }
        let start = self.cursor.position;
        self.cursor.scan_string()?;
        Ok((unescape(self.text.get(start + 1..self.cursor.position - 1).unwrap_or_default()), start))
    }

    fn read_member(&mut self, key: Cow<'a, str>) -> Result<RawMember<'a>, JsonError> {
        self.expect_byte(b':', "a colon")?;
        self.cursor.next_token()?;
        let start = self.cursor.position;
        let longest = self.skip_value()?;
        let value = self.text.get(start..self.cursor.position).unwrap_or_default();
        Ok(RawMember { key, value, start, longest_string: longest })
    }

    /// Moves behind one value: strings are read, brackets are matched, all else is passed over. Gives where the longest
    /// string stands.
    fn skip_value(&mut self) -> Result<(usize, usize), JsonError> {
        self.closers.clear();
        let mut longest = (self.cursor.position, self.cursor.position);
        loop {
            let found = self.cursor.next_token()?;
            let closes = self.closers.last().copied();
            match found {
                None => return Err(self.unexpected(None, "the value ends")),
                Some(b'"') => {
                    let start = self.cursor.position;
                    self.cursor.skip_string()?;
                    if self.cursor.position - start > longest.1 - longest.0 {
                        longest = (start, self.cursor.position);
                    }
                }
                Some(b'{') => self.open_container(b'}')?,
                Some(b'[') => self.open_container(b']')?,
                Some(bracket) if Some(bracket) == closes => {
                    self.closers.pop();
                    self.cursor.position += 1;
                }
                Some(b',' | b':') if closes.is_some() => self.cursor.position += 1,
                Some(b't') => self.cursor.scan_literal("true")?,
                Some(b'f') => self.cursor.scan_literal("false")?,
                Some(b'n') => self.cursor.scan_literal("null")?,
                Some(b'-' | b'0'..=b'9') => self.cursor.skip_number(),
                found => return Err(self.unexpected(found, "a value")),
            }
            if self.closers.is_empty() {
                return Ok(longest);
            }
        }
    }

    fn open_container(&mut self, closes: u8) -> Result<(), JsonError> {
        self.closers.push(closes);
        // The envelope itself is one level.
        if self.closers.len() >= self.limits.max_depth {
            let kind = JsonErrorKind::TooDeep { limit: self.limits.max_depth };
            return Err(JsonError::new(kind, self.cursor.position, self.cursor.position + 1));
        }
        self.cursor.position += 1;
        Ok(())
    }

    fn expect_byte(&mut self, byte: u8, due: &'static str) -> Result<(), JsonError> {
        let found = self.cursor.next_token()?;
        if found != Some(byte) {
            return Err(self.unexpected(found, due));
        }
        self.cursor.position += 1;
        Ok(())
    }

    fn expect_end(&mut self, parts: Vec<RawMember<'a>>) -> Result<Vec<RawMember<'a>>, JsonError> {
        match self.cursor.next_token()? {
            None => Ok(parts),
            Some(_) => Err(JsonError::new(JsonErrorKind::TrailingText, self.cursor.position, self.cursor.position + 1)),
        }
    }

    fn unexpected(&self, found: Option<u8>, due: &'static str) -> JsonError {
        let kind = if found.is_none() { JsonErrorKind::UnexpectedEnd(due) } else { JsonErrorKind::Expected(due) };
        JsonError::new(kind, self.cursor.position, self.cursor.position + usize::from(found.is_some()))
    }
}
