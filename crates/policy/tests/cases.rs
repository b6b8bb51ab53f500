//! Runs all case files, which define the policy language call by call.

#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use gatelodge_policy::{CaseReport, ConditionResult, DiagnosticCode, DocumentFormat, Operator, ReasonCode, parse};

/// Fewer cases than this means that a file is not read.
const AT_LEAST: usize = 1_800;

fn files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["tests/cases", "../../examples/pharo/seeds"] {
        let entries = fs::read_dir(folder).expect("the folder of case files").map(|entry| entry.unwrap().path());
        files.extend(entries.filter(|path| path.extension().is_some_and(|extension| extension == "yaml")));
    }
    files.sort();
    files
}

fn run(path: &Path) -> Vec<CaseReport> {
    let text = fs::read_to_string(path).unwrap();
    support::run(&text, DocumentFormat::Yaml, &|name| {
        let policy = path.with_file_name(name);
        let text = fs::read(&policy).unwrap_or_else(|error| panic!("`{}`: {error}", policy.display()));
        parse(&text, support::format_of(&policy))
    })
}

#[test]
fn every_case_is_decided_as_expected() {
    let mut count = 0;
    let mut differences = Vec::new();
    for path in files() {
        for case in run(&path) {
            count += 1;
            let place = format!("{}: {}", path.display(), case.name);
            differences.extend(support::problems(&case).iter().map(|what| format!("{place}\n    {what}")));
        }
    }
    assert!(differences.is_empty(), "{} of {count} cases differ:\n{}", differences.len(), differences.join("\n"));
    assert!(count >= AT_LEAST, "only {count} cases");
}

#[test]
fn every_name_is_used_once_in_its_file() {
    for path in files() {
        let mut seen = BTreeSet::new();
        for case in run(&path) {
            assert!(seen.insert(case.name.clone()), "{}: `{}` twice", path.display(), case.name);
        }
    }
}

#[test]
fn every_case_expects_more_than_a_decision() {
    for path in files() {
        for (at, line) in fs::read_to_string(&path).unwrap().lines().enumerate() {
            let Some(expect) = line.trim().strip_prefix("expect:") else { continue };
            let whole = ["decision:", "code:", "rule:"].iter().all(|field| expect.contains(field));
            assert!(whole || expect.contains("faults:"), "{}:{}: {expect}", path.display(), at + 1);
        }
    }
}

#[test]
fn every_operator_has_a_case_for_every_result_and_polarity() {
    let mut seen = BTreeSet::new();
    for path in files() {
        for explanation in run(&path).into_iter().filter_map(|case| case.explanation) {
            for step in &explanation.trace {
                seen.extend(step.conditions.iter().map(|line| (step.step, line.op, line.answer)));
            }
        }
    }
    for polarity in ["require", "deny_if", "approve_if"] {
        for operator in Operator::WORDS {
            for answer in ConditionResult::WORDS {
                // `exists` tests for absence, so it never results in absent.
                if (*operator, *answer) == ("exists", "absent") {
                    continue;
                }
                assert!(seen.contains(&(polarity, *operator, *answer)), "no case: {polarity} {operator}, {answer}");
            }
        }
    }
}

#[test]
fn every_reason_code_has_a_case() {
    let codes: BTreeSet<&str> =
        files().iter().flat_map(|path| run(path)).filter_map(|case| case.explanation?.code).collect();
    for code in ReasonCode::WORDS.iter().filter(|code| **code != "no_policy") {
        assert!(codes.contains(code), "no case is refused with `{code}`");
    }
}

#[test]
fn every_diagnostic_that_a_case_file_can_show_has_a_case() {
    // These need text that would make the case file itself unreadable; `documents.rs` covers them. The last two are
    // covered by `bounds.rs` and by the tests of the command line.
    let in_text = ["syntax", "too-large", "repeated-key", "yaml-feature", "more-faults", "unreadable-file"];
    let texts: String = files().iter().map(|path| fs::read_to_string(path).unwrap()).collect();
    let warnings = DiagnosticCode::ALL.iter().position(|code| *code == DiagnosticCode::NotOffered).unwrap();
    for code in DiagnosticCode::ALL.iter().take(warnings).map(|code| code.as_str()) {
        assert!(in_text.contains(&code) || texts.contains(&format!("faults: [{code}")), "no case expects `{code}`");
    }
}
