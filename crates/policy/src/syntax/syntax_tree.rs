//! The syntax tree of a document: the same representation for JSON and YAML, with spans.

mod yaml_document;

use std::ops::Range;

use gatelodge_json::{JsonKind, JsonLimits, JsonValue, quote_into, read_with_comments};

use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};

/// Message for an empty document. The help text depends on what kind of document was expected.
pub(crate) const EMPTY_TEXT_MESSAGE: &str = "the text is empty";

/// Format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DocumentFormat {
    /// JSON; `//` and `/* */` comments are allowed.
    Json,
    /// YAML 1.2 with the core schema, but without anchors, aliases, tags and merge keys.
    Yaml,
}

/// A value and its span.
#[derive(Debug, Clone)]
pub(crate) struct SyntaxNode {
    pub value: SyntaxNodeValue,
    pub span: Range<usize>,
}

#[derive(Debug, Clone)]
pub(crate) enum SyntaxNodeValue {
    Null,
    Bool(bool),
    /// Text of a number in JSON notation, within the parser's limits.
    Number(String),
    Text(String),
    List(Vec<SyntaxNode>),
    Map(Vec<SyntaxMapEntry>),
}

/// A span in generated text, and the span in the document that the text was generated from.
pub(crate) type SpanMapping = (Range<usize>, Range<usize>);

/// A member of an object.
#[derive(Debug, Clone)]
pub(crate) struct SyntaxMapEntry {
    pub key: String,
    pub key_span: Range<usize>,
    pub value: SyntaxNode,
}

impl SyntaxNode {
    pub fn kind(&self) -> JsonKind {
        match self.value {
            SyntaxNodeValue::Null => JsonKind::Null,
            SyntaxNodeValue::Bool(_) => JsonKind::Bool,
            SyntaxNodeValue::Number(_) => JsonKind::Number,
            SyntaxNodeValue::Text(_) => JsonKind::String,
            SyntaxNodeValue::List(_) => JsonKind::Array,
            SyntaxNodeValue::Map(_) => JsonKind::Object,
        }
    }

    /// Returns the value as compact JSON.
    pub fn to_json(&self) -> String {
        let mut out = String::new();
        self.write_json(&mut out, &mut |_, _| {});
        out
    }

    /// Returns the value as compact JSON, and a mapping from spans in that JSON to spans in the document. The spans of
    /// inner values come before those of the values that contain them.
    pub fn to_json_with_spans(&self) -> (String, Vec<SpanMapping>) {
        let (mut out, mut places) = (String::new(), Vec::new());
        self.write_json(&mut out, &mut |part, place| places.push((part, place.clone())));
        (out, places)
    }

    fn write_json(&self, out: &mut String, placed: &mut dyn FnMut(Range<usize>, &Range<usize>)) {
        let start = out.len();
        self.write_value(out, placed);
        placed(start..out.len(), &self.span);
    }

    fn write_value(&self, out: &mut String, placed: &mut dyn FnMut(Range<usize>, &Range<usize>)) {
        match &self.value {
            SyntaxNodeValue::Null => out.push_str("null"),
            SyntaxNodeValue::Bool(value) => out.push_str(if *value { "true" } else { "false" }),
            SyntaxNodeValue::Number(text) => out.push_str(text),
            SyntaxNodeValue::Text(text) => quote_into(text, out),
            SyntaxNodeValue::List(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    item.write_json(out, placed);
                }
                out.push(']');
            }
            SyntaxNodeValue::Map(entries) => {
                out.push('{');
                for (at, entry) in entries.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    let start = out.len();
                    quote_into(&entry.key, out);
                    placed(start..out.len(), &entry.key_span);
                    out.push(':');
                    entry.value.write_json(out, placed);
                }
                out.push('}');
            }
        }
    }

    /// Returns the member of a map with this name; if there are several, the first.
    pub fn get(&self, name: &str) -> Option<&Self> {
        let SyntaxNodeValue::Map(entries) = &self.value else { return None };
        entries.iter().find(|entry| entry.key == name).map(|entry| &entry.value)
    }
}

