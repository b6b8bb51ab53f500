//! Documents in files: good ones load, and bad ones have the expected diagnostics at the expected locations.
//!
//! Each bad document `x.json` has a file `x.json.expect` with a line `code line:column` per diagnostic.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gatelodge_policy::{Diagnostic, DiagnosticCode, parse};
use support::{format_of, place};

fn documents(folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).expect("the folder of documents").map(|entry| entry.unwrap().path());
    let is_document = |path: &PathBuf| path.extension().is_some_and(|extension| extension != "expect");
    let mut documents: Vec<PathBuf> = entries.filter(is_document).collect();
    documents.sort();
    documents
}

fn diagnostics(path: &Path, text: &[u8]) -> Vec<Diagnostic> {
    parse(text, format_of(path)).err().unwrap_or_default()
}

#[test]
fn every_good_document_loads() {
    let good = documents("tests/documents/good");
    for path in &good {
        let diagnostics = diagnostics(path, &fs::read(path).unwrap());
        assert!(diagnostics.is_empty(), "{}: {diagnostics:?}", path.display());
    }
    assert!(good.len() >= 10, "only {} documents", good.len());
}

#[test]
fn every_bad_document_has_the_expected_diagnostics() {
    let bad = documents("tests/documents/bad");
    let mut differences = Vec::new();
    for path in &bad {
        let text = fs::read(path).unwrap();
        let line = |diagnostic: &Diagnostic| format!("{} {}\n", diagnostic.code, place(&text, diagnostic.span.start));
        let came: String = diagnostics(path, &text).iter().map(line).collect();
        let name = format!("{}.expect", path.display());
        let expected = fs::read_to_string(&name).unwrap_or_else(|error| panic!("{name}: {error}"));
        if came.is_empty() || came != expected {
            differences.push(format!("{}\nexpected\n{expected}came\n{came}", path.display()));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert!(bad.len() >= 70, "only {} documents", bad.len());
}

#[test]
fn every_diagnostic_has_a_message_and_a_span_within_the_text() {
    for path in documents("tests/documents/bad") {
        let text = fs::read(&path).unwrap();
        for diagnostic in diagnostics(&path, &text) {
            let (path, span) = (path.display(), &diagnostic.span);
            assert!(!diagnostic.message.is_empty(), "{path}: {}", diagnostic.code);
            assert!(span.start <= span.end && span.end <= text.len(), "{path}: {span:?} of {}", text.len());
        }
    }
}

#[test]
fn every_syntax_diagnostic_has_a_document() {
    let mut seen = BTreeSet::new();
    for path in documents("tests/documents/bad") {
        seen.extend(diagnostics(&path, &fs::read(&path).unwrap()).iter().map(|diagnostic| diagnostic.code));
    }
    for code in
        [DiagnosticCode::Syntax, DiagnosticCode::TooLarge, DiagnosticCode::RepeatedKey, DiagnosticCode::YamlFeature]
    {
        assert!(seen.contains(&code), "no document has `{code}`");
    }
}
