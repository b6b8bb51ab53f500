//! What a tool takes, as far as its schema says so. A schema is foreign: it is walked within bounds, never trusted, and
//! what lies outside the bounds is told.

mod parameter_walker;

use std::borrow::Cow;

use gatelodge_json::{JsonKind, JsonValue};

use crate::tool_spec::MAX_NAME_BYTES;
use parameter_walker::ParameterWalker;

/// More of a parameter's description is not looked at for what it takes.
const MAX_PARAMETER_DESCRIPTION_CHARS: usize = 400;
/// More choices are not looked at.
const MAX_CHOICES: usize = 64;
/// So many parts of a choice of schemas are looked at for kinds and choices.
const MAX_SCHEMA_ALTERNATIVES: usize = 64;

/// What kind of value a parameter takes; of several, the first of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ParameterKind {
    Text,
    List,
    /// An object, or not said.
    Other,
    Number,
    Boolean,
}

/// One parameter.
#[derive(Debug)]
pub(crate) struct ToolParameter<'a> {
    /// Its name, and those it lies in: `target.path`.
    pub path: String,
    /// Whether the path is longer than is kept.
    pub is_path_truncated: bool,
    /// The words of its own name, in small letters, with `_` between them.
    pub name_words: String,
    pub kind: ParameterKind,
    pub is_required: bool,
    /// Whether it stands in the arguments themselves.
    pub is_top_level: bool,
    /// Its description, in small letters.
    pub description: Option<String>,
    /// The texts it may be.
    pub choices: Vec<Cow<'a, str>>,
    /// Whether it may be more texts than these.
    pub has_more_choices: bool,
    /// Whether it can be nothing but one of its choices.
    pub is_enum: bool,
    /// Whether its format, or that of its elements, is one of an address of people or of the web.
    pub is_address: bool,
}

/// All parameters of a tool.
#[derive(Debug, Default)]
pub(crate) struct ToolParameters<'a> {
    pub list: Vec<ToolParameter<'a>>,
    /// How many there are in the arguments themselves.
    pub top_level_count: usize,
    /// Whether the schema is none, or says nothing that can be used.
    pub is_invalid_schema: bool,
    /// Whether a part of it was not looked at.
    pub is_partly_read: bool,
    /// All that it says to whoever reads it: names, titles, descriptions, choices.
    pub texts: Vec<Cow<'a, str>>,
}

impl<'a> ToolParameters<'a> {
    /// Reads a schema.
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

    /// Whether there are two or more, and all are numbers.
    pub fn has_only_numbers(&self) -> bool {
        self.list.len() > 1 && self.list.iter().all(|own| own.kind == ParameterKind::Number)
    }
}

/// The kind of a value: where it may be several, the one that can carry the most.
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

/// What a value is composed of: `anyOf` is how optional values are written.
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

/// The texts that a value may be, and whether there are more of them.
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

/// The beginning of a text.
fn truncate_text(text: Cow<'_, str>, most: usize) -> Cow<'_, str> {
    let end = text.floor_char_boundary(most);
    match text {
        Cow::Borrowed(text) => Cow::Borrowed(text.get(..end).unwrap_or_default()),
        Cow::Owned(mut text) => {
            text.truncate(end);
            text.shrink_to_fit();
            Cow::Owned(text)
        }
    }
}
