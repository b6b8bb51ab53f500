//! Calls written as JSON, for `policy explain`, case files and differential tests.

use std::borrow::Cow;
use std::collections::BTreeMap;

use gatelodge_json::{JsonKind, JsonValue};
use jiff::Timestamp;

use crate::call::input_schema::InputSchema;
use crate::call::{Call, CallTarget, CalledTool, Category, ClientFacts, CompletionReference, DefinitionStatus};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, MAX_SEARCHED_DIAGNOSTICS, sorted_for_display};
use crate::syntax::field_reader::suggest_word;

const CALL_FIELDS: [&str; 13] = [
    "tool",
    "resource",
    "prompt",
    "method",
    "arguments",
    "category",
    "server",
    "grant",
    "client",
    "session",
    "input_schema",
    "accepted",
    "at",
];
/// An example of a call, used as help text.
pub(crate) const CALL_FILE_HELP: &str = r#"a call is JSON, such as {"tool": "search", "arguments": {"query": "cats"}}"#;
const TARGET_FIELDS: [&str; 4] = ["tool", "resource", "prompt", "method"];

/// A call read from a file.
///
/// ```
/// use gatelodge_json::{JsonLimits, read};
/// use gatelodge_policy::{CallFile, Decision, DocumentFormat, decide, parse};
///
/// let text = read(br#"{"tool": "search", "arguments": {"query": "cats"}}"#, &JsonLimits::DOCUMENT).expect("JSON");
/// let file = CallFile::new(text.root()).expect("a call");
/// let policy = parse(br#"{"version": "1", "default": "deny"}"#, DocumentFormat::Json).expect("a policy");
/// let decision = decide(&policy, &file.call(), jiff::Timestamp::UNIX_EPOCH);
/// assert!(matches!(decision, Decision::Deny(_)));
/// ```
#[derive(Debug)]
pub struct CallFile<'a> {
    target: (&'static str, Cow<'a, str>),
    reference: Option<(bool, Cow<'a, str>)>,
    arguments: Option<JsonValue<'a>>,
    category: Category,
    definition: DefinitionStatus,
    schema: Option<InputSchema>,
    server: Option<Cow<'a, str>>,
    grant_label: Option<Cow<'a, str>>,
    grant_labels: BTreeMap<String, String>,
    client_name: Option<Cow<'a, str>>,
    client_version: Option<Cow<'a, str>>,
    session: Option<Cow<'a, str>>,
    at: Option<Timestamp>,
}

impl<'a> CallFile<'a> {
    /// Reads a call from a JSON object.
    ///
    /// # Errors
    /// Returns all diagnostics, with spans in the text that `value` was parsed from.
    pub fn new(value: JsonValue<'a>) -> Result<Self, Vec<Diagnostic>> {
        let mut reader = CallFileReader { diagnostics: Vec::new() };
        let file = reader.read_call(value);
        match file {
            Some(file) if reader.diagnostics.is_empty() => Ok(file),
            _ => Err(sorted_for_display(reader.diagnostics)),
        }
    }

    /// Time of the call, if the file gives one.
    pub fn at(&self) -> Option<Timestamp> {
        self.at
    }

    /// Returns the call in the form that [`decide`](crate::decide) takes.
    pub fn call(&self) -> Call<'_> {
        let name = self.target.1.as_ref();
        let subject = match (self.target.0, name) {
            ("tool", name) => {
                let (category, definition, schema) = (self.category, self.definition, self.schema.as_ref());
                CallTarget::Tool(CalledTool { name, category, definition, schema })
            }
            ("resource", uri) => CallTarget::Resource { uri },
            ("prompt", name) => CallTarget::Prompt { name },
            (_, "completion/complete") => CallTarget::Completion(match &self.reference {
                Some((true, prompt)) => CompletionReference::Prompt(prompt),
                Some((false, uri)) => CompletionReference::Resource(uri),
                None => CompletionReference::Unknown,
            }),
            (_, name) => CallTarget::Method { name },
        };
        let caller = ClientFacts {
            grant_label: self.grant_label.as_deref(),
            grant_labels: Some(&self.grant_labels),
            client_name: self.client_name.as_deref(),
            client_version: self.client_version.as_deref(),
        };
        let (server, session) = (self.server.as_deref(), self.session.as_deref());
        Call { target: subject, arguments: self.arguments, server, client: caller, session }
    }
}

