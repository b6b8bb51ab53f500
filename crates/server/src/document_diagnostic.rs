//! Diagnostics of configuration files, policies and case files in one form, for printing, JSON output and logs.

use std::ops::Range;

use gatelodge_json::{LineColumn, escape_for_terminal};
use gatelodge_policy::{Diagnostic, Severity};
use serde::Serialize;

use crate::input_file::InputFileText;

/// A diagnostic for any kind of document.
#[derive(Debug, Clone)]
pub struct DiagnosticRef<'a> {
    /// The code, which does not change between versions.
    pub code: &'static str,
    /// Severity, which says whether the document can be used despite the diagnostic.
    pub severity: Severity,
    /// Byte range of the offending text.
    pub span: Range<usize>,
    /// The problem in one line.
    pub message: &'a str,
    /// How to fix the problem.
    pub help: Option<&'a str>,
    /// A related location, with a label.
    pub related: Option<(Range<usize>, &'a str)>,
}

impl DiagnosticRef<'_> {
    /// Returns the word for the severity.
    pub fn severity_name(&self) -> &'static str {
        match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        }
    }
}

impl<'a> From<&'a Diagnostic> for DiagnosticRef<'a> {
    fn from(diagnostic: &'a Diagnostic) -> Self {
        Self {
            code: diagnostic.code.as_str(),
            severity: diagnostic.severity,
            span: diagnostic.span.clone(),
            message: &diagnostic.message,
            help: diagnostic.help.as_deref(),
            related: diagnostic.related.as_ref().map(|(span, label)| (span.clone(), label.as_str())),
        }
    }
}

/// A diagnostic for JSON output.
#[derive(Debug, Serialize)]
pub struct DiagnosticJson<'a> {
    file: &'a str,
    line: usize,
    column: usize,
    end_line: usize,
    end_column: usize,
    severity: &'static str,
    code: &'static str,
    message: &'a str,
    help: Option<&'a str>,
}

impl<'a> DiagnosticJson<'a> {
    /// Builds the JSON form of a diagnostic for `source`.
    pub fn new(source: &'a InputFileText, diagnostic: impl Into<DiagnosticRef<'a>>) -> Self {
        let diagnostic = diagnostic.into();
        let (start, end) =
            (LineColumn::of(&source.text, diagnostic.span.start), LineColumn::of(&source.text, diagnostic.span.end));
        Self {
            file: &source.name,
            line: start.line,
            column: start.column,
            end_line: end.line,
            end_column: end.column,
            severity: diagnostic.severity_name(),
            code: diagnostic.code,
            message: diagnostic.message,
            help: diagnostic.help,
        }
    }
}

impl DiagnosticJson<'_> {
    /// Formats the diagnostic as one line, for logs.
    pub fn log_line(&self) -> String {
        let (file, message) = (escape_for_terminal(self.file), escape_for_terminal(self.message));
        format!("{file}:{}:{}: {}[{}]: {message}", self.line, self.column, self.severity, self.code)
    }
}
