//! Converts Intercept's conditions: paths, operators and values. A converted condition holds only if the original does,
//! except for numbers that Intercept cannot distinguish.

use std::ops::Range;

use gatelodge_json::{Decimal, JsonKind};
use regex::RegexBuilder;

use super::go_regex::translate_go_regex;
use super::intercept_counter_import::{CounterBound, InterceptImportCounter};
use super::{ImportNoteKind, InterceptImporter, quoted};
use crate::operators::Operator;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::syntax_tree::{SyntaxNode, SyntaxNodeValue};

const CONDITION_FIELDS: [&str; 3] = ["path", "op", "value"];
/// Intercept's operators. This crate supports all of them.
const INTERCEPT_OPERATORS: [&str; 11] =
    ["eq", "neq", "in", "not_in", "lt", "lte", "gt", "gte", "regex", "contains", "exists"];

/// Maximum compiled size of a pattern in bytes, which is also the usual limit in policies.
const MAX_REGEX_BYTES: usize = 1 << 20;

const FLOAT_LOOSER_NOTE: &str = "numbers were compared as floats with about 16 digits; here every digit counts. Numbers that are equal as floats, \
     such as 9.99999999999999999 and 10, failed `lt`, `gt`, `neq` and `not_in`, and now satisfy them: if that \
     matters, write a stricter bound with `lte` or `gte`";
const FLOAT_STRICTER_NOTE: &str = "numbers were compared as floats with about 16 digits; here every digit counts. Numbers that are equal as floats, \
     such as 10.0000000000000001 and 10, satisfied `lte`, `gte`, `eq` and `in`, and now fail them";

/// Result of converting a condition.
pub(super) enum ConditionImportResult {
    /// A condition, as JSON.
    Condition(String),
    /// A bound on the rule's own counter.
    Bound(CounterBound),
    /// The condition cannot be expressed; the string says why.
    Unsupported(String),
}

/// Converts one condition. `None` if it is invalid; the diagnostics then say why.
pub(super) fn convert_condition(
    importer: &mut InterceptImporter,
    node: &SyntaxNode,
    counter: Option<&InterceptImportCounter>,
) -> Option<ConditionImportResult> {
    let SyntaxNodeValue::Map(fields) = &node.value else {
        importer.report_wrong_type(node, "a condition", "an object");
        return None;
    };
    importer.check_field_names(fields, &CONDITION_FIELDS, "a condition");
    let path = importer.read_text(node, "path");
    let word = importer.read_text(node, "op");
    for (name, _) in [("path", &path), ("op", &word)].iter().filter(|(_, text)| text.is_none()) {
        importer.report_missing(node, name, "a condition has `path`, `op` and `value`");
    }
    let operator = read_operator(importer, node, &word?)?;
    let null = SyntaxNode { value: SyntaxNodeValue::Null, span: node.span.clone() };
    let value = node.get("value").unwrap_or(&null);
    check_value(importer, operator, value)?;
    let (path, path_span) = (path?, &node.get("path")?.span);
    if let Some(keys) = path.strip_prefix("args.") {
        let path = convert_args_path(importer, keys, path_span);
        return Some(convert_argument_condition(importer, &path, operator, value));
    }
    let Some(key) = path.strip_prefix("state.").filter(|key| key.contains('.')) else {
        let diagnostic =
            Diagnostic::error(DiagnosticCode::BadPath, path_span.clone(), format!("`{path}` is not a valid path"));
        importer.report(diagnostic.with_help("paths begin with `args.` or `state.<tool>.<counter>`"));
        return None;
    };
    importer.counter_references.push((key.to_owned(), path_span.clone()));
    let is_own = counter.is_some_and(|counter| counter.key == key);
    Some(match (operator, &value.value) {
        (Operator::Lt, SyntaxNodeValue::Number(text)) if is_own => {
            ConditionImportResult::Bound(CounterBound::Below(text.clone()))
        }
        (Operator::Lte, SyntaxNodeValue::Number(text)) if is_own => {
            ConditionImportResult::Bound(CounterBound::AtMost(text.clone()))
        }
        _ if is_own => ConditionImportResult::Unsupported(format!("`{operator}` on a counter cannot be expressed")),
        _ => ConditionImportResult::Unsupported("a counter of another rule cannot be read".into()),
    })
}

