//! Arguments that a client mirrors into `Mcp-Param-*` headers: finds the arguments that an input schema marks for
//! mirroring, and checks that each header matches its argument.

use gatelodge_json::{Decimal, JsonKind, JsonValue};
use http::header::{HeaderMap, HeaderName, HeaderValue};

use super::{ProtocolError, decode_value, encode_value};
use crate::message_error::quote_excerpt;

/// The schema keyword that marks a property to be mirrored.
const HEADER_ANNOTATION: &str = "x-mcp-header";
const HEADER_PREFIX: &str = "mcp-param-";
/// Limits on the number of `Mcp-Param-*` headers in a request, and on the length of each name and value in bytes. The
/// headers are read before the client is authorized, and servers refuse much larger ones.
const MAX_PARAM_HEADERS: usize = 64;
const MAX_HEADER_NAME_BYTES: usize = 128;
const MAX_HEADER_VALUE_BYTES: usize = 16 << 10;

/// The arguments of a tool that are mirrored into `Mcp-Param-*` headers.
///
/// ```
/// use gatelodge_json::{JsonLimits, read};
/// use gatelodge_mcp::http_headers::ParamHeaderMapping;
/// use http::HeaderMap;
///
/// let schema = br#"{"type":"object","properties":{"region":{"type":"string","x-mcp-header":"Region"}}}"#;
/// let mapping = ParamHeaderMapping::of_schema(read(schema, &JsonLimits::REPLY)?.root()).expect("valid annotations");
/// let arguments = read(br#"{"region":"eu"}"#, &JsonLimits::REQUEST)?;
/// let headers = mapping.apply_to(HeaderMap::new(), Some(arguments.root()));
/// assert_eq!(headers.get("mcp-param-region").map(|value| value.as_bytes()), Some(&b"eu"[..]));
/// assert!(mapping.check(&HeaderMap::new(), Some(arguments.root())).is_err(), "the header is missing");
/// # Ok::<(), gatelodge_json::JsonError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct ParamHeaderMapping {
    fields: Vec<ParamHeaderField>,
}

#[derive(Debug, Clone)]
struct ParamHeaderField {
    header: HeaderName,
    /// Names of the nested properties that lead to the argument.
    path: Vec<String>,
}

/// Error in the header annotations of an input schema. The tool cannot be called over HTTP.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`x-mcp-header` at {at} {what}")]
pub struct HeaderAnnotationError {
    at: String,
    what: &'static str,
}

impl ParamHeaderMapping {
    /// Collects the annotated properties of an input schema.
    ///
    /// # Errors
    /// An annotation is not a unique header name, or is in a place that does not describe a single value.
    pub fn of_schema(schema: JsonValue<'_>) -> Result<Self, HeaderAnnotationError> {
        let mut own = Self::default();
        own.collect(schema, &mut Vec::new(), SubschemaReachability::PropertiesOnly)?;
        Ok(own)
    }

