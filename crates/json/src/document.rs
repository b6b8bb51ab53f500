//! A text that has been read, and views of the values in it.

use std::borrow::Cow;

use crate::decimal::Decimal;
use crate::segmented_text::SegmentedText;
use crate::string_escape::unescape;

/// Marks a string that holds escapes, in [`DocumentNode::next`]: texts stay below 2^31 bytes, and so do indices.
const ESCAPED_FLAG: u32 = 1 << 31;

/// Where one value stands, and where the next one that is not inside it is noted.
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

    /// Index of the next sibling, or of what follows the container.
    pub fn next(&self) -> usize {
        (self.next & !ESCAPED_FLAG) as usize
    }

    /// Whether this is a string with escapes.
    pub fn has_escapes(&self) -> bool {
        self.next & ESCAPED_FLAG != 0
    }

    #[inline]
    pub fn raw<'a>(&self, text: JsonText<'a>) -> &'a str {
        // INVARIANT: the reader notes offsets of this text, at character borders.
        text.get(self.start(), self.end()).unwrap_or_default()
    }

    /// Whether this is a string that stands for `name`. Without escapes the length alone tells most strings apart.
    #[inline]
    fn is_str(&self, text: JsonText<'_>, name: &str) -> bool {
        if self.has_escapes() {
            return unescape(self.inner(text)) == name;
        }
        let is_as_long = self.end() - self.start() == name.len() + 2;
        is_as_long && text.bytes(self.start() + 1, self.end() - 1) == Some(name.as_bytes())
    }

    /// The text between the quotes. Only for strings.
    pub fn inner<'a>(&self, text: JsonText<'a>) -> &'a str {
        text.get(self.start() + 1, self.end() - 1).unwrap_or_default()
    }
}

/// A text that is read: one piece, or one whose middle stands apart.
#[derive(Debug, Clone, Copy)]
pub enum JsonText<'a> {
    /// In one piece.
    Contiguous(&'a str),
    /// With its middle apart.
    Segmented(&'a SegmentedText),
}

impl<'a> JsonText<'a> {
    /// A part of the text. If it goes over a fold, the text is put together.
    #[inline]
    pub fn get(self, start: usize, end: usize) -> Option<&'a str> {
        match self {
            Self::Contiguous(text) => text.get(start..end),
            Self::Segmented(folded) => folded.get(start, end),
        }
    }

    /// The same without a look at where characters begin.
    #[inline]
    fn bytes(self, start: usize, end: usize) -> Option<&'a [u8]> {
        match self {
            Self::Contiguous(text) => text.as_bytes().get(start..end),
            Self::Segmented(folded) => folded.get(start, end).map(str::as_bytes),
        }
    }

    /// One byte of it.
    #[inline]
    fn byte(self, at: usize) -> Option<u8> {
        match self {
            Self::Contiguous(text) => text.as_bytes().get(at).copied(),
            Self::Segmented(folded) => folded.get(at, at + 1).and_then(|one| one.bytes().next()),
        }
    }

    /// How many bytes it has.
    #[expect(clippy::len_without_is_empty, reason = "what was read is not empty")]
    pub fn len(self) -> usize {
        match self {
            Self::Contiguous(text) => text.len(),
            Self::Segmented(folded) => folded.len(),
        }
    }

    /// The whole of it in one piece.
    pub fn as_str(self) -> &'a str {
        match self {
            Self::Contiguous(text) => text,
            Self::Segmented(folded) => folded.as_str(),
        }
    }
}

/// A whole text that has been read: the text itself, and where its values stand.
#[derive(Debug, Clone)]
pub struct JsonDocument<'a> {
    text: JsonText<'a>,
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
    /// The word for people: "a string", "a list".
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
        Self { text: JsonText::Contiguous(text), nodes, comments }
    }

    /// The same values in a text of which this is the short one; none if the middle belongs into none of them.
    pub(crate) fn with_segments(self, folded: &'a SegmentedText, has_escapes: bool) -> Option<Self> {
        // Nodes stand in the order in which they begin, so the innermost around the fold is the last that begins before it.
        let begun = self.nodes.partition_point(|node| folded.is_before_split(node.start()));
        let around = begun.checked_sub(1)?;
        let node = self.nodes.get(around)?;
        let is_string = node.raw(self.text).starts_with('"');
        if !is_string || !folded.is_split_in_string_value((node.start(), node.end())) {
            return None;
        }
        let mut nodes = self.nodes;
        for node in &mut nodes {
            let (start, end) = folded.to_full_span((node.start(), node.end()));
            *node = DocumentNode { start: start as u32, end: end as u32, next: node.next };
        }
        let node = nodes.get_mut(around)?;
        *node = node.with_escapes(has_escapes);
        Some(Self { text: JsonText::Segmented(folded), nodes, comments: self.comments })
    }

    /// The text as it was read, in one piece.
    pub fn text(&self) -> &'a str {
        self.text.as_str()
    }

    /// The text as it was read.
    pub fn source(&self) -> JsonText<'a> {
        self.text
    }

    /// The outermost value.
    pub fn root(&self) -> JsonValue<'_> {
        JsonValue { document: self, node_index: 0 }
    }

    /// The value that was marked.
    #[inline]
    pub fn value_at(&self, mark: NodeIndex) -> JsonValue<'_> {
        JsonValue { document: self, node_index: mark.0 }
    }

    /// Where comments stand, in order, as byte offsets.
    pub fn comments(&self) -> &[(usize, usize)] {
        &self.comments
    }
}