fn read_operator(importer: &mut InterceptImporter, node: &SyntaxNode, word: &str) -> Option<Operator> {
    let place = node.get("op").unwrap_or(node);
    let find = |word: &str| Operator::from_word(word).filter(|_| INTERCEPT_OPERATORS.contains(&word));
    importer.read_word(place, word, "op", &INTERCEPT_OPERATORS, find)
}

/// Reports values that the operator cannot use. Intercept rejects the same values.
fn check_value(importer: &mut InterceptImporter, operator: Operator, value: &SyntaxNode) -> Option<()> {
    let (kind, wanted) = match operator {
        Operator::In | Operator::NotIn => (JsonKind::Array, "a list"),
        Operator::Lt | Operator::Lte | Operator::Gt | Operator::Gte => (JsonKind::Number, "a number"),
        Operator::Exists => (JsonKind::Bool, "true or false"),
        Operator::Regex => (JsonKind::String, "a string"),
        _ => return Some(()),
    };
    if value.kind() != kind {
        importer.report_wrong_type(value, &format!("the value of `{operator}`"), wanted);
        return None;
    }
    Some(())
}

/// Converts a path: dots separate keys, everything else belongs to a key.
pub(super) fn convert_args_path(importer: &mut InterceptImporter, keys: &str, span: &Range<usize>) -> String {
    let mut path = String::from("args");
    for key in keys.split('.') {
        if key.is_empty() || key.contains(['[', ']', '"']) {
            let message = match key {
                "" => {
                    "there is an empty key between two dots or after the last one; it is written as `[\"\"]`: correct the path if \
                       that is not intended"
                        .to_owned()
                }
                _ => format!("`{key}` was one key including the brackets; to select list elements, write `[0]` or `[*]`"),
            };
            importer.add_note(ImportNoteKind::Exact, span, message);
            path.push_str(&format!("[{}]", quoted(key)));
        } else {
            path.push_str(&format!(".{key}"));
        }
    }
    path
}

fn convert_argument_condition(
    importer: &mut InterceptImporter,
    path: &str,
    operator: Operator,
    value: &SyntaxNode,
) -> ConditionImportResult {
    let condition = |operator: Operator, value: &str| {
        ConditionImportResult::Condition(format!(
            "{{\"path\": {}, \"op\": \"{operator}\", \"value\": {value}}}",
            quoted(path)
        ))
    };
    match (operator, &value.value) {
        (Operator::NotIn, SyntaxNodeValue::List(items)) if items.is_empty() => {
            let message = "`not_in` with an empty list held for any value that is present; it becomes `exists`";
            importer.add_note(ImportNoteKind::Changed, &value.span, message);
            condition(Operator::Exists, "true")
        }
        (Operator::In, SyntaxNodeValue::List(items)) if items.is_empty() => {
            ConditionImportResult::Unsupported("`in` with an empty list never holds".into())
        }
        (Operator::In | Operator::NotIn, SyntaxNodeValue::List(items)) => {
            match unsupported_members_reason(operator, items) {
                Some(why) => ConditionImportResult::Unsupported(why),
                None => {
                    note_types(importer, operator, items, value);
                    note_digits(importer, operator, items, value);
                    condition(operator, &value.to_json())
                }
            }
        }
        (Operator::Regex, SyntaxNodeValue::Text(pattern)) => convert_regex(importer, pattern, value, condition),
        (_, SyntaxNodeValue::Null | SyntaxNodeValue::List(_) | SyntaxNodeValue::Map(_)) => {
            ConditionImportResult::Unsupported(format!(
                "`{operator}` cannot compare with {}",
                value.kind().with_article()
            ))
        }
        _ => {
            note_types(importer, operator, std::slice::from_ref(value), value);
            note_digits(importer, operator, std::slice::from_ref(value), value);
            condition(operator, &value.to_json())
        }
    }
}

