//! List requests and results: writes the request for a single page, and replaces the entries of a result.

use gatelodge_json::{JsonKind, JsonValue};

use crate::client_message::ClientRequest;
use crate::message_rewrite::{TextEdit, removal_edits, splice};
use crate::request_id::RequestId;
use crate::trace_context::TraceParent;

impl ClientRequest<'_> {
    /// Writes the request for one page of a list. Its id and progress token are new, and the gateway's trace span
    /// replaces the client's. The cursor is JSON, exactly as the previous page returned it.
    pub fn page_request(&self, id: &RequestId<'_>, cursor: Option<&str>, trace: Option<&TraceParent>) -> String {
        let mut edits = self.trace_edits(trace);
        edits.push(TextEdit { span: value_span(self.root().get("id")), replacement: id.raw().into() });
        if let Some(token) = self.meta().get("progressToken") {
            edits.push(TextEdit { span: token.span(), replacement: id.raw().into() });
        }
        if let Some(cursor) = cursor {
            edits.push(self.cursor_edit(cursor));
        }
        splice(self.text(), edits)
    }

    fn cursor_edit(&self, cursor: &str) -> TextEdit<'static> {
        let at = |position: usize, text: String| TextEdit { span: (position, position), replacement: text.into() };
        let Some(params) = self.params() else {
            let end = self.root().span().1 - 1;
            return at(end, format!(",\"params\":{{\"cursor\":{cursor}}}"));
        };
        if let Some(old) = params.get("cursor") {
            return TextEdit { span: old.span(), replacement: cursor.to_owned().into() };
        }
        let comma = if params.members().next().is_some() { "," } else { "" };
        at(params.span().0 + 1, format!("\"cursor\":{cursor}{comma}"))
    }
}

fn value_span(value: Option<JsonValue<'_>>) -> (usize, usize) {
    value.map_or((0, 0), |value| value.span())
}

/// What a list result tells the client about caching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListCaching {
    /// The revision does not define caching members, so none are written.
    Unspecified,
    /// The list must not be shared or reused: it depends on the grant and may change at any time.
    Private,
}

/// Writes a list result that contains the given entries and has no next page. Each entry is JSON.
///
/// Returns `None` if `result` is not an object, or has no list called `member`.
///
/// ```
/// use gatelodge_json::{JsonLimits, read};
/// use gatelodge_mcp::{ListCaching, replace_list_items};
///
/// let page = read(br#"{"tools":[{"name":"a"},{"name":"b"}],"nextCursor":"2"}"#, &JsonLimits::REPLY)?;
/// let list = replace_list_items(page.root(), "tools", &[r#"{"name":"b"}"#], ListCaching::Unspecified);
/// assert_eq!(list.as_deref(), Some(r#"{"tools":[{"name":"b"}]}"#));
/// # Ok::<(), gatelodge_json::JsonError>(())
/// ```
pub fn replace_list_items(
    result: JsonValue<'_>,
    member: &str,
    entries: &[&str],
    caching: ListCaching,
) -> Option<String> {
    let list = result.get(member).filter(|list| list.kind() == JsonKind::Array)?;
    // Spans are relative to the parsed text; the result may start later in it.
    let offset = result.span().0;
    let moved = |(start, end): (usize, usize)| (start - offset, end - offset);
    let mut edits = vec![TextEdit { span: moved(list.span()), replacement: format!("[{}]", entries.join(",")).into() }];
    let cursor = removal_edits(result, |name| name == "nextCursor");
    edits.extend(cursor.into_iter().map(|edit| TextEdit { span: moved(edit.span), ..edit }));
    if caching == ListCaching::Private {
        let mut missing = String::new();
        for (name, json) in [("ttlMs", "0"), ("cacheScope", "\"private\"")] {
            match result.get(name) {
                Some(old) => edits.push(TextEdit { span: moved(old.span()), replacement: json.into() }),
                None => missing.push_str(&format!("\"{name}\":{json},")),
            }
        }
        // The list itself is a member, so a comma is always correct.
        edits.push(TextEdit { span: (1, 1), replacement: missing.into() });
    }
    Some(splice(result.raw(), edits))
}

#[cfg(test)]
mod tests {
    use gatelodge_json::{JsonLimits, read};

    use super::*;
    use crate::client_message::{ClientMessage, read_client_message};

    fn page(text: &str, cursor: Option<&str>) -> String {
        let Ok(ClientMessage::Request(request)) = read_client_message(text.as_bytes(), &JsonLimits::REQUEST) else {
            panic!("a request")
        };
        request.page_request(&RequestId::string("n"), cursor, None)
    }

    #[test]
    fn a_page_request_differs_from_the_list_request_in_id_token_and_cursor() {
        let bare = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
        assert_eq!(page(bare, None), r#"{"jsonrpc":"2.0","id":"n","method":"tools/list"}"#);
        let want = r#"{"jsonrpc":"2.0","id":"n","method":"tools/list","params":{"cursor":"c"}}"#;
        assert_eq!(page(bare, Some("\"c\"")), want);
        let empty = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
        assert_eq!(page(empty, Some("\"c\"")), want);
        let full =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":7},"cursor":null}}"#;
        assert_eq!(
            page(full, Some("\"c\"")),
            r#"{"jsonrpc":"2.0","id":"n","method":"tools/list","params":{"_meta":{"progressToken":"n"},"cursor":"c"}}"#
        );
        let meta = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{}}}"#;
        assert!(page(meta, Some("\"c\"")).contains(r#"{"cursor":"c","_meta":{}}"#));
    }

    fn edited(text: &str, caching: ListCaching) -> Option<String> {
        let whole = format!("  {{\"result\":{text}}}");
        let document = read(whole.as_bytes(), &JsonLimits::REPLY).expect("json");
        replace_list_items(document.root().get("result")?, "tools", &["{\"n\":1.10}"], caching)
    }

    #[test]
    fn replacing_list_items_keeps_all_other_members() {
        let kept = r#"{"_meta": {"x":1}, "tools" : [{"n":1.10}]}"#;
        assert_eq!(edited(r#"{"_meta": {"x":1}, "tools" : [1, 2]}"#, ListCaching::Unspecified).as_deref(), Some(kept));
        for text in [
            r#"{"nextCursor":"c", "_meta": {"x":1}, "tools" : [1]}"#,
            r#"{"_meta": {"x":1}, "nextCursor":"c", "tools" : [1]}"#,
            r#"{"_meta": {"x":1}, "tools" : [1], "nextCursor":"c"}"#,
        ] {
            assert_eq!(edited(text, ListCaching::Unspecified).as_deref(), Some(kept), "{text}");
        }
        assert_eq!(edited(r#"{"tools":{}}"#, ListCaching::Unspecified), None);
    }

    #[test]
    fn a_private_list_must_not_be_cached() {
        assert_eq!(
            edited(r#"{"tools":[],"ttlMs":60000,"cacheScope":"public"}"#, ListCaching::Private).as_deref(),
            Some(r#"{"tools":[{"n":1.10}],"ttlMs":0,"cacheScope":"private"}"#)
        );
        assert_eq!(
            edited(r#"{"tools":[]}"#, ListCaching::Private).as_deref(),
            Some(r#"{"ttlMs":0,"cacheScope":"private","tools":[{"n":1.10}]}"#)
        );
    }
}
