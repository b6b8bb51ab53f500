//! A parsed document and views of its values.

use std::borrow::Cow;

use crate::decimal::Decimal;
use crate::segmented_text::SegmentedText;
use crate::string_escape::unescape;

/// Flag in [`DocumentNode::next`] for strings with escapes. Documents are shorter than 2^31 bytes, so the top bit of an
/// index is free.
const ESCAPED_FLAG: u32 = 1 << 31;

/// The byte range of one value, and the index of the first node after it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DocumentNode {
    start: u32,
    end: u32,
    next: u32,
}

impl DocumentNode {
    pub fn new(start: usize, end: usize, next: usize) -> Self {
        Self { start: start as u32, end: end as u32, next: next as u32 }
    }

    pub fn with_escapes(mut self, escapes: bool) -> Self {
        self.next |= if escapes { ESCAPED_FLAG } else { 0 };
        self
    }

    pub fn close(&mut self, end: usize, next: usize) {
        self.end = end as u32;
        self.next = next as u32;
    }

    pub fn start(&self) -> usize {
        self.start as usize
    }

    pub fn end(&self) -> usize {
        self.end as usize
    }

    /// Returns the index of the next sibling or, for the last child, of the first node after the container.
    pub fn next(&self) -> usize {
        (self.next & !ESCAPED_FLAG) as usize
    }

    /// Returns whether this is a string with escapes.
    pub fn has_escapes(&self) -> bool {
        self.next & ESCAPED_FLAG != 0
    }

    #[inline]
    pub fn raw<'a>(&self, text: JsonDocumentText<'a>) -> &'a str {
        // INVARIANT: the parser records offsets into this text, at character boundaries.
        text.get(self.start(), self.end()).unwrap_or_default()
    }

    /// Returns whether this is a string that equals `name` once unescaped. Comparing lengths first rules out most
    /// strings without escapes.
    #[inline]
    fn is_str(&self, text: JsonDocumentText<'_>, name: &str) -> bool {
        if self.has_escapes() {
            return unescape(self.inner(text)) == name;
        }
        let is_as_long = self.end() - self.start() == name.len() + 2;
        is_as_long && text.bytes(self.start() + 1, self.end() - 1) == Some(name.as_bytes())
    }

    /// Returns the text between the quotes. This node must be a string.
    pub fn inner<'a>(&self, text: JsonDocumentText<'a>) -> &'a str {
        text.get(self.start() + 1, self.end() - 1).unwrap_or_default()
    }
}

/// The text of a document, either contiguous or with the middle of one string in separate chunks.
#[derive(Debug, Clone, Copy)]
pub enum JsonDocumentText<'a> {
    /// Text in a single `str`.
    Contiguous(&'a str),
    /// Text in which the middle of one string is stored as separate chunks.
    Segmented(&'a SegmentedText),
}

impl<'a> JsonDocumentText<'a> {
    /// Returns the text between two offsets. If it overlaps the chunks, the whole text is joined first.
    #[inline]
    pub fn get(self, start: usize, end: usize) -> Option<&'a str> {
        match self {
            Self::Contiguous(text) => text.get(start..end),
            Self::Segmented(segmented) => segmented.get(start, end),
        }
    }

    /// Like [`get`](Self::get), but returns bytes and skips the check for character boundaries.
    #[inline]
    fn bytes(self, start: usize, end: usize) -> Option<&'a [u8]> {
        match self {
            Self::Contiguous(text) => text.as_bytes().get(start..end),
            Self::Segmented(segmented) => segmented.get(start, end).map(str::as_bytes),
        }
    }

    #[inline]
    fn byte(self, at: usize) -> Option<u8> {
        match self {
            Self::Contiguous(text) => text.as_bytes().get(at).copied(),
            Self::Segmented(segmented) => segmented.get(at, at + 1).and_then(|one| one.bytes().next()),
        }
    }

    /// Returns the length of the text in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a parsed text is never empty")]
    pub fn len(self) -> usize {
        match self {
            Self::Contiguous(text) => text.len(),
            Self::Segmented(segmented) => segmented.len(),
        }
    }

    /// Returns the whole text, joining the chunks if necessary.
    pub fn as_str(self) -> &'a str {
        match self {
            Self::Contiguous(text) => text,
            Self::Segmented(segmented) => segmented.as_str(),
        }
    }
}

/// A parsed document: its text and the byte range of each value in it.
///
/// ```
/// use gatelodge_json::{JsonLimits, read};
///
/// let document = read(br#"{"tool":"refund","amount":12.50}"#, &JsonLimits::REQUEST)?;
/// let root = document.root();
/// assert_eq!(root.get("tool").and_then(|tool| tool.as_str()).as_deref(), Some("refund"));
/// assert_eq!(root.get("amount").map(|amount| amount.raw()), Some("12.50"));
/// # Ok::<(), gatelodge_json::JsonError>(())
/// ```
#[derive(Debug, Clone)]
pub struct JsonDocument<'a> {
    text: JsonDocumentText<'a>,
    nodes: Vec<DocumentNode>,
    comments: Vec<(usize, usize)>,
}

