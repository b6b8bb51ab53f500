//! Splits an object into its members without parsing their values.
//!
//! This is used for upstream responses, because the gateway needs only their envelope and passes the payload through.

use std::borrow::Cow;

use crate::error::{JsonError, JsonErrorKind};
use crate::parser::JsonLimits;
use crate::scanner::{CommentMode, Scanner};
use crate::string_escape::unescape;

/// Maximum number of members in an object to split. An envelope has only four, and the limit is low because each key is
/// compared with every other.
const MAX_MEMBERS: usize = 256;

/// One member of a split object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawMember<'a> {
    /// The unescaped key.
    pub key: Cow<'a, str>,
    /// The value as written. Its brackets match and its strings are closed, but nothing else is guaranteed.
    pub value: &'a str,
    /// Offset of the value's first byte in the text.
    pub start: usize,
    /// Byte range of the longest string inside the value, including its quotes. Offsets are relative to the whole text.
    /// If several strings are equally long, this is the first.
    pub longest_string: (usize, usize),
}

/// Splits a JSON object into its members.
///
/// ```
/// use gatelodge_json::{JsonLimits, split_object};
///
/// let members = split_object(br#"{"id":7,"result":{"huge":1e999}}"#, &JsonLimits::REPLY)?;
/// assert_eq!(members[1].key, "result");
/// assert_eq!(members[1].value, r#"{"huge":1e999}"#);
/// # Ok::<(), gatelodge_json::JsonError>(())
/// ```
///
/// # Errors
/// Returns an error if the text is not UTF-8 or not an object, has a repeated key, mismatched brackets or an unclosed
/// string, or exceeds a limit.
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

/// Like [`split_object`], but for input that is known to be UTF-8, which saves a pass over long input.
///
/// # Errors
/// Returns an error in the same cases as [`split_object`], except for invalid UTF-8.
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
    /// The closing brackets that are still expected inside the current value, outermost first.
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

    /// Reads a key. Returns the unescaped key and its offset.
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

    /// Skips one value. Strings are skipped and brackets matched, but escapes and numbers are not validated. Returns
    /// the byte range of the longest string.
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
