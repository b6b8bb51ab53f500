//! Diagnostics: errors and warnings in a document, with location and help.

use std::fmt;
use std::ops::Range;

/// One error or warning in a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// Kind of problem. Codes do not change between versions.
    pub code: DiagnosticCode,
    /// Error or warning.
    pub severity: Severity,
    /// Byte range of the offending text.
    pub span: Range<usize>,
    /// The problem, in one line.
    pub message: String,
    /// How to fix the problem.
    pub help: Option<String>,
    /// A second, related location with its label.
    pub related: Option<(Range<usize>, String)>,
}

/// Maximum number of diagnostics collected per document. A document of a few megabytes could have millions.
const MAX_COLLECTED_DIAGNOSTICS: usize = 1_000;
/// Maximum number of diagnostics reported. Authors are expected to fix these before they look for more.
pub(crate) const MAX_REPORTED_DIAGNOSTICS: usize = 200;
/// Number of diagnostics after which a search stops: one more than can be reported, so that the report can say that
/// there are more.
pub(crate) const MAX_SEARCHED_DIAGNOSTICS: usize = MAX_REPORTED_DIAGNOSTICS + 1;

/// Adds a diagnostic, unless [`MAX_COLLECTED_DIAGNOSTICS`] is reached.
pub(crate) fn push_bounded(diagnostics: &mut Vec<Diagnostic>, diagnostic: Diagnostic) {
    if diagnostics.len() < MAX_COLLECTED_DIAGNOSTICS {
        diagnostics.push(diagnostic);
    }
}

/// What collects diagnostics while a document is read.
pub(crate) trait DiagnosticSink {
    /// Adds a diagnostic.
    fn report(&mut self, diagnostic: Diagnostic);
}

impl DiagnosticSink for Vec<Diagnostic> {
    fn report(&mut self, diagnostic: Diagnostic) {
        push_bounded(self, diagnostic);
    }
}

/// Sorts diagnostics by severity and location, adds a default help text to each, and truncates very long lists.
pub(crate) fn sorted_for_display(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(|diagnostic| (diagnostic.severity, diagnostic.span.start));
    truncate_with_notice(&mut diagnostics, MAX_REPORTED_DIAGNOSTICS);
    diagnostics.into_iter().map(Diagnostic::with_default_help).collect()
}

/// Keeps the first `max` diagnostics and appends a note that there are more.
pub(crate) fn truncate_with_notice(diagnostics: &mut Vec<Diagnostic>, max: usize) {
    let Some(next) = diagnostics.get(max) else { return };
    let at = next.span.start..next.span.start;
    let diagnostic =
        Diagnostic::error(DiagnosticCode::MoreFaults, at, format!("there are more; only the first {max} are shown"));
    let diagnostic = Diagnostic { severity: next.severity, ..diagnostic.with_help("fix these first") };
    diagnostics.truncate(max);
    diagnostics.push(diagnostic);
}

/// Severity of a diagnostic.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// An error: the document is not loaded.
    Error,
    /// A warning: the document is loaded, but probably does not do what its author intended.
    Warning,
}

impl Diagnostic {
    /// Converts an error from the JSON parser.
    pub(crate) fn from_json_error(diagnostic: &gatelodge_json::JsonError) -> Self {
        crate::syntax::syntax_tree::diagnostic_from_json(diagnostic)
    }