/// The six kinds of JSON values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JsonKind {
    /// `null`.
    Null,
    /// `true` or `false`.
    Bool,
    /// A number.
    Number,
    /// A string.
    String,
    /// An array.
    Array,
    /// An object.
    Object,
}

impl JsonKind {
    /// Returns the name of the kind with its article, for messages: "a string", "a list".
    pub fn with_article(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::String => "a string",
            Self::Array => "a list",
            Self::Object => "an object",
        }
    }
}

impl<'a> JsonDocument<'a> {
    pub(crate) fn new(text: &'a str, nodes: Vec<DocumentNode>, comments: Vec<(usize, usize)>) -> Self {
        Self { text: JsonDocumentText::Contiguous(text), nodes, comments }
    }

    /// Converts the document parsed from [`SegmentedText::outer_text`] into a document for the full text. Returns
    /// `None` if the chunks are not inside a string value.
    pub(crate) fn with_segments(self, segmented: &'a SegmentedText, has_escapes: bool) -> Option<Self> {
        // Nodes are in order of their start, so the innermost node around the split is the last one that starts before it.
        let started_nodes = self.nodes.partition_point(|node| segmented.is_before_split(node.start()));
        let around = started_nodes.checked_sub(1)?;
        let node = self.nodes.get(around)?;
        let is_string = node.raw(self.text).starts_with('"');
        if !is_string || !segmented.is_split_in_string_value((node.start(), node.end())) {
            return None;
        }
        let mut nodes = self.nodes;
        for node in &mut nodes {
            let (start, end) = segmented.to_full_span((node.start(), node.end()));
            *node = DocumentNode { start: start as u32, end: end as u32, next: node.next };
        }
        let node = nodes.get_mut(around)?;
        *node = node.with_escapes(has_escapes);
        Some(Self { text: JsonDocumentText::Segmented(segmented), nodes, comments: self.comments })
    }

    /// Returns the text that was parsed, joining its chunks if necessary.
    pub fn text(&self) -> &'a str {
        self.text.as_str()
    }

    /// Returns the text that was parsed, without joining its chunks.
    pub fn source(&self) -> JsonDocumentText<'a> {
        self.text
    }

    /// Returns the outermost value.
    pub fn root(&self) -> JsonValue<'_> {
        JsonValue { document: self, node_index: 0 }
    }

    /// Returns the value with this index.
    #[inline]
    pub fn value_at(&self, mark: NodeIndex) -> JsonValue<'_> {
        JsonValue { document: self, node_index: mark.0 }
    }

    /// Returns the byte ranges of the comments, in order.
    pub fn comments(&self) -> &[(usize, usize)] {
        &self.comments
    }
}

/// The index of a value in its [`JsonDocument`], for code that keeps the document and returns to the value later.
#[derive(Debug, Clone, Copy)]
pub struct NodeIndex(usize);

/// A value in a [`JsonDocument`].
#[derive(Debug, Clone, Copy)]
pub struct JsonValue<'d> {
    document: &'d JsonDocument<'d>,
    node_index: usize,
}

impl<'d> JsonValue<'d> {
    #[inline]
    fn node(&self) -> DocumentNode {
        // INVARIANT: values are made only from indices of this document's nodes.
        let nothing = DocumentNode::new(0, 0, 0);
        self.document.nodes.get(self.node_index).copied().unwrap_or(nothing)
    }

    /// Returns the index of the value in its document.
    #[inline]
    pub fn index(&self) -> NodeIndex {
        NodeIndex(self.node_index)
    }

