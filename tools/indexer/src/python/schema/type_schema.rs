//! Derives schemas from type annotations.

use std::rc::Rc;

use serde_json::{Map, Value as Json, json};

use super::class_schema::find_field_call;
use crate::python::PyAnalyzer;
use crate::python::ast_lowering::parse_statements;
use crate::python::scope::{PyBinding, PyScopeId};
use crate::python::static_value::PyValue;
use crate::python::syntax::{PyExpr, PyStmt};

/// Maximum nesting of types.
const MAX_TYPE_DEPTH: usize = 12;

impl PyAnalyzer<'_> {
    /// Returns the schema of a type, which is empty if the type is unknown.
    pub fn type_schema(&mut self, kind: &Rc<PyExpr>, scope: PyScopeId, depth: usize) -> Map<String, Json> {
        if depth >= MAX_TYPE_DEPTH || !self.take_step() {
            return Map::new();
        }
        let deeper = depth + 1;
        match &**kind {
            PyExpr::None => schema_of_type("null"),
            PyExpr::Str(text) => {
                let parsed = if text.len() <= 500 { parse_statements(text) } else { None };
                match parsed.as_deref() {
                    Some([PyStmt::Expr(inner)]) if !matches!(&**inner, PyExpr::Str(_)) => {
                        self.type_schema(inner, scope, deeper)
                    }
                    _ => Map::new(),
                }
            }
            PyExpr::Name(name) => match self.find_type_alias(name, scope) {
                Some((expr, scope)) => self.type_schema(&expr, scope, deeper),
                None => self.named_type_schema(kind, name, scope),
            },
            PyExpr::Attribute(_, name) => self.named_type_schema(kind, name, scope),
            PyExpr::Union(one, other) => {
                let kinds = vec![self.type_schema(one, scope, deeper), self.type_schema(other, scope, deeper)];
                any_of_schema(kinds)
            }
            PyExpr::Index(head, arguments) => self.generic_type_schema(head, arguments, scope, deeper),
            _ => Map::new(),
        }
    }

    /// Resolves a type alias: `State = Annotated[str, …]`.
    fn find_type_alias(&self, name: &Rc<str>, scope: PyScopeId) -> Option<(Rc<PyExpr>, PyScopeId)> {
        let mut at = Some(scope);
        while let Some(id) = at {
            let scope = self.scopes.get(id)?;
            match scope.get(name) {
                Some(PyBinding::Expr(expr)) => return Some((expr.clone(), id)),
                Some(_) => return None,
                None => at = scope.parent,
            }
        }
        None
    }

    fn named_type_schema(&mut self, kind: &Rc<PyExpr>, name: &Rc<str>, scope: PyScopeId) -> Map<String, Json> {
        match self.evaluate(kind, scope) {
            PyValue::Class(class) => {
                let depth = self.class_schema_depth;
                match self.class_schema(&class, depth) {
                    Json::Object(schema) => schema,
                    _ => Map::new(),
                }
            }
            PyValue::External(path) => builtin_type_schema(path.rsplit('.').next().unwrap_or(name)),
            _ => builtin_type_schema(name),
        }
    }

    fn generic_type_schema(
        &mut self,
        head: &Rc<PyExpr>,
        arguments: &[Rc<PyExpr>],
        scope: PyScopeId,
        depth: usize,
    ) -> Map<String, Json> {
        let (PyExpr::Name(name) | PyExpr::Attribute(_, name)) = &**head else { return Map::new() };
        // A tuple in the brackets stands for its elements.
        let flat: Vec<Rc<PyExpr>> = match arguments {
            [one] => {
                if let PyExpr::List(items) = &**one {
                    items.clone()
                } else {
                    vec![one.clone()]
                }
            }
            all => all.to_vec(),
        };
        match &**name {
            "Optional" => {
                let mut kinds: Vec<_> = flat.iter().map(|kind| self.type_schema(kind, scope, depth)).collect();
                kinds.push(schema_of_type("null"));
                any_of_schema(kinds)
            }
            "Union" => any_of_schema(flat.iter().map(|kind| self.type_schema(kind, scope, depth)).collect()),
            "Literal" => {
                let values: Vec<Json> = flat.iter().filter_map(|value| self.evaluate(value, scope).to_json()).collect();
                let kind = if values.iter().all(Json::is_string) { "string" } else { "" };
                let mut schema = if kind.is_empty() { Map::new() } else { schema_of_type(kind) };
                schema.insert("enum".to_owned(), Json::Array(values));
                schema
            }
            "Annotated" => self.annotated_schema(&flat, scope, depth),
            "Required" | "NotRequired" | "Final" | "ReadOnly" | "SkipValidation" => {
                flat.first().map(|kind| self.type_schema(kind, scope, depth)).unwrap_or_default()
            }
            _ => {
                let mut schema = builtin_type_schema(name);
                let is_array = schema.get("type").and_then(Json::as_str) == Some("array");
                if let (true, Some(item)) = (is_array, flat.first()) {
                    let item = self.type_schema(item, scope, depth);
                    schema.insert("items".to_owned(), Json::Object(item));
                }
                schema
            }
        }
    }

    fn annotated_schema(&mut self, parts: &[Rc<PyExpr>], scope: PyScopeId, depth: usize) -> Map<String, Json> {
        let Some((kind, said)) = parts.split_first() else { return Map::new() };
        let mut schema = self.type_schema(kind, scope, depth);
        for said in said {
            match (find_field_call(said), self.evaluate(said, scope)) {
                (Some(call), _) => self.apply_field_call(&call, scope, &mut schema),
                (None, PyValue::Str(text)) => {
                    schema.insert("description".to_owned(), Json::from(&*text));
                }
                _ => {}
            }
        }
        schema
    }
}

