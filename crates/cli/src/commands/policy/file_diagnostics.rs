//! Collects diagnostics for all files that a command reads and prints them together, as text or as JSON.

use std::ops::Range;
use std::path::Path;

use anyhow::Result;
use gatelodge_policy::{Diagnostic, DiagnosticCode, DocumentFormat, Policy, Severity, parse};
use gatelodge_server::DiagnosticJson;
use gatelodge_server::input_file::{self, InputFileError, InputFileText};

use super::print_json;
use crate::cli::PolicyFormatArg;
use crate::diagnostic_report;
use crate::exit_code::{CommandExitCode, UsageError};

/// Diagnostics for all files, in the order in which they were read. After an invalid file, the remaining files are
/// still checked.
#[derive(Debug, Default)]
pub struct FileDiagnostics {
    pub files: Vec<(InputFileText, Vec<Diagnostic>)>,
}

impl FileDiagnostics {
    /// Reads a file. If it cannot be read, records a diagnostic and returns `None`.
    pub fn read(&mut self, path: &Path) -> Option<InputFileText> {
        let read = input_file::read_source(path);
        self.record_unreadable(read)
    }

    /// Returns the file if `read` is `Ok`. Otherwise records a diagnostic for the error and returns `None`.
    pub fn record_unreadable(&mut self, read: Result<InputFileText, InputFileError>) -> Option<InputFileText> {
        read.map_err(|unreadable| {
            let diagnostic = unreadable_diagnostic(0..0, &unreadable);
            self.add(&InputFileText { name: unreadable.name, text: Vec::new() }, vec![diagnostic]);
        })
        .ok()
    }

    /// Parses a policy. If it is invalid, records its diagnostics and returns `None`.
    pub fn load(&mut self, source: &InputFileText, format_arg: Option<PolicyFormatArg>) -> Option<Policy> {
        let format = source.policy_format(format_arg.map(Into::into));
        let loaded = parse(&source.text, format);
        loaded.map_err(|diagnostics| self.add(source, suggest_yaml(source, format, diagnostics))).ok()
    }

    /// Records the diagnostics for a file. The list of diagnostics may be empty.
    pub fn add(&mut self, source: &InputFileText, diagnostics: Vec<Diagnostic>) {
        self.files.push((source.clone(), diagnostics));
    }

    /// Returns the diagnostics for all files, for `--json`.
    pub fn to_json_diagnostics(&self) -> Vec<DiagnosticJson<'_>> {
        let mut all = Vec::new();
        for (source, diagnostics) in &self.files {
            all.extend(diagnostics.iter().map(|diagnostic| DiagnosticJson::new(source, diagnostic)));
        }
        all
    }

    /// Prints the diagnostics: JSON on standard output, text on standard error.
    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            return print_json(&self.to_json_diagnostics());
        }
        self.files.iter().for_each(|(source, diagnostics)| diagnostic_report::print_diagnostics(source, diagnostics));
        Ok(())
    }

    /// Returns the exit code that corresponds to the recorded diagnostics.
    pub fn exit_code(&self) -> CommandExitCode {
        let mut diagnostics = self.files.iter().flat_map(|(_, diagnostics)| diagnostics);
        if diagnostics.clone().any(|diagnostic| diagnostic.code == DiagnosticCode::UnreadableFile) {
            return CommandExitCode::Usage;
        }
        if diagnostics.any(|diagnostic| diagnostic.severity == Severity::Error) {
            CommandExitCode::Findings
        } else {
            CommandExitCode::Success
        }
    }
}

/// Creates the diagnostic for a file that cannot be read. `span` is the position of the file's name in the document
/// that refers to the file.
pub fn unreadable_diagnostic(span: Range<usize>, unreadable: &InputFileError) -> Diagnostic {
    Diagnostic {
        code: DiagnosticCode::UnreadableFile,
        severity: Severity::Error,
        span,
        message: unreadable.message.clone(),
        help: Some(unreadable.help.to_owned()),
        related: None,
    }
}

/// Adds a hint to the syntax error if the document appears to be YAML but was parsed as JSON.
pub fn suggest_yaml(
    source: &InputFileText,
    format: DocumentFormat,
    mut diagnostics: Vec<Diagnostic>,
) -> Vec<Diagnostic> {
    let first = source.text.iter().find(|byte| !byte.is_ascii_whitespace());
    if let [diagnostic] = diagnostics.as_mut_slice()
        && format == DocumentFormat::Json
        && diagnostic.code == DiagnosticCode::Syntax
        // Much invalid JSON is valid YAML.
        && !matches!(first, None | Some(b'{' | b'[' | b'/' | b'"'))
        && gatelodge_policy::format(&source.text, DocumentFormat::Yaml).is_ok_and(|yaml| yaml.text.starts_with('{'))
    {
        diagnostic.help =
            Some("this is YAML: name the file `.yaml`, or use `--format yaml` with `check` and `explain`".into());
    }
    diagnostics
}

/// Returns an error if more than one path is `-`, because standard input can be read only once.
pub fn refuse_repeated_stdin<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Result<()> {
    if paths.into_iter().filter(|path| *path == Path::new("-")).count() > 1 {
        let message = "standard input can be read only once, but `-` is given twice; name files for the others";
        return Err(UsageError(message.into()).into());
    }
    Ok(())
}
