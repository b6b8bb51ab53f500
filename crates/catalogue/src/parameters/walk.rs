//! The walk through a schema: properties, lists, choices of schemas, and references within it.

use std::borrow::Cow;

use gatelodge_json::{JsonKind, JsonValue};

use super::{Parameter, Parameters, choices_of, cut, description_of, is_address, kind_of};
use crate::tool::LONGEST_NAME;
use crate::tool_name_words::split_words;

/// More parameters are counted, not looked at.
const MOST: usize = 256;
/// Deeper ones are not looked at.
const DEEPEST: usize = 6;
/// So deep may schemas lie in each other, properties or not.
const DEEPEST_SCHEMA: usize = 24;
/// So many schemas are looked at: a reference can make many of one.
const MOST_SCHEMAS: usize = 4_096;
/// More of a text is not looked at.
const LONGEST_TEXT: usize = 4_096;

pub(super) struct Walk<'a> {
    root: JsonValue<'a>,
    schemas: usize,
    /// The references that were followed to where it stands: those in a circle bring nothing new.
    followed: Vec<Cow<'a, str>>,
    pub found: Parameters<'a>,
}

impl<'a> Walk<'a> {
    pub fn new(root: JsonValue<'a>) -> Self {
        Self { root, schemas: 0, followed: Vec::new(), found: Parameters::default() }
    }

    /// Looks at a schema that lies in the parameter `above`.
    pub fn schema(&mut self, schema: JsonValue<'a>, above: &str, depth: usize, inside: usize) {
        if schema.kind() != JsonKind::Object {
            return;
        }
        self.schemas += 1;
        if self.schemas > MOST_SCHEMAS || inside > DEEPEST_SCHEMA {
            self.found.is_partly_read = true;
            return;
        }
        for (key, value) in schema.members() {
            let Some(key) = key.as_str() else { continue };
            match key.as_ref() {
                "properties" => self.properties(schema, value, above, depth, inside),
                "anyOf" | "oneOf" | "allOf" | "prefixItems" => self.each(value, above, depth, inside),
                "items" if value.kind() == JsonKind::Array => self.each(value, above, depth, inside),
                "items" | "additionalProperties" | "then" | "else" | "contains" => {
                    self.schema(value, above, depth, inside + 1);
                }
                "patternProperties" | "dependentSchemas" => {
                    for (_, one) in value.members() {
                        self.schema(one, above, depth, inside + 1);
                    }
                }
                "$ref" => self.reference(value, above, depth, inside),
                "$dynamicRef" | "$recursiveRef" => self.found.is_partly_read = true,
                "title" | "description" | "default" => self.text(value.as_str()),
                _ => {}
            }
        }
    }

    fn each(&mut self, list: JsonValue<'a>, above: &str, depth: usize, inside: usize) {
        for one in list.elements() {
            self.schema(one, above, depth, inside + 1);
        }
    }

    fn reference(&mut self, value: JsonValue<'a>, above: &str, depth: usize, inside: usize) {
        let target = value.as_str().filter(|name| name.len() <= LONGEST_NAME);
        let Some((name, schema)) = target.and_then(|name| Some((name.clone(), resolve(self.root, &name)?))) else {
            self.found.is_partly_read = true;
            return;
        };
        if !self.followed.contains(&name) {
            self.followed.push(name);
            self.schema(schema, above, depth, inside + 1);
            self.followed.pop();
        }
    }

    fn properties(
        &mut self,
        schema: JsonValue<'a>,
        properties: JsonValue<'a>,
        above: &str,
        depth: usize,
        inside: usize,
    ) {
        let required = schema.get("required");
        for (key, value) in properties.members() {
            self.found.count += usize::from(depth == 0);
            if self.found.list.len() >= MOST || depth >= DEEPEST {
                self.found.is_partly_read = true;
                continue;
            }
            let Some(name) = key.as_str() else { continue };
            let is_required = required.is_some_and(|list| list.elements().take(MOST).any(|item| item.is_str(&name)));
            let path = if above.is_empty() { name.len() } else { above.len() + 1 + name.len() };
            let is_cut = path > LONGEST_NAME;
            self.found.is_partly_read |= name.len() > LONGEST_NAME;
            let name = cut(name, LONGEST_NAME);
            let path = if above.is_empty() { name.to_string() } else { format!("{above}.{name}") };
            let path = cut(Cow::Owned(path), LONGEST_NAME).into_owned();
            let (choices, has_more_choices) = choices_of(value);
            self.found.texts.extend(choices.iter().cloned());
            self.found.list.push(Parameter {
                joined: split_words(&name).join("_"),
                is_cut,
                kind: kind_of(value),
                is_required,
                is_outermost: depth == 0 && inside == 0,
                description: description_of(value),
                choices,
                has_more_choices,
                is_one_of: value.get("enum").is_some() || value.get("const").is_some(),
                is_address: is_address(value),
                path: path.clone(),
            });
            self.found.texts.push(name);
            self.schema(value, &path, depth + 1, inside + 1);
        }
    }

    fn text(&mut self, text: Option<Cow<'a, str>>) {
        let Some(text) = text else { return };
        self.found.is_partly_read |= text.len() > LONGEST_TEXT;
        self.found.texts.push(cut(text, LONGEST_TEXT));
    }
}

/// What a reference within the schema stands for.
fn resolve<'a>(root: JsonValue<'a>, reference: &str) -> Option<JsonValue<'a>> {
    let mut at = root;
    for part in reference.strip_prefix('#')?.split('/').skip(1) {
        let name = part.replace("~1", "/").replace("~0", "~");
        let element = || at.elements().nth(name.parse().ok()?);
        at = at.get(&name).or_else(element)?;
    }
    Some(at)
}
