//! What is wrong with a document, where, and what to do about it.

use std::fmt;
use std::ops::Range;

/// One finding about a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Diagnostic {
    /// What kind of finding; stable over versions.
    pub code: DiagnosticCode,
    /// Whether the document can be used all the same.
    pub severity: Severity,
    /// Byte offsets of the offending text.
    pub span: Range<usize>,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// A second place that has to do with it, with a word on it.
    pub related: Option<(Range<usize>, String)>,
}

/// As many faults of one document are kept: a text of some megabytes could have millions.
const MAX_COLLECTED_DIAGNOSTICS: usize = 1_000;
/// As many of them are told: nobody reads more before mending.
pub(crate) const MAX_REPORTED_DIAGNOSTICS: usize = 200;
/// One more than is told, so that it can be said that there are more.
pub(crate) const MAX_SEARCHED_DIAGNOSTICS: usize = MAX_REPORTED_DIAGNOSTICS + 1;

/// Keeps a fault, unless there are more already than anybody is told.
pub(crate) fn push_bounded(faults: &mut Vec<Diagnostic>, fault: Diagnostic) {
    if faults.len() < MAX_COLLECTED_DIAGNOSTICS {
        faults.push(fault);
    }
}

/// The faults as they are told: in the order of their places, each with a way out, and of very many the first.
pub(crate) fn sorted_for_display(mut faults: Vec<Diagnostic>) -> Vec<Diagnostic> {
    faults.sort_by_key(|fault| (fault.severity, fault.span.start));
    truncate_with_notice(&mut faults, MAX_REPORTED_DIAGNOSTICS);
    faults.into_iter().map(Diagnostic::with_default_help).collect()
}

/// Keeps the first findings, and says so behind them.
pub(crate) fn truncate_with_notice(faults: &mut Vec<Diagnostic>, most: usize) {
    let Some(next) = faults.get(most) else { return };
    let at = next.span.start..next.span.start;
    let fault =
        Diagnostic::error(DiagnosticCode::MoreFaults, at, format!("there are more; only the first {most} are told"));
    let fault = Diagnostic { severity: next.severity, ..fault.with_help("mend these first") };
    faults.truncate(most);
    faults.push(fault);
}

/// Whether a document with this finding can be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The document is not loaded.
    Error,
    /// The document loads, but probably does not do what its writer thinks.
    Warning,
}

impl Diagnostic {
    /// Tells a fault of the JSON reader in the same way as all others.
    pub(crate) fn from_json_error(fault: &gatelodge_json::JsonError) -> Self {
        crate::syntax_tree::diagnostic_from_json(fault)
    }

    /// Tells why the text of a call cannot be read.
    pub fn from_call_error(fault: &gatelodge_json::JsonError) -> Self {
        let fault = Self::from_json_error(fault);
        match fault.code {
            DiagnosticCode::Syntax if fault.help.is_none() => fault.with_help(crate::call_file::CALL_FILE_HELP),
            _ => fault.with_default_help(),
        }
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

    /// Gives a way out of an empty text.
    pub(crate) fn with_help_if_empty(self, help: &str) -> Self {
        if self.message == crate::syntax_tree::EMPTY_TEXT_MESSAGE { self.with_help(help) } else { self }
    }

    /// Gives a way out where none was found that fits better.
    pub(crate) fn with_default_help(self) -> Self {
        if self.help.is_some() {
            return self;
        }
        let help = match self.code {
            DiagnosticCode::Syntax => "mend the text here; the rest is read once this part can be",
            DiagnosticCode::TooLarge => "make it smaller, or split it in two",
            DiagnosticCode::WrongType => {
                "replace it by what is expected; `gatelodge policy schema` tells the form of each field"
            }
            DiagnosticCode::RepeatedKey => "keep one of the two",
            DiagnosticCode::EmptyText => "write a name",
            DiagnosticCode::BadNumber => {
                "write a number that is allowed here: at most 1,000 digits, and at most 10^308"
            }
            DiagnosticCode::BadValue => "write a number that is allowed here",
            _ => "see the language's description for what is allowed here",
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
        /// The kinds of findings. Their texts are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum DiagnosticCode { $($(#[$doc])+ $name,)+ }

        impl DiagnosticCode {
            /// All kinds, for documentation and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The stable text.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

diagnostic_codes! {
    /// Not JSON, not YAML.
    Syntax = "syntax",
    /// Over a limit of the reader.
    TooLarge = "too-large",
    /// The same key twice.
    RepeatedKey = "repeated-key",
    /// Something of YAML that JSON cannot say.
    YamlFeature = "yaml-feature",
    /// A field that does not exist here.
    UnknownField = "unknown-field",
    /// A field that must be there.
    MissingField = "missing-field",
    /// A value of the wrong JSON type.
    WrongType = "wrong-type",
    /// Not one of the words allowed.
    UnknownWord = "unknown-word",
    /// Two fields that exclude each other.
    FieldClash = "field-clash",
    /// A list that must not be empty.
    EmptyList = "empty-list",
    /// A text that must not be empty.
    EmptyText = "empty-text",
    /// A number out of bounds, or written in a way that is not allowed.
    BadNumber = "bad-number",
    /// Not a path into a call.
    BadPath = "bad-path",
    /// Not an operator.
    UnknownOperator = "unknown-operator",
    /// A value that the operator cannot use.
    BadValue = "bad-value",
    /// A regular expression that does not compile.
    BadRegex = "bad-regex",
    /// A regular expression too large to compile.
    LargeRegex = "large-regex",
    /// Not a window.
    BadWindow = "bad-window",
    /// Two globs of which neither is the more exact.
    TiedGlobs = "tied-globs",
    /// Limits that share a counter and disagree.
    CounterClash = "counter-clash",
    /// A method that cannot be named here.
    BadMethod = "bad-method",
    /// Not a time zone.
    BadTimeZone = "bad-time-zone",
    /// More faults than are told.
    MoreFaults = "more-faults",
    /// A file that cannot be read.
    UnreadableFile = "unreadable-file",
    /// Warning: the server does not offer such a tool.
    NotOffered = "not-offered",
    /// Warning: the tool has no such argument.
    UnknownArgument = "unknown-argument",
    /// Warning: the argument's type can never satisfy the operator.
    ImpossibleComparison = "impossible-comparison",
    /// Warning: the rule can never hold.
    NeverHolds = "never-holds",
    /// Warning: another rule always comes first.
    Shadowed = "shadowed",
    /// Warning: a regex in `require` that is not anchored.
    UnanchoredRegex = "unanchored-regex",
    /// Warning: absence passes this `deny_if`.
    AbsencePasses = "absence-passes",
    /// Warning: a session limit without a grant limit beside it.
    SessionAlone = "session-alone",
    /// Warning: arguments are validated against a schema that is not there.
    NoSchema = "no-schema",
    /// Warning: a rule that only the client's own claims guard.
    ClaimAlone = "claim-alone",
}

impl fmt::Display for DiagnosticCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
