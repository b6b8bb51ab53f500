//! The expected result of a case, and its comparison with the actual result.

use super::{CaseFileReader, EXPECT_HELP, first_char_span};
use crate::eval::explain::Explanation;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::syntax_tree::{SyntaxNode, SyntaxNodeValue};

const EXPECT_FIELDS: [&str; 6] = ["decision", "code", "rule", "message", "charges", "faults"];
const DECISION_WORDS: [&str; 3] = ["allow", "deny", "approve"];

/// The fields that a case checks, with their expected values. All other fields may have any value.
#[derive(Debug, Default)]
pub(super) struct CaseExpectation {
    decision: Option<String>,
    /// The expected reason code. `None` if the case does not check it, and `Some(None)` if it must be null.
    code: Option<Option<String>>,
    rule: Option<Option<String>>,
    message: Option<Option<String>>,
    /// The expected charges. Each is a list of member names with their values as JSON.
    charges: Option<Vec<Vec<(String, String)>>>,
    /// Codes of the diagnostics that are expected when the policy is loaded.
    diagnostic_codes: Option<Vec<String>>,
}

impl CaseExpectation {
    /// Reads `expect: deny` or `expect: {decision: deny, code: …, rule: …}`.
    pub fn read(node: &SyntaxNode, reader: &mut CaseFileReader) -> Option<Self> {
        if let SyntaxNodeValue::Text(decision) = &node.value {
            check_decision(decision, node, reader);
            return Some(Self { decision: Some(decision.clone()), ..Self::default() });
        }
        let SyntaxNodeValue::Map(_) = node.value else {
            let message = format!("`expect` must be a decision or an object, not {}", node.kind().with_article());
            reader.report(DiagnosticCode::WrongType, first_char_span(node), &message, EXPECT_HELP);
            return None;
        };
        reader.check_field_names(node, &EXPECT_FIELDS, "`expect`", EXPECT_HELP);
        let mut text = |name: &str| match node.get(name) {
            None => None,
            Some(value) => match &value.value {
                SyntaxNodeValue::Null => Some(None),
                SyntaxNodeValue::Text(text) => Some(Some(text.clone())),
                _ => {
                    let message = format!("`{name}` must be a string or null");
                    reader.report(DiagnosticCode::WrongType, value.span.clone(), &message, "put it in double quotes");
                    None
                }
            },
        };
        let (decision, code, rule, message) = (text("decision").flatten(), text("code"), text("rule"), text("message"));
        if let Some(node) = node.get("decision") {
            check_decision(decision.as_deref().unwrap_or("null"), node, reader);
        }
        let expect = Self {
            decision,
            code,
            rule,
            message,
            charges: read_charges(node, reader),
            diagnostic_codes: read_expected_codes(node, reader),
        };
        if matches!(&node.value, SyntaxNodeValue::Map(entries) if expect.expects_load_errors() && entries.len() > 1) {
            reader.report(
                DiagnosticCode::FieldClash,
                first_char_span(node),
                "`faults` cannot be combined with other fields: a policy that does not load decides nothing",
                "remove the other fields, or `faults`",
            );
        }
        if matches!(&node.value, SyntaxNodeValue::Map(entries) if entries.is_empty()) {
            let message = "`expect` names nothing, so the case could not fail";
            reader.report(DiagnosticCode::MissingField, first_char_span(node), message, EXPECT_HELP);
        }
        Some(expect)
    }

    pub fn expects_load_errors(&self) -> bool {
        self.diagnostic_codes.is_some()
    }

    pub fn compare(&self, actual: &Explanation) -> Vec<String> {
        let mut differences = Vec::new();
        if self.diagnostic_codes.is_some() {
            differences.push("the policy loads without errors".into());
        }
        let mut compare = |name: &str, expected: &Option<Option<String>>, actual: Option<&str>| {
            if let Some(expected) = expected
                && expected.as_deref() != actual
            {
                differences.push(format!(
                    "{name}: expected {}, got {}",
                    quote_or_none(expected.as_deref()),
                    quote_or_none(actual)
                ));
            }
        };
        compare("decision", &self.decision.clone().map(Some), Some(actual.decision));
        compare("code", &self.code, actual.code);
        compare("rule", &self.rule, actual.rule.as_deref());
        compare("message", &self.message, actual.message.as_deref());
        differences.extend(self.compare_charges(actual));
        differences
    }

