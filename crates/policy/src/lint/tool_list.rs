//! A server's tool list, as returned by `tools/list`.

use std::collections::HashMap;

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};

use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, MAX_SEARCHED_DIAGNOSTICS, sorted_for_display};

const TOOL_LIST_HELP: &str =
    r#"pass the server's response to `tools/list`, such as {"tools": [{"name": "…", "inputSchema": {…}}]}"#;

/// A server's tool definitions.
#[derive(Debug, Default)]
pub struct ToolList {
    tools: Vec<ListedTool>,
    by_name: HashMap<Box<str>, usize>,
}

/// One tool in a server's list.
#[derive(Debug)]
pub(super) struct ListedTool {
    pub name: Box<str>,
    /// The tool's input schema, as JSON.
    pub schema: Option<Box<str>>,
}

impl ToolList {
    /// Reads the result of `tools/list`, the whole response, or the list alone.
    ///
    /// # Errors
    /// Returns all diagnostics, with spans in the input.
    pub fn read(bytes: &[u8]) -> Result<Self, Vec<Diagnostic>> {
        let document = read(bytes, &JsonLimits::REPLY).map_err(|diagnostic| {
            let diagnostic = Diagnostic::from_json_error(&diagnostic);
            vec![if diagnostic.code == DiagnosticCode::Syntax {
                diagnostic.with_help(TOOL_LIST_HELP)
            } else {
                diagnostic.with_default_help()
            }]
        })?;
        let list = find_tool_array(document.root()).map_err(|diagnostic| vec![diagnostic])?;
        let mut tools = Self::default();
        let mut places = Vec::new();
        let mut diagnostics = Vec::new();
        for item in list.elements() {
            match tools.add(item, &mut places) {
                Ok(()) => {}
                Err(diagnostic) if diagnostics.len() < MAX_SEARCHED_DIAGNOSTICS => diagnostics.push(diagnostic),
                Err(_) => break,
            }
        }
        if diagnostics.is_empty() { Ok(tools) } else { Err(sorted_for_display(diagnostics)) }
    }

    fn add<'d>(&mut self, item: JsonValue<'d>, places: &mut Vec<JsonValue<'d>>) -> Result<(), Diagnostic> {
        if item.kind() != JsonKind::Object {
            return Err(wrong_type_error(item, "a tool", "an object"));
        }
        let name = item.get("name").ok_or_else(|| missing_field_error(item, "name"))?;
        let text = name.as_str().ok_or_else(|| wrong_type_error(name, "`name`", "a string"))?;
        if let Some(earlier) = self.by_name.get(&*text).and_then(|at| places.get(*at)) {
            let diagnostic = Diagnostic::error(
                DiagnosticCode::RepeatedKey,
                value_span(name),
                format!("the tool `{text}` is listed twice"),
            );
            return Err(diagnostic
                .with_related(value_span(*earlier), "the other one")
                .with_help("keep one of the two"));
        }
        self.by_name.insert(text.as_ref().into(), self.tools.len());
        let schema = item.get("inputSchema").map(|schema| schema.raw().into());
        self.tools.push(ListedTool { name: text.into(), schema });
        places.push(name);
        Ok(())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &ListedTool> {
        self.tools.iter()
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.tools.iter().map(|tool| &*tool.name)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }
}

/// Finds the list of tools in the JSON value.
fn find_tool_array(root: JsonValue<'_>) -> Result<JsonValue<'_>, Diagnostic> {
    if root.kind() == JsonKind::Array {
        return Ok(root);
    }
    if root.kind() != JsonKind::Object {
        return Err(wrong_type_error(root, "a list of tools", "an object or a list").with_help(TOOL_LIST_HELP));
    }
    if let Some(error) = root.get("error").filter(|_| root.get("result").is_none()) {
        return Err(Diagnostic::error(
            DiagnosticCode::MissingField,
            first_char_span(error),
            "the server returned an error",
        )
        .with_help(TOOL_LIST_HELP));
    }
    let result = root.get("result").unwrap_or(root);
    if result.kind() != JsonKind::Object {
        return Err(wrong_type_error(result, "`result`", "an object").with_help(TOOL_LIST_HELP));
    }
    if let Some(cursor) = result.get("nextCursor").filter(|cursor| cursor.kind() != JsonKind::Null) {
        // With only one page, the tools on the other pages would be reported as missing.
        let diagnostic =
            Diagnostic::error(DiagnosticCode::BadValue, value_span(cursor), "this is one page of a longer list");
        return Err(diagnostic.with_help("put the tools of all pages into one list"));
    }
    let tools = result.get("tools").ok_or_else(|| missing_field_error(result, "tools"))?;
    match tools.kind() {
        JsonKind::Array => Ok(tools),
        _ => Err(wrong_type_error(tools, "`tools`", "a list").with_help(TOOL_LIST_HELP)),
    }
}

fn missing_field_error(value: JsonValue<'_>, name: &str) -> Diagnostic {
    Diagnostic::error(DiagnosticCode::MissingField, first_char_span(value), format!("`{name}` is missing"))
        .with_help(TOOL_LIST_HELP)
}

fn wrong_type_error(value: JsonValue<'_>, what: &str, wanted: &str) -> Diagnostic {
    let message = format!("{what} must be {wanted}, not {}", value.kind().with_article());
    let place = match value.kind() {
        JsonKind::Array | JsonKind::Object => first_char_span(value),
        _ => value_span(value),
    };
    Diagnostic::error(DiagnosticCode::WrongType, place, message)
}

fn value_span(value: JsonValue<'_>) -> std::ops::Range<usize> {
    let (start, end) = value.span();
    start..end
}

/// Returns the span of a value's first character. Messages that underline a whole block would be hard to read.
fn first_char_span(value: JsonValue<'_>) -> std::ops::Range<usize> {
    let (start, end) = value.span();
    start..end.min(start + 1)
}
