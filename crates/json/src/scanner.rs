//! A cursor that moves over JSON text and validates white space, comments, strings, numbers and literals.

use crate::decimal;
use crate::error::{JsonError, JsonErrorKind};
use crate::special_bytes::find_special_byte;

/// Whether `//` and `/* */` comments may appear between values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CommentMode {
    Refused,
    Allowed,
}

/// Number of bytes at the start of a string that are searched eight at a time. A vector search pays off only for longer
/// strings.
const SHORT_STRING_BYTES: usize = 24;

pub(crate) struct Scanner<'a> {
    pub bytes: &'a [u8],
    pub position: usize,
    comment_mode: CommentMode,
    /// Byte ranges of the comments, for code that edits the text and must preserve them.
    pub comment_spans: Vec<(usize, usize)>,
}

impl<'a> Scanner<'a> {
    pub fn new(bytes: &'a [u8], comment_mode: CommentMode) -> Self {
        Self { bytes, position: 0, comment_mode, comment_spans: Vec::new() }
    }

    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.bytes.get(self.position).copied()
    }

    /// Skips white space, and comments if they are allowed, and returns the next byte.
    #[inline]
    pub fn next_token(&mut self) -> Result<Option<u8>, JsonError> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\r' | b'\t') => self.position += 1,
                Some(b'/') => self.skip_comment()?,
                other => return Ok(other),
            }
        }
    }

    #[cold]
    fn skip_comment(&mut self) -> Result<(), JsonError> {
        let start = self.position;
        let rest = self.bytes.get(start + 1..).unwrap_or_default();
        let length = match rest.first() {
            Some(b'/') => memchr::memchr(b'\n', rest).unwrap_or(rest.len()),
            Some(b'*') => match memchr::memmem::find(rest.get(1..).unwrap_or_default(), b"*/") {
                Some(end) => end + 3,
                None => return Err(JsonError::new(JsonErrorKind::UnclosedComment, start, start + 2)),
            },
            _ => return Err(JsonError::new(JsonErrorKind::Expected("a value"), start, start + 1)),
        };
        self.position = start + 1 + length;
        if self.comment_mode == CommentMode::Refused {
            return Err(JsonError::new(JsonErrorKind::Comment, start, self.position));
        }
        self.comment_spans.push((start, self.position));
        Ok(())
    }

    /// Scans a string from its opening to its closing quote. Returns whether it contains escapes.
    #[inline(always)]
    pub fn scan_string(&mut self) -> Result<bool, JsonError> {
        self.position += 1;
        let mut escapes = false;
        loop {
            match self.skip_plain_bytes()? {
                b'"' => {
                    self.position += 1;
                    return Ok(escapes);
                }
                _ => {
                    escapes = true;
                    self.scan_escape()?;
                }
            }
        }
    }

    /// Scans string content without quotes up to the end of the input. Escapes must be complete. Returns whether the
    /// content has any escapes.
    ///
    /// # Errors
    /// Returns an error if the content contains a quote or anything else that [`Self::scan_string`] refuses.
    pub fn scan_string_content(&mut self) -> Result<bool, JsonError> {
        let mut escapes = false;
        loop {
            let rest = self.bytes.get(self.position..).unwrap_or_default();
            let offset = memchr::memchr2(b'"', b'\\', rest).unwrap_or(rest.len());
            self.check_no_control(rest.get(..offset).unwrap_or_default())?;
            self.position += offset;
            match rest.get(offset) {
                None => return Ok(escapes),
                Some(b'\\') => self.scan_escape()?,
                Some(_) => {
                    return Err(JsonError::new(JsonErrorKind::Expected("an escape"), self.position, self.position + 1));
                }
            }
            escapes = true;
        }
    }

    /// Skips a string without validating its escapes.
    pub fn skip_string(&mut self) -> Result<(), JsonError> {
        self.position += 1;
        while self.skip_plain_bytes()? == b'\\' {
            // A line break after a backslash would end the line when the message is forwarded as a single line.
            let escaped = self.position + 1;
            if self.bytes.get(escaped).is_some_and(|&byte| byte < 0x20) {
                return Err(JsonError::new(JsonErrorKind::ControlCharacter, escaped, escaped + 1));
            }
            self.position += 2;
        }
        self.position += 1;
        Ok(())
    }

    /// Moves to the next quote or backslash, and checks that there is no control character before it.
    #[inline]
    fn skip_plain_bytes(&mut self) -> Result<u8, JsonError> {
        let rest = self.bytes.get(self.position..).unwrap_or_default();
        let beginning = rest.get(..SHORT_STRING_BYTES).unwrap_or(rest);
        if let Some(offset) = find_special_byte(beginning)
            && let Some(&byte) = beginning.get(offset)
        {
            if byte < 0x20 {
                let at = self.position + offset;
                return Err(JsonError::new(JsonErrorKind::ControlCharacter, at, at + 1));
            }
            self.position += offset;
            return Ok(byte);
        }
        self.skip_long_plain_run(rest)
    }

    fn skip_long_plain_run(&mut self, rest: &[u8]) -> Result<u8, JsonError> {
        let Some(offset) = memchr::memchr2(b'"', b'\\', rest) else {
            return Err(JsonError::new(
                JsonErrorKind::UnexpectedEnd("the string is closed"),
                self.bytes.len(),
                self.bytes.len(),
            ));
        };
        self.check_no_control(rest.get(..offset).unwrap_or_default())?;
        self.position += offset;
        Ok(rest.get(offset).copied().unwrap_or(b'"'))
    }

    /// Checks that `run`, the bytes at the cursor, contains no control character.
    #[inline]
    fn check_no_control(&self, run: &[u8]) -> Result<(), JsonError> {
        // No early exit, so that the compiler vectorizes the loop.
        if run.iter().fold(false, |found, &byte| found | (byte < 0x20)) {
            let at = self.position + run.iter().position(|&byte| byte < 0x20).unwrap_or(0);
            return Err(JsonError::new(JsonErrorKind::ControlCharacter, at, at + 1));
        }
        Ok(())
    }

    #[cold]
    fn scan_escape(&mut self) -> Result<(), JsonError> {
        let start = self.position;
        self.position += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => {
                self.position += 1;
                Ok(())
            }
            Some(b'u') => self.scan_unicode_escape(start),
            Some(_) => Err(JsonError::new(JsonErrorKind::InvalidEscape, start, start + 2)),
            None => Err(JsonError::new(JsonErrorKind::UnexpectedEnd("the escape is whole"), start, start + 1)),
        }
    }

    fn scan_unicode_escape(&mut self, start: usize) -> Result<(), JsonError> {
        let lone = JsonError::new(JsonErrorKind::LoneSurrogate, start, start + 6);
        match self.scan_hex4(start)? {
            0xD800..=0xDBFF => {
                if self.bytes.get(self.position..self.position + 2) != Some(b"\\u") {
                    return Err(lone);
                }
                let second = self.position;
                self.position += 1;
                match self.scan_hex4(second)? {
                    0xDC00..=0xDFFF => Ok(()),
                    _ => Err(lone),
                }
            }
            0xDC00..=0xDFFF => Err(lone),
            _ => Ok(()),
        }
    }

    /// Reads the four hexadecimal digits after the `u` at the cursor.
    fn scan_hex4(&mut self, start: usize) -> Result<u32, JsonError> {
        let digits = self.bytes.get(self.position + 1..self.position + 5);
        let digits = digits.filter(|digits| digits.iter().all(u8::is_ascii_hexdigit));
        let unit = digits
            .and_then(|digits| str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| JsonError::new(JsonErrorKind::InvalidEscape, start, start + 2))?;
        self.position += 5;
        Ok(unit)
    }

    /// Scans a number and checks its grammar and limits.
    #[inline]
    pub fn scan_number(&mut self) -> Result<(), JsonError> {
        let start = self.position;
        let rest = self.bytes.get(start..).unwrap_or_default();
        let shape = decimal::number_parts(rest);
        self.position += shape.length;
        match shape.error(rest) {
            None => Ok(()),
            Some(kind) => Err(JsonError::new(kind, start, self.position.max(start + 1))),
        }
    }

    /// Skips a number without validating it.
    pub fn skip_number(&mut self) {
        self.position += decimal::number_parts(self.bytes.get(self.position..).unwrap_or_default()).length;
    }

    /// Scans one of the literals `true`, `false` and `null`.
    #[inline]
    pub fn scan_literal(&mut self, word: &'static str) -> Result<(), JsonError> {
        let end = self.position + word.len();
        if self.bytes.get(self.position..end) == Some(word.as_bytes()) {
            self.position = end;
            return Ok(());
        }
        Err(JsonError::new(JsonErrorKind::Expected("a value"), self.position, self.position + 1))
    }
}
