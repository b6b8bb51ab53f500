//! Converts the input schemas of tools to JSON Schema.

use serde_json::{Map, Number, Value as Json, json};

use super::expression_evaluation::JsEvaluator;
use super::static_value::{JsFrameChain, JsValue};
use super::syntax::{JsNode, JsNodeId};

/// Maximum nesting of schemas.
const MAX_SCHEMA_DEPTH: usize = 40;
/// Maximum number of properties of an object.
const MAX_PROPERTIES: usize = 300;

/// A property's schema, and whether the property is optional.
pub(super) struct PropertySchema {
    pub schema: Json,
    pub optional: bool,
}

impl PropertySchema {
    pub fn any() -> Self {
        Self { schema: json!({}), optional: false }
    }
}

/// Returns the schema for an object with these properties.
pub(super) fn object_schema(parts: Vec<(String, PropertySchema)>) -> Json {
    let required: Vec<Json> =
        parts.iter().filter(|(_, part)| !part.optional).map(|(key, _)| key.clone().into()).collect();
    let properties: Map<String, Json> = parts.into_iter().map(|(key, part)| (key, part.schema)).collect();
    match required.is_empty() {
        true => json!({ "type": "object", "properties": properties }),
        false => json!({ "type": "object", "properties": properties, "required": required }),
    }
}

impl JsEvaluator<'_> {
    /// Returns the input schema of a tool, which is always an object schema.
    pub fn input_schema(&mut self, value: &JsValue) -> Json {
        let schema = self.property_schema(value, 0).schema;
        match schema.get("properties").is_some() || schema.get("type").is_some_and(|kind| kind == "object") {
            true => schema,
            false => json!({ "type": "object" }),
        }
    }

    pub(super) fn property_schema(&mut self, value: &JsValue, depth: usize) -> PropertySchema {
        if depth > MAX_SCHEMA_DEPTH {
            return PropertySchema::any();
        }
        if let JsValue::Lazy(node, env) = value
            && let Some(part) = self.find_written_schema(*node, env, depth)
        {
            return part;
        }
        match self.force(value) {
            Ok(object @ JsValue::Object(_)) if self.is_json_schema(&object) => {
                PropertySchema { schema: self.to_json(&object, 0).unwrap_or_else(|| json!({})), optional: false }
            }
            Ok(object @ JsValue::Object(_)) => {
                let parts = self.property_schemas(&object, depth);
                PropertySchema { schema: object_schema(parts), optional: false }
            }
            Ok(JsValue::Opaque(Some((node, env)))) => self
                .find_written_schema(node, &env, depth)
                .or_else(|| self.find_converted_schema(node, &env, depth))
                .unwrap_or_else(PropertySchema::any),
            _ => PropertySchema::any(),
        }
    }

    /// Returns the schema if it can be read from the expression without evaluating it.
    fn find_written_schema(&mut self, node: JsNodeId, env: &JsFrameChain, depth: usize) -> Option<PropertySchema> {
        match self.syntax.node(node) {
            JsNode::Call(..) => self.find_zod_schema(node, env, depth),
            JsNode::Member(object, word) if self.syntax.symbol_text(*word) == "shape" => {
                Some(self.property_schema(&JsValue::Lazy(*object, env.clone()), depth + 1))
            }
            _ => None,
        }
    }

    /// Handles `zodToJsonSchema(schema)` and similar calls, whose first argument is the schema.
    fn find_converted_schema(&mut self, node: JsNodeId, env: &JsFrameChain, depth: usize) -> Option<PropertySchema> {
        let JsNode::Call(_, items) = self.syntax.node(node) else { return None };
        let first = *items.first()?;
        Some(self.property_schema(&JsValue::Lazy(first, env.clone()), depth + 1))
    }

    /// Returns the properties in a zod shape (an object that maps property names to schemas).
    pub(super) fn property_schemas(&mut self, shape: &JsValue, depth: usize) -> Vec<(String, PropertySchema)> {
        let mut parts: Vec<(String, PropertySchema)> = Vec::new();
        for (key, value) in self.object_entries(shape).into_iter().take(MAX_PROPERTIES) {
            let part = self.property_schema(&value, depth + 1);
            parts.retain(|(known, _)| known != key.as_ref());
            parts.push((key.to_string(), part));
        }
        parts
    }

    fn is_json_schema(&mut self, object: &JsValue) -> bool {
        let of_schema = ["properties", "anyOf", "oneOf", "allOf", "enum", "$ref", "const"];
        let entries = self.object_entries(object);
        entries.iter().any(|(key, value)| match key.as_ref() {
            "type" => matches!(self.force(value), Ok(JsValue::Text(_) | JsValue::List(_))),
            key if of_schema.contains(&key) => matches!(self.force(value), Ok(JsValue::Object(_) | JsValue::List(_))),
            _ => false,
        })
    }

    /// Converts a value to JSON, leaving out unknown parts.
    #[expect(clippy::wrong_self_convention, reason = "evaluation needs the cache of values")]
    pub fn to_json(&mut self, value: &JsValue, depth: usize) -> Option<Json> {
        if depth > MAX_SCHEMA_DEPTH {
            return None;
        }
        match self.force(value).ok()? {
            JsValue::Text(text) => Some(text.as_ref().into()),
            JsValue::Number(number) => Some(number_to_json(number)),
            JsValue::Bool(truth) => Some(truth.into()),
            JsValue::List(items) => {
                Some(items.iter().filter_map(|item| self.to_json(item, depth + 1)).collect::<Vec<_>>().into())
            }
            JsValue::Object(pairs) => {
                let mut map = Map::new();
                for (key, value) in pairs.iter().take(MAX_PROPERTIES) {
                    let text = if key.as_ref() == "description" { self.to_text(value).map(Json::from) } else { None };
                    let part = text.or_else(|| self.to_json(value, depth + 1));
                    map.insert(key.to_string(), part.unwrap_or_else(|| json!({})));
                }
                Some(map.into())
            }
            JsValue::Opaque(Some((node, env))) => self.find_zod_schema(node, &env, depth).map(|part| part.schema),
            _ => None,
        }
    }

    /// Converts a value to a string. For a template, only the known parts are kept.
    #[expect(clippy::wrong_self_convention, reason = "evaluation needs the cache of values")]
    pub fn to_text(&mut self, value: &JsValue) -> Option<String> {
        match self.force(value).ok()? {
            JsValue::Text(text) => Some(text.to_string()),
            JsValue::Opaque(Some((node, env))) => {
                let JsNode::Concat(pieces) = self.syntax.node(node) else { return None };
                let pieces = pieces.iter().filter_map(|piece| self.to_text(&JsValue::Lazy(*piece, env.clone())));
                Some(pieces.collect())
            }
            _ => None,
        }
    }
}

fn number_to_json(number: f64) -> Json {
    if number.fract() == 0.0 && number.abs() < 9e15 {
        return (number as i64).into();
    }
    Number::from_f64(number).map_or(Json::Null, Json::Number)
}
