//! JSON Schemas of values that several operators take.

use serde_json::{Value, json};

/// Name under `$defs` of the schema of a scalar.
pub(crate) const SCALAR_DEFINITION: &str = "scalar";
/// Name under `$defs` of the schema of a list of scalars.
pub(crate) const SCALARS_DEFINITION: &str = "scalars";

/// Returns a schema that refers to a definition under `$defs`.
pub(crate) fn ref_schema(definition: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{definition}") })
}

/// Returns the definition of a scalar.
pub(crate) fn scalar_definition() -> Value {
    json!({ "type": ["string", "number", "boolean"] })
}

/// Returns the definition of a list of scalars.
pub(crate) fn scalars_definition() -> Value {
    json!({ "type": "array", "items": ref_schema(SCALAR_DEFINITION), "minItems": 1 })
}
