//! Derives schemas from the package's own classes.

use std::rc::Rc;

use serde_json::{Map, Value as Json, json};

use crate::python::PyAnalyzer;
use crate::python::docstring::clean_docstring;
use crate::python::expression_evaluation::annotated_fields;
use crate::python::scope::PyScopeId;
use crate::python::static_value::{PyClassValue, PyValue};
use crate::python::syntax::{PyCall, PyExpr};

/// Maximum nesting of objects.
const MAX_OBJECT_DEPTH: usize = 4;

impl PyAnalyzer<'_> {
    /// Returns the schema of an enumeration or of a model's fields.
    pub fn class_schema(&mut self, class: &PyClassValue, depth: usize) -> Json {
        if self.is_enum(class) {
            let members: Vec<Json> = self.enum_values(class).iter().filter_map(PyValue::to_json).collect();
            let kind = if members.iter().all(Json::is_i64) && !members.is_empty() { "integer" } else { "string" };
            return json!({"type": kind, "enum": members});
        }
        if depth >= MAX_OBJECT_DEPTH {
            return json!({"type": "object"});
        }
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for class in self.lineage(class).0.iter().rev() {
            for (name, annotation, default) in annotated_fields(&class.class) {
                if name.starts_with('_') || &*name == "model_config" || is_class_var(&annotation) {
                    continue;
                }
                self.class_schema_depth = depth + 1;
                let (schema, is_required) = self.property_schema(Some(&annotation), default.as_ref(), class.scope);
                self.class_schema_depth = depth;
                let name = self.find_field_alias(default.as_ref(), class.scope).unwrap_or_else(|| name.to_string());
                required.retain(|known| *known != name);
                if is_required {
                    required.push(name.clone());
                }
                properties.insert(name, schema);
            }
        }
        let mut schema = Map::new();
        if let Some(text) = &class.class.docstring {
            schema.insert("description".to_owned(), Json::from(clean_docstring(text)));
        }
        schema.insert("type".to_owned(), Json::from("object"));
        schema.insert("properties".to_owned(), Json::Object(properties));
        if !required.is_empty() {
            schema.insert("required".to_owned(), Json::from(required));
        }
        Json::Object(schema)
    }

    fn find_field_alias(&mut self, default: Option<&Rc<PyExpr>>, scope: PyScopeId) -> Option<String> {
        let call = find_field_call(default?)?;
        let arguments = self.evaluate_arguments(&call, scope);
        arguments.get("alias", None).and_then(PyValue::as_str).map(|alias| alias.to_string())
    }

    /// Returns the schema of a parameter or a field, and whether it is required.
    pub fn property_schema(
        &mut self,
        annotation: Option<&Rc<PyExpr>>,
        default: Option<&Rc<PyExpr>>,
        scope: PyScopeId,
    ) -> (Json, bool) {
        let mut schema = match annotation {
            Some(annotation) => self.type_schema(annotation, scope, 0),
            None => Map::new(),
        };
        let mut is_required = !schema.contains_key("default");
        match default {
            None => {}
            Some(default) => match find_field_call(default) {
                Some(call) => {
                    self.apply_field_call(&call, scope, &mut schema);
                    let first = call.positional.first();
                    let has_first = first.is_some_and(|first| !matches!(&**first, PyExpr::Ellipsis));
                    let named = |wanted: &str| {
                        let of = |(name, value): &(Option<Rc<str>>, Rc<PyExpr>)| {
                            name.as_deref() == Some(wanted) && !matches!(&**value, PyExpr::Ellipsis)
                        };
                        call.keywords.iter().any(of)
                    };
                    is_required = is_required && !has_first && !named("default") && !named("default_factory");
                }
                None => {
                    is_required = matches!(&**default, PyExpr::Ellipsis);
                    if let (false, Some(value)) = (is_required, self.evaluate(default, scope).to_json()) {
                        schema.insert("default".to_owned(), value);
                    }
                }
            },
        }
        (Json::Object(schema), is_required)
    }

    /// Applies the arguments of `Field(…)`.
    pub fn apply_field_call(&mut self, call: &Rc<PyCall>, scope: PyScopeId, schema: &mut Map<String, Json>) {
        let arguments = self.evaluate_arguments(call, scope);
        let words = [
            ("description", "description"),
            ("ge", "minimum"),
            ("gt", "exclusiveMinimum"),
            ("le", "maximum"),
            ("lt", "exclusiveMaximum"),
            ("pattern", "pattern"),
            ("min_length", "minLength"),
            ("max_length", "maxLength"),
            ("default", "default"),
        ];
        for (word, key) in words {
            if let Some(value) = arguments.get(word, None).and_then(PyValue::to_json) {
                schema.insert(key.to_owned(), value);
            }
        }
        if let Some(value) = arguments.positional.first().and_then(PyValue::to_json) {
            schema.insert("default".to_owned(), value);
        }
    }
}

/// Returns the call if it is `Field(…)`, under any of the names by which it is commonly imported.
pub fn find_field_call(expr: &PyExpr) -> Option<Rc<PyCall>> {
    let PyExpr::Call(call) = expr else { return None };
    match &*call.callee {
        PyExpr::Name(name) | PyExpr::Attribute(_, name) if matches!(&**name, "Field" | "PydanticField" | "field") => {
            Some(call.clone())
        }
        _ => None,
    }
}

fn is_class_var(annotation: &PyExpr) -> bool {
    let head = if let PyExpr::Index(head, _) = annotation { head } else { return false };
    matches!(&**head, PyExpr::Name(name) | PyExpr::Attribute(_, name) if &**name == "ClassVar")
}
