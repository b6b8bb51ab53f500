//! `policy check`: all faults of policies at once.

use std::path::Path;

use anyhow::Result;
use gatelodge_policy::{Diagnostic, DiagnosticCode, Severity, ToolList, lint};

use super::file_diagnostics::{FileDiagnostics, refuse_repeated_stdin, suggest_yaml};
use super::print_json;
use crate::cli::CheckPolicyArgs;
use crate::diagnostic_report;
use crate::exit_code::CommandExitCode;
use crate::source_file;

pub fn run(args: &CheckPolicyArgs) -> Result<CommandExitCode> {
    refuse_repeated_stdin(args.files.iter().chain(&args.tools).map(AsRef::as_ref))?;
    let mut findings = FileDiagnostics::default();
    let tools = args.tools.as_deref().and_then(|path| read_tools(path, &mut findings));
    let checked_from = findings.files.len();
    for path in &args.files {
        let Some(source) = findings.read(path) else { continue };
        let format = source.policy_format(args.format);
        let faults = lint(&source.text, format, tools.as_ref());
        findings.add(&source, suggest_yaml(&source, format, faults));
    }
    let summaries: Vec<String> =
        findings.files.iter().map(|(_, faults)| diagnostics_summary(faults, args.strict)).collect();
    if args.strict {
        let faults = findings.files.iter_mut().flat_map(|(_, faults)| faults);
        faults.for_each(|fault| fault.severity = Severity::Error);
    }
    if args.json {
        print_json(&findings.to_json_diagnostics())?;
        return Ok(findings.exit_code());
    }
    for (at, ((source, faults), summary)) in findings.files.iter().zip(summaries).enumerate() {
        diagnostic_report::print_diagnostics(source, faults);
        let name = diagnostic_report::escape_for_terminal(&source.name);
        match faults.first() {
            Some(fault) if fault.code == DiagnosticCode::UnreadableFile => {}
            _ if at < checked_from => {
                diagnostic_report::print_stderr(&format!("{name}: the policies are checked without these tools"))
            }
            _ => diagnostic_report::print_stderr(&format!("{name}: {summary}")),
        }
    }
    Ok(findings.exit_code())
}

/// The tools that a server offers; none if they cannot be used, which is a finding then.
fn read_tools(path: &Path, findings: &mut FileDiagnostics) -> Option<ToolList> {
    let source = findings.record_unreadable(source_file::try_read_reply(path))?;
    ToolList::read(&source.text).map_err(|faults| findings.add(&source, faults)).ok()
}

fn diagnostics_summary(faults: &[Diagnostic], strict: bool) -> String {
    let is_more = |fault: &&Diagnostic| fault.code == DiagnosticCode::MoreFaults;
    let of = |severity: Severity| faults.iter().filter(move |fault| fault.severity == severity);
    let count = |severity: Severity, word: &str| {
        let number = of(severity).filter(|fault| !is_more(fault)).count();
        let more = if of(severity).any(|fault| is_more(&fault)) { " or more" } else { "" };
        (number, format!("{number} {word}{}{more}", if number == 1 { "" } else { "s" }))
    };
    match (count(Severity::Error, "error"), count(Severity::Warning, "warning")) {
        ((0, _), (0, _)) => "no faults".into(),
        ((0, _), (_, warnings)) if strict => format!("{warnings}; it loads, but `--strict` takes warnings for errors"),
        ((0, _), (_, warnings)) => format!("{warnings}; it loads"),
        ((_, errors), (0, _)) => format!("{errors}; it does not load"),
        ((_, errors), (_, warnings)) => format!("{errors}, {warnings}; it does not load"),
    }
}
