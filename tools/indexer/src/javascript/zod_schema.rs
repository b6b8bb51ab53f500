//! Converts zod schemas such as `z.object({ a: z.string().optional() })`.

use std::rc::Rc;

use serde_json::{Map, Value as Json, json};

use super::expression_evaluation::JsEvaluator;
use super::schema::{PropertySchema, object_schema};
use super::static_value::{JsFrameChain, JsValue};
use super::syntax::{JsNode, JsNodeId, JsSyntax};

/// Zod methods that create or modify a schema.
const ZOD_METHODS: [&str; 47] = [
    "string",
    "number",
    "boolean",
    "bigint",
    "int",
    "date",
    "any",
    "unknown",
    "never",
    "null",
    "literal",
    "enum",
    "nativeEnum",
    "array",
    "tuple",
    "object",
    "strictObject",
    "looseObject",
    "record",
    "map",
    "set",
    "union",
    "discriminatedUnion",
    "intersection",
    "preprocess",
    "lazy",
    "email",
    "url",
    "uuid",
    "optional",
    "nullable",
    "nullish",
    "default",
    "catch",
    "describe",
    "min",
    "max",
    "extend",
    "merge",
    "safeExtend",
    "pick",
    "omit",
    "partial",
    "strict",
    "passthrough",
    "refine",
    "superRefine",
];

/// Zod methods that have the same name as a method of a built-in type.
const AMBIGUOUS_METHODS: [&str; 4] = ["map", "set", "catch", "min"];

/// Returns whether a callee is a zod function. Digits and underscores that bundlers append to names are ignored.
pub(super) fn is_zod_call(syntax: &JsSyntax, callee: JsNodeId) -> bool {
    match syntax.node(callee) {
        JsNode::Member(_, word) => {
            let word = syntax.symbol_text(*word);
            ZOD_METHODS.contains(&word) && !AMBIGUOUS_METHODS.contains(&word)
        }
        JsNode::Name(word, _) => {
            let word = strip_bundler_suffix(syntax.symbol_text(*word));
            ZOD_METHODS.iter().take(22).any(|known| *known == word) && !AMBIGUOUS_METHODS.contains(&word)
        }
        _ => false,
    }
}

/// Returns whether the method derives one schema from another.
pub(super) fn is_modifier(word: &str) -> bool {
    ZOD_METHODS.iter().skip(29).any(|known| *known == word) || word == "array"
}

/// Returns whether the method adds properties to an object schema.
pub(super) fn is_extension(word: &str) -> bool {
    matches!(word, "extend" | "merge" | "safeExtend")
}

fn strip_bundler_suffix(word: &str) -> &str {
    word.trim_start_matches('_').trim_end_matches(|letter: char| letter.is_ascii_digit())
}