    /// Returns the value exactly as written.
    #[inline]
    pub fn raw(&self) -> &'d str {
        self.node().raw(self.document.text)
    }

    /// Returns the byte range of the value in its document.
    pub fn span(&self) -> (usize, usize) {
        let node = self.node();
        (node.start(), node.end())
    }

    /// Returns the kind of the value.
    #[inline]
    pub fn kind(&self) -> JsonKind {
        match self.document.text.byte(self.node().start()) {
            Some(b'"') => JsonKind::String,
            Some(b'{') => JsonKind::Object,
            Some(b'[') => JsonKind::Array,
            Some(b't' | b'f') => JsonKind::Bool,
            Some(b'n') | None => JsonKind::Null,
            Some(_) => JsonKind::Number,
        }
    }

    /// Returns the text of the document that contains the value.
    pub fn source(&self) -> JsonDocumentText<'d> {
        self.document.text
    }

    /// Calls `take` with the bytes of the value exactly as written, chunk by chunk.
    pub fn for_each_chunk(&self, mut take: impl FnMut(&[u8])) {
        let (start, end) = self.span();
        match self.document.text {
            JsonDocumentText::Contiguous(_) => take(self.raw().as_bytes()),
            JsonDocumentText::Segmented(segmented) => segmented.for_each_chunk(start, end, take),
        }
    }

    /// Returns the unescaped content of a string, or `None` for other kinds. Copies the content only if it has escapes.
    #[inline]
    pub fn as_str(&self) -> Option<Cow<'d, str>> {
        if self.kind() != JsonKind::String {
            return None;
        }
        let node = self.node();
        let inner = node.inner(self.document.text);
        Some(if node.has_escapes() { unescape(inner) } else { Cow::Borrowed(inner) })
    }

    /// Returns a number as an exact decimal, or `None` for other kinds.
    pub fn as_number(&self) -> Option<Decimal<'d>> {
        match self.kind() {
            JsonKind::Number => Decimal::from_bytes(self.raw().as_bytes()),
            _ => None,
        }
    }

    /// Returns the value if it is a boolean, or `None` otherwise.
    pub fn as_bool(&self) -> Option<bool> {
        match self.kind() {
            JsonKind::Bool => Some(self.raw() == "true"),
            _ => None,
        }
    }

    /// Returns the elements of an array, or no elements for other kinds.
    pub fn elements(&self) -> ArrayElements<'d> {
        let (at, end) = self.child_range(JsonKind::Array);
        ArrayElements { document: self.document, node_index: at, end }
    }

    /// Returns the members of an object in the order of the document, or no members for other kinds.
    pub fn members(&self) -> ObjectMembers<'d> {
        let (at, end) = self.child_range(JsonKind::Object);
        ObjectMembers { document: self.document, node_index: at, end }
    }

    /// Returns the value of the member with this name, or `None` if there is no such member or this is not an object.
    pub fn get(&self, name: &str) -> Option<JsonValue<'d>> {
        let (mut at, end) = self.child_range(JsonKind::Object);
        while at < end {
            let (key, value) = (self.document.nodes.get(at)?, self.document.nodes.get(at + 1)?);
            if key.is_str(self.document.text, name) {
                return Some(JsonValue { document: self.document, node_index: at + 1 });
            }
            at = value.next();
        }
        None
    }

    /// Finds the values of several members in one pass. Also returns whether the object has any other members.
    pub fn pick<const N: usize>(&self, names: &[&str; N]) -> ([Option<JsonValue<'d>>; N], bool) {
        let (mut found, mut has_others) = ([None; N], false);
        let (mut at, end) = self.child_range(JsonKind::Object);
        while at < end {
            let nodes = &self.document.nodes;
            let (Some(key), Some(value)) = (nodes.get(at), nodes.get(at + 1)) else { break };
            // Unescape the key once, not once per name.
            let plain = key.has_escapes().then(|| unescape(key.inner(self.document.text)));
            let is =
                |name: &str| plain.as_ref().map_or_else(|| key.is_str(self.document.text, name), |own| own == name);
            let slot = names.iter().zip(&mut found).find(|(name, _)| is(name));
            match slot {
                Some((_, slot)) => *slot = Some(JsonValue { document: self.document, node_index: at + 1 }),
                None => has_others = true,
            }
            at = value.next();
        }
        (found, has_others)
    }

    /// Returns whether this is a string that equals `text` once unescaped.
    #[inline]
    pub fn is_str(&self, text: &str) -> bool {
        self.kind() == JsonKind::String && self.node().is_str(self.document.text, text)
    }

    /// Returns the index of the first node inside the container, and of the first node after it.
    #[inline]
    fn child_range(&self, kind: JsonKind) -> (usize, usize) {
        if self.kind() != kind {
            return (0, 0);
        }
        (self.node_index + 1, self.node().next())
    }
}

/// An iterator over the elements of an array.
#[derive(Debug, Clone)]
pub struct ArrayElements<'d> {
    document: &'d JsonDocument<'d>,
    node_index: usize,
    end: usize,
}

impl<'d> Iterator for ArrayElements<'d> {
    type Item = JsonValue<'d>;

    #[inline]
    fn next(&mut self) -> Option<JsonValue<'d>> {
        if self.node_index >= self.end {
            return None;
        }
        let value = JsonValue { document: self.document, node_index: self.node_index };
        self.node_index = value.node().next();
        Some(value)
    }
}

/// An iterator over the members of an object, as pairs of key and value. Keys are always strings.
#[derive(Debug, Clone)]
pub struct ObjectMembers<'d> {
    document: &'d JsonDocument<'d>,
    node_index: usize,
    end: usize,
}

impl<'d> Iterator for ObjectMembers<'d> {
    type Item = (JsonValue<'d>, JsonValue<'d>);

    #[inline]
    fn next(&mut self) -> Option<(JsonValue<'d>, JsonValue<'d>)> {
        if self.node_index >= self.end {
            return None;
        }
        let key = JsonValue { document: self.document, node_index: self.node_index };
        let value = JsonValue { document: self.document, node_index: self.node_index + 1 };
        self.node_index = value.node().next();
        Some((key, value))
    }
}
