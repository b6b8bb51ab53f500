//! Attaches comments to values.
//!
//! A comment belongs either on its own lines above its value, or at the end of a line. Comments anywhere else are moved
//! to the nearer of these two places, so that formatting is idempotent.

use gatelodge_json::{JsonDocument, JsonKind, JsonValue};

/// A comment on lines of its own.
pub(super) struct OwnLineComment<'d> {
    pub text: &'d str,
    /// Whether a blank line precedes the comment.
    pub has_blank_line_before: bool,
}

/// A member, an element or the root value, with its comments.
pub(super) struct CommentedNode<'d> {
    pub leading_comments: Vec<OwnLineComment<'d>>,
    /// Whether a blank line separates the node from the comments in front of it.
    pub has_blank_line_before: bool,
    pub key: Option<&'d str>,
    pub value: CommentedValue<'d>,
    /// Comments at the end of the node's last line. Only the last one can be a `//` comment.
    pub trailing_comments: Vec<&'d str>,
}

pub(super) enum CommentedValue<'d> {
    Scalar(&'d str),
    Container(CommentedContainer<'d>),
}

pub(super) struct CommentedContainer<'d> {
    pub is_object: bool,
    /// Comments that follow the opening bracket on the same line.
    pub opening_comments: Vec<&'d str>,
    pub nodes: Vec<CommentedNode<'d>>,
    /// Comments in front of the closing bracket.
    pub closing_comments: Vec<OwnLineComment<'d>>,
    /// Whether there is a comment anywhere inside the container.
    pub has_comments: bool,
}

/// A document with its comments attached: the root value, and the comments after it.
pub(super) struct CommentedDocument<'d> {
    pub root: CommentedNode<'d>,
    pub closing_comments: Vec<OwnLineComment<'d>>,
}

pub(super) fn attach_comments<'d>(document: &'d JsonDocument<'d>) -> CommentedDocument<'d> {
    let mut reader = CommentAttacher { text: document.text(), comments: document.comments(), end: 0 };
    let root = reader.read_node(None, document.root());
    let length = document.text().len();
    let root = CommentedNode { trailing_comments: reader.take_same_line_comments(length), ..root };
    CommentedDocument { root, closing_comments: reader.take_own_line_comments(length) }
}

struct CommentAttacher<'d> {
    text: &'d str,
    /// Comments that are not attached yet.
    comments: &'d [(usize, usize)],
    /// Offset after the last token or comment that was consumed.
    end: usize,
}