    fn compare_charges(&self, actual: &Explanation) -> Vec<String> {
        let Some(expected) = &self.charges else { return Vec::new() };
        if expected.len() != actual.charges.len() {
            return vec![format!("charges: expected {}, got {}", expected.len(), actual.charges.len())];
        }
        let mut differences = Vec::new();
        for (at, (expected, charge)) in expected.iter().zip(&actual.charges).enumerate() {
            for (name, value) in expected {
                let actual = charge.field_json(name).unwrap_or_else(|| "nothing".into());
                if actual != *value {
                    differences.push(format!("charges/{at}/{name}: expected {value}, got {actual}"));
                }
            }
        }
        differences
    }

    /// Compares the expectation with the diagnostics from loading the policy.
    pub fn compare_load_errors(&self, actual: &[Diagnostic]) -> Vec<String> {
        let mut codes: Vec<&str> = actual.iter().map(|diagnostic| diagnostic.code.as_str()).collect();
        codes.sort_unstable();
        codes.dedup();
        match &self.diagnostic_codes {
            Some(expected) if *expected == codes => Vec::new(),
            Some(expected) => vec![format!("faults: expected {}, got {}", expected.join(", "), codes.join(", "))],
            None => vec!["the policy does not load".into()],
        }
    }
}

fn check_decision(decision: &str, node: &SyntaxNode, reader: &mut CaseFileReader) {
    if !DECISION_WORDS.contains(&decision) {
        let message = format!("`{decision}` is not a decision");
        reader.report(DiagnosticCode::UnknownWord, node.span.clone(), &message, "write `allow`, `deny` or `approve`");
    }
}

fn read_charges(node: &SyntaxNode, reader: &mut CaseFileReader) -> Option<Vec<Vec<(String, String)>>> {
    let node = node.get("charges")?;
    let SyntaxNodeValue::List(items) = &node.value else {
        reader.report(
            DiagnosticCode::WrongType,
            first_char_span(node),
            "`charges` must be a list",
            "such as `[{counter: spend}]`, or `[]` for none",
        );
        return None;
    };
    let mut charges = Vec::new();
    for item in items {
        match &item.value {
            SyntaxNodeValue::Map(entries) if !entries.is_empty() => {
                charges.push(entries.iter().map(|entry| (entry.key.clone(), entry.value.to_json())).collect());
            }
            _ => {
                let message = "a charge must be an object with at least one member";
                reader.report(
                    DiagnosticCode::WrongType,
                    first_char_span(item),
                    message,
                    "such as `{counter: spend, amount: 5}`",
                );
            }
        }
    }
    Some(charges)
}

fn read_expected_codes(node: &SyntaxNode, reader: &mut CaseFileReader) -> Option<Vec<String>> {
    let node = node.get("faults")?;
    let SyntaxNodeValue::List(items) = &node.value else {
        reader.report(
            DiagnosticCode::WrongType,
            first_char_span(node),
            "`faults` must be a list of codes",
            "such as `[unknown-field]`",
        );
        return None;
    };
    let mut codes = Vec::new();
    for item in items {
        match &item.value {
            SyntaxNodeValue::Text(code) => codes.push(code.clone()),
            _ => {
                let message = "a member of `faults` must be a diagnostic code";
                reader.report(DiagnosticCode::WrongType, first_char_span(item), message, "such as `unknown-field`");
            }
        }
    }
    codes.sort_unstable();
    Some(codes)
}

fn quote_or_none(text: Option<&str>) -> String {
    text.map_or_else(|| "none".into(), |text| format!("`{text}`"))
}
