//! Which comment belongs to which value.
//!
//! A comment stands either on lines of its own before what it speaks of, or at the end of a line. Wherever else
//! JSON allows one, it is moved to the nearest of these places, so that laying out twice changes nothing.

use gatelodge_json::{JsonDocument, JsonKind, JsonValue};

/// A comment on lines of its own.
pub(super) struct Remark<'d> {
    pub text: &'d str,
    /// Whether a blank line stands before it.
    pub is_apart: bool,
}

/// A member, an element, or the whole document, with the comments that belong to it.
pub(super) struct Piece<'d> {
    pub before: Vec<Remark<'d>>,
    /// Whether a blank line stands before it and behind the comments before it.
    pub is_apart: bool,
    pub key: Option<&'d str>,
    pub value: Shape<'d>,
    /// Comments at the end of its last line. Only the last of them can be a `//`.
    pub behind: Vec<&'d str>,
}

pub(super) enum Shape<'d> {
    Scalar(&'d str),
    Container(Container<'d>),
}

pub(super) struct Container<'d> {
    pub is_object: bool,
    /// Comments on the line of the opening bracket.
    pub head: Vec<&'d str>,
    pub pieces: Vec<Piece<'d>>,
    /// Comments before the closing bracket.
    pub tail: Vec<Remark<'d>>,
    /// Whether there is a comment anywhere inside.
    pub has_remarks: bool,
}

/// A document as pieces: its value, and the comments that follow it.
pub(super) struct Sheet<'d> {
    pub root: Piece<'d>,
    pub tail: Vec<Remark<'d>>,
}

pub(super) fn attach<'d>(document: &'d JsonDocument<'d>) -> Sheet<'d> {
    let mut reader = Reader { text: document.text(), comments: document.comments(), end: 0 };
    let root = reader.piece(None, document.root());
    let length = document.text().len();
    let root = Piece { behind: reader.same_line(length), ..root };
    Sheet { root, tail: reader.own_lines(length) }
}

struct Reader<'d> {
    text: &'d str,
    /// The comments that have not been given to anything.
    comments: &'d [(usize, usize)],
    /// Behind the last token or comment that was taken.
    end: usize,
}

impl<'d> Reader<'d> {
    /// Takes a value with its key and what stands before it; what stands behind is for the container to find.
    fn piece(&mut self, key: Option<JsonValue<'d>>, value: JsonValue<'d>) -> Piece<'d> {
        let (value_start, value_end) = value.span();
        let start = key.map_or(value_start, |key| key.span().0);
        let mut before = self.own_lines(start);
        let is_apart = self.is_apart(start);
        self.end = key.map_or(start, |key| key.span().1);
        // Between a key and its value there is no line of their own.
        before.extend(self.own_lines(value_start).into_iter().map(|remark| Remark { is_apart: false, ..remark }));
        let shape = match value.kind() {
            JsonKind::Object | JsonKind::Array => Shape::Container(self.container(value)),
            _ => Shape::Scalar(value.raw()),
        };
        self.end = value_end;
        Piece { before, is_apart, key: key.map(|key| key.raw()), value: shape, behind: Vec::new() }
    }

    fn container(&mut self, value: JsonValue<'d>) -> Container<'d> {
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
        let head = self.rest_of_line(start_of(0).unwrap_or(close));
        let mut pieces = Vec::with_capacity(items.len());
        for (at, (key, value)) in items.iter().enumerate() {
            let piece = self.piece(*key, *value);
            let behind = match start_of(at + 1) {
                Some(next) => self.around_comma(next),
                None => self.same_line(close),
            };
            pieces.push(Piece { behind, ..piece });
        }
        let tail = self.own_lines(close);
        Container { is_object, head, pieces, tail, has_remarks: self.comments.len() != remarks_before }
    }

    /// The comments behind a value and behind its comma, as far as they end the line.
    fn around_comma(&mut self, next: usize) -> Vec<&'d str> {
        let comma = self.comma(next);
        let mut behind = self.same_line(comma);
        let is_closed = behind.last().is_some_and(|text| text.starts_with("//"));
        let next_is_behind_comma = self.comments.first().is_some_and(|(start, _)| *start > comma);
        if !is_closed && next_is_behind_comma {
            self.end = comma + 1;
            behind.extend(self.rest_of_line(next));
        }
        behind
    }

    /// Where the comma before the next item stands: the first that is in no comment.
    fn comma(&self, next: usize) -> usize {
        let mut from = self.end;
        for (start, end) in self.comments.iter().take_while(|(start, _)| *start < next) {
            if let Some(at) = self.gap(from, *start).find(',') {
                return from + at;
            }
            from = *end;
        }
        self.gap(from, next).find(',').map_or(next, |at| from + at)
    }

    /// Takes all comments before an offset.
    fn own_lines(&mut self, until: usize) -> Vec<Remark<'d>> {
        let mut remarks = Vec::new();
        while let Some((start, text)) = self.next_comment(until) {
            let is_apart = self.is_apart(start);
            self.take(start, text);
            remarks.push(Remark { text: text.trim_end(), is_apart });
        }
        remarks
    }

    /// Takes the comments that stand on the line where the last token ended.
    fn same_line(&mut self, until: usize) -> Vec<&'d str> {
        let mut texts: Vec<&'d str> = Vec::new();
        while let Some((start, text)) = self.next_comment(until) {
            let is_closed = texts.last().is_some_and(|last| last.starts_with("//"));
            if is_closed || self.gap(self.end, start).contains('\n') {
                break;
            }
            self.take(start, text);
            texts.push(text.trim_end());
        }
        texts
    }

    /// As [`Self::same_line`], but takes nothing where more than comments follows on the line.
    fn rest_of_line(&mut self, until: usize) -> Vec<&'d str> {
        let (comments, end) = (self.comments, self.end);
        let texts = self.same_line(until);
        let is_closed = texts.last().is_some_and(|last| last.starts_with("//"));
        if is_closed || self.gap(self.end, until).contains('\n') {
            return texts;
        }
        (self.comments, self.end) = (comments, end);
        Vec::new()
    }

    fn next_comment(&self, until: usize) -> Option<(usize, &'d str)> {
        let (start, end) = *self.comments.first().filter(|(start, _)| *start < until)?;
        Some((start, self.gap(start, end)))
    }

    fn take(&mut self, start: usize, text: &str) {
        self.end = start + text.len();
        self.comments = self.comments.split_first().map_or(&[], |(_, rest)| rest);
    }

    /// Whether a blank line lies between the last token or comment and an offset.
    fn is_apart(&self, start: usize) -> bool {
        let mut lines = self.gap(self.end, start).split('\n');
        // The first is the rest of a line that is taken, the last the margin of what comes.
        let _ends = (lines.next(), lines.next_back());
        lines.any(|line| line.trim().is_empty())
    }

    fn gap(&self, from: usize, to: usize) -> &'d str {
        self.text.get(from..to).unwrap_or_default()
    }
}
