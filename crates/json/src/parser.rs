//! Parses bytes into a [`JsonDocument`] in one pass and without recursion.

use crate::document::{DocumentNode, JsonDocument, JsonDocumentText};
use crate::error::{JsonError, JsonErrorKind};
use crate::scanner::{CommentMode, Scanner};
use crate::string_escape::unescape;

/// Limits on the size and nesting of a JSON document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JsonLimits {
    /// Maximum length of the whole document in bytes.
    pub max_bytes: usize,
    /// Maximum nesting depth of arrays and objects.
    pub max_depth: usize,
    /// Maximum number of members in one object.
    pub max_members: usize,
}

impl JsonLimits {
    /// Limits for client requests. Tool calls are small, and every byte is checked.
    pub const REQUEST: Self = Self { max_bytes: 4 << 20, max_depth: 64, max_members: 10_000 };
    /// Limits for upstream responses, which can contain large lists and files.
    pub const REPLY: Self = Self { max_bytes: 64 << 20, max_depth: 64, max_members: 100_000 };
    /// Limits for documents written by people. A thousand tools with ten conditions each take about one megabyte.
    pub const DOCUMENT: Self = Self { max_bytes: 8 << 20, max_depth: 64, max_members: 100_000 };
}

/// Dense JSON has about one value per this many bytes. Reserving space accordingly avoids reallocation for small
/// requests.
const BYTES_PER_VALUE: usize = 8;
/// Maximum number of nodes to reserve space for in advance, because a long document may contain few values.
const MAX_INITIAL_NODES: usize = 512;
/// Maximum number of errors to collect from one document. More would not be useful.
const MAX_COLLECTED_ERRORS: usize = 1_000;
/// Up to this many members, comparing each key with every other is cheaper than sorting the keys.
const MAX_LINEAR_KEY_CHECK: usize = 8;

/// Parses exactly one JSON value.
///
/// ```
/// use gatelodge_json::{JsonErrorKind, JsonLimits, read};
///
/// let document = read(br#"{"a":[1,2]}"#, &JsonLimits::REQUEST)?;
/// assert_eq!(document.root().get("a").map(|list| list.elements().count()), Some(2));
///
/// let error = read(br#"{"a":1,"\u0061":2}"#, &JsonLimits::REQUEST).expect_err("a repeated key");
/// assert_eq!((error.kind, error.start), (JsonErrorKind::DuplicateKey("a".into()), 7));
/// # Ok::<(), gatelodge_json::JsonError>(())
/// ```
///
/// # Errors
/// Returns the first error: invalid JSON, input that two parsers could interpret differently, or an exceeded limit.
pub fn read<'a>(bytes: &'a [u8], limits: &JsonLimits) -> Result<JsonDocument<'a>, JsonError> {
    let mut reader = DocumentParser::new(bytes, limits, CommentMode::Refused)?;
    reader.parse_document()?;
    let first = reader.errors.drain(..).min_by_key(|error| error.start);
    first.map_or_else(|| Ok(reader.into_document()), Err)
}

/// Parses one JSON value that may contain comments. Repeated keys and numbers outside the limits are returned with the
/// document, so that all of them can be reported in one run; the caller must check them before using the document.
///
/// ```
/// use gatelodge_json::{JsonLimits, read_with_comments};
///
/// let (document, errors) = read_with_comments(b"{\"a\": 1, // first\n \"a\": 2}", &JsonLimits::DOCUMENT)?;
/// assert_eq!(document.root().members().count(), 2);
/// assert_eq!(errors.len(), 1, "the key is repeated");
/// # Ok::<(), gatelodge_json::JsonError>(())
/// ```
///
/// # Errors
/// Returns the first error of any other kind.
pub fn read_with_comments<'a>(
    bytes: &'a [u8],
    limits: &JsonLimits,
) -> Result<(JsonDocument<'a>, Vec<JsonError>), JsonError> {
    let mut reader = DocumentParser::new(bytes, limits, CommentMode::Allowed)?;
    reader.collects_errors = true;
    reader.parse_document()?;
    let mut errors = std::mem::take(&mut reader.errors);
    errors.sort_by_key(|error| error.start);
    Ok((reader.into_document(), errors))
}

struct DocumentParser<'a> {
    text: &'a str,
    cursor: Scanner<'a>,
    limits: JsonLimits,
    nodes: Vec<DocumentNode>,
    /// The arrays and objects that are still open, outermost first.
    open_containers: Vec<OpenContainer>,
    collects_errors: bool,
    errors: Vec<JsonError>,
}

/// An array or object whose end has not been reached yet.
#[derive(Clone, Copy)]
struct OpenContainer {
    node: usize,
    is_object: bool,
    member_count: usize,
}

/// What the parser expects next.
enum ParserState {
    Value,
    /// Expects the first key of an object or the closing brace.
    FirstKey,
    Key,
    /// Expects the first element of an array or the closing bracket.
    FirstElement,
    /// Expects an array element after a comma.
    Element,
    /// Expects a comma or the end of the innermost array or object.
    Separator,
}