    pub(crate) fn error(code: DiagnosticCode, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, span, message: message.into(), help: None, related: None }
    }

    pub(crate) fn warning(code: DiagnosticCode, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, span, message) }
    }

    pub(crate) fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Sets the help text if the diagnostic is about an empty document.
    pub(crate) fn with_help_if_empty(self, help: &str) -> Self {
        if self.message == crate::syntax::syntax_tree::EMPTY_TEXT_MESSAGE { self.with_help(help) } else { self }
    }

    /// Sets a general help text if there is no specific one.
    pub(crate) fn with_default_help(self) -> Self {
        if self.help.is_some() {
            return self;
        }
        let help = match self.code {
            DiagnosticCode::Syntax => "fix the text here; the rest is checked after that",
            DiagnosticCode::TooLarge => "make it smaller, or split it in two",
            DiagnosticCode::WrongType => {
                "write a value of the expected type; `gatelodge policy schema` describes each field"
            }
            DiagnosticCode::RepeatedKey => "keep one of the two",
            DiagnosticCode::EmptyText => "write a name",
            DiagnosticCode::BadNumber => {
                "write a number that is allowed here: at most 1,000 digits, and at most 10^308"
            }
            DiagnosticCode::BadValue => "write a number that is allowed here",
            _ => "see the policy reference for what is allowed here",
        };
        self.with_help(help)
    }

    pub(crate) fn with_related(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.related = Some((span, label.into()));
        self
    }
}

macro_rules! diagnostic_codes {
    ($($(#[$doc:meta])+ $name:ident = $text:literal,)+) => {
        /// Kinds of diagnostics. Their codes do not change between versions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DiagnosticCode { $($(#[$doc])+ $name,)+ }

        impl DiagnosticCode {
            /// All codes, for documentation and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Returns the code as text, which does not change between versions.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

diagnostic_codes! {
    /// The document is not valid JSON or YAML.
    Syntax = "syntax",
    /// The document exceeds one of the parser's limits.
    TooLarge = "too-large",
    /// A key occurs twice in one object.
    RepeatedKey = "repeated-key",
    /// A YAML feature that JSON does not have.
    YamlFeature = "yaml-feature",
    /// An unknown field.
    UnknownField = "unknown-field",
    /// A required field is missing.
    MissingField = "missing-field",
    /// A value has the wrong JSON type.
    WrongType = "wrong-type",
    /// A value that is not one of the allowed words.
    UnknownWord = "unknown-word",
    /// Two fields that cannot be used together.
    FieldClash = "field-clash",
    /// A list that must not be empty.
    EmptyList = "empty-list",
    /// A string that must not be empty.
    EmptyText = "empty-text",
    /// A number that is out of range, or in a notation that is not allowed.
    BadNumber = "bad-number",
    /// A string that is not a valid path into a call.
    BadPath = "bad-path",
    /// An unknown operator.
    UnknownOperator = "unknown-operator",
    /// A value that the operator cannot use.
    BadValue = "bad-value",
    /// A regular expression that does not compile.
    BadRegex = "bad-regex",
    /// A regular expression too large to compile.
    LargeRegex = "large-regex",
    /// A value that is not a valid window.
    BadWindow = "bad-window",
    /// Two overlapping globs, neither of which is more specific than the other.
    TiedGlobs = "tied-globs",
    /// Limits that share a counter but configure it differently.
    CounterClash = "counter-clash",
    /// A method that must not be listed under `methods`.
    BadMethod = "bad-method",
    /// A string that is not a valid time zone.
    BadTimeZone = "bad-time-zone",
    /// There are more diagnostics than are reported.
    MoreFaults = "more-faults",
    /// A file that cannot be read.
    UnreadableFile = "unreadable-file",
    /// Warning: the server does not list this tool.
    NotOffered = "not-offered",
    /// Warning: the tool has no such argument.
    UnknownArgument = "unknown-argument",
    /// Warning: the argument's type can never satisfy the operator.
    ImpossibleComparison = "impossible-comparison",
    /// Warning: the rule can never hold.
    NeverHolds = "never-holds",
    /// Warning: another rule always applies first.
    Shadowed = "shadowed",
    /// Warning: a regular expression in `require` is not anchored.
    UnanchoredRegex = "unanchored-regex",
    /// Warning: this `deny_if` or `approve_if` does not apply to calls that omit the argument.
    AbsencePasses = "absence-passes",
    /// Warning: calls are limited per session, but have no limit that outlasts a session.
    SessionAlone = "session-alone",
    /// Warning: the policy asks to validate arguments, but the tool has no schema.
    NoSchema = "no-schema",
    /// Warning: a rule depends only on facts that the client reports about itself.
    ClaimAlone = "claim-alone",
}

impl fmt::Display for DiagnosticCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
