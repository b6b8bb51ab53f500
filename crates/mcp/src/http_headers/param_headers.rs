//! Arguments that travel in the head as well: which ones, by a tool's input schema, and whether both say the same.

use gatelodge_json::{Decimal, JsonKind, JsonValue};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::{ProtocolError, decode_value, encode_value};
use crate::message_error::quote_excerpt;

/// What a tool's author writes beside a property that is to be mirrored.
const HEADER_ANNOTATION: &str = "x-mcp-header";
const HEADER_PREFIX: &str = "mcp-param-";
/// The most of such headers in one request, and the most bytes of a name and of a value: they come before anybody was
/// asked for, and servers refuse heads that are much larger.
const MAX_PARAM_HEADERS: usize = 64;
const MAX_HEADER_NAME_BYTES: usize = 128;
const MAX_HEADER_VALUE_BYTES: usize = 16 << 10;

/// The arguments of a tool that are mirrored into `Mcp-Param-*` headers.
#[derive(Debug, Clone, Default)]
pub struct ParamHeaderMapping {
    fields: Vec<ParamHeaderField>,
}

#[derive(Debug, Clone)]
struct ParamHeaderField {
    header: HeaderName,
    /// The names of properties that lead to it.
    path: Vec<String>,
}

/// Why a tool cannot be called over HTTP: its schema annotates what cannot be mirrored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`x-mcp-header` at {at} {what}")]
pub struct ParamHeaderError {
    at: String,
    what: &'static str,
}

impl ParamHeaderMapping {
    /// Finds what an input schema wants to have mirrored.
    ///
    /// # Errors
    /// An annotation is not a unique name for a header, or stands where no one value can be found.
    pub fn of_schema(schema: JsonValue<'_>) -> Result<Self, ParamHeaderError> {
        let mut own = Self::default();
        own.collect(schema, &mut Vec::new(), SchemaPathKind::PropertiesOnly)?;
        Ok(own)
    }

    fn collect(
        &mut self,
        schema: JsonValue<'_>,
        path: &mut Vec<String>,
        chain: SchemaPathKind,
    ) -> Result<(), ParamHeaderError> {
        for (key, value) in schema.members() {
            match key.as_str().as_deref().unwrap_or_default() {
                HEADER_ANNOTATION => self.add_field(schema, value, path, chain)?,
                "properties" => {
                    for (name, property) in value.members() {
                        path.push(name.as_str().unwrap_or_default().into_owned());
                        self.collect(property, path, chain)?;
                        path.pop();
                    }
                }
                "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => {
                    for (_, part) in value.members() {
                        self.collect(part, path, SchemaPathKind::Mixed)?;
                    }
                }
                // Values, not schemas.
                "default" | "const" | "enum" | "examples" => {}
                _ => {
                    self.collect(value, path, SchemaPathKind::Mixed)?;
                    for part in value.elements() {
                        self.collect(part, path, SchemaPathKind::Mixed)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn add_field(
        &mut self,
        schema: JsonValue<'_>,
        name: JsonValue<'_>,
        path: &[String],
        chain: SchemaPathKind,
    ) -> Result<(), ParamHeaderError> {
        let wrong = |what| Err(ParamHeaderError { at: quote_excerpt(&path.join("/")), what });
        if chain == SchemaPathKind::Mixed || path.is_empty() {
            return wrong("is not at a property that is reached by properties alone");
        }
        let is_primitive = schema
            .get("type")
            .is_some_and(|kind| ["string", "integer", "boolean"].iter().any(|primitive| kind.is_str(primitive)));
        if !is_primitive {
            return wrong("is not at a string, an integer or a boolean");
        }
        let name = name.as_str().filter(|name| !name.is_empty() && name.len() <= MAX_HEADER_NAME_BYTES);
        let header = name.and_then(|name| HeaderName::from_bytes(format!("{HEADER_PREFIX}{name}").as_bytes()).ok());
        let Some(header) = header else { return wrong("is not the name of a header") };
        if self.fields.iter().any(|field| field.header == header) {
            return wrong("is a name that another one has");
        }
        if self.fields.len() == MAX_PARAM_HEADERS {
            return wrong("is one too many");
        }
        self.fields.push(ParamHeaderField { header, path: path.to_vec() });
        Ok(())
    }

    /// Checks that a client mirrored its arguments: each one that is there, and none that is not.
    ///
    /// # Errors
    /// It did not.
    pub fn check(&self, said: &HeaderMap, arguments: Option<JsonValue<'_>>) -> Result<(), ProtocolError> {
        for field in &self.fields {
            let value = field.value(arguments);
            let is_same = match said.get(&field.header) {
                None => value.is_none(),
                Some(header) => value.is_some_and(|value| header_matches(header, value)),
            };
            if !is_same {
                let name = &field.header;
                return Err(ProtocolError::header_mismatch(&format!(
                    "the `{name}` header is not what the arguments say"
                )));
            }
        }
        Ok(())
    }

    /// The headers for the arguments, and beside them those of `said` that mirror nothing.
    pub fn apply_to(&self, mut said: HeaderMap, arguments: Option<JsonValue<'_>>) -> HeaderMap {
        for field in &self.fields {
            let text = field.value(arguments).and_then(header_text);
            match text.and_then(|text| HeaderValue::try_from(encode_value(&text)).ok()) {
                Some(value) => drop(said.insert(&field.header, value)),
                None => drop(said.remove(&field.header)),
            }
        }
        said
    }
}

/// Whether what was passed on the way to a part of a schema was properties alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SchemaPathKind {
    PropertiesOnly,
    Mixed,
}

impl ParamHeaderField {
    /// The argument; none if it is absent, null or nothing that a header can say.
    fn value<'d>(&self, arguments: Option<JsonValue<'d>>) -> Option<JsonValue<'d>> {
        let found = self.path.iter().try_fold(arguments?, |value, name| value.get(name))?;
        matches!(found.kind(), JsonKind::String | JsonKind::Number | JsonKind::Bool).then_some(found)
    }
}

/// A value as a header says it: a number in the digits that it was judged by.
fn header_text(value: JsonValue<'_>) -> Option<String> {
    Some(match value.kind() {
        JsonKind::String => value.as_str()?.into_owned(),
        _ => value.raw().to_owned(),
    })
}

fn header_matches(header: &HeaderValue, value: JsonValue<'_>) -> bool {
    let Some(said) = decode_value(header.as_bytes()) else { return false };
    match value.as_number() {
        Some(number) => Decimal::new(&said).is_some_and(|said| said == number),
        None => header_text(value).is_some_and(|text| text == said),
    }
}

/// The `Mcp-Param-*` headers of a request, whatever they mirror.
///
/// # Errors
/// They are too many or too long, one is there twice, or one is not plain text: nobody could tell what they say.
pub fn param_headers(headers: &HeaderMap) -> Result<HeaderMap, ProtocolError> {
    let mut found = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| name.as_str().starts_with(HEADER_PREFIX)) {
        let wrong =
            |what: &str| ProtocolError::header_mismatch(&format!("the header {} {what}", quote_excerpt(name.as_str())));
        if name.as_str().len() > HEADER_PREFIX.len() + MAX_HEADER_NAME_BYTES || value.len() > MAX_HEADER_VALUE_BYTES {
            return Err(wrong("is too long"));
        }
        if !value.as_bytes().iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e)) {
            return Err(wrong("has characters that must be sent in Base64"));
        }
        if found.insert(name.clone(), value.clone()).is_some() {
            return Err(wrong("is there twice"));
        }
        if found.len() > MAX_PARAM_HEADERS {
            return Err(wrong("is one too many"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
