//! From bytes to a [`JsonDocument`], in one pass and without recursion.

use crate::document::{DocumentNode, JsonDocument, JsonText};
use crate::error::{JsonError, JsonErrorKind};
use crate::scan::{Comments, Cursor};
use crate::text::unescape;

/// How much of a text is read before it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of the whole text.
    pub bytes: usize,
    /// Levels of lists and objects.
    pub depth: usize,
    /// Members of one object.
    pub members: usize,
}

impl Limits {
    /// For what a caller sends: tool calls are small, and every byte is looked at.
    pub const REQUEST: Self = Self { bytes: 4 << 20, depth: 64, members: 10_000 };
    /// For what an upstream answers: lists and file contents are large.
    pub const REPLY: Self = Self { bytes: 64 << 20, depth: 64, members: 100_000 };
    /// For what people write: a thousand tools with ten conditions each take about one megabyte.
    pub const DOCUMENT: Self = Self { bytes: 8 << 20, depth: 64, members: 100_000 };
}

/// A dense text has about one value in so many bytes; room for them at once saves small requests from growing.
const BYTES_PER_VALUE: usize = 8;
/// Room made at once; a long text may hold few values.
const FIRST_ROOM: usize = 512;
/// More faults of one document than this are not collected; nobody reads them.
const MOST_FAULTS: usize = 1_000;
/// Below this many members, comparing each key with each is cheaper than sorting.
const FEW_MEMBERS: usize = 8;

/// Reads one JSON value and nothing else.
///
/// # Errors
/// The first fault: whatever is no JSON, what two readers could understand differently, what is beyond the limits.
pub fn read<'a>(bytes: &'a [u8], limits: &Limits) -> Result<JsonDocument<'a>, JsonError> {
    let mut reader = Reader::new(bytes, limits, Comments::Refused)?;
    reader.value()?;
    let first = reader.faults.drain(..).min_by_key(|fault| fault.start);
    first.map_or_else(|| Ok(reader.document()), Err)
}

/// Reads one JSON value that may hold comments. Repeated keys and numbers out of bounds are given beside it, so that
/// all can be shown at once; whoever uses the value looks at them first.
///
/// # Errors
/// The first fault of any other kind.
pub fn read_commented<'a>(bytes: &'a [u8], limits: &Limits) -> Result<(JsonDocument<'a>, Vec<JsonError>), JsonError> {
    let mut reader = Reader::new(bytes, limits, Comments::Allowed)?;
    reader.keeps_faults = true;
    reader.value()?;
    let mut faults = std::mem::take(&mut reader.faults);
    faults.sort_by_key(|fault| fault.start);
    Ok((reader.document(), faults))
}

struct Reader<'a> {
    text: &'a str,
    cursor: Cursor<'a>,
    limits: Limits,
    nodes: Vec<DocumentNode>,
    /// The containers that are open, outermost first.
    open: Vec<Open>,
    keeps_faults: bool,
    faults: Vec<JsonError>,
}

/// A list or object whose end has not been reached.
#[derive(Clone, Copy)]
struct Open {
    node: usize,
    is_object: bool,
    members: usize,
}

/// What the grammar wants next.
enum Due {
    Value,
    /// The first key of an object, or its end.
    FirstKey,
    Key,
    /// The first element of a list, or its end.
    FirstElement,
    /// An element behind a comma.
    Element,
    /// A comma, or the end of the innermost container.
    Separator,
}

