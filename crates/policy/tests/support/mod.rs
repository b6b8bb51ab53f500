//! What the tests of written policies share. In a folder, for a file would be a test of its own.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::Path;

use gatelodge_policy::{CaseFile, CaseReport, Diagnostic, DocumentFormat, Policy, PolicySource};

/// A policy, or why it does not load.
pub type Loaded = Result<Policy, Vec<Diagnostic>>;

/// Runs the cases of a text, as `policy test` does. `load` gives the policy that a path in it names.
pub fn run(text: &str, format: DocumentFormat, load: &dyn Fn(&str) -> Loaded) -> Vec<CaseReport> {
    let file =
        CaseFile::read(text.as_bytes(), format).unwrap_or_else(|faults| panic!("{}", diagnostic_lines(text, &faults)));
    let load = |source: &PolicySource| match source {
        PolicySource::Inline(policy) => policy.load(),
        PolicySource::Path(path, _) => load(path),
    };
    let policies: Vec<Option<Loaded>> = file.sources().iter().map(|source| Some(load(source))).collect();
    file.run(&policies)
}

/// All that is wrong with a case.
pub fn wrong(case: &CaseReport) -> Vec<String> {
    let faults = case.diagnostics.iter().map(|fault| format!("{}: {}", fault.code, fault.message));
    case.differences.iter().cloned().chain(faults).collect()
}

/// The language that a file's name says.
pub fn format_of(path: &Path) -> DocumentFormat {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => DocumentFormat::Json,
        Some("yaml") => DocumentFormat::Yaml,
        other => panic!("`{}`: {other:?} is neither JSON nor YAML", path.display()),
    }
}

/// Each fault as `code line:column message`.
pub fn diagnostic_lines(text: &str, faults: &[Diagnostic]) -> String {
    let line = |fault: &Diagnostic| {
        let place = place(text.as_bytes(), fault.span.start);
        format!("{} {place} {}", fault.code, fault.message)
    };
    faults.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// `line:column` of a byte offset, both from one, columns in code points.
pub fn place(text: &[u8], at: usize) -> String {
    let before = String::from_utf8_lossy(text.get(..at).unwrap_or(text));
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{line}:{column}")
}
