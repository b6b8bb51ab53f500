//! Tools as they are told: one JSON object a line, or what a server answers to `tools/list`.

use std::borrow::Cow;

use gatelodge_json::{JsonDocument, JsonKind, JsonLimits, JsonValue, read};

use crate::tool_spec::ToolSpec;

/// One line, or one tool of a list.
#[derive(Debug)]
pub struct ToolEntry<'a> {
    /// Which line, from 1; of a list, which tool.
    pub line_number: usize,
    /// The server it belongs to, as far as it is said; tools of one server are siblings.
    pub server: Cow<'a, str>,
    /// The tool.
    pub tool: ToolSpec<'a>,
    /// All that is said of it.
    pub entry: JsonValue<'a>,
}

/// Why a line is no tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {why}")]
pub struct ReadToolError {
    /// Which line, from 1.
    pub number: usize,
    /// What is wrong with it; of a list, also with which of its tools.
    pub why: String,
}

/// Reads a text into documents: the whole if it is one, else each line by itself.
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

impl<'a> ToolEntry<'a> {
    /// The tools of a document: itself, or those it lists.
    pub fn read_all(document: &'a JsonDocument<'a>, number: usize) -> Vec<Result<Self, ReadToolError>> {
        let root = document.root();
        let inside = root.get("result").unwrap_or(root);
        let list = if inside.kind() == JsonKind::Array { Some(inside) } else { inside.get("tools") };
        let Some(list) = list.filter(|list| list.kind() == JsonKind::Array) else {
            return vec![Self::read_entry(root, number, Cow::Borrowed(""))];
        };
        let server = server_name(root);
        let listed = list.elements().enumerate().map(|(at, entry)| {
            let told = |error: ReadToolError| ReadToolError {
                number,
                why: format!("tool {} of the list: {}", at + 1, error.why),
            };
            Self::read_entry(entry, at + 1, server.clone()).map_err(told)
        });
        listed.collect()
    }

    fn read_entry(entry: JsonValue<'a>, number: usize, server: Cow<'a, str>) -> Result<Self, ReadToolError> {
        let tool = ToolSpec::of(entry).map_err(|why| ReadToolError { number, why: why.to_owned() })?;
        let own = server_name(entry);
        Ok(Self { line_number: number, server: if own.is_empty() { server } else { own }, tool, entry })
    }
}

impl ToolEntry<'_> {
    /// Whose tool it is: two packages may call their servers alike.
    pub fn server_key(&self) -> String {
        let package = self.entry.get("package").and_then(|package| package.as_str()).unwrap_or_default();
        format!("{package} {}", self.server)
    }
}

fn server_name<'a>(entry: JsonValue<'a>) -> Cow<'a, str> {
    let text = |name: &str| entry.get(name).and_then(|value| value.as_str());
    text("server").or_else(|| text("package")).unwrap_or_default()
}