impl<'a> DocumentParser<'a> {
    fn new(bytes: &'a [u8], limits: &JsonLimits, comments: CommentMode) -> Result<Self, JsonError> {
        // Offsets are stored in 31 bits.
        let limit = limits.max_bytes.min(i32::MAX as usize);
        if bytes.len() > limit {
            return Err(JsonError::new(JsonErrorKind::TooLarge { limit }, limit, bytes.len()));
        }
        let text = str::from_utf8(bytes).map_err(|error| {
            JsonError::new(JsonErrorKind::InvalidUtf8, error.valid_up_to(), error.valid_up_to() + 1)
        })?;
        if text.starts_with('\u{feff}') {
            return Err(JsonError::new(JsonErrorKind::ByteOrderMark, 0, 3));
        }
        Ok(Self {
            text,
            cursor: Scanner::new(bytes, comments),
            limits: *limits,
            nodes: Vec::with_capacity((bytes.len() / BYTES_PER_VALUE + 1).min(MAX_INITIAL_NODES)),
            open_containers: Vec::with_capacity(8),
            collects_errors: false,
            errors: Vec::new(),
        })
    }

    fn into_document(self) -> JsonDocument<'a> {
        JsonDocument::new(self.text, self.nodes, self.cursor.comment_spans)
    }

    /// Parses the whole text.
    fn parse_document(&mut self) -> Result<(), JsonError> {
        if self.cursor.next_token()?.is_none() {
            return Err(JsonError::new(JsonErrorKind::Empty, 0, self.text.len()));
        }
        let mut due = ParserState::Value;
        loop {
            due = match due {
                ParserState::Value => self.parse_value()?,
                ParserState::FirstKey => match self.cursor.next_token()? {
                    Some(b'}') => self.close_container(),
                    _ => self.parse_key()?,
                },
                ParserState::Key => self.parse_key()?,
                ParserState::FirstElement => match self.cursor.next_token()? {
                    Some(b']') => self.close_container(),
                    _ => ParserState::Value,
                },
                ParserState::Element => match self.cursor.next_token()? {
                    Some(b']') => {
                        return Err(JsonError::new(
                            JsonErrorKind::TrailingComma,
                            self.cursor.position,
                            self.cursor.position + 1,
                        ));
                    }
                    _ => ParserState::Value,
                },
                ParserState::Separator => match self.open_containers.last() {
                    Some(open) => self.parse_separator(open.is_object)?,
                    None => return self.expect_end(),
                },
            };
            if !self.collects_errors && !self.errors.is_empty() {
                return Ok(());
            }
        }
    }

    #[inline]
    fn parse_value(&mut self) -> Result<ParserState, JsonError> {
        let next = self.cursor.next_token()?;
        let start = self.cursor.position;
        match next {
            Some(b'"') => {
                let escapes = self.cursor.scan_string()?;
                self.push_string(start, escapes);
            }
            Some(b'{') => return self.open_container(start, true),
            Some(b'[') => return self.open_container(start, false),
            Some(b'-' | b'0'..=b'9') => {
                self.parse_number()?;
                self.push_scalar(start);
            }
            Some(b't') => self.parse_literal(start, "true")?,
            Some(b'f') => self.parse_literal(start, "false")?,
            Some(b'n') => self.parse_literal(start, "null")?,
            other => return Err(self.unexpected(other, "a value")),
        }
        Ok(ParserState::Separator)
    }

    /// Parses a number. If errors are being collected, parsing continues after a well-formed number that exceeds the
    /// limits.
    #[inline]
    fn parse_number(&mut self) -> Result<(), JsonError> {
        match self.cursor.scan_number() {
            Err(error)
                if self.collects_errors
                    && error.kind != JsonErrorKind::InvalidNumber
                    && self.errors.len() < MAX_COLLECTED_ERRORS =>
            {
                self.errors.push(error);
            }
            other => return other,
        }
        Ok(())
    }

    fn parse_literal(&mut self, start: usize, word: &'static str) -> Result<(), JsonError> {
        self.cursor.scan_literal(word)?;
        self.push_scalar(start);
        Ok(())
    }

    fn push_string(&mut self, start: usize, escapes: bool) {
        let next = self.nodes.len() + 1;
        self.nodes.push(DocumentNode::new(start, self.cursor.position, next).with_escapes(escapes));
    }

    fn push_scalar(&mut self, start: usize) {
        let next = self.nodes.len() + 1;
        self.nodes.push(DocumentNode::new(start, self.cursor.position, next));
    }

    fn open_container(&mut self, start: usize, is_object: bool) -> Result<ParserState, JsonError> {
        if self.open_containers.len() >= self.limits.max_depth {
            return Err(JsonError::new(JsonErrorKind::TooDeep { limit: self.limits.max_depth }, start, start + 1));
        }
        self.cursor.position += 1;
        self.open_containers.push(OpenContainer { node: self.nodes.len(), is_object, member_count: 0 });
        self.nodes.push(DocumentNode::new(start, start, 0));
        Ok(if is_object { ParserState::FirstKey } else { ParserState::FirstElement })
    }

    fn parse_key(&mut self) -> Result<ParserState, JsonError> {
        let next = self.cursor.next_token()?;
        let start = self.cursor.position;
        match next {
            Some(b'"') => {}
            Some(b'}') => return Err(JsonError::new(JsonErrorKind::TrailingComma, start, start + 1)),
            other => return Err(self.unexpected(other, "a key in double quotes")),
        }
        if let Some(open) = self.open_containers.last_mut() {
            open.member_count += 1;
            if open.member_count > self.limits.max_members {
                return Err(JsonError::new(
                    JsonErrorKind::TooManyMembers { limit: self.limits.max_members },
                    start,
                    start + 1,
                ));
            }
        }
        let escapes = self.cursor.scan_string()?;
        self.push_string(start, escapes);
        match self.cursor.next_token()? {
            Some(b':') => self.cursor.position += 1,
            other => return Err(self.unexpected(other, "a colon")),
        }
        Ok(ParserState::Value)
    }

    #[inline]
    fn parse_separator(&mut self, is_object: bool) -> Result<ParserState, JsonError> {
        match self.cursor.next_token()? {
            Some(b',') => {
                self.cursor.position += 1;
                Ok(if is_object { ParserState::Key } else { ParserState::Element })
            }
            Some(b'}') if is_object => Ok(self.close_container()),
            Some(b']') if !is_object => Ok(self.close_container()),
            other if is_object => Err(self.unexpected(other, "a comma or `}`")),
            other => Err(self.unexpected(other, "a comma or `]`")),
        }
    }

    fn close_container(&mut self) -> ParserState {
        self.cursor.position += 1;
        if let Some(open) = self.open_containers.pop() {
            let next = self.nodes.len();
            if let Some(node) = self.nodes.get_mut(open.node) {
                node.close(self.cursor.position, next);
            }
            if open.member_count > 1 {
                self.check_duplicate_keys(open);
            }
        }
        ParserState::Separator
    }

    fn expect_end(&mut self) -> Result<(), JsonError> {
        match self.cursor.next_token()? {
            None => Ok(()),
            Some(_) => Err(JsonError::new(JsonErrorKind::TrailingText, self.cursor.position, self.cursor.position + 1)),
        }
    }

    fn unexpected(&self, found: Option<u8>, due: &'static str) -> JsonError {
        match found {
            None => JsonError::new(JsonErrorKind::UnexpectedEnd(due), self.text.len(), self.text.len()),
            Some(_) => {
                let rest = self.text.get(self.cursor.position..).unwrap_or_default();
                let length = rest.chars().next().map_or(1, char::len_utf8);
                JsonError::new(JsonErrorKind::Expected(due), self.cursor.position, self.cursor.position + length)
            }
        }
    }

    /// Checks the unescaped keys of an object that was just closed for duplicates.
    #[inline]
    fn check_duplicate_keys(&mut self, open: OpenContainer) {
        let mut at = open.node + 1;
        let mut keys = [""; MAX_LINEAR_KEY_CHECK];
        if open.member_count > MAX_LINEAR_KEY_CHECK {
            return self.check_duplicate_keys_sorted(open);
        }
        for count in 0..open.member_count {
            let Some(node) = self.nodes.get(at) else { return };
            if node.has_escapes() {
                return self.check_duplicate_keys_sorted(open);
            }
            let key = self.text.get(node.start()..node.end()).unwrap_or_default();
            if keys.iter().take(count).any(|earlier| *earlier == key) {
                return self.check_duplicate_keys_sorted(open);
            }
            if let Some(slot) = keys.get_mut(count) {
                *slot = key;
            }
            at = self.nodes.get(at + 1).map_or(at, DocumentNode::next);
        }
    }

    /// Checks for duplicates by sorting the keys, so that hostile input with many keys does not take quadratic time.
    fn check_duplicate_keys_sorted(&mut self, open: OpenContainer) {
        let mut keys = Vec::with_capacity(open.member_count);
        let mut at = open.node + 1;
        for _ in 0..open.member_count {
            let Some(node) = self.nodes.get(at) else { return };
            keys.push((unescape(node.inner(JsonDocumentText::Contiguous(self.text))), node));
            at = self.nodes.get(at + 1).map_or(at, DocumentNode::next);
        }
        keys.sort_by(|(a, first), (b, second)| a.cmp(b).then(first.start().cmp(&second.start())));
        let mut earlier: Option<&str> = None;
        for (key, node) in &keys {
            if earlier == Some(key.as_ref()) && self.errors.len() < MAX_COLLECTED_ERRORS {
                let kind = JsonErrorKind::DuplicateKey(key.to_string());
                self.errors.push(JsonError::new(kind, node.start(), node.end()));
            }
            earlier = Some(key.as_ref());
        }
    }
}
