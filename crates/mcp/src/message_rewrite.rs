//! Sending on what was judged: the text itself, with a few values replaced where they stand.
//!
//! Nothing is written anew, so no other reader can find anything that was not read here.

use std::borrow::Cow;

use gatelodge_json::{JsonText, JsonValue, SegmentedText, quote_into};

use crate::client_message::{ClientNotification, ClientRequest, ClientResponse};
use crate::request_id::RequestId;
use crate::trace_context::TraceParent;

/// A shorter rest of a text is copied: that costs less than another piece.
pub(crate) const MIN_SHARED_TAIL_BYTES: usize = 16 << 10;

/// What changes on a request's way to an upstream. All else stays byte for byte.
#[derive(Debug, Clone, Copy)]
pub struct RequestRewrite<'r> {
    /// The id towards the upstream.
    pub id: &'r RequestId<'r>,
    /// The name of the tool or prompt, the URI or the task there, if it is another one.
    pub target: Option<&'r str>,
    /// The progress token there, if the caller gave one.
    pub progress_token: Option<&'r RequestId<'r>>,
    /// Our span, which takes the place of the caller's if it names one. Without one, theirs is left out.
    pub trace: Option<&'r TraceParent>,
}

/// A value to be replaced is not in the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestRewriteError {
    /// The method is about nothing that has a name.
    #[error("the message names nothing that could be renamed")]
    NoTarget,
    /// The caller gave no progress token.
    #[error("the message has no progress token")]
    NoProgressToken,
    /// The notification refers to nothing.
    #[error("the notification refers to no request or token")]
    NoReference,
}

/// A piece of a text and what takes its place.
pub(crate) struct TextEdit<'r> {
    pub span: (usize, usize),
    pub replacement: Cow<'r, str>,
}

impl ClientRequest<'_> {
    /// Writes the request for an upstream.
    ///
    /// # Errors
    /// What is to be replaced is not there: nothing is ever added.
    pub fn rewrite(&self, rewrite: &RequestRewrite<'_>) -> Result<String, RequestRewriteError> {
        Ok(splice(self.text(), self.edits(rewrite)?))
    }

    /// The same up to the last change, and where the text goes on as it is from there.
    ///
    /// # Errors
    /// As for [`Self::rewrite`].
    pub fn rewrite_prefix(&self, rewrite: &RequestRewrite<'_>) -> Result<(String, usize), RequestRewriteError> {
        Ok(splice_prefix(self.source(), self.edits(rewrite)?))
    }

    /// The same of a message whose middle stands apart: what stands before the middle, and what behind it. None of any
    /// other message, and where the middle itself changes.
    ///
    /// # Errors
    /// As for [`Self::rewrite`].
    pub fn rewrite_segmented(
        &self,
        rewrite: &RequestRewrite<'_>,
    ) -> Result<Option<(String, String)>, RequestRewriteError> {
        match self.source() {
            JsonText::Contiguous(_) => Ok(None),
            JsonText::Segmented(folded) => Ok(splice_segmented(folded, self.edits(rewrite)?)),
        }
    }

    fn edits<'r>(&self, rewrite: &RequestRewrite<'r>) -> Result<Vec<TextEdit<'r>>, RequestRewriteError> {
        let mut edits = vec![replace_value(self.root().get("id"), rewrite.id.raw())];
        if let Some(target) = rewrite.target {
            let place = self.target_value().ok_or(RequestRewriteError::NoTarget)?;
            edits.push(TextEdit { span: place.span(), replacement: to_json_string(target).into() });
        }
        if let Some(token) = rewrite.progress_token {
            let place = self.meta().get("progressToken").ok_or(RequestRewriteError::NoProgressToken)?;
            edits.push(replace_value(Some(place), token.raw()));
        }
        edits.extend(self.trace_edits(rewrite.trace));
        Ok(edits)
    }
}

impl ClientNotification<'_> {
    /// Writes the notification with another request id or progress token to refer to.
    ///
    /// # Errors
    /// It refers to nothing.
    pub fn with_reference(&self, id: &RequestId<'_>) -> Result<String, RequestRewriteError> {
        let place = self.reference_value().ok_or(RequestRewriteError::NoReference)?;
        Ok(splice(self.text(), vec![replace_value(Some(place), id.raw())]))
    }
}

