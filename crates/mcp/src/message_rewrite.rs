//! Rewrites messages by replacing a few values in the original text.
//!
//! Nothing is serialized again, so a server reads exactly the text that the policy was evaluated on.

use std::borrow::Cow;

use gatelodge_json::{JsonDocumentText, JsonValue, SegmentedText, quote_into};

use crate::client_message::{ClientNotification, ClientRequest, ClientResponse};
use crate::request_id::RequestId;
use crate::trace_context::TraceParent;

/// Minimum length of an unchanged tail that is shared with the original message. It is cheaper to copy a shorter tail.
pub(crate) const MIN_SHARED_TAIL_BYTES: usize = 16 << 10;

/// The values that change when a request is forwarded upstream. Everything else stays the same, byte for byte.
#[derive(Debug, Clone, Copy)]
pub struct RequestRewrite<'r> {
    /// The id to use with the upstream.
    pub id: &'r RequestId<'r>,
    /// The upstream's own name, URI or task id for the target, if it differs from the client's.
    pub target: Option<&'r str>,
    /// The progress token to use with the upstream, if the client sent one.
    pub progress_token: Option<&'r RequestId<'r>>,
    /// The gateway's trace span, which replaces the client's if the client sent one. If this is `None`, the client's
    /// span is removed.
    pub trace: Option<&'r TraceParent>,
}

/// Error for a value that cannot be replaced because the message does not contain it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RequestRewriteError {
    /// The method has no target.
    #[error("the message has no target to replace")]
    NoTarget,
    /// The client sent no progress token.
    #[error("the message has no progress token")]
    NoProgressToken,
    /// The notification has no request id or token.
    #[error("the notification has no request id or progress token")]
    NoReference,
}

/// A byte range and its replacement.
pub(crate) struct TextEdit<'r> {
    pub span: (usize, usize),
    pub replacement: Cow<'r, str>,
}

impl ClientRequest<'_> {
    /// Writes the request for an upstream.
    ///
    /// # Errors
    /// The request does not contain a value that should be replaced. Missing values are never added.
    pub fn rewrite(&self, rewrite: &RequestRewrite<'_>) -> Result<String, RequestRewriteError> {
        Ok(splice(self.text(), self.edits(rewrite)?))
    }

    /// Like [`rewrite`](Self::rewrite), but writes only the text up to the last change, and also returns the offset in
    /// the original message where the unchanged tail begins.
    ///
    /// # Errors
    /// The same as for [`Self::rewrite`].
    pub fn rewrite_prefix(&self, rewrite: &RequestRewrite<'_>) -> Result<(String, usize), RequestRewriteError> {
        Ok(splice_prefix(self.source(), self.edits(rewrite)?))
    }

    /// Like [`rewrite`](Self::rewrite), but for a segmented message: returns the text before its chunks and the text
    /// after them, so that the chunks need not be copied. `None` if the message is not segmented, or if a value inside
    /// the chunks changes.
    ///
    /// # Errors
    /// The same as for [`Self::rewrite`].
    pub fn rewrite_segmented(
        &self,
        rewrite: &RequestRewrite<'_>,
    ) -> Result<Option<(String, String)>, RequestRewriteError> {
        match self.source() {
            JsonDocumentText::Contiguous(_) => Ok(None),
            JsonDocumentText::Segmented(segmented) => Ok(splice_segmented(segmented, self.edits(rewrite)?)),
        }
    }

    fn edits<'r>(&self, rewrite: &RequestRewrite<'r>) -> Result<Vec<TextEdit<'r>>, RequestRewriteError> {
        let mut edits = vec![replace_value(self.root().get("id"), rewrite.id.raw())];
        if let Some(target) = rewrite.target {
            let value = self.target_value().ok_or(RequestRewriteError::NoTarget)?;
            edits.push(TextEdit { span: value.span(), replacement: to_json_string(target).into() });
        }
        if let Some(token) = rewrite.progress_token {
            let value = self.meta().get("progressToken").ok_or(RequestRewriteError::NoProgressToken)?;
            edits.push(replace_value(Some(value), token.raw()));
        }
        edits.extend(self.trace_edits(rewrite.trace));
        Ok(edits)
    }
}

