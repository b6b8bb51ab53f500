//! What a tool takes, as far as its schema says so. A schema is foreign: it is walked within bounds, and never trusted.

use std::borrow::Cow;

use gatelodge_json::{Kind as JsonKind, Value};

use crate::name::split;

/// More parameters are counted, not looked at.
const MOST: usize = 128;
/// Deeper ones are not looked at.
const DEEPEST: usize = 3;
/// More of a parameter's description is not looked at.
const LONGEST_DESCRIPTION: usize = 400;
/// More choices are not looked at.
const MOST_CHOICES: usize = 64;

/// What kind of value a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Number,
    Flag,
    List,
    /// An object, or not said.
    Other,
}

/// One parameter.
#[derive(Debug)]
pub(crate) struct Parameter<'a> {
    /// Its name, and those it lies in: `target.path`.
    pub path: String,
    /// The words of its own name, in small letters, with `_` between them.
    pub joined: String,
    pub kind: Kind,
    pub is_required: bool,
    /// Whether it stands in the arguments themselves.
    pub is_outermost: bool,
    /// Its description, in small letters.
    pub description: Option<String>,
    /// The texts it may be.
    pub choices: Vec<Cow<'a, str>>,
}

/// All parameters of a tool.
#[derive(Debug, Default)]
pub(crate) struct Parameters<'a> {
    pub list: Vec<Parameter<'a>>,
    /// How many there are in the arguments themselves.
    pub count: usize,
    /// Whether the schema is none, or says nothing that can be used.
    pub is_odd: bool,
}

impl<'a> Parameters<'a> {
    /// Reads a schema.
    pub fn of(schema: Option<Value<'a>>) -> Self {
        let Some(schema) = schema.filter(|schema| schema.kind() != JsonKind::Null) else { return Self::default() };
        let properties = schema.get("properties");
        let is_odd = schema.kind() != JsonKind::Object
            || properties.is_some_and(|properties| properties.kind() != JsonKind::Object)
            || schema.get("type").is_some_and(|kind| !kind.is_str("object"));
        let mut all = Self { is_odd, ..Self::default() };
        all.walk(schema, "", 0);
        all
    }

    fn walk(&mut self, schema: Value<'a>, above: &str, depth: usize) {
        let required = schema.get("required");
        let is_required =
            |name: &str| required.is_some_and(|list| list.elements().take(MOST).any(|item| item.is_str(name)));
        let Some(properties) = schema.get("properties") else { return };
        for (key, value) in properties.members() {
            self.count += usize::from(depth == 0);
            if self.list.len() >= MOST {
                continue;
            }
            let Some(name) = key.as_str() else { continue };
            let path = if above.is_empty() { name.to_string() } else { format!("{above}.{name}") };
            self.list.push(Parameter {
                joined: split(&name).join("_"),
                kind: kind_of(value),
                is_required: is_required(&name),
                is_outermost: depth == 0,
                description: description_of(value),
                choices: choices_of(value),
                path: path.clone(),
            });
            if depth + 1 < DEEPEST {
                self.walk(value, &path, depth + 1);
                if let Some(items) = value.get("items") {
                    self.walk(items, &path, depth + 1);
                }
            }
        }
    }
}

fn kind_of(schema: Value<'_>) -> Kind {
    let said = match schema.get("type") {
        Some(kind) => first_kind(kind),
        // `anyOf` is how optional values are written: the first that is not null counts.
        None => schema.get("anyOf").into_iter().flat_map(|all| all.elements().take(8)).find_map(|one| {
            let kind = one.get("type").and_then(first_kind);
            kind.filter(|kind| kind != "null")
        }),
    };
    match said.as_deref() {
        Some("string") => Kind::Text,
        Some("number" | "integer") => Kind::Number,
        Some("boolean") => Kind::Flag,
        Some("array") => Kind::List,
        _ => Kind::Other,
    }
}

fn first_kind(kind: Value<'_>) -> Option<Cow<'_, str>> {
    let of_list = || kind.elements().take(8).filter_map(|one| one.as_str()).find(|one| one != "null");
    kind.as_str().or_else(of_list)
}

fn description_of(schema: Value<'_>) -> Option<String> {
    let text = schema.get("description")?.as_str()?;
    Some(text.chars().take(LONGEST_DESCRIPTION).flat_map(char::to_lowercase).collect())
}

fn choices_of<'a>(schema: Value<'a>) -> Vec<Cow<'a, str>> {
    let own = schema.get("enum").into_iter();
    let one = schema.get("const").and_then(|value| value.as_str());
    let listed = own.flat_map(|list| list.elements().take(MOST_CHOICES)).filter_map(|value| value.as_str());
    listed.chain(one).collect()
}