impl<'d> CommentAttacher<'d> {
    /// Reads a value with its key and the comments in front of them. Comments after the value are read by the caller.
    fn read_node(&mut self, key: Option<JsonValue<'d>>, value: JsonValue<'d>) -> CommentedNode<'d> {
        let (value_start, value_end) = value.span();
        let start = key.map_or(value_start, |key| key.span().0);
        let mut before = self.take_own_line_comments(start);
        let has_blank_line = self.has_blank_line_before(start);
        self.end = key.map_or(start, |key| key.span().1);
        // Comments between a key and its value have no lines of their own.
        before.extend(
            self.take_own_line_comments(value_start)
                .into_iter()
                .map(|comment| OwnLineComment { has_blank_line_before: false, ..comment }),
        );
        let shape = match value.kind() {
            JsonKind::Object | JsonKind::Array => CommentedValue::Container(self.read_container(value)),
            _ => CommentedValue::Scalar(value.raw()),
        };
        self.end = value_end;
        CommentedNode {
            leading_comments: before,
            has_blank_line_before: has_blank_line,
            key: key.map(|key| key.raw()),
            value: shape,
            trailing_comments: Vec::new(),
        }
    }

    fn read_container(&mut self, value: JsonValue<'d>) -> CommentedContainer<'d> {
        let (start, end) = value.span();
        let close = end - 1;
        let is_object = value.kind() == JsonKind::Object;
        let items: Vec<(Option<JsonValue<'d>>, JsonValue<'d>)> = match is_object {
            true => value.members().map(|(key, value)| (Some(key), value)).collect(),
            false => value.elements().map(|value| (None, value)).collect(),
        };
        let start_of = |at: usize| items.get(at).map(|(key, value)| key.unwrap_or(*value).span().0);
        let remarks_before = self.comments.len();
        self.end = start + 1;
        let head = self.take_line_end_comments(start_of(0).unwrap_or(close));
        let mut nodes = Vec::with_capacity(items.len());
        for (at, (key, value)) in items.iter().enumerate() {
            let node = self.read_node(*key, *value);
            let after = match start_of(at + 1) {
                Some(next) => self.take_comments_around_comma(next),
                None => self.take_same_line_comments(close),
            };
            nodes.push(CommentedNode { trailing_comments: after, ..node });
        }
        let tail = self.take_own_line_comments(close);
        CommentedContainer {
            is_object,
            opening_comments: head,
            nodes,
            closing_comments: tail,
            has_comments: self.comments.len() != remarks_before,
        }
    }

    /// Takes the comments that follow a value on the same line. Comments after the comma are included only if nothing
    /// else follows on that line.
    fn take_comments_around_comma(&mut self, next: usize) -> Vec<&'d str> {
        let comma = self.find_comma(next);
        let mut after = self.take_same_line_comments(comma);
        let is_closed = after.last().is_some_and(|text| text.starts_with("//"));
        let next_is_behind_comma = self.comments.first().is_some_and(|(start, _)| *start > comma);
        if !is_closed && next_is_behind_comma {
            self.end = comma + 1;
            after.extend(self.take_line_end_comments(next));
        }
        after
    }

    /// Finds the comma before the next item, ignoring commas inside comments.
    fn find_comma(&self, next: usize) -> usize {
        let mut from = self.end;
        for (start, end) in self.comments.iter().take_while(|(start, _)| *start < next) {
            if let Some(at) = self.text_between(from, *start).find(',') {
                return from + at;
            }
            from = *end;
        }
        self.text_between(from, next).find(',').map_or(next, |at| from + at)
    }

    /// Takes all comments that start before the offset `until`.
    fn take_own_line_comments(&mut self, until: usize) -> Vec<OwnLineComment<'d>> {
        let mut comments = Vec::new();
        while let Some((start, text)) = self.next_comment(until) {
            let has_blank_line = self.has_blank_line_before(start);
            self.consume_comment(start, text);
            comments.push(OwnLineComment { text: text.trim_end(), has_blank_line_before: has_blank_line });
        }
        comments
    }

    /// Takes the comments on the line where the last token ended.
    fn take_same_line_comments(&mut self, until: usize) -> Vec<&'d str> {
        let mut texts: Vec<&'d str> = Vec::new();
        while let Some((start, text)) = self.next_comment(until) {
            let is_closed = texts.last().is_some_and(|last| last.starts_with("//"));
            if is_closed || self.text_between(self.end, start).contains('\n') {
                break;
            }
            self.consume_comment(start, text);
            texts.push(text.trim_end());
        }
        texts
    }

    /// Like [`Self::take_same_line_comments`], but takes nothing if the comments are not the last thing on the line.
    fn take_line_end_comments(&mut self, until: usize) -> Vec<&'d str> {
        let (comments, end) = (self.comments, self.end);
        let texts = self.take_same_line_comments(until);
        let is_closed = texts.last().is_some_and(|last| last.starts_with("//"));
        if is_closed || self.text_between(self.end, until).contains('\n') {
            return texts;
        }
        (self.comments, self.end) = (comments, end);
        Vec::new()
    }

    fn next_comment(&self, until: usize) -> Option<(usize, &'d str)> {
        let (start, end) = *self.comments.first().filter(|(start, _)| *start < until)?;
        Some((start, self.text_between(start, end)))
    }

    fn consume_comment(&mut self, start: usize, text: &str) {
        self.end = start + text.len();
        self.comments = self.comments.split_first().map_or(&[], |(_, rest)| rest);
    }

    /// Returns whether there is a blank line between the last token or comment and the offset `start`.
    fn has_blank_line_before(&self, start: usize) -> bool {
        let mut lines = self.text_between(self.end, start).split('\n');
        // The first part is the rest of a line already consumed, the last one the indentation of what follows.
        let _ends = (lines.next(), lines.next_back());
        lines.any(|line| line.trim().is_empty())
    }

    fn text_between(&self, from: usize, to: usize) -> &'d str {
        self.text.get(from..to).unwrap_or_default()
    }
}
