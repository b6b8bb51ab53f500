//! Derives input schemas from signatures and types.

mod class_schema;
mod type_schema;

use serde_json::{Map, Value as Json, json};

use super::PyAnalyzer;
use super::scope::PyScopeId;
use super::static_value::{PyFunction, PyValue};
use super::syntax::{PyExpr, PyParameter, PyParameterKind};

impl PyAnalyzer<'_> {
    /// Returns a function's input schema in the form in which its server lists it.
    pub fn signature_schema(&mut self, function: &PyFunction, excluded: Option<&PyValue>) -> Json {
        let scope = function.scope;
        let (mut properties, mut required) = (Map::new(), Vec::new());
        for (at, parameter) in function.def.parameters.iter().enumerate() {
            let is_own = at == 0 && matches!(&*parameter.name, "self" | "cls");
            let is_excluded = matches!(excluded, Some(PyValue::List(names))
                if names.iter().any(|name| name.as_str() == Some(&parameter.name)));
            if is_own || is_excluded || parameter.kind != PyParameterKind::Single || self.is_injected(parameter, scope)
            {
                continue;
            }
            let (schema, is_required) =
                self.property_schema(parameter.annotation.as_ref(), parameter.default.as_ref(), scope);
            if is_required {
                required.push(Json::from(&*parameter.name));
            }
            properties.insert(parameter.name.to_string(), schema);
        }
        let mut schema = json!({"type": "object", "properties": properties});
        if let (false, Json::Object(schema)) = (required.is_empty(), &mut schema) {
            schema.insert("required".to_owned(), Json::Array(required));
        }
        schema
    }

    /// Returns whether the server itself supplies the argument for a parameter, such as the context or a dependency.
    fn is_injected(&mut self, parameter: &PyParameter, scope: PyScopeId) -> bool {
        let by_default = parameter.default.as_ref().is_some_and(|default| match &**default {
            PyExpr::Call(call) => matches!(&*call.callee, PyExpr::Name(name) | PyExpr::Attribute(_, name)
                if matches!(&**name, "Depends" | "CurrentContext" | "CurrentFastMCP" | "CurrentRequest"
                    | "CurrentAccessToken" | "CurrentHeaders" | "TokenClaim")),
            _ => false,
        });
        by_default || parameter.annotation.as_ref().is_some_and(|annotation| self.is_context(annotation, scope))
    }

    fn is_context(&mut self, annotation: &std::rc::Rc<PyExpr>, scope: PyScopeId) -> bool {
        match &**annotation {
            PyExpr::Name(name) | PyExpr::Attribute(_, name) => match self.evaluate(annotation, scope) {
                PyValue::Class(class) => {
                    let (_, others) = self.lineage(&class);
                    others.iter().any(|base| base.ends_with(".Context"))
                }
                PyValue::External(path) => path.ends_with("Context") || &*path == "fastapi.Request",
                _ => name.ends_with("Context"),
            },
            PyExpr::Str(text) => text.trim_matches(['"', '\'']).split(['[', ' ', '|']).any(|part| part == "Context"),
            PyExpr::Index(head, arguments) => {
                let is_box = matches!(&**head, PyExpr::Name(name) | PyExpr::Attribute(_, name)
                    if matches!(&**name, "Optional" | "Union" | "Annotated"));
                match is_box {
                    true => arguments.iter().any(|argument| self.is_context(argument, scope)),
                    false => self.is_context(head, scope),
                }
            }
            PyExpr::Union(one, other) => self.is_context(one, scope) || self.is_context(other, scope),
            _ => false,
        }
    }
}