impl<'a> Reader<'a> {
    fn new(bytes: &'a [u8], limits: &Limits, comments: Comments) -> Result<Self, JsonError> {
        // Offsets are kept in 31 bits.
        let limit = limits.bytes.min(i32::MAX as usize);
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
            cursor: Cursor::new(bytes, comments),
            limits: *limits,
            nodes: Vec::with_capacity((bytes.len() / BYTES_PER_VALUE + 1).min(FIRST_ROOM)),
            open: Vec::with_capacity(8),
            keeps_faults: false,
            faults: Vec::new(),
        })
    }

    fn document(self) -> JsonDocument<'a> {
        JsonDocument::new(self.text, self.nodes, self.cursor.comment_spans)
    }

    /// Reads the whole text.
    fn value(&mut self) -> Result<(), JsonError> {
        if self.cursor.next_token()?.is_none() {
            return Err(JsonError::new(JsonErrorKind::Empty, 0, self.text.len()));
        }
        let mut due = Due::Value;
        loop {
            due = match due {
                Due::Value => self.any_value()?,
                Due::FirstKey => match self.cursor.next_token()? {
                    Some(b'}') => self.close(),
                    _ => self.key()?,
                },
                Due::Key => self.key()?,
                Due::FirstElement => match self.cursor.next_token()? {
                    Some(b']') => self.close(),
                    _ => Due::Value,
                },
                Due::Element => match self.cursor.next_token()? {
                    Some(b']') => {
                        return Err(JsonError::new(JsonErrorKind::TrailingComma, self.cursor.at, self.cursor.at + 1));
                    }
                    _ => Due::Value,
                },
                Due::Separator => match self.open.last() {
                    Some(open) => self.separator(open.is_object)?,
                    None => return self.end(),
                },
            };
            if !self.keeps_faults && !self.faults.is_empty() {
                return Ok(());
            }
        }
    }

    #[inline]
    fn any_value(&mut self) -> Result<Due, JsonError> {
        let next = self.cursor.next_token()?;
        let start = self.cursor.at;
        match next {
            Some(b'"') => {
                let escapes = self.cursor.string()?;
                self.push_string(start, escapes);
            }
            Some(b'{') => return self.open(start, true),
            Some(b'[') => return self.open(start, false),
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                self.push_scalar(start);
            }
            Some(b't') => self.word(start, "true")?,
            Some(b'f') => self.word(start, "false")?,
            Some(b'n') => self.word(start, "null")?,
            other => return Err(self.unexpected(other, "a value")),
        }
        Ok(Due::Separator)
    }

    /// A number out of bounds is still one number: whoever collects faults can read on behind it.
    #[inline]
    fn number(&mut self) -> Result<(), JsonError> {
        match self.cursor.number() {
            Err(fault)
                if self.keeps_faults
                    && fault.kind != JsonErrorKind::InvalidNumber
                    && self.faults.len() < MOST_FAULTS =>
            {
                self.faults.push(fault);
            }
            other => return other,
        }
        Ok(())
    }

    fn word(&mut self, start: usize, word: &'static str) -> Result<(), JsonError> {
        self.cursor.word(word)?;
        self.push_scalar(start);
        Ok(())
    }

    fn push_string(&mut self, start: usize, escapes: bool) {
        let next = self.nodes.len() + 1;
        self.nodes.push(DocumentNode::new(start, self.cursor.at, next).with_escapes(escapes));
    }

    fn push_scalar(&mut self, start: usize) {
        let next = self.nodes.len() + 1;
        self.nodes.push(DocumentNode::new(start, self.cursor.at, next));
    }

    fn open(&mut self, start: usize, is_object: bool) -> Result<Due, JsonError> {
        if self.open.len() >= self.limits.depth {
            return Err(JsonError::new(JsonErrorKind::TooDeep { limit: self.limits.depth }, start, start + 1));
        }
        self.cursor.at += 1;
        self.open.push(Open { node: self.nodes.len(), is_object, members: 0 });
        self.nodes.push(DocumentNode::new(start, start, 0));
        Ok(if is_object { Due::FirstKey } else { Due::FirstElement })
    }

    fn key(&mut self) -> Result<Due, JsonError> {
        let next = self.cursor.next_token()?;
        let start = self.cursor.at;
        match next {
            Some(b'"') => {}
            Some(b'}') => return Err(JsonError::new(JsonErrorKind::TrailingComma, start, start + 1)),
            other => return Err(self.unexpected(other, "a key in double quotes")),
        }
        if let Some(open) = self.open.last_mut() {
            open.members += 1;
            if open.members > self.limits.members {
                return Err(JsonError::new(
                    JsonErrorKind::TooManyMembers { limit: self.limits.members },
                    start,
                    start + 1,
                ));
            }
        }
        let escapes = self.cursor.string()?;
        self.push_string(start, escapes);
        match self.cursor.next_token()? {
            Some(b':') => self.cursor.at += 1,
            other => return Err(self.unexpected(other, "a colon")),
        }
        Ok(Due::Value)
    }

    #[inline]
    fn separator(&mut self, is_object: bool) -> Result<Due, JsonError> {
        match self.cursor.next_token()? {
            Some(b',') => {
                self.cursor.at += 1;
                Ok(if is_object { Due::Key } else { Due::Element })
            }
            Some(b'}') if is_object => Ok(self.close()),
            Some(b']') if !is_object => Ok(self.close()),
            other if is_object => Err(self.unexpected(other, "a comma or `}`")),
            other => Err(self.unexpected(other, "a comma or `]`")),
        }
    }

    fn close(&mut self) -> Due {
        self.cursor.at += 1;
        if let Some(open) = self.open.pop() {
            let next = self.nodes.len();
            if let Some(node) = self.nodes.get_mut(open.node) {
                node.close(self.cursor.at, next);
            }
            if open.members > 1 {
                self.find_repeats(open);
            }
        }
        Due::Separator
    }

    fn end(&mut self) -> Result<(), JsonError> {
        match self.cursor.next_token()? {
            None => Ok(()),
            Some(_) => Err(JsonError::new(JsonErrorKind::TrailingText, self.cursor.at, self.cursor.at + 1)),
        }
    }

    fn unexpected(&self, found: Option<u8>, due: &'static str) -> JsonError {
        match found {
            None => JsonError::new(JsonErrorKind::UnexpectedEnd(due), self.text.len(), self.text.len()),
            Some(_) => {
                let rest = self.text.get(self.cursor.at..).unwrap_or_default();
                let length = rest.chars().next().map_or(1, char::len_utf8);
                JsonError::new(JsonErrorKind::Expected(due), self.cursor.at, self.cursor.at + length)
            }
        }
    }

    /// Compares the keys of an object that was just closed, as what they stand for.
    #[inline]
    fn find_repeats(&mut self, open: Open) {
        let mut at = open.node + 1;
        let mut keys = [""; FEW_MEMBERS];
        if open.members > FEW_MEMBERS {
            return self.find_repeats_of_many(open);
        }
        for count in 0..open.members {
            let Some(node) = self.nodes.get(at) else { return };
            if node.has_escapes() {
                return self.find_repeats_of_many(open);
            }
            let key = self.text.get(node.start()..node.end()).unwrap_or_default();
            if keys.iter().take(count).any(|earlier| *earlier == key) {
                return self.find_repeats_of_many(open);
            }
            if let Some(slot) = keys.get_mut(count) {
                *slot = key;
            }
            at = self.nodes.get(at + 1).map_or(at, DocumentNode::next);
        }
    }

    /// Sorts the keys, so that hostile names cost no more than harmless ones.
    fn find_repeats_of_many(&mut self, open: Open) {
        let mut keys = Vec::with_capacity(open.members);
        let mut at = open.node + 1;
        for _ in 0..open.members {
            let Some(node) = self.nodes.get(at) else { return };
            keys.push((unescape(node.inner(JsonText::Contiguous(self.text))), node));
            at = self.nodes.get(at + 1).map_or(at, DocumentNode::next);
        }
        keys.sort_by(|(a, first), (b, second)| a.cmp(b).then(first.start().cmp(&second.start())));
        let mut earlier: Option<&str> = None;
        for (key, node) in &keys {
            if earlier == Some(key.as_ref()) && self.faults.len() < MOST_FAULTS {
                let kind = JsonErrorKind::DuplicateKey(key.to_string());
                self.faults.push(JsonError::new(kind, node.start(), node.end()));
            }
            earlier = Some(key.as_ref());
        }
    }
}
