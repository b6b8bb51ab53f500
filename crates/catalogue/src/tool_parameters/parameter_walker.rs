//! Walks a schema, including its properties, array items, alternatives and internal references.

use std::borrow::Cow;

use gatelodge_json::{JsonKind, JsonValue};

use super::{ToolParameter, ToolParameters, choices_of, description_of, is_address, parameter_kind, truncate_text};
use crate::tool_name_words::split_words;
use crate::tool_spec::MAX_NAME_BYTES;

/// Maximum number of parameters to examine. Any others are only counted.
const MAX_PARAMETERS: usize = 256;
/// Maximum nesting depth of parameters.
const MAX_PARAMETER_DEPTH: usize = 6;
/// Maximum nesting depth of schemas.
const MAX_SCHEMA_DEPTH: usize = 24;
/// Maximum number of schemas to visit. A small document can expand to a huge number of schemas through references.
const MAX_VISITED_SCHEMAS: usize = 4_096;
/// Titles, descriptions and other strings are examined up to this many bytes.
const MAX_TEXT_BYTES: usize = 4_096;

pub(super) struct ParameterWalker<'a> {
    root: JsonValue<'a>,
    visited_schemas: usize,
    /// References that are currently being followed. They are not followed again, to avoid endless recursion.
    open_references: Vec<Cow<'a, str>>,
    pub parameters: ToolParameters<'a>,
}

impl<'a> ParameterWalker<'a> {
    pub fn new(root: JsonValue<'a>) -> Self {
        Self { root, visited_schemas: 0, open_references: Vec::new(), parameters: ToolParameters::default() }
    }

    /// Visits a schema. `above` is the path of the parameter that it belongs to, and is empty for the tool's input
    /// schema.
    pub fn visit_schema(&mut self, schema: JsonValue<'a>, above: &str, depth: usize, inside: usize) {
        if schema.kind() != JsonKind::Object {
            return;
        }
        self.visited_schemas += 1;
        if self.visited_schemas > MAX_VISITED_SCHEMAS || inside > MAX_SCHEMA_DEPTH {
            self.parameters.is_partly_read = true;
            return;
        }
        for (key, value) in schema.members() {
            let Some(key) = key.as_str() else { continue };
            match key.as_ref() {
                "properties" => self.visit_properties(schema, value, above, depth, inside),
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => self.visit_each(value, above, depth, inside),
                "items" if value.kind() == JsonKind::Array => self.visit_each(value, above, depth, inside),
                "items" | "additionalProperties" | "then" | "else" | "contains" => {
                    self.visit_schema(value, above, depth, inside + 1);
                }
                "patternProperties" | "dependentSchemas" => {
                    for (_, one) in value.members() {
                        self.visit_schema(one, above, depth, inside + 1);
                    }
                }
                "$ref" => self.visit_reference(value, above, depth, inside),
                "$dynamicRef" | "$recursiveRef" => self.parameters.is_partly_read = true,
                "title" | "description" | "default" => self.push_text(value.as_str()),
                _ => {}
            }
        }
    }

    fn visit_each(&mut self, list: JsonValue<'a>, above: &str, depth: usize, inside: usize) {
        for one in list.elements() {
            self.visit_schema(one, above, depth, inside + 1);
        }
    }

    fn visit_reference(&mut self, value: JsonValue<'a>, above: &str, depth: usize, inside: usize) {
        let target = value.as_str().filter(|name| name.len() <= MAX_NAME_BYTES);
        let Some((name, schema)) = target.and_then(|name| Some((name.clone(), resolve_reference(self.root, &name)?)))
        else {
            self.parameters.is_partly_read = true;
            return;
        };
        if !self.open_references.contains(&name) {
            self.open_references.push(name);
            self.visit_schema(schema, above, depth, inside + 1);
            self.open_references.pop();
        }
    }

    fn visit_properties(
        &mut self,
        schema: JsonValue<'a>,
        properties: JsonValue<'a>,
        above: &str,
        depth: usize,
        inside: usize,
    ) {
        let required = schema.get("required");
        for (key, value) in properties.members() {
            self.parameters.top_level_count += usize::from(depth == 0);
            if self.parameters.list.len() >= MAX_PARAMETERS || depth >= MAX_PARAMETER_DEPTH {
                self.parameters.is_partly_read = true;
                continue;
            }
            let Some(name) = key.as_str() else { continue };
            let is_required =
                required.is_some_and(|list| list.elements().take(MAX_PARAMETERS).any(|item| item.is_str(&name)));
            let path = if above.is_empty() { name.len() } else { above.len() + 1 + name.len() };
            let is_cut = path > MAX_NAME_BYTES;
            self.parameters.is_partly_read |= name.len() > MAX_NAME_BYTES;
            let name = truncate_text(name, MAX_NAME_BYTES);
            let path = if above.is_empty() { name.to_string() } else { format!("{above}.{name}") };
            let path = truncate_text(Cow::Owned(path), MAX_NAME_BYTES).into_owned();
            let (choices, has_more_choices) = choices_of(value);
            self.parameters.texts.extend(choices.iter().cloned());
            self.parameters.list.push(ToolParameter {
                name_words: split_words(&name).join("_"),
                is_path_truncated: is_cut,
                kind: parameter_kind(value),
                is_required,
                is_top_level: depth == 0 && inside == 0,
                description: description_of(value),
                choices,
                has_more_choices,
                is_enum: value.get("enum").is_some() || value.get("const").is_some(),
                is_address: is_address(value),
                path: path.clone(),
            });
            self.parameters.texts.push(name);
            self.visit_schema(value, &path, depth + 1, inside + 1);
        }
    }

    fn push_text(&mut self, text: Option<Cow<'a, str>>) {
        let Some(text) = text else { return };
        self.parameters.is_partly_read |= text.len() > MAX_TEXT_BYTES;
        self.parameters.texts.push(truncate_text(text, MAX_TEXT_BYTES));
    }
}

/// Resolves a reference to a part of the same schema.
fn resolve_reference<'a>(root: JsonValue<'a>, reference: &str) -> Option<JsonValue<'a>> {
    let mut at = root;
    for part in reference.strip_prefix('#')?.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        let element = || at.elements().nth(name.parse().ok()?);
        at = at.get(&name).or_else(element)?;
    }
    Some(at)
}