/// Returns why the elements of a condition's list cannot be converted, or `None` if they can.
fn unsupported_members_reason(operator: Operator, items: &[SyntaxNode]) -> Option<String> {
    let is_scalar = |item: &SyntaxNode| matches!(item.kind(), JsonKind::String | JsonKind::Number | JsonKind::Bool);
    if let Some(item) = items.iter().find(|item| !is_scalar(item)) {
        return Some(format!("`{operator}` cannot compare with {}", item.kind().with_article()));
    }
    let first = items.first().map(SyntaxNode::kind);
    // Intercept treats 5 and "5" as equal. Here, a number that is not in the list would pass because the list also has
    // strings.
    let is_mixed = items.iter().any(|item| Some(item.kind()) != first);
    (operator == Operator::NotIn && is_mixed)
        .then(|| "`not_in` with a list of several types cannot be expressed".into())
}

/// Adds a note that values of different types are never equal, unlike in Intercept, if this can affect the condition.
fn note_types(importer: &mut InterceptImporter, operator: Operator, items: &[SyntaxNode], value: &SyntaxNode) {
    let has_equal_in_other_type = |item: &SyntaxNode| match &item.value {
        SyntaxNodeValue::Text(text) => Decimal::new(text).is_some() || matches!(text.as_str(), "true" | "false"),
        _ => true,
    };
    let matters = match operator {
        Operator::Neq | Operator::NotIn => true,
        Operator::Eq | Operator::In | Operator::Contains => items.iter().any(has_equal_in_other_type),
        _ => false,
    };
    if matters {
        let message = "values of different types were compared as strings, so 5 was equal to \"5\"; here a value of a different type \
                       than the rule's denies the call: use the type in the tool's schema";
        importer.add_note_once(ImportNoteKind::Changed, &value.span, message);
    }
}

/// Adds a note that numbers are compared exactly. Intercept compares floats, and two different numbers can round to the
/// same float. An imported `neq` may therefore match where Intercept's did not, and an `eq` may no longer match.
fn note_digits(importer: &mut InterceptImporter, operator: Operator, items: &[SyntaxNode], value: &SyntaxNode) {
    if items.iter().all(|item| item.kind() != JsonKind::Number) {
        return;
    }
    match operator {
        Operator::Lt | Operator::Gt | Operator::Neq | Operator::NotIn => {
            importer.add_note_once(ImportNoteKind::Looser, &value.span, FLOAT_LOOSER_NOTE);
        }
        _ => importer.add_note_once(ImportNoteKind::Changed, &value.span, FLOAT_STRICTER_NOTE),
    }
}

fn convert_regex(
    importer: &mut InterceptImporter,
    pattern: &str,
    value: &SyntaxNode,
    condition: impl Fn(Operator, &str) -> ConditionImportResult,
) -> ConditionImportResult {
    let translated = match translate_go_regex(pattern) {
        Ok(translated) => translated,
        Err(why) => {
            return ConditionImportResult::Unsupported(format!(
                "{why} in a regular expression cannot be expressed here"
            ));
        }
    };
    if let Err(error) = RegexBuilder::new(&translated).size_limit(MAX_REGEX_BYTES).build() {
        let whole = error.to_string();
        let what = whole.lines().last().unwrap_or_default().trim_start_matches("error: ");
        let message = format!("this is not a regular expression: {what}");
        let help = "fix it; the syntax is that of Go's `regexp`: no look-around, no back-references";
        importer.report(Diagnostic::error(DiagnosticCode::BadRegex, value.span.clone(), message).with_help(help));
    }
    if translated != pattern {
        let message = format!("`{pattern}` is written as `{translated}`, which matches the same texts here");
        importer.add_note(ImportNoteKind::Exact, &value.span, message);
    }
    condition(Operator::Regex, &quoted(&translated))
}
