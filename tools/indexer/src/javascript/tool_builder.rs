//! Builds a tool from its definition.

use serde_json::{Map, Value as Json, json};

use super::expression_evaluation::JsEvaluator;
use super::static_value::{JsFrameChain, JsValue};
use super::syntax::JsNodeId;
use gatelodge_catalogue::ExtractedTool;

/// Keys under which a tool's definition may hold its input schema.
pub(super) const SCHEMA_KEYS: [&str; 8] =
    ["inputSchema", "parameters", "schema", "input_schema", "paramsSchema", "argsSchema", "zodSchema", "input"];
const ANNOTATION_KEYS: [&str; 5] = ["title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];

impl JsEvaluator<'_> {
    /// Builds a tool from the arguments that follow its name: description, shape and annotations, or all of these in
    /// one object.
    pub(super) fn tool_from_arguments(
        &mut self,
        name: &str,
        rest: &[JsNodeId],
        env: &JsFrameChain,
    ) -> Option<ExtractedTool> {
        let mut tool = empty_tool(name)?;
        let mut has_schema = false;
        for item in rest {
            let value = JsValue::Lazy(*item, env.clone());
            match self.force(&value) {
                Ok(JsValue::Text(_)) | Ok(JsValue::Opaque(Some(_)))
                    if tool.description.is_none() && self.to_text(&value).is_some() =>
                {
                    tool.description = self.to_text(&value);
                }
                Ok(object @ JsValue::Object(_)) if self.is_annotations(&object) => {
                    tool.annotations = self.read_annotations(&object);
                }
                Ok(object @ JsValue::Object(_)) if self.is_settings(&object) => {
                    self.fill_tool(&mut tool, &object);
                    has_schema = true;
                }
                Ok(JsValue::Object(_) | JsValue::Opaque(Some(_))) if !has_schema => {
                    tool.input_schema = self.input_schema(&value);
                    has_schema = true;
                }
                _ => {}
            }
        }
        Some(tool)
    }

    /// Returns whether the object is `{ title, description, inputSchema }` rather than a shape with parameters of these
    /// names.
    fn is_settings(&mut self, object: &JsValue) -> bool {
        let entries = self.object_entries(object);
        entries.iter().any(|(key, value)| match key.as_ref() {
            "inputSchema" | "annotations" | "outputSchema" => true,
            "description" | "title" => self.to_text(value).is_some(),
            _ => false,
        })
    }

    fn is_annotations(&mut self, object: &JsValue) -> bool {
        let entries = self.object_entries(object);
        !entries.is_empty() && entries.iter().all(|(key, _)| ANNOTATION_KEYS.contains(&key.as_ref()))
    }

    fn read_annotations(&mut self, object: &JsValue) -> Map<String, Json> {
        match self.to_json(object, 0) {
            Some(Json::Object(map)) => map
                .into_iter()
                .filter(|(key, value)| ANNOTATION_KEYS.contains(&key.as_str()) && !value.is_object())
                .collect(),
            _ => Map::new(),
        }
    }

    /// Fills in the tool's details from the members of an object or instance.
    fn fill_tool(&mut self, tool: &mut ExtractedTool, value: &JsValue) -> bool {
        if let Ok(description) = self.evaluate_member(value, &"description".into()) {
            tool.description = self.to_text(&description).or(tool.description.take());
        }
        if let Ok(annotations @ JsValue::Object(_)) = self.evaluate_member(value, &"annotations".into()) {
            tool.annotations = self.read_annotations(&annotations);
        }
        for key in SCHEMA_KEYS {
            let schema = match self.raw_member(value, key) {
                Some(schema) => schema,
                None => continue,
            };
            tool.input_schema = self.input_schema(&schema);
            return true;
        }
        false
    }

    /// Returns a member, unevaluated if possible, because the expression that builds a schema contains more information
    /// than its value.
    pub(super) fn raw_member(&mut self, value: &JsValue, key: &str) -> Option<JsValue> {
        match value {
            JsValue::Instance(..) => match self.evaluate_member(value, &key.into()) {
                Ok(JsValue::Opaque(None) | JsValue::Nullish) | Err(_) => None,
                Ok(schema) => Some(schema),
            },
            _ => self
                .object_entries(value)
                .into_iter()
                .rev()
                .find(|(name, _)| name.as_ref() == key)
                .map(|(_, value)| value),
        }
    }

    /// Builds a tool from an object or instance that has a name.
    pub(super) fn tool_from_value(&mut self, value: &JsValue) -> Option<ExtractedTool> {
        let name = match self.evaluate_member(value, &"name".into()) {
            Ok(JsValue::Text(name)) => name,
            _ => return None,
        };
        let mut tool = empty_tool(&name)?;
        let has_schema = self.fill_tool(&mut tool, value);
        (has_schema || tool.description.is_some()).then_some(tool)
    }
}

/// Returns a tool that has only a name. Invalid names are counted later, when facts are derived.
pub(super) fn empty_tool(name: &str) -> Option<ExtractedTool> {
    let fits = name.chars().any(char::is_alphanumeric);
    fits.then(|| ExtractedTool {
        name: name.to_owned(),
        description: None,
        input_schema: json!({ "type": "object" }),
        annotations: Map::new(),
        optional: false,
    })
}

/// Ranks a tool by its amount of detail, to choose among definitions with the same name.
pub(super) fn detail_rank(tool: &ExtractedTool) -> (usize, usize, bool) {
    (tool.properties().map_or(0, Map::len), tool.annotations.len(), tool.description.is_some())
}