    fn collect(
        &mut self,
        schema: JsonValue<'_>,
        path: &mut Vec<String>,
        path_kind: SubschemaReachability,
    ) -> Result<(), HeaderAnnotationError> {
        for (key, value) in schema.members() {
            match key.as_str().as_deref().unwrap_or_default() {
                HEADER_ANNOTATION => self.add_field(schema, value, path, path_kind)?,
                "properties" => {
                    for (name, property) in value.members() {
                        path.push(name.as_str().unwrap_or_default().into_owned());
                        self.collect(property, path, path_kind)?;
                        path.pop();
                    }
                }
                "$defs" | "definitions" | "dependentSchemas" | "patternProperties" => {
                    for (_, part) in value.members() {
                        self.collect(part, path, SubschemaReachability::Mixed)?;
                    }
                }
                // These hold values, not schemas.
                "default" | "const" | "enum" | "examples" => {}
                _ => {
                    self.collect(value, path, SubschemaReachability::Mixed)?;
                    for part in value.elements() {
                        self.collect(part, path, SubschemaReachability::Mixed)?;
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
        path_kind: SubschemaReachability,
    ) -> Result<(), HeaderAnnotationError> {
        let invalid = |what| Err(HeaderAnnotationError { at: quote_excerpt(&path.join("/")), what });
        if path_kind == SubschemaReachability::Mixed || path.is_empty() {
            return invalid("must annotate a property that is reached through `properties` only");
        }
        let is_primitive = schema
            .get("type")
            .is_some_and(|kind| ["string", "integer", "boolean"].iter().any(|primitive| kind.is_str(primitive)));
        if !is_primitive {
            return invalid("must annotate a string, an integer or a boolean");
        }
        let name = name.as_str().filter(|name| !name.is_empty() && name.len() <= MAX_HEADER_NAME_BYTES);
        let header = name.and_then(|name| HeaderName::from_bytes(format!("{HEADER_PREFIX}{name}").as_bytes()).ok());
        let Some(header) = header else { return invalid("is not a valid header name") };
        if self.fields.iter().any(|field| field.header == header) {
            return invalid("repeats a header name");
        }
        if self.fields.len() == MAX_PARAM_HEADERS {
            return invalid("exceeds the maximum number of annotations");
        }
        self.fields.push(ParamHeaderField { header, path: path.to_vec() });
        Ok(())
    }

    /// Checks that the headers mirror the annotated arguments: each argument that is present has a matching header, and
    /// absent arguments have none.
    ///
    /// # Errors
    /// A header is missing, has no matching argument, or differs from its argument.
    pub fn check(&self, headers: &HeaderMap, arguments: Option<JsonValue<'_>>) -> Result<(), ProtocolError> {
        for field in &self.fields {
            let value = field.value(arguments);
            let is_same = match headers.get(&field.header) {
                None => value.is_none(),
                Some(header) => value.is_some_and(|value| header_matches(header, value)),
            };
            if !is_same {
                let name = &field.header;
                return Err(ProtocolError::header_mismatch(&format!("the `{name}` header differs from the arguments")));
            }
        }
        Ok(())
    }

    /// Sets the header of each annotated argument, or removes it if the argument is absent. Other headers stay
    /// unchanged.
    pub fn apply_to(&self, mut headers: HeaderMap, arguments: Option<JsonValue<'_>>) -> HeaderMap {
        for field in &self.fields {
            let text = field.value(arguments).and_then(header_text);
            match text.and_then(|text| HeaderValue::try_from(encode_value(&text)).ok()) {
                Some(value) => drop(headers.insert(&field.header, value)),
                None => drop(headers.remove(&field.header)),
            }
        }
        headers
    }
}

/// Whether the path to a subschema consists only of `properties` keywords.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SubschemaReachability {
    PropertiesOnly,
    Mixed,
}

impl ParamHeaderField {
    /// The argument; `None` if it is absent, null, or of a kind that a header cannot carry.
    fn value<'d>(&self, arguments: Option<JsonValue<'d>>) -> Option<JsonValue<'d>> {
        let found = self.path.iter().try_fold(arguments?, |value, name| value.get(name))?;
        matches!(found.kind(), JsonKind::String | JsonKind::Number | JsonKind::Bool).then_some(found)
    }
}

/// Formats a value for a header. Numbers stay as written, so that the server receives the notation that the policy
/// checked.
fn header_text(value: JsonValue<'_>) -> Option<String> {
    Some(match value.kind() {
        JsonKind::String => value.as_str()?.into_owned(),
        _ => value.raw().to_owned(),
    })
}

fn header_matches(header: &HeaderValue, value: JsonValue<'_>) -> bool {
    let Some(sent) = decode_value(header.as_bytes()) else { return false };
    match value.as_number() {
        Some(number) => Decimal::new(&sent).is_some_and(|sent| sent == number),
        None => header_text(value).is_some_and(|text| text == sent),
    }
}

/// All `Mcp-Param-*` headers of a request, including those that mirror no annotated argument.
///
/// # Errors
/// There are too many headers, or one of them is too long, repeated or not plain text, so that its value would be
/// ambiguous.
pub fn param_headers(headers: &HeaderMap) -> Result<HeaderMap, ProtocolError> {
    let mut found = HeaderMap::new();
    for (name, value) in headers.iter().filter(|(name, _)| name.as_str().starts_with(HEADER_PREFIX)) {
        let invalid =
            |what: &str| ProtocolError::header_mismatch(&format!("the header {} {what}", quote_excerpt(name.as_str())));
        if name.as_str().len() > HEADER_PREFIX.len() + MAX_HEADER_NAME_BYTES || value.len() > MAX_HEADER_VALUE_BYTES {
            return Err(invalid("is too long"));
        }
        if !value.as_bytes().iter().all(|byte| matches!(byte, b'\t' | 0x20..=0x7e)) {
            return Err(invalid("has characters that must be encoded in Base64"));
        }
        if found.insert(name.clone(), value.clone()).is_some() {
            return Err(invalid("occurs twice"));
        }
        if found.len() > MAX_PARAM_HEADERS {
            return Err(invalid("exceeds the maximum number of parameter headers"));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
