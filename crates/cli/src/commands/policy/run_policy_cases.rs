//! `policy test`: runs the policy tests in case files.

use std::path::Path;

use anyhow::Result;
use gatelodge_json::LineColumn;
use gatelodge_policy::{CaseFile, CasePolicySource, CaseReport, Diagnostic, Explanation, Policy};
use gatelodge_server::DiagnosticJson;
use gatelodge_server::input_file::{self, InputFileText};
use serde::Serialize;

use super::file_diagnostics::{FileDiagnostics, refuse_repeated_stdin, suggest_yaml, unreadable_diagnostic};
use super::{print, print_json};
use crate::cli::TestPolicyArgs;
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::CommandExitCode;

/// Result of running one case file.
#[derive(Debug, Default)]
struct CaseFileReport {
    name: String,
    /// Content of the case file; `None` if it cannot be read.
    source: Option<InputFileText>,
    cases: Vec<CaseReport>,
    /// Diagnostics for the case file and for the calls and policies in it.
    findings: FileDiagnostics,
}

/// A policy, or its diagnostics if it is invalid; `None` if its file cannot be read.
type PolicyLoadResult = Option<Result<Policy, Vec<Diagnostic>>>;

pub fn run(args: &TestPolicyArgs) -> Result<CommandExitCode> {
    refuse_repeated_stdin(args.files.iter().map(AsRef::as_ref))?;
    let reports: Vec<CaseFileReport> = args.files.iter().map(|path| run_file(path)).collect();
    let cases = || reports.iter().flat_map(|report| &report.cases);
    let passed = cases().filter(|case| case.has_passed()).count();
    let failed = cases().count() - passed;
    if args.json {
        print_json(&reports.iter().map(CaseFileReport::json).collect::<Vec<_>>())?;
    } else {
        for report in &reports {
            report.findings.print(false)?;
            print(&report.failures_text())?;
        }
        if passed + failed > 0 {
            print(&format!("{passed} passed, {failed} failed\n"))?;
        }
    }
    let exits = reports.iter().map(|report| report.findings.exit_code());
    let worst = exits.max_by_key(|exit| *exit as u8).unwrap_or(CommandExitCode::Success);
    Ok(if worst == CommandExitCode::Success && failed > 0 { CommandExitCode::Findings } else { worst })
}

fn run_file(path: &Path) -> CaseFileReport {
    let mut report = CaseFileReport { name: path.display().to_string(), ..CaseFileReport::default() };
    let Some(source) = report.findings.read(path) else { return report };
    report.name.clone_from(&source.name);
    let format = source.policy_format(None);
    match CaseFile::read(&source.text, format) {
        Ok(file) => run_cases(path, &source, &file, &mut report),
        Err(faults) => report.findings.add(&source, suggest_yaml(&source, format, faults)),
    }
    report.source = Some(source);
    report
}

fn run_cases(path: &Path, source: &InputFileText, file: &CaseFile, report: &mut CaseFileReport) {
    let mut own_diagnostics = Vec::new();
    // Each policy, with the text that its diagnostics refer to.
    let (mut texts, mut policies) = (Vec::new(), Vec::new());
    for policy_source in file.sources() {
        let (text, loaded) = load_policy(path, source, policy_source, &mut own_diagnostics);
        texts.push(text);
        policies.push(loaded);
    }
    report.cases = file.run(&policies);
    own_diagnostics.extend(report.cases.iter().flat_map(|case| case.diagnostics.clone()));
    // Many cases expect a policy that does not load; print its diagnostics only if a case failed.
    let is_printed = |at: usize| report.cases.iter().any(|case| case.policy_index == Some(at) && !case.has_passed());
    let mut findings = FileDiagnostics::default();
    for (at, (text, loaded)) in texts.iter().zip(policies).enumerate() {
        match (text, loaded) {
            (Some(text), Some(Err(faults))) if is_printed(at) => findings.add(text, faults),
            (None, Some(Err(faults))) if is_printed(at) => own_diagnostics.extend(faults),
            _ => {}
        }
    }
    if !own_diagnostics.is_empty() {
        own_diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
        report.findings.add(source, own_diagnostics);
    }
    report.findings.files.extend(findings.files);
}

/// Parses the policy for a test case. Also returns the policy's file, unless the policy is defined inline.
fn load_policy(
    cases: &Path,
    source: &InputFileText,
    policy_source: &CasePolicySource,
    faults: &mut Vec<Diagnostic>,
) -> (Option<InputFileText>, PolicyLoadResult) {
    match policy_source {
        CasePolicySource::Inline(policy) => (None, Some(policy.load())),
        CasePolicySource::Path(name, span) => {
            match input_file::read_source(&cases.parent().unwrap_or(Path::new("")).join(name)) {
                Ok(policy) => {
                    let format = policy.policy_format(None);
                    let loaded = gatelodge_policy::parse(&policy.text, format);
                    let loaded = loaded.map_err(|faults| suggest_yaml(&policy, format, faults));
                    (Some(policy), Some(loaded))
                }
                Err(unreadable) => {
                    let diagnostic = unreadable_diagnostic(span.clone(), &unreadable);
                    let help = format!("write a path that begins where `{}` is", source.name);
                    faults.push(Diagnostic { help: Some(help), ..diagnostic });
                    (None, None)
                }
            }
        }
    }
}

/// Result of running a case file, for `--json`.
#[derive(Debug, Serialize)]
struct CaseFileJson<'a> {
    file: &'a str,
    faults: Vec<DiagnosticJson<'a>>,
    cases: Vec<CaseJson<'a>>,
}

#[derive(Debug, Serialize)]
struct CaseJson<'a> {
    name: &'a str,
    line: usize,
    passed: bool,
    differences: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<&'a Explanation>,
}

impl CaseFileReport {
    fn json(&self) -> CaseFileJson<'_> {
        let cases = self.cases.iter().map(|case| CaseJson {
            name: &case.name,
            line: self.line(case),
            passed: case.has_passed(),
            differences: &case.differences,
            explanation: case.explanation.as_ref(),
        });
        CaseFileJson { file: &self.name, faults: self.findings.to_json_diagnostics(), cases: cases.collect() }
    }

    /// Formats the failed cases for the terminal.
    fn failures_text(&self) -> String {
        let mut out = String::new();
        for case in self.cases.iter().filter(|case| !case.has_passed()) {
            out.push_str(&format!(
                "FAILED {}:{}: {}\n",
                escape_for_terminal(&self.name),
                self.line(case),
                escape_for_terminal(&case.name)
            ));
            for difference in &case.differences {
                out.push_str(&format!("  {}\n", escape_for_terminal(difference)));
            }
            if !case.diagnostics.is_empty() {
                out.push_str("  it has errors, so it was not evaluated\n");
            }
            if let Some(step) =
                case.explanation.iter().flat_map(|explanation| &explanation.trace).find(|step| step.outcome == "refuse")
            {
                out.push_str(&format!(
                    "  refused by {}: {}\n",
                    escape_for_terminal(step.rule.as_deref().unwrap_or(step.step)),
                    escape_for_terminal(&step.note)
                ));
            }
        }
        out
    }

    fn line(&self, case: &CaseReport) -> usize {
        self.source.as_ref().map_or(1, |source| LineColumn::of(&source.text, case.span.start).line)
    }
}
