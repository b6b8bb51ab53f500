//! Tools as they are told: one JSON object a line, or what a server answers to `tools/list`.

use std::borrow::Cow;

use gatelodge_json::{JsonDocument, JsonKind, JsonLimits, JsonValue, read};

use crate::tool::Tool;

/// One line, or one tool of a list.
#[derive(Debug)]
pub struct Item<'a> {
    /// Which line, from 1; of a list, which tool.
    pub number: usize,
    /// The server it belongs to, as far as it is said; tools of one server are siblings.
    pub server: Cow<'a, str>,
    /// The tool.
    pub tool: Tool<'a>,
    /// All that is said of it.
    pub entry: JsonValue<'a>,
}

/// Why a line is no tool.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {number}: {why}")]
pub struct ReadError {
    /// Which line, from 1.
    pub number: usize,
    /// What is wrong with it; of a list, also with which of its tools.
    pub why: String,
}

/// Reads a text into documents: the whole if it is one, else each line by itself.
pub fn read_tools(text: &[u8]) -> Vec<(usize, Result<JsonDocument<'_>, ReadError>)> {
    if let Ok(whole) = read(text, &JsonLimits::REPLY) {
        return vec![(1, Ok(whole))];
    }
    let lines = text.split(|byte| *byte == b'\n').enumerate();
    let lines = lines.filter(|(_, line)| !line.trim_ascii().is_empty());
    lines
        .map(|(at, line)| {
            let (number, document) = (at + 1, read(line, &JsonLimits::REQUEST));
            (number, document.map_err(|fault| ReadError { number, why: fault.to_string() }))
        })
        .collect()
}

impl<'a> Item<'a> {
    /// The tools of a document: itself, or those it lists.
    pub fn all(document: &'a JsonDocument<'a>, number: usize) -> Vec<Result<Self, ReadError>> {
        let root = document.root();
        let inside = root.get("result").unwrap_or(root);
        let list = if inside.kind() == JsonKind::Array { Some(inside) } else { inside.get("tools") };
        let Some(list) = list.filter(|list| list.kind() == JsonKind::Array) else {
            return vec![Self::one(root, number, Cow::Borrowed(""))];
        };
        let server = server_of(root);
        let listed = list.elements().enumerate().map(|(at, entry)| {
            let told =
                |error: ReadError| ReadError { number, why: format!("tool {} of the list: {}", at + 1, error.why) };
            Self::one(entry, at + 1, server.clone()).map_err(told)
        });
        listed.collect()
    }

    fn one(entry: JsonValue<'a>, number: usize, server: Cow<'a, str>) -> Result<Self, ReadError> {
        let tool = Tool::of(entry).map_err(|why| ReadError { number, why: why.to_owned() })?;
        let own = server_of(entry);
        Ok(Self { number, server: if own.is_empty() { server } else { own }, tool, entry })
    }
}

impl Item<'_> {
    /// Whose tool it is: two packages may call their servers alike.
    pub fn family(&self) -> String {
        let package = self.entry.get("package").and_then(|package| package.as_str()).unwrap_or_default();
        format!("{package} {}", self.server)
    }
}

fn server_of<'a>(entry: JsonValue<'a>) -> Cow<'a, str> {
    let text = |name: &str| entry.get(name).and_then(|value| value.as_str());
    text("server").or_else(|| text("package")).unwrap_or_default()
}