/// Parses a document. Also returns errors that did not stop the parser, so that all errors can be reported at once.
///
/// # Errors
/// Returns the error that stopped the parser.
pub(crate) fn read(text: &[u8], format: DocumentFormat) -> Result<(SyntaxNode, Vec<Diagnostic>), Diagnostic> {
    match format {
        DocumentFormat::Json => read_json(text),
        DocumentFormat::Yaml => yaml_document::read(text),
    }
}

fn read_json(text: &[u8]) -> Result<(SyntaxNode, Vec<Diagnostic>), Diagnostic> {
    let (document, repeats) =
        read_with_comments(text, &JsonLimits::DOCUMENT).map_err(|diagnostic| diagnostic_from_json(&diagnostic))?;
    let repeats = repeats.iter().map(diagnostic_from_json).collect();
    Ok((from_json(document.root()), repeats))
}

/// Converts a JSON value. The depth limit of the JSON parser bounds the recursion.
pub(crate) fn from_json(value: JsonValue<'_>) -> SyntaxNode {
    let (start, end) = value.span();
    let text = |value: JsonValue<'_>| value.as_str().unwrap_or_default().into_owned();
    let written = match value.kind() {
        JsonKind::Null => SyntaxNodeValue::Null,
        JsonKind::Bool => SyntaxNodeValue::Bool(value.as_bool() == Some(true)),
        JsonKind::Number => SyntaxNodeValue::Number(value.raw().to_owned()),
        JsonKind::String => SyntaxNodeValue::Text(text(value)),
        JsonKind::Array => SyntaxNodeValue::List(value.elements().map(from_json).collect()),
        JsonKind::Object => {
            let entry = |(key, value): (JsonValue<'_>, JsonValue<'_>)| {
                let (start, end) = key.span();
                SyntaxMapEntry { key: text(key), key_span: start..end, value: from_json(value) }
            };
            SyntaxNodeValue::Map(value.members().map(entry).collect())
        }
    };
    SyntaxNode { value: written, span: start..end }
}

/// Converts an error from the JSON parser to a diagnostic.
pub(crate) fn diagnostic_from_json(diagnostic: &gatelodge_json::JsonError) -> Diagnostic {
    use gatelodge_json::JsonErrorKind as Kind;
    let code = match diagnostic.kind {
        Kind::DuplicateKey(_) => DiagnosticCode::RepeatedKey,
        Kind::TooLarge { .. } | Kind::TooDeep { .. } | Kind::TooManyMembers { .. } => DiagnosticCode::TooLarge,
        Kind::NumberTooLong | Kind::NumberTooLarge => DiagnosticCode::BadNumber,
        Kind::Empty
        | Kind::InvalidUtf8
        | Kind::ByteOrderMark
        | Kind::UnexpectedEnd(_)
        | Kind::Expected(_)
        | Kind::TrailingComma
        | Kind::TrailingText
        | Kind::Comment
        | Kind::UnclosedComment
        | Kind::ControlCharacter
        | Kind::InvalidEscape
        | Kind::LoneSurrogate
        | Kind::InvalidNumber => DiagnosticCode::Syntax,
    };
    let help = match diagnostic.kind {
        Kind::InvalidUtf8 => Some("save the file as UTF-8 text"),
        Kind::ByteOrderMark => Some("save the file without a byte order mark"),
        Kind::TrailingComma => Some("remove the comma before the bracket"),
        Kind::DuplicateKey(_) => Some("keep one of the two; neither wins"),
        Kind::NumberTooLong => Some("write at most 1,000 digits, and an exponent of at most 18"),
        _ => None,
    };
    let message = match diagnostic.kind {
        Kind::Empty => EMPTY_TEXT_MESSAGE.to_owned(),
        Kind::NumberTooLong => "a number has more digits than can be compared, or too long an exponent".to_owned(),
        _ => diagnostic.kind.to_string(),
    };
    let found = Diagnostic::error(code, diagnostic.start..diagnostic.end, message);
    match help {
        Some(help) => found.with_help(help),
        None => found,
    }
}
