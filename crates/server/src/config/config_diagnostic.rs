//! Errors and warnings about a configuration file, with location and help.

use std::ops::Range;

use gatelodge_policy::Severity;

use super::config_redaction::redact_tokens;
use crate::document_diagnostic::DiagnosticRef;

/// An error or warning about the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigDiagnostic {
    /// Code of the diagnostic, which does not change between versions.
    pub code: ConfigDiagnosticCode,
    /// Byte range of the offending text.
    pub span: Range<usize>,
    /// The problem in one line. Never contains a secret.
    pub message: String,
    /// How to fix the problem.
    pub help: Option<String>,
    /// A related location, with a label.
    pub related: Option<(Range<usize>, String)>,
}

macro_rules! diagnostic_codes {
    ($($(#[doc = $doc:literal])+ $name:ident = $text:literal $severity:ident,)+) => {
        /// Diagnostic codes. Their string forms do not change between versions.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum ConfigDiagnosticCode { $($(#[doc = $doc])+ $name,)+ }

        impl ConfigDiagnosticCode {
            /// All codes with their descriptions, for the documentation.
            pub const ALL: &'static [(Self, &'static str)] = &[$((Self::$name, concat!($($doc),+)),)+];

            /// Returns the string that identifies the code, which does not change between versions.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Returns the severity: `Warning` if the configuration can be used despite the diagnostic, otherwise
            /// `Error`.
            pub fn severity(self) -> Severity {
                match self { $(Self::$name => Severity::$severity,)+ }
            }
        }
    };
}

diagnostic_codes! {
    /// The file is not valid TOML.
    Syntax = "syntax" Error,
    /// A section or field is unknown.
    UnknownField = "unknown-field" Error,
    /// A required field is missing.
    MissingField = "missing-field" Error,
    /// A value has the wrong type.
    WrongType = "wrong-type" Error,
    /// A value is invalid.
    BadValue = "bad-value" Error,
    /// Two fields cannot be used together.
    FieldClash = "field-clash" Error,
    /// A name, label or token is used twice.
    Repeated = "repeated" Error,
    /// A name is not defined in the file.
    UnknownName = "unknown-name" Error,
    /// An environment variable is not set.
    MissingVariable = "missing-variable" Error,
    /// A file cannot be read.
    UnreadableFile = "unreadable-file" Error,
    /// A policy has errors, which are shown with its file.
    BadPolicy = "bad-policy" Error,
    /// Other machines can reach the address, and `hosts` is missing.
    NeedsHosts = "needs-hosts" Error,
    /// A feature is not included in this build.
    NotBuilt = "not-built" Error,
    /// A field is used under its former name, which still works.
    RenamedField = "renamed-field" Warning,
    /// A credential is written in the file.
    PlainSecret = "plain-secret" Warning,
    /// A credential is sent without encryption.
    ClearText = "clear-text" Warning,
    /// A value from the environment is too short to be removed from replies.
    ShortSecret = "short-secret" Warning,
    /// A grant is in observe mode, which refuses nothing.
    Observes = "observes" Warning,
}

impl ConfigDiagnostic {
    /// Creates a diagnostic. If a token was pasted into the wrong field, the message does not repeat it.
    pub fn new(code: ConfigDiagnosticCode, span: &Range<usize>, message: impl Into<String>) -> Self {
        Self { code, span: span.clone(), message: redact_tokens(message.into()), help: None, related: None }
    }

    /// Sets the help text.
    pub fn with_help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(redact_tokens(help.into()));
        self
    }

    /// Sets the related location.
    pub fn with_related(mut self, span: &Range<usize>, label: impl Into<String>) -> Self {
        self.related = Some((span.clone(), label.into()));
        self
    }
}

impl<'a> From<&'a ConfigDiagnostic> for DiagnosticRef<'a> {
    fn from(diagnostic: &'a ConfigDiagnostic) -> Self {
        Self {
            code: diagnostic.code.as_str(),
            severity: diagnostic.code.severity(),
            span: diagnostic.span.clone(),
            message: &diagnostic.message,
            help: diagnostic.help.as_deref(),
            related: diagnostic.related.as_ref().map(|(span, label)| (span.clone(), label.as_str())),
        }
    }
}

/// Suggests the nearest known name, or lists all known names.
pub fn suggest_name(word: &str, known: &[&str]) -> String {
    // A long word is not a misspelling, and comparing it is expensive.
    let short: String = word.chars().take(64).collect();
    let distance = |known: &&&str| strsim::damerau_levenshtein(&short, known);
    let nearest = known.iter().min_by_key(distance).filter(|nearest| distance(nearest) <= 1 + nearest.len() / 3);
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None if known.is_empty() => "there are none yet".to_owned(),
        None => {
            let all: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
            let noun = if let [_] = known { "the only known name is" } else { "the known names are" };
            format!("{noun} {}", all.join(", "))
        }
    }
}
