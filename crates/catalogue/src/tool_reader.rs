//! Reads tools from JSON Lines or from a response to `tools/list`.

use std::borrow::Cow;

use gatelodge_json::{JsonDocument, JsonKind, JsonLimits, JsonValue, read};

use crate::tool_spec::ToolSpec;

/// A tool, given on a line of its own or in a list.
#[derive(Debug)]
pub struct ToolListEntry<'a> {
    /// Line number, starting at 1. For a tool in a list, its position in the list.
    pub line_number: usize,
    /// Name of the tool's server, or empty if it is not given. Tools on the same server are classified together.
    pub server: Cow<'a, str>,
    /// The tool.
    pub tool: ToolSpec<'a>,
    /// The whole JSON entry.
    pub entry: JsonValue<'a>,
}

/// Error returned when a line does not contain a valid tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {why}")]
pub struct ReadToolError {
    /// Line number, starting at 1.
    pub number: usize,
    /// What is wrong. For a tool in a list, this includes its position.
    pub why: String,
}

/// Parses the input as one document if possible, and otherwise line by line. Each result comes with its line number.
///
/// ```
/// use gatelodge_catalogue::{ToolListEntry, read_tools};
///
/// let listed = read_tools(br#"{"result": {"tools": [{"name": "add"}, {"name": "fail"}]}}"#);
/// let (number, document) = &listed[0];
/// let document = document.as_ref().expect("JSON");
/// let names: Vec<_> = ToolListEntry::read_all(document, *number)
///     .into_iter()
///     .map(|entry| entry.expect("a tool").tool.name.into_owned())
///     .collect();
/// assert_eq!(names, ["add", "fail"]);
/// ```
pub fn read_tools(text: &[u8]) -> Vec<(usize, Result<JsonDocument<'_>, ReadToolError>)> {
    if let Ok(whole) = read(text, &JsonLimits::REPLY) {
        return vec![(1, Ok(whole))];
    }
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    lines
        .map(|(at, line)| {
            let (number, document) = (at + 1, read(line, &JsonLimits::REQUEST));
            (number, document.map_err(|fault| ReadToolError { number, why: fault.to_string() }))
        })
        .collect()
}

impl<'a> ToolListEntry<'a> {
    /// Returns the tools in a document, which either lists tools or is itself a tool.
    pub fn read_all(document: &'a JsonDocument<'a>, number: usize) -> Vec<Result<Self, ReadToolError>> {
        let root = document.root();
        let inside = root.get("result").unwrap_or(root);
        let list = if inside.kind() == JsonKind::Array { Some(inside) } else { inside.get("tools") };
        let Some(list) = list.filter(|list| list.kind() == JsonKind::Array) else {
            return vec![Self::read_entry(root, number, Cow::Borrowed(""))];
        };
        let server = server_name(root);
        let listed = list.elements().enumerate().map(|(at, entry)| {
            let with_position = |error: ReadToolError| ReadToolError {
                number,
                why: format!("tool {} of the list: {}", at + 1, error.why),
            };
            Self::read_entry(entry, at + 1, server.clone()).map_err(with_position)
        });
        listed.collect()
    }

    fn read_entry(entry: JsonValue<'a>, number: usize, server: Cow<'a, str>) -> Result<Self, ReadToolError> {
        let tool = ToolSpec::of(entry).map_err(|why| ReadToolError { number, why: why.to_owned() })?;
        let own = server_name(entry);
        Ok(Self { line_number: number, server: if own.is_empty() { server } else { own }, tool, entry })
    }
}

impl ToolListEntry<'_> {
    /// Returns a key that identifies the server. It includes the package, because two packages may use the same server
    /// name.
    pub fn server_key(&self) -> String {
        let package = self.entry.get("package").and_then(|package| package.as_str()).unwrap_or_default();
        format!("{package} {}", self.server)
    }
}

fn server_name<'a>(entry: JsonValue<'a>) -> Cow<'a, str> {
    let text = |name: &str| entry.get(name).and_then(|value| value.as_str());
    text("server").or_else(|| text("package")).unwrap_or_default()
}