impl ClientNotification<'_> {
    /// Writes the notification with a different request id or progress token.
    ///
    /// # Errors
    /// The notification has neither a request id nor a progress token.
    pub fn with_reference(&self, id: &RequestId<'_>) -> Result<String, RequestRewriteError> {
        let value = self.reference_value().ok_or(RequestRewriteError::NoReference)?;
        Ok(splice(self.text(), vec![replace_value(Some(value), id.raw())]))
    }
}

impl ClientResponse<'_> {
    /// Writes the response with a different id.
    pub fn with_id(&self, id: &RequestId<'_>) -> String {
        splice(self.text(), vec![replace_value(self.root().get("id"), id.raw())])
    }
}

fn replace_value<'r>(value: Option<JsonValue<'_>>, with: &'r str) -> TextEdit<'r> {
    // INVARIANT: the parser refuses a message without an id that needs one.
    TextEdit { span: value.map_or((0, 0), |value| value.span()), replacement: Cow::Borrowed(with) }
}

fn to_json_string(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    quote_into(text, &mut out);
    out
}

/// Returns edits that remove members from an object, each with the comma before or after it.
pub(crate) fn removal_edits(object: JsonValue<'_>, is_removed: impl Fn(&str) -> bool) -> Vec<TextEdit<'static>> {
    let mut edits = Vec::new();
    // The end of the preceding member. Once a member was kept, the comma in front is removed, otherwise the one after.
    let (mut previous_end, mut has_kept) = (0, false);
    let mut members = object.members().peekable();
    while let Some((key, value)) = members.next() {
        let end = value.span().1;
        if key.as_str().is_some_and(|name| is_removed(&name)) {
            let next_start = members.peek().map_or(end, |(key, _)| key.span().0);
            let span = if has_kept { (previous_end, end) } else { (key.span().0, next_start) };
            edits.push(TextEdit { span, replacement: "".into() });
        } else {
            has_kept = true;
        }
        previous_end = end;
    }
    edits
}

/// Applies edits to `text`. Their spans never overlap, because no edited value is inside another.
pub(crate) fn splice(text: &str, edits: Vec<TextEdit<'_>>) -> String {
    let added: usize = edits.iter().map(|edit| edit.replacement.len()).sum();
    let mut out = String::with_capacity(text.len() + added);
    let at = splice_into(&mut out, JsonDocumentText::Contiguous(text), edits);
    out.push_str(text.get(at..).unwrap_or_default());
    out
}

/// Like [`splice`], but writes only the text up to the last edit, and also returns the offset where the unchanged tail
/// begins, so that the caller can share the tail. A tail shorter than [`MIN_SHARED_TAIL_BYTES`] is copied anyway.
pub(crate) fn splice_prefix(text: JsonDocumentText<'_>, edits: Vec<TextEdit<'_>>) -> (String, usize) {
    let end = edits.iter().map(|edit| edit.span.1).max().unwrap_or(0);
    if text.len().saturating_sub(end) < MIN_SHARED_TAIL_BYTES {
        return (splice(text.as_str(), edits), text.len());
    }
    let mut prefix = String::new();
    let at = splice_into(&mut prefix, text, edits);
    (prefix, at)
}

/// Like [`splice`], but for a segmented message: returns the text before its chunks and the text after them, so that
/// the chunks need not be copied. `None` if an edit affects the chunks.
pub(crate) fn splice_segmented(segmented: &SegmentedText, edits: Vec<TextEdit<'_>>) -> Option<(String, String)> {
    let (prefix, _, suffix) = segmented.parts();
    let offset = segmented.len() - suffix.len();
    let (first, mut second): (Vec<_>, Vec<_>) = edits.into_iter().partition(|edit| edit.span.1 <= prefix.len());
    for TextEdit { span: (start, end), .. } in &mut second {
        (*start, *end) = (start.checked_sub(offset)?, end.checked_sub(offset)?);
    }
    Some((splice(prefix, first), splice(suffix, second)))
}

fn splice_into(out: &mut String, text: JsonDocumentText<'_>, mut edits: Vec<TextEdit<'_>>) -> usize {
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

/// Writes a parsed message as one line, for transports that separate messages by line breaks.
///
/// In valid JSON, line breaks occur only between values, where a space is equivalent. The three non-ASCII characters
/// that some programs treat as line breaks occur only inside strings, where an escape is equivalent.
///
/// ```
/// use gatelodge_mcp::to_single_line;
///
/// assert_eq!(to_single_line("{\n\"a\":\"\u{2028}\"}"), r#"{ "a":"\u2028"}"#);
/// ```
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
