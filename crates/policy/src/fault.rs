//! What is wrong with a document, where, and what to do about it.

use std::fmt;
use std::ops::Range;

/// One finding about a document.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What kind of finding; stable over versions.
    pub code: Code,
    /// Whether the document can be used all the same.
    pub severity: Severity,
    /// Byte offsets of the offending text.
    pub span: Range<usize>,
    /// What is wrong, in one line.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// A second place that has to do with it, with a word on it.
    pub other: Option<(Range<usize>, String)>,
}

/// As many faults of one document are kept: a text of some megabytes could have millions.
const MOST_KEPT: usize = 1_000;
/// As many of them are told: nobody reads more before mending.
pub(crate) const MOST_TOLD: usize = 200;
/// One more than is told, so that it can be said that there are more.
pub(crate) const MOST_LOOKED_FOR: usize = MOST_TOLD + 1;

/// Keeps a fault, unless there are more already than anybody is told.
pub(crate) fn keep(faults: &mut Vec<Fault>, fault: Fault) {
    if faults.len() < MOST_KEPT {
        faults.push(fault);
    }
}

/// The faults as they are told: in the order of their places, each with a way out, and of very many the first.
pub(crate) fn told(mut faults: Vec<Fault>) -> Vec<Fault> {
    faults.sort_by_key(|fault| (fault.severity, fault.span.start));
    cut(&mut faults, MOST_TOLD);
    faults.into_iter().map(Fault::with_way_out).collect()
}

/// Keeps the first findings, and says so behind them.
pub(crate) fn cut(faults: &mut Vec<Fault>, most: usize) {
    let Some(next) = faults.get(most) else { return };
    let at = next.span.start..next.span.start;
    let fault = Fault::error(Code::MoreFaults, at, format!("there are more; only the first {most} are told"));
    let fault = Fault { severity: next.severity, ..fault.help("mend these first") };
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

impl Fault {
    /// Tells a fault of the JSON reader in the same way as all others.
    pub(crate) fn of_reader(fault: &gatelodge_json::JsonError) -> Self {
        crate::written::syntax(fault)
    }

    /// Tells why the text of a call cannot be read.
    pub fn of_call(fault: &gatelodge_json::JsonError) -> Self {
        let fault = Self::of_reader(fault);
        match fault.code {
            Code::Syntax if fault.help.is_none() => fault.help(crate::call_file::HELP),
            _ => fault.with_way_out(),
        }
    }

    pub(crate) fn error(code: Code, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { code, severity: Severity::Error, span, message: message.into(), help: None, other: None }
    }

    pub(crate) fn warning(code: Code, span: Range<usize>, message: impl Into<String>) -> Self {
        Self { severity: Severity::Warning, ..Self::error(code, span, message) }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// Gives a way out of an empty text.
    pub(crate) fn or_if_empty(self, help: &str) -> Self {
        if self.message == crate::written::EMPTY { self.help(help) } else { self }
    }

    /// Gives a way out where none was found that fits better.
    pub(crate) fn with_way_out(self) -> Self {
        if self.help.is_some() {
            return self;
        }
        let help = match self.code {
            Code::Syntax => "mend the text here; the rest is read once this part can be",
            Code::TooLarge => "make it smaller, or split it in two",
            Code::WrongType => "replace it by what is expected; `gatelodge policy schema` tells the form of each field",
            Code::RepeatedKey => "keep one of the two",
            Code::EmptyText => "write a name",
            Code::BadNumber => "write a number that is allowed here: at most 1,000 digits, and at most 10^308",
            Code::BadValue => "write a number that is allowed here",
            _ => "see the language's description for what is allowed here",
        };
        self.help(help)
    }

    pub(crate) fn other(mut self, span: Range<usize>, label: impl Into<String>) -> Self {
        self.other = Some((span, label.into()));
        self
    }
}

macro_rules! codes {
    ($($(#[$doc:meta])+ $name:ident = $text:literal,)+) => {
        /// The kinds of findings. Their texts are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Code { $($(#[$doc])+ $name,)+ }

        impl Code {
            /// All kinds, for documentation and tests.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The stable text.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

codes! {
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

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