impl ClientResponse<'_> {
    /// Writes the answer under another id.
    pub fn with_id(&self, id: &RequestId<'_>) -> String {
        splice(self.text(), vec![replace_value(self.root().get("id"), id.raw())])
    }
}

fn replace_value<'r>(place: Option<JsonValue<'_>>, with: &'r str) -> TextEdit<'r> {
    // INVARIANT: a message that needs an id was not read without one.
    TextEdit { span: place.map_or((0, 0), |value| value.span()), replacement: Cow::Borrowed(with) }
}

fn to_json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(text, &mut out);
    out
}

/// Takes members out of an object, each with the comma that separates it.
pub(crate) fn removal_edits(object: JsonValue<'_>, is_gone: impl Fn(&str) -> bool) -> Vec<TextEdit<'static>> {
    let mut edits = Vec::new();
    // The end of the member before, once one of those is kept: then the comma before goes, else the one behind.
    let (mut before, mut has_kept) = (0, false);
    let mut members = object.members().peekable();
    while let Some((key, value)) = members.next() {
        let end = value.span().1;
        if key.as_str().is_some_and(|name| is_gone(&name)) {
            let behind = members.peek().map_or(end, |(key, _)| key.span().0);
            let span = if has_kept { (before, end) } else { (key.span().0, behind) };
            edits.push(TextEdit { span, replacement: "".into() });
        } else {
            has_kept = true;
        }
        before = end;
    }
    edits
}

/// Puts each edit in the place of its span. Spans do not overlap: they are values, none inside another.
pub(crate) fn splice(text: &str, edits: Vec<TextEdit<'_>>) -> String {
    let added: usize = edits.iter().map(|edit| edit.replacement.len()).sum();
    let mut out = String::with_capacity(text.len() + added);
    let at = splice_into(&mut out, JsonText::Contiguous(text), edits);
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// The same up to the end of the last edit, and where the text goes on as it is from there: who keeps it need not copy
/// the rest. A short rest is no rest.
pub(crate) fn splice_prefix(text: JsonText<'_>, edits: Vec<TextEdit<'_>>) -> (String, usize) {
    let end = edits.iter().map(|edit| edit.span.1).max().unwrap_or(0);
    if text.len().saturating_sub(end) < MIN_SHARED_TAIL_BYTES {
        return (splice(text.as_str(), edits), text.len());
    }
    let mut head = String::new();
    let at = splice_into(&mut head, text, edits);
    (head, at)
}

/// The same in a text whose middle stands apart: what stands before the middle then, and what behind it. None if an edit
/// goes over the middle.
pub(crate) fn splice_segmented(folded: &SegmentedText, edits: Vec<TextEdit<'_>>) -> Option<(String, String)> {
    let (before, _, behind) = folded.parts();
    let offset = folded.len() - behind.len();
    let (first, mut second): (Vec<_>, Vec<_>) = edits.into_iter().partition(|edit| edit.span.1 <= before.len());
    for TextEdit { span: (start, end), .. } in &mut second {
        (*start, *end) = (start.checked_sub(offset)?, end.checked_sub(offset)?);
    }
    Some((splice(before, first), splice(behind, second)))
}

fn splice_into(out: &mut String, text: JsonText<'_>, mut edits: Vec<TextEdit<'_>>) -> usize {
    edits.sort_by_key(|edit| edit.span);
    let mut at = 0;
    for edit in &edits {
        let (start, end) = edit.span;
        out.push_str(text.get(at, start).unwrap_or_default());
        out.push_str(&edit.replacement);
        at = end;
    }
    at
}

/// Writes a message that was read as one line, for peers that read lines.
///
/// Line breaks stand between values only, where a space means the same. The three characters beyond ASCII that some
/// line readers break at stand inside strings only, where their escape means the same.
pub fn to_single_line(text: &str) -> Cow<'_, str> {
    let breaks = ['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'];
    if !text.contains(breaks) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '\n' | '\r' => out.push(' '),
            '\u{85}' => out.push_str("\\u0085"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}
