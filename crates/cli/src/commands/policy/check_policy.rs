//! `policy check`: prints all diagnostics for one or more policies in one run.

use std::path::Path;

use anyhow::Result;
use gatelodge_policy::{Diagnostic, DiagnosticCode, Severity, ToolList, lint};
use gatelodge_server::input_file;

use super::file_diagnostics::{FileDiagnostics, refuse_repeated_stdin, suggest_yaml};
use super::print_json;
use crate::cli::CheckPolicyArgs;
use crate::diagnostic_report;
use crate::exit_code::CommandExitCode;

pub fn run(args: &CheckPolicyArgs) -> Result<CommandExitCode> {
    refuse_repeated_stdin(args.files.iter().chain(&args.tools).map(AsRef::as_ref))?;
    let mut diagnostics_by_file = FileDiagnostics::default();
    let tools = args.tools.as_deref().and_then(|path| read_tools(path, &mut diagnostics_by_file));
    let checked_from = diagnostics_by_file.files.len();
    for path in &args.files {
        let Some(source) = diagnostics_by_file.read(path) else { continue };
        let format = source.policy_format(args.format.map(Into::into));
        let diagnostics = lint(&source.text, format, tools.as_ref());
        diagnostics_by_file.add(&source, suggest_yaml(&source, format, diagnostics));
    }
    let summaries: Vec<String> = diagnostics_by_file
        .files
        .iter()
        .map(|(_, diagnostics)| diagnostics_summary(diagnostics, args.strict))
        .collect();
    if args.strict {
        let diagnostics = diagnostics_by_file.files.iter_mut().flat_map(|(_, diagnostics)| diagnostics);
        diagnostics.for_each(|diagnostic| diagnostic.severity = Severity::Error);
    }
    if args.json {
        print_json(&diagnostics_by_file.to_json_diagnostics())?;
        return Ok(diagnostics_by_file.exit_code());
    }
    for (at, ((source, diagnostics), summary)) in diagnostics_by_file.files.iter().zip(summaries).enumerate() {
        diagnostic_report::print_diagnostics(source, diagnostics);
        let name = diagnostic_report::escape_for_terminal(&source.name);
        match diagnostics.first() {
            Some(diagnostic) if diagnostic.code == DiagnosticCode::UnreadableFile => {}
            _ if at < checked_from => {
                diagnostic_report::print_stderr(&format!("{name}: policies are checked without these tools"))
            }
            _ => diagnostic_report::print_stderr(&format!("{name}: {summary}")),
        }
    }
    Ok(diagnostics_by_file.exit_code())
}

/// Reads a server's tool list from a file. If the file cannot be used, records a diagnostic and returns `None`.
fn read_tools(path: &Path, diagnostics_by_file: &mut FileDiagnostics) -> Option<ToolList> {
    let source = diagnostics_by_file.record_unreadable(input_file::read_reply(path))?;
    ToolList::read(&source.text).map_err(|diagnostics| diagnostics_by_file.add(&source, diagnostics)).ok()
}

fn diagnostics_summary(diagnostics: &[Diagnostic], strict: bool) -> String {
    let is_more = |diagnostic: &&Diagnostic| diagnostic.code == DiagnosticCode::MoreFaults;
    let of = |severity: Severity| diagnostics.iter().filter(move |diagnostic| diagnostic.severity == severity);
    let count = |severity: Severity, word: &str| {
        let number = of(severity).filter(|diagnostic| !is_more(diagnostic)).count();
        let more = if of(severity).any(|diagnostic| is_more(&diagnostic)) { " or more" } else { "" };
        (number, format!("{number} {word}{}{more}", if number == 1 { "" } else { "s" }))
    };
    match (count(Severity::Error, "error"), count(Severity::Warning, "warning")) {
        ((0, _), (0, _)) => "no errors".into(),
        ((0, _), (_, warnings)) if strict => {
            format!("{warnings}; it can be used, but `--strict` treats warnings as errors")
        }
        ((0, _), (_, warnings)) => format!("{warnings}; it can be used"),
        ((_, errors), (0, _)) => format!("{errors}; it cannot be used"),
        ((_, errors), (_, warnings)) => format!("{errors}, {warnings}; it cannot be used"),
    }
}