impl JsEvaluator<'_> {
    /// Returns the schema that a call builds, or `None` if the call is not to zod.
    pub(super) fn find_zod_schema(
        &mut self,
        node: JsNodeId,
        env: &JsFrameChain,
        depth: usize,
    ) -> Option<PropertySchema> {
        let syntax = self.syntax;
        let JsNode::Call(callee, items) = syntax.node(node) else { return None };
        if !is_zod_call(syntax, *callee) && !matches!(syntax.node(*callee), JsNode::Member(..)) {
            return None;
        }
        match syntax.node(*callee) {
            JsNode::Name(word, _) => {
                self.find_base_schema(strip_bundler_suffix(syntax.symbol_text(*word)), items, env, depth)
            }
            JsNode::Member(object, word) => {
                let word = syntax.symbol_text(*word);
                let on_schema = matches!(syntax.node(*object), JsNode::Call(..))
                    || (is_modifier(word) && !is_zod_namespace(syntax, *object));
                if !on_schema {
                    return self.find_base_schema(word, items, env, depth);
                }
                let inner = JsValue::Lazy(*object, env.clone());
                let part = self.property_schema(&inner, depth + 1);
                Some(self.modified_schema(part, word, items, env, depth))
            }
            _ => None,
        }
    }

    fn first_argument_schema(&mut self, items: &[JsNodeId], env: &JsFrameChain, depth: usize) -> PropertySchema {
        match items.first() {
            Some(item) => self.property_schema(&JsValue::Lazy(*item, env.clone()), depth + 1),
            None => PropertySchema::any(),
        }
    }

    fn find_base_schema(
        &mut self,
        word: &str,
        items: &[JsNodeId],
        env: &JsFrameChain,
        depth: usize,
    ) -> Option<PropertySchema> {
        let plain = |schema: Json| Some(PropertySchema { schema, optional: false });
        match word {
            "string" | "email" | "url" | "uuid" => plain(json!({ "type": "string" })),
            "number" => plain(json!({ "type": "number" })),
            "int" | "bigint" => plain(json!({ "type": "integer" })),
            "boolean" => plain(json!({ "type": "boolean" })),
            "date" => plain(json!({ "type": "string", "format": "date-time" })),
            "record" | "map" => plain(json!({ "type": "object" })),
            "tuple" | "set" => plain(json!({ "type": "array" })),
            "any" | "unknown" | "never" | "null" | "lazy" => Some(PropertySchema::any()),
            "array" => {
                let items = self.first_argument_schema(items, env, depth).schema;
                plain(json!({ "type": "array", "items": items }))
            }
            "object" | "strictObject" | "looseObject" => match items.first() {
                Some(item) => {
                    let shape = self.force(&JsValue::Lazy(*item, env.clone())).ok()?;
                    let parts = self.property_schemas(&shape, depth + 1);
                    plain(object_schema(parts))
                }
                None => plain(json!({ "type": "object" })),
            },
            "enum" | "nativeEnum" => plain(self.enum_schema(items, env)),
            "literal" => {
                let value = items.first().map(|item| self.to_json(&JsValue::Lazy(*item, env.clone()), 0));
                plain(value.flatten().map_or(json!({}), |value| json!({ "const": value })))
            }
            "union" | "discriminatedUnion" | "intersection" => plain(self.union_schema(items, env, depth)),
            "preprocess" => Some(self.first_argument_schema(items.get(1..)?, env, depth)),
            "optional" => Some(PropertySchema { optional: true, ..self.first_argument_schema(items, env, depth) }),
            "nullable" | "partial" => Some(self.first_argument_schema(items, env, depth)),
            _ => None,
        }
    }

    fn enum_schema(&mut self, items: &[JsNodeId], env: &JsFrameChain) -> Json {
        let value = items.first().map(|item| self.to_json(&JsValue::Lazy(*item, env.clone()), 0));
        let choices: Vec<Json> = match value.flatten() {
            Some(Json::Array(choices)) => choices,
            Some(Json::Object(choices)) => choices.into_iter().map(|(_, choice)| choice).collect(),
            _ => Vec::new(),
        };
        match choices.is_empty() {
            true => json!({ "type": "string" }),
            false => json!({ "type": "string", "enum": choices }),
        }
    }

    fn union_schema(&mut self, items: &[JsNodeId], env: &JsFrameChain, depth: usize) -> Json {
        let list = items.last().map(|item| self.force(&JsValue::Lazy(*item, env.clone())));
        let Some(Ok(list)) = list else { return json!({}) };
        let mut any_of = Vec::new();
        for element in self.elements(&list) {
            any_of.push(self.property_schema(&element, depth + 1).schema);
        }
        json!({ "anyOf": any_of })
    }

    fn modified_schema(
        &mut self,
        part: PropertySchema,
        word: &str,
        items: &[JsNodeId],
        env: &JsFrameChain,
        depth: usize,
    ) -> PropertySchema {
        let PropertySchema { mut schema, optional } = part;
        let argument = items.first().map(|item| JsValue::Lazy(*item, env.clone()));
        match word {
            "optional" | "nullish" | "default" | "catch" => return PropertySchema { schema, optional: true },
            "array" => schema = json!({ "type": "array", "items": schema }),
            "describe" => {
                let text = argument.and_then(|value| self.to_text(&value));
                set_member(&mut schema, "description", text.map(Json::from));
            }
            "int" => set_member(&mut schema, "type", Some("integer".into())),
            "min" | "max" => self.apply_bound(&mut schema, word, argument),
            word if is_extension(word) => {
                let more = argument.map(|value| self.property_schema(&value, depth + 1).schema);
                merge_object(&mut schema, more);
            }
            "pick" | "omit" => {
                let keys = argument.and_then(|value| self.force(&value).ok());
                let keys: Vec<Rc<str>> = keys
                    .map(|keys| self.object_entries(&keys).into_iter().map(|(key, _)| key).collect())
                    .unwrap_or_default();
                retain_properties(&mut schema, |key| {
                    keys.iter().any(|known| known.as_ref() == key) == (word == "pick")
                });
            }
            "partial" => {
                schema.as_object_mut().and_then(|schema| schema.remove("required"));
            }
            _ => {}
        }
        PropertySchema { schema, optional }
    }

    fn apply_bound(&mut self, schema: &mut Json, word: &str, argument: Option<JsValue>) {
        let Some(Json::Number(number)) = argument.and_then(|value| self.to_json(&value, 0)) else { return };
        let key = match (schema.get("type").and_then(Json::as_str), word) {
            (Some("string"), "min") => "minLength",
            (Some("string"), _) => "maxLength",
            (Some("array"), "min") => "minItems",
            (Some("array"), _) => "maxItems",
            (_, "min") => "minimum",
            _ => "maximum",
        };
        set_member(schema, key, Some(Json::Number(number)));
    }
}

/// Returns whether the expression is `z` itself, rather than a schema that the package defines.
fn is_zod_namespace(syntax: &JsSyntax, object: JsNodeId) -> bool {
    matches!(syntax.node(object), JsNode::Name(word, _) if strip_bundler_suffix(syntax.symbol_text(*word)) == "z")
}

fn set_member(schema: &mut Json, key: &str, value: Option<Json>) {
    if let (Some(schema), Some(value)) = (schema.as_object_mut(), value) {
        schema.insert(key.to_owned(), value);
    }
}

/// Merges the properties of another object schema into this one.
fn merge_object(schema: &mut Json, more: Option<Json>) {
    let Some(Json::Object(mut more)) = more else { return };
    let Some(schema) = schema.as_object_mut() else { return };
    if let Some(Json::Object(properties)) = more.remove("properties") {
        let known = schema.entry("properties").or_insert_with(|| Map::new().into());
        if let Some(known) = known.as_object_mut() {
            known.extend(properties);
        }
    }
    if let Some(Json::Array(required)) = more.remove("required") {
        let known = schema.entry("required").or_insert_with(|| json!([]));
        if let Some(known) = known.as_array_mut() {
            known.extend(required);
        }
    }
}

fn retain_properties(schema: &mut Json, keeps: impl Fn(&str) -> bool) {
    if let Some(properties) = schema.get_mut("properties").and_then(Json::as_object_mut) {
        properties.retain(|key, _| keeps(key));
    }
    if let Some(required) = schema.get_mut("required").and_then(Json::as_array_mut) {
        required.retain(|key| key.as_str().is_some_and(&keeps));
    }
}
