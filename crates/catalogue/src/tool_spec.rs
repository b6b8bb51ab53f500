//! A tool as its server describes it.

use std::borrow::Cow;

use gatelodge_json::{JsonKind, JsonValue};

/// Maximum length of a name. No client displays longer names in full.
pub(crate) const MAX_NAME_BYTES: usize = 256;

/// A tool definition.
#[derive(Debug, Clone)]
pub struct ToolSpec<'a> {
    /// Name of the tool.
    pub name: Cow<'a, str>,
    /// Description provided by the server.
    pub description: Option<Cow<'a, str>>,
    /// Display name. If the tool and its annotations have different titles, this contains both.
    pub title: Option<Cow<'a, str>>,
    /// Input schema.
    pub schema: Option<JsonValue<'a>>,
    /// Annotations provided by the server.
    pub annotations: ToolAnnotations,
}

/// Annotations provided by the server. They can raise the risk, but never lower it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ToolAnnotations {
    /// `readOnlyHint`, if given.
    pub read_only: Option<bool>,
    /// `destructiveHint`, if given.
    pub destructive: Option<bool>,
}

impl<'a> ToolSpec<'a> {
    /// Creates a tool definition that has only a name.
    pub fn from_name(name: &'a str) -> Self {
        Self {
            name: Cow::Borrowed(name),
            description: None,
            title: None,
            schema: None,
            annotations: ToolAnnotations::default(),
        }
    }

    /// Returns whether the definition contains the text of the description. If the tool comes from the index, the
    /// description is at most an empty string, because its text is not stored.
    pub(crate) fn has_description_text(&self) -> bool {
        self.description.as_ref().is_some_and(|text| !text.is_empty())
    }

    /// Reads an entry from a `tools/list` response.
    ///
    /// # Errors
    /// Returns an error if the entry is not an object or has no usable name.
    pub fn of(entry: JsonValue<'a>) -> Result<Self, &'static str> {
        if entry.kind() != JsonKind::Object {
            return Err("a tool is an object with a `name`");
        }
        let name = entry.get("name").ok_or("the tool has no `name`")?;
        let name = name.as_str().ok_or("the tool's `name` is not a string")?;
        if name.is_empty() {
            return Err("the tool's `name` is empty");
        }
        if name.len() > MAX_NAME_BYTES {
            return Err("the tool's `name` is longer than 256 bytes");
        }
        let schema = entry.get("inputSchema").or_else(|| entry.get("input_schema"));
        let description = entry.get("description").and_then(|text| text.as_str());
        let description = description.filter(|text| !text.trim().is_empty());
        let title = |of: Option<JsonValue<'a>>| of.and_then(|of| of.get("title")).and_then(|title| title.as_str());
        let title = match (title(Some(entry)), title(entry.get("annotations"))) {
            (Some(one), Some(other)) if one != other => Some(Cow::Owned(format!("{one}\n{other}"))),
            (one, other) => one.or(other),
        };
        Ok(Self { name, description, title, schema, annotations: ToolAnnotations::of(entry.get("annotations")) })
    }
}

impl ToolAnnotations {
    fn of(value: Option<JsonValue<'_>>) -> Self {
        let hint = |name: &str| value.and_then(|all| all.get(name)).and_then(|hint| hint.as_bool());
        Self { read_only: hint("readOnlyHint"), destructive: hint("destructiveHint") }
    }
}
