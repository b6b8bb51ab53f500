//! What was found in the files of a command: told all at once, for people or for programs.

use std::ops::Range;
use std::path::Path;

use anyhow::Result;
use gatelodge_policy::{Diagnostic, DiagnosticCode, DocumentFormat, Policy, Severity, parse};

use super::print_json;
use crate::cli::PolicyFormatArg;
use crate::diagnostic_report::{self, DiagnosticJson};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::source_file::{self, NamedSource, ReadSourceError};

/// The findings of all files, in the order in which these were looked at. One that is faulty keeps no other from being
/// looked at.
#[derive(Debug, Default)]
pub struct FileDiagnostics {
    pub files: Vec<(NamedSource, Vec<Diagnostic>)>,
}

impl FileDiagnostics {
    /// Reads a file; none if it cannot be read, which is a finding then.
    pub fn read(&mut self, path: &Path) -> Option<NamedSource> {
        let read = source_file::try_read_source(path);
        self.record_unreadable(read)
    }

    /// Keeps why a file cannot be read.
    pub fn record_unreadable(&mut self, read: Result<NamedSource, ReadSourceError>) -> Option<NamedSource> {
        read.map_err(|unreadable| {
            let fault = unreadable_diagnostic(0..0, &unreadable);
            self.add(&NamedSource { name: unreadable.name, text: Vec::new() }, vec![fault]);
        })
        .ok()
    }

    /// Loads a policy; none if it has faults, which are findings then.
    pub fn load(&mut self, source: &NamedSource, asked: Option<PolicyFormatArg>) -> Option<Policy> {
        let format = source.policy_format(asked);
        let loaded = parse(&source.text, format);
        loaded.map_err(|faults| self.add(source, suggest_yaml(source, format, faults))).ok()
    }

    /// Keeps what was found in a file, if only that it has no faults.
    pub fn add(&mut self, source: &NamedSource, faults: Vec<Diagnostic>) {
        self.files.push((source.clone(), faults));
    }

    /// The findings for programs.
    pub fn to_json_diagnostics(&self) -> Vec<DiagnosticJson<'_>> {
        let mut told = Vec::new();
        for (source, faults) in &self.files {
            told.extend(faults.iter().map(|fault| DiagnosticJson::new(source, fault)));
        }
        told
    }

    /// Tells the findings: for programs on standard output, for people on standard error.
    pub fn print(&self, json: bool) -> Result<()> {
        if json {
            return print_json(&self.to_json_diagnostics());
        }
        self.files.iter().for_each(|(source, faults)| diagnostic_report::print_diagnostics(source, faults));
        Ok(())
    }

    /// How a command with these findings ends.
    pub fn exit_code(&self) -> CommandExitCode {
        let mut faults = self.files.iter().flat_map(|(_, faults)| faults);
        if faults.clone().any(|fault| fault.code == DiagnosticCode::UnreadableFile) {
            return CommandExitCode::Usage;
        }
        if faults.any(|fault| fault.severity == Severity::Error) {
            CommandExitCode::Findings
        } else {
            CommandExitCode::Success
        }
    }
}

/// The finding that a file cannot be read, at the place that names it.
pub fn unreadable_diagnostic(span: Range<usize>, unreadable: &ReadSourceError) -> Diagnostic {
    Diagnostic {
        code: DiagnosticCode::UnreadableFile,
        severity: Severity::Error,
        span,
        message: unreadable.message.clone(),
        help: Some(unreadable.help.to_owned()),
        related: None,
    }
}

/// Offers another name where YAML is taken for JSON.
pub fn suggest_yaml(source: &NamedSource, format: DocumentFormat, mut faults: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let first = source.text.iter().find(|byte| !byte.is_ascii_whitespace());
    if let [fault] = faults.as_mut_slice()
        && format == DocumentFormat::Json
        && fault.code == DiagnosticCode::Syntax
        // Much JSON with a fault is YAML, too.
        && !matches!(first, None | Some(b'{' | b'[' | b'/' | b'"'))
        && gatelodge_policy::format(&source.text, DocumentFormat::Yaml).is_ok_and(|yaml| yaml.text.starts_with('{'))
    {
        fault.help =
            Some("this is YAML: name the file `.yaml`, or say `--format yaml` to `check` and `explain`".into());
    }
    faults
}

/// Refuses to take standard input for two things.
pub fn refuse_repeated_stdin<'p>(paths: impl IntoIterator<Item = &'p Path>) -> Result<()> {
    if paths.into_iter().filter(|path| *path == Path::new("-")).count() > 1 {
        let message = "standard input can be read once: `-` stands twice; name a file for all but one";
        return Err(UsageError(message.into()).into());
    }
    Ok(())
}
