//! Helpers for tests of policy documents. In a folder, because cargo would build a file as a separate test.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::path::Path;

use gatelodge_policy::{CaseFile, CasePolicySource, CaseReport, Diagnostic, DocumentFormat, Policy};

/// A policy, or its diagnostics.
pub type Loaded = Result<Policy, Vec<Diagnostic>>;

/// Runs the cases of a text, as `policy test` does. `load` loads the policy that a path names.
pub fn run(text: &str, format: DocumentFormat, load: &dyn Fn(&str) -> Loaded) -> Vec<CaseReport> {
    let file = CaseFile::read(text.as_bytes(), format)
        .unwrap_or_else(|diagnostics| panic!("{}", diagnostic_lines(text, &diagnostics)));
    let load = |source: &CasePolicySource| match source {
        CasePolicySource::Inline(policy) => policy.load(),
        CasePolicySource::Path(path, _) => load(path),
    };
    let policies: Vec<Option<Loaded>> = file.sources().iter().map(|source| Some(load(source))).collect();
    file.run(&policies)
}

/// Returns the differences and diagnostics of a case.
pub fn problems(case: &CaseReport) -> Vec<String> {
    let diagnostics = case.diagnostics.iter().map(|diagnostic| format!("{}: {}", diagnostic.code, diagnostic.message));
    case.differences.iter().cloned().chain(diagnostics).collect()
}

/// Returns the format of a file by its name.
pub fn format_of(path: &Path) -> DocumentFormat {
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("json") => DocumentFormat::Json,
        Some("yaml") => DocumentFormat::Yaml,
        other => panic!("`{}`: {other:?} is neither JSON nor YAML", path.display()),
    }
}

/// Formats each diagnostic as `code line:column message`.
pub fn diagnostic_lines(text: &str, diagnostics: &[Diagnostic]) -> String {
    let line = |diagnostic: &Diagnostic| {
        let place = place(text.as_bytes(), diagnostic.span.start);
        format!("{} {place} {}", diagnostic.code, diagnostic.message)
    };
    diagnostics.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Returns `line:column` of a byte offset, both from one, columns in code points.
pub fn place(text: &[u8], at: usize) -> String {
    let before = String::from_utf8_lossy(text.get(..at).unwrap_or(text));
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    format!("{line}:{column}")
}