fn schema_of_type(kind: &str) -> Map<String, Json> {
    Map::from_iter([("type".to_owned(), Json::from(kind))])
}

/// Returns the union of several types. If any of them is unrestricted, so is the union.
fn any_of_schema(kinds: Vec<Map<String, Json>>) -> Map<String, Json> {
    if kinds.iter().any(Map::is_empty) {
        return Map::new();
    }
    let mut flat = Vec::new();
    for mut kind in kinds {
        match kind.remove("anyOf") {
            Some(Json::Array(inner)) => flat.extend(inner),
            _ => flat.push(Json::Object(kind)),
        }
    }
    Map::from_iter([("anyOf".to_owned(), json!(flat))])
}

fn builtin_type_schema(name: &str) -> Map<String, Json> {
    match name {
        "str" | "bytes" | "LiteralString" | "SecretStr" | "EmailStr" | "Text" => schema_of_type("string"),
        "int" | "PositiveInt" | "NonNegativeInt" => schema_of_type("integer"),
        "float" | "Decimal" | "complex" | "PositiveFloat" | "NonNegativeFloat" => schema_of_type("number"),
        "bool" | "StrictBool" => schema_of_type("boolean"),
        "list" | "List" | "Sequence" | "tuple" | "Tuple" | "set" | "Set" | "frozenset" | "FrozenSet" | "Iterable"
        | "MutableSequence" => schema_of_type("array"),
        "dict" | "Dict" | "Mapping" | "MutableMapping" | "OrderedDict" | "defaultdict" => schema_of_type("object"),
        "None" | "NoneType" => schema_of_type("null"),
        "Path" | "FilePath" | "DirectoryPath" => string_with_format("path"),
        "datetime" => string_with_format("date-time"),
        "date" => string_with_format("date"),
        "time" => string_with_format("time"),
        "UUID" | "UUID4" => string_with_format("uuid"),
        "AnyUrl" | "HttpUrl" | "AnyHttpUrl" => string_with_format("uri"),
        _ => Map::new(),
    }
}

fn string_with_format(format: &str) -> Map<String, Json> {
    let mut schema = schema_of_type("string");
    schema.insert("format".to_owned(), Json::from(format));
    schema
}
