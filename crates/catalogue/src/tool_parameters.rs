//! Extracts the parameters of a tool from its input schema. Schemas are untrusted, so they are walked within limits,
//! and exceeding a limit is reported.

mod parameter_walker;

use std::borrow::Cow;

use gatelodge_json::{JsonKind, JsonValue};

use crate::tool_spec::MAX_NAME_BYTES;
use parameter_walker::ParameterWalker;

/// Maximum number of characters to examine in a parameter's description.
const MAX_PARAMETER_DESCRIPTION_CHARS: usize = 400;
/// Maximum number of choices to examine per parameter.
const MAX_CHOICES: usize = 64;
/// Maximum number of schema alternatives to examine.
const MAX_SCHEMA_ALTERNATIVES: usize = 64;

/// The kind of value that a parameter takes. If several kinds apply, the first in the order of declaration is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ParameterKind {
    Text,
    List,
    /// An object, or a value whose type is not specified.
    Other,
    Number,
    Boolean,
}

/// A parameter of a tool.
#[derive(Debug)]
pub(crate) struct ToolParameter<'a> {
    /// The parameter's name, preceded by the names of its parents: `target.path`.
    pub path: String,
    /// Whether the path was truncated.
    pub is_path_truncated: bool,
    /// The words of the parameter's own name, in lower case and joined by `_`.
    pub name_words: String,
    pub kind: ParameterKind,
    pub is_required: bool,
    /// Whether the parameter is a top-level argument of the tool.
    pub is_top_level: bool,
    /// The parameter's description, in lower case.
    pub description: Option<String>,
    /// The string values that the schema lists.
    pub choices: Vec<Cow<'a, str>>,
    /// Whether there are choices that were not examined.
    pub has_more_choices: bool,
    /// Whether only the listed choices are allowed.
    pub is_enum: bool,
    /// Whether the parameter or its elements have the format of an email address, phone number or URL.
    pub is_address: bool,
}

/// All parameters of a tool.
#[derive(Debug, Default)]
pub(crate) struct ToolParameters<'a> {
    pub list: Vec<ToolParameter<'a>>,
    /// Number of top-level arguments.
    pub top_level_count: usize,
    /// Whether the schema is invalid.
    pub is_invalid_schema: bool,
    /// Whether part of the schema was not examined.
    pub is_partly_read: bool,
    /// All strings in the schema that the language model may read: names, titles, descriptions, defaults and choices.
    pub texts: Vec<Cow<'a, str>>,
}

impl<'a> ToolParameters<'a> {
    /// Extracts the parameters from a schema.
    pub fn of(schema: Option<JsonValue<'a>>) -> Self {
        let Some(schema) = schema.filter(|schema| schema.kind() != JsonKind::Null) else { return Self::default() };
        let properties = schema.get("properties");
        let is_odd = schema.kind() != JsonKind::Object
            || properties.is_some_and(|properties| properties.kind() != JsonKind::Object)
            || schema.get("type").is_some_and(|kind| !kind.is_str("object"));
        let mut walk = ParameterWalker::new(schema);
        walk.visit_schema(schema, "", 0, 0);
        Self { is_invalid_schema: is_odd, ..walk.parameters }
    }

    /// Returns whether there are at least two parameters and all of them are numbers.
    pub fn has_only_numbers(&self) -> bool {
        self.list.len() > 1 && self.list.iter().all(|own| own.kind == ParameterKind::Number)
    }
}

/// Returns the kind of value that a schema allows. If it allows several kinds, the first in the order of
/// [`ParameterKind`] is returned.
fn parameter_kind(schema: JsonValue<'_>) -> ParameterKind {
    let named = |kind: JsonValue<'_>| match kind.as_str().as_deref() {
        Some("string") => Some(ParameterKind::Text),
        Some("number" | "integer") => Some(ParameterKind::Number),
        Some("boolean") => Some(ParameterKind::Boolean),
        Some("array") => Some(ParameterKind::List),
        Some("null") => None,
        _ => Some(ParameterKind::Other),
    };
    let of_type = |schema: JsonValue<'_>| match schema.get("type") {
        Some(list) if list.kind() == JsonKind::Array => {
            list.elements().take(MAX_SCHEMA_ALTERNATIVES).filter_map(named).min()
        }
        Some(kind) => named(kind),
        None => Some(ParameterKind::Other),
    };
    let parts = schema_alternatives(schema).filter_map(of_type).min();
    let own = schema.get("type").and_then(|_| of_type(schema));
    own.into_iter().chain(parts).min().unwrap_or(ParameterKind::Other)
}

/// Returns the alternatives in a schema. Optional values are often expressed with `anyOf`.
fn schema_alternatives<'a>(schema: JsonValue<'a>) -> impl Iterator<Item = JsonValue<'a>> {
    let lists = ["anyOf", "oneOf", "allOf"].into_iter().filter_map(move |name| schema.get(name));
    lists.flat_map(|list| list.elements().take(MAX_SCHEMA_ALTERNATIVES))
}

fn is_address(schema: JsonValue<'_>) -> bool {
    const FORMATS: [&str; 6] = ["email", "idn-email", "phone", "tel", "uri", "url"];
    let all = std::iter::once(schema).chain(schema.get("items")).chain(schema_alternatives(schema));
    let mut formats = all.filter_map(|part| part.get("format")?.as_str());
    formats.any(|format| FORMATS.contains(&&*format))
}

fn description_of(schema: JsonValue<'_>) -> Option<String> {
    let text = schema.get("description")?.as_str()?;
    Some(text.chars().take(MAX_PARAMETER_DESCRIPTION_CHARS).flat_map(char::to_lowercase).collect())
}

/// Returns the string values that a schema lists, and whether any were left out or truncated.
fn choices_of<'a>(schema: JsonValue<'a>) -> (Vec<Cow<'a, str>>, bool) {
    let items = schema.get("items").into_iter();
    let all = std::iter::once(schema).chain(schema_alternatives(schema)).chain(items);
    let all = all.flat_map(|part| {
        let listed = part.get("enum").into_iter().flat_map(|list| list.elements());
        listed.chain(part.get("const")).take(MAX_CHOICES + 1)
    });
    let mut choices: Vec<_> = all.take(MAX_CHOICES + 1).filter_map(|value| value.as_str()).collect();
    let has_more = choices.len() > MAX_CHOICES || choices.iter().any(|choice| choice.len() > MAX_NAME_BYTES);
    choices.truncate(MAX_CHOICES);
    (choices.into_iter().map(|choice| truncate_text(choice, MAX_NAME_BYTES)).collect(), has_more)
}

/// Truncates `text` to at most `max` bytes.
fn truncate_text(text: Cow<'_, str>, max: usize) -> Cow<'_, str> {
    let end = text.floor_char_boundary(max);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..end).unwrap_or_default()),
        Cow::Owned(mut text) => {
            text.truncate(end);
            text.shrink_to_fit();
            Cow::Owned(text)
        }
    }
}
