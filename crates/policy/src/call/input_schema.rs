//! Validates the arguments of a call against the input schema in the tool's pinned definition.
//!
//! Schemas come from servers. Validation must never fetch anything, run without bound or overflow the stack.

mod schema_validation_cost;
mod validator_float_conversion;

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, read};
use jsonschema::{Draft, PatternOptions, Validator};

/// Maximum compiled size of one regular expression in a schema, in bytes.
const MAX_PATTERN_BYTES: usize = 1 << 20;

/// Maximum size of a schema in bytes. The largest schemas of real servers have on the order of ten thousand bytes.
pub const MAX_BYTES: usize = 1 << 20;

/// A compiled input schema.
///
/// # Examples
/// ```
/// use gatelodge_policy::InputSchema;
///
/// assert!(InputSchema::compile(br#"{"type": "object", "required": ["id"]}"#).is_ok());
/// assert!(InputSchema::compile(br##"{"$ref": "#"}"##).is_err());
/// ```
#[derive(Debug)]
pub struct InputSchema {
    validator: Validator,
    /// The numbers in the schema.
    numbers: validator_float_conversion::SchemaNumbers,
}

/// Error returned when a schema cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InputSchemaError {
    /// The schema is not JSON.
    #[error("the input schema is not JSON: {0}")]
    NotJson(gatelodge_json::JsonError),
    /// The schema is larger than `MAX_BYTES`.
    #[error("the input schema is larger than {MAX_BYTES} bytes")]
    TooLarge,
    /// The schema is not an object.
    #[error("the input schema is not an object")]
    NotObject,
    /// The schema's references are cyclic, or there are so many that validation would take too long.
    #[error("the input schema refers to itself endlessly or too often")]
    Unbounded,
    /// The object is not a valid JSON Schema, refers to something outside the document, or has a regular expression
    /// that cannot run in linear time.
    #[error("the input schema does not compile: {0}")]
    NotSchema(String),
}

impl InputSchema {
    /// Compiles a schema from its text.
    ///
    /// # Errors
    /// Returns why the schema cannot be used. Rules with `validate_arguments` then deny every call to the tool.
    pub fn compile(text: &[u8]) -> Result<Self, InputSchemaError> {
        let document = read(text, &JsonLimits::REPLY).map_err(InputSchemaError::NotJson)?;
        Self::of_value(document.root())
    }

    /// Compiles a schema that is already parsed.
    ///
    /// # Errors
    /// The same as for [`InputSchema::compile`].
    pub fn of_value(value: JsonValue<'_>) -> Result<Self, InputSchemaError> {
        if value.raw().len() > MAX_BYTES {
            return Err(InputSchemaError::TooLarge);
        }
        if value.kind() != JsonKind::Object {
            return Err(InputSchemaError::NotObject);
        }
        let bounds = validator_float_conversion::SchemaNumbers::of(value);
        let schema = to_json(value, &validator_float_conversion::schema_number).map_err(|number| {
            InputSchemaError::NotSchema(format!("`{number}` has more digits than can be compared"))
        })?;
        if !schema_validation_cost::is_bounded(&schema) {
            return Err(InputSchemaError::Unbounded);
        }
        let options = jsonschema::options()
            .offline()
            .should_validate_formats(false)
            .with_pattern_options(PatternOptions::regex().size_limit(MAX_PATTERN_BYTES));
        let options = if schema.get("$schema").is_some() { options } else { options.with_draft(Draft::Draft202012) };
        let validator = options.build(&schema).map_err(|error| InputSchemaError::NotSchema(error.to_string()))?;
        Ok(Self { validator, numbers: bounds })
    }

    /// Returns the first violation in the arguments, with its location.
    pub(crate) fn find_violation(&self, arguments: Option<JsonValue<'_>>) -> Option<String> {
        let arguments = match arguments.map(|value| to_json(value, &|text| self.numbers.faithful_number(text))) {
            None => serde_json::Value::Object(serde_json::Map::new()),
            Some(Ok(arguments)) => arguments,
            Some(Err(number)) => return Some(format!("`{number}` has more digits than can be validated")),
        };
        let error = self.validator.iter_errors(&arguments).next()?;
        let place = error.instance_path().to_string();
        // The value is masked: it belongs to the client, and may be long or secret.
        let what = error.masked();
        Some(if place.is_empty() { what.to_string() } else { format!("at `{place}`: {what}") })
    }
}

/// Converts a value for the validator. If it contains a number that cannot be represented, that number is returned as
/// the error.
fn to_json<'a>(
    value: JsonValue<'a>,
    number: &dyn Fn(&str) -> Option<serde_json::Number>,
) -> Result<serde_json::Value, &'a str> {
    use serde_json::Value as Json;
    Ok(match value.kind() {
        JsonKind::Null => Json::Null,
        JsonKind::Bool => Json::Bool(value.as_bool() == Some(true)),
        JsonKind::Number => Json::Number(number(value.raw()).ok_or(value.raw())?),
        JsonKind::String => Json::String(value.as_str().unwrap_or_default().into_owned()),
        JsonKind::Array => Json::Array(value.elements().map(|item| to_json(item, number)).collect::<Result<_, _>>()?),
        JsonKind::Object => {
            let member = |(key, value): (JsonValue<'a>, _)| {
                Ok((key.as_str().unwrap_or_default().into_owned(), to_json(value, number)?))
            };
            Json::Object(value.members().map(member).collect::<Result<_, &str>>()?)
        }
    })
}

#[cfg(test)]
mod tests;
