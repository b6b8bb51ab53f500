//! What is wrong with a configuration, where, and what to do about it.

use std::ops::Range;

use gatelodge_policy::Severity;

use super::config_redaction::redact_tokens;
use crate::diagnostic_report::DiagnosticRef;

/// One finding about the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDiagnostic {
    /// What kind of finding.
    pub code: ConfigDiagnosticCode,
    /// The offending text, in bytes.
    pub span: Range<usize>,
    /// What is wrong, in one line; never a secret.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
    /// A second place that has to do with it, with a word on it.
    pub related: Option<(Range<usize>, String)>,
}

macro_rules! diagnostic_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal $severity:ident,)+) => {
        /// The kinds of findings. Their texts are stable.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ConfigDiagnosticCode { $($(#[doc = $doc])+ $name,)+ }

        impl ConfigDiagnosticCode {
            /// All kinds, with what they mean, for the documentation.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, concat!($($doc),+)),)+];

            /// The stable text.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Whether the configuration can be used all the same.
            pub fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)+ }
            }
        }
    };
}

diagnostic_codes! {
    /// Not TOML.
    Syntax = "syntax" Error,
    /// A section or field that does not exist.
    UnknownField = "unknown-field" Error,
    /// A field that must be there.
    MissingField = "missing-field" Error,
    /// A value of the wrong kind.
    WrongType = "wrong-type" Error,
    /// A value that cannot be used.
    BadValue = "bad-value" Error,
    /// Two fields that exclude each other.
    FieldClash = "field-clash" Error,
    /// A name, label or token that is taken.
    Repeated = "repeated" Error,
    /// A name that nothing in the file has.
    UnknownName = "unknown-name" Error,
    /// A variable that the environment does not have.
    MissingVariable = "missing-variable" Error,
    /// A file that cannot be read.
    UnreadableFile = "unreadable-file" Error,
    /// A policy with faults of its own; they are shown with its file.
    BadPolicy = "bad-policy" Error,
    /// An address that others can reach, without the names they use for it.
    NeedsHosts = "needs-hosts" Error,
    /// Something this build does not have.
    NotBuilt = "not-built" Error,
    /// A field with the name that it had in an earlier version. It still works.
    RenamedField = "renamed-field" Warning,
    /// A credential in the file itself.
    PlainSecret = "plain-secret" Warning,
    /// A credential that travels without encryption.
    ClearText = "clear-text" Warning,
    /// A value from the environment too short to be cut from replies.
    ShortSecret = "short-secret" Warning,
    /// A grant whose policy refuses nothing.
    Observes = "observes" Warning,
}

impl ConfigDiagnostic {
    /// A finding at a place. A token that was pasted where it does not belong is not repeated.
    pub fn new(code: ConfigDiagnosticCode, span: &Range<usize>, message: impl Into<String>) -> Self {
        Self { code, span: span.clone(), message: redact_tokens(message.into()), help: None, related: None }
    }

    /// Adds the way out.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(redact_tokens(help.into()));
        self
    }

    /// Adds a second place.
    pub fn with_related(mut self, span: &Range<usize>, label: impl Into<String>) -> Self {
        self.related = Some((span.clone(), label.into()));
        self
    }
}

impl<'a> From<&'a ConfigDiagnostic> for DiagnosticRef<'a> {
    fn from(fault: &'a ConfigDiagnostic) -> Self {
        Self {
            code: fault.code.as_str(),
            severity: fault.code.severity(),
            span: fault.span.clone(),
            message: &fault.message,
            help: fault.help.as_deref(),
            related: fault.related.as_ref().map(|(span, label)| (span.clone(), label.as_str())),
        }
    }
}

/// Offers the nearest word, or all.
pub fn suggest_name(word: &str, known: &[&str]) -> String {
    // Long foreign words are no misspellings, and comparing them costs.
    let short: String = word.chars().take(64).collect();
    let distance = |known: &&&str| strsim::damerau_levenshtein(&short, known);
    let nearest = known.iter().min_by_key(distance).filter(|nearest| distance(nearest) <= 1 + nearest.len() / 3);
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if known.is_empty() => "there is none yet".to_owned(),
        None => {
            let all: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
            format!("one of {}", all.join(", "))
        }
    }
}