impl Diagnostic {
    /// Converts an error from parsing a call that is written as JSON.
    pub fn from_call_error(diagnostic: &gatelodge_json::JsonError) -> Self {
        let diagnostic = Self::from_json_error(diagnostic);
        match diagnostic.code {
            DiagnosticCode::Syntax if diagnostic.help.is_none() => diagnostic.with_help(CALL_FILE_HELP),
            _ => diagnostic.with_default_help(),
        }
    }
}

struct CallFileReader {
    diagnostics: Vec<Diagnostic>,
}

impl CallFileReader {
    fn read_call<'a>(&mut self, root: JsonValue<'a>) -> Option<CallFile<'a>> {
        if root.kind() != JsonKind::Object {
            self.report_wrong_type(root, "a call", "an object");
            return None;
        }
        self.check_field_names(root, &CALL_FIELDS, "a call");
        let grant = self.read_object(root.get("grant"), "grant", &["label", "labels"]);
        let client = self.read_object(root.get("client"), "client", &["name", "version"]);
        let server = self.read_object(root.get("server"), "server", &["name"]);
        let arguments = self.read_arguments(root.get("arguments"));
        let text = |reader: &mut Self, from: Option<JsonValue<'a>>, name: &str| {
            let value = from.and_then(|from| from.get(name))?;
            reader.read_text(value, name)
        };
        Some(CallFile {
            target: self.read_target(root)?,
            reference: arguments.and_then(completion_reference),
            arguments,
            category: self
                .read_word(root, "category", Category::WORDS, Category::from_word)
                .unwrap_or(Category::Unknown),
            definition: self
                .read_word(root, "accepted", DefinitionStatus::WORDS, DefinitionStatus::from_word)
                .unwrap_or(DefinitionStatus::Accepted),
            schema: root.get("input_schema").and_then(|schema| InputSchema::of_value(schema).ok()),
            server: text(self, server, "name"),
            grant_label: text(self, grant, "label"),
            grant_labels: self.read_labels(grant),
            client_name: text(self, client, "name"),
            client_version: text(self, client, "version"),
            session: root
                .get("session")
                .filter(|value| value.kind() != JsonKind::Null)
                .and_then(|value| self.read_text(value, "session")),
            at: self.read_time(root),
        })
    }

    fn read_target<'a>(&mut self, root: JsonValue<'a>) -> Option<(&'static str, Cow<'a, str>)> {
        let mut found = TARGET_FIELDS.iter().filter_map(|name| root.get(name).map(|value| (*name, value)));
        let Some((name, value)) = found.next() else {
            let (start, _) = root.span();
            let diagnostic =
                Diagnostic::error(DiagnosticCode::MissingField, start..start + 1, "the call has no target");
            self.diagnostics.push(diagnostic.with_help("write one of `tool`, `resource`, `prompt` and `method`"));
            return None;
        };
        if let Some((second, value)) = found.next() {
            let message = format!("`{second}` cannot be combined with `{name}`");
            self.diagnostics.push(
                Diagnostic::error(DiagnosticCode::FieldClash, value_span(value), message).with_help("keep one of them"),
            );
        }
        Some((name, self.read_text(value, name)?))
    }

    fn read_arguments<'a>(&mut self, value: Option<JsonValue<'a>>) -> Option<JsonValue<'a>> {
        let value = value.filter(|value| value.kind() != JsonKind::Null)?;
        if value.kind() != JsonKind::Object {
            self.report_wrong_type(value, "`arguments`", "an object");
        }
        Some(value)
    }

    fn read_labels(&mut self, grant: Option<JsonValue<'_>>) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        let Some(written) = grant.and_then(|grant| grant.get("labels")) else { return labels };
        if written.kind() != JsonKind::Object {
            self.report_wrong_type(written, "`labels`", "an object");
        }
        for (key, value) in written.members() {
            if let Some(label) = self.read_text(value, "label") {
                labels.insert(key.as_str().unwrap_or_default().into_owned(), label.into_owned());
            }
        }
        labels
    }

    fn read_time(&mut self, root: JsonValue<'_>) -> Option<Timestamp> {
        let value = root.get("at")?;
        let text = self.read_text(value, "at")?;
        let at = text.parse().ok();
        if at.is_none() {
            let diagnostic =
                Diagnostic::error(DiagnosticCode::BadValue, value_span(value), format!("`{text}` is not a time"));
            self.diagnostics.push(diagnostic.with_help("write it as `2026-11-15T12:00:00Z`"));
        }
        at
    }

    fn read_object<'a>(&mut self, value: Option<JsonValue<'a>>, name: &str, known: &[&str]) -> Option<JsonValue<'a>> {
        let value = value.filter(|value| value.kind() != JsonKind::Null)?;
        if value.kind() != JsonKind::Object {
            self.report_wrong_type(value, &format!("`{name}`"), "an object");
        }
        self.check_field_names(value, known, &format!("`{name}`"));
        Some(value)
    }

    fn read_text<'a>(&mut self, value: JsonValue<'a>, name: &str) -> Option<Cow<'a, str>> {
        let text = value.as_str();
        if text.is_none() {
            self.report_wrong_type(value, &format!("`{name}`"), "a string");
        }
        text
    }

    fn read_word<T>(
        &mut self,
        root: JsonValue<'_>,
        name: &str,
        words: &[&str],
        find: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let value = root.get(name)?;
        let text = self.read_text(value, name)?;
        let found = find(&text);
        if found.is_none() {
            let diagnostic = Diagnostic::error(
                DiagnosticCode::UnknownWord,
                value_span(value),
                format!("`{text}` is not a valid value for `{name}`"),
            );
            self.diagnostics.push(diagnostic.with_help(suggest_word(&text, words)));
        }
        found
    }

    fn check_field_names(&mut self, value: JsonValue<'_>, known: &[&str], what: &str) {
        for (key, _) in value.members() {
            let name = key.as_str().unwrap_or_default();
            if self.diagnostics.len() < MAX_SEARCHED_DIAGNOSTICS && !known.contains(&name.as_ref()) {
                let diagnostic = Diagnostic::error(
                    DiagnosticCode::UnknownField,
                    value_span(key),
                    format!("`{name}` is not a field of {what}"),
                );
                let help = match &*name {
                    "level" => "a tool's level follows from its `category`".to_owned(),
                    _ => suggest_word(&name, known),
                };
                self.diagnostics.push(diagnostic.with_help(help));
            }
        }
    }

    fn report_wrong_type(&mut self, value: JsonValue<'_>, what: &str, wanted: &str) {
        let message = format!("{what} must be {wanted}, not {}", value.kind().with_article());
        let diagnostic = Diagnostic::error(DiagnosticCode::WrongType, value_span(value), message);
        self.diagnostics.push(diagnostic.with_help(format!("write {wanted}; {CALL_FILE_HELP}")));
    }
}

fn value_span(value: JsonValue<'_>) -> std::ops::Range<usize> {
    let (start, end) = value.span();
    start..end
}

/// Returns whether a completion's `ref` names a prompt, and the prompt's name or the resource's URI.
fn completion_reference(arguments: JsonValue<'_>) -> Option<(bool, Cow<'_, str>)> {
    let reference = arguments.get("ref")?;
    let kind = reference.get("type")?.as_str()?;
    match kind.as_ref() {
        "ref/prompt" => Some((true, reference.get("name")?.as_str()?)),
        "ref/resource" => Some((false, reference.get("uri")?.as_str()?)),
        _ => None,
    }
}