/// Which value of a [`JsonDocument`] it is, for whoever keeps the document and comes back to it.
#[derive(Debug, Clone, Copy)]
pub struct NodeIndex(usize);

/// One value of a [`JsonDocument`].
#[derive(Debug, Clone, Copy)]
pub struct JsonValue<'d> {
    document: &'d JsonDocument<'d>,
    node_index: usize,
}

impl<'d> JsonValue<'d> {
    #[inline]
    fn node(&self) -> DocumentNode {
        // INVARIANT: values are made from indices of this document's nodes only.
        let nothing = DocumentNode::new(0, 0, 0);
        self.document.nodes.get(self.node_index).copied().unwrap_or(nothing)
    }

    /// Which value of its document it is.
    #[inline]
    pub fn index(&self) -> NodeIndex {
        NodeIndex(self.node_index)
    }

    /// The value exactly as it is written.
    #[inline]
    pub fn raw(&self) -> &'d str {
        self.node().raw(self.document.text)
    }

    /// Byte offsets of the value in its document.
    pub fn span(&self) -> (usize, usize) {
        let node = self.node();
        (node.start(), node.end())
    }

    /// Which kind of value this is.
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

    /// The text that it stands in.
    pub fn source(&self) -> JsonText<'d> {
        self.document.text
    }

    /// The bytes of the value exactly as it is written, one piece after the other.
    pub fn for_each_chunk(&self, mut take: impl FnMut(&[u8])) {
        let (start, end) = self.span();
        match self.document.text {
            JsonText::Contiguous(_) => take(self.raw().as_bytes()),
            JsonText::Segmented(folded) => folded.for_each_chunk(start, end, take),
        }
    }

    /// What a string stands for; none for other kinds. Copies only if there are escapes.
    #[inline]
    pub fn as_str(&self) -> Option<Cow<'d, str>> {
        if self.kind() != JsonKind::String {
            return None;
        }
        let node = self.node();
        let inner = node.inner(self.document.text);
        Some(if node.has_escapes() { unescape(inner) } else { Cow::Borrowed(inner) })
    }

    /// A number by its text; none for other kinds.
    pub fn as_number(&self) -> Option<Decimal<'d>> {
        match self.kind() {
            JsonKind::Number => Decimal::from_bytes(self.raw().as_bytes()),
            _ => None,
        }
    }

    /// A boolean; none for other kinds.
    pub fn as_bool(&self) -> Option<bool> {
        match self.kind() {
            JsonKind::Bool => Some(self.raw() == "true"),
            _ => None,
        }
    }

    /// The elements of a list; nothing for other kinds.
    pub fn elements(&self) -> ArrayElements<'d> {
        let (at, end) = self.child_range(JsonKind::Array);
        ArrayElements { document: self.document, node_index: at, end }
    }

    /// The members of an object in their order; nothing for other kinds.
    pub fn members(&self) -> ObjectMembers<'d> {
        let (at, end) = self.child_range(JsonKind::Object);
        ObjectMembers { document: self.document, node_index: at, end }
    }

    /// The member of an object by its name.
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

    /// The members of an object by their names, in one walk; and whether it has others.
    pub fn pick<const N: usize>(&self, names: &[&str; N]) -> ([Option<JsonValue<'d>>; N], bool) {
        let (mut found, mut has_others) = ([None; N], false);
        let (mut at, end) = self.child_range(JsonKind::Object);
        while at < end {
            let nodes = &self.document.nodes;
            let (Some(key), Some(value)) = (nodes.get(at), nodes.get(at + 1)) else { break };
            // Put into plain letters once, and not for each name.
            let plain = key.has_escapes().then(|| unescape(key.inner(self.document.text)));
            let is =
                |name: &str| plain.as_ref().map_or_else(|| key.is_str(self.document.text, name), |own| own == name);
            let place = names.iter().zip(&mut found).find(|(name, _)| is(name));
            match place {
                Some((_, place)) => *place = Some(JsonValue { document: self.document, node_index: at + 1 }),
                None => has_others = true,
            }
            at = value.next();
        }
        (found, has_others)
    }

    /// Whether this is a string that stands for `text`.
    #[inline]
    pub fn is_str(&self, text: &str) -> bool {
        self.kind() == JsonKind::String && self.node().is_str(self.document.text, text)
    }

    /// The indices of the first node inside and of the first behind.
    #[inline]
    fn child_range(&self, kind: JsonKind) -> (usize, usize) {
        if self.kind() != kind {
            return (0, 0);
        }
        (self.node_index + 1, self.node().next())
    }
}

/// Walks over the elements of a list.
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

/// Walks over the members of an object: keys (always strings) and values.
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
