//! Parses predicates and conditions: paths, operators and their values.

use std::sync::Arc;

use super::PolicyParser;
use super::rule_block_parser::RuleBlockKind;
use crate::call::call_path::CallPath;
use crate::compile::compiled_policy::Predicate;
use crate::compile::condition::Condition;
use crate::operators::{CompiledOperator, ExpectedValueReader, Operator};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, DiagnosticSink};
use crate::syntax::field_reader::{check_field_names, read_entries, read_list, read_text, suggest_word};
use crate::syntax::syntax_tree::{SyntaxNode, SyntaxNodeValue};

pub(crate) const PREDICATE_FIELDS: [&str; 2] = ["conditions", "on_deny"];
pub(crate) const CONDITION_FIELDS: [&str; 3] = ["path", "op", "value"];

pub(super) fn read_predicate(
    node: &SyntaxNode,
    pointer: Arc<str>,
    place: RuleBlockKind,
    parser: &mut PolicyParser,
) -> Predicate {
    let fields = read_entries(node, "a predicate", parser);
    let on_deny = node.get("on_deny").and_then(|text_node| read_text(text_node, "on_deny", parser)).map(Into::into);
    let Some(written) = node.get("conditions") else {
        // A bare condition is a predicate with one condition.
        let known: Vec<&str> = CONDITION_FIELDS.iter().copied().chain(["on_deny"]).collect();
        check_field_names(fields, &known, "a condition", parser);
        return Predicate {
            pointer,
            span: node.span.clone(),
            conditions: read_condition(node, place, parser).into_iter().collect(),
            on_deny,
        };
    };
    check_field_names(fields, &PREDICATE_FIELDS, "a predicate", parser);
    let mut conditions = Vec::new();
    for item in read_list(written, "conditions", parser) {
        check_field_names(read_entries(item, "a condition", parser), &CONDITION_FIELDS, "a condition", parser);
        conditions.extend(read_condition(item, place, parser));
    }
    // Frees spare capacity: the list is final, and small policies then fit the CPU cache.
    conditions.shrink_to_fit();
    Predicate { pointer, span: node.span.clone(), conditions, on_deny }
}

fn read_condition(node: &SyntaxNode, place: RuleBlockKind, parser: &mut PolicyParser) -> Option<Condition> {
    let SyntaxNodeValue::Map(_) = node.value else { return None };
    for name in CONDITION_FIELDS.iter().filter(|name| node.get(name).is_none()) {
        parser.report_missing(node, name, r#"a condition is {"path": "args.x", "op": "eq", "value": 1}"#);
    }
    let path = node.get("path").and_then(|path| read_shared_path(path, parser));
    if let (Some(path), Some(written)) = (&path, node.get("path"))
        && path.is_tool_fact()
        && !place.is_for_tools()
    {
        let diagnostic =
            Diagnostic::error(DiagnosticCode::BadPath, written.span.clone(), "resources and prompts have no tool");
        parser.report(diagnostic.with_help("use a path under `args`, `server`, `grant`, `client` or `time`"));
    }
    let operator = node.get("op").and_then(|operator| read_operator(operator, parser));
    let (operator, value) = (operator?, node.get("value")?);
    let mut reader = ExpectedValueReader {
        operator,
        value,
        diagnostics: &mut parser.diagnostics,
        regex_budget: &mut parser.regex_budget,
    };
    let operator = CompiledOperator::compile(operator, &mut reader)?;
    Some(Condition { path: path?, operator, expected_json: value.to_json().into(), span: node.span.clone() })
}

fn read_shared_path(node: &SyntaxNode, parser: &mut PolicyParser) -> Option<Arc<CallPath>> {
    let path = read_path(node, parser)?;
    let text = path.to_string().into_boxed_str();
    Some(Arc::clone(parser.paths.entry(text).or_insert_with(|| Arc::new(path))))
}

pub(super) fn read_path(node: &SyntaxNode, parser: &mut PolicyParser) -> Option<CallPath> {
    match CallPath::new(read_text(node, "path", parser)?) {
        Ok(path) => Some(path),
        Err(bad) => {
            parser
                .report(Diagnostic::error(DiagnosticCode::BadPath, node.span.clone(), bad.message).with_help(bad.help));
            None
        }
    }
}

/// Returns help for an operator that does not exist. An operator that begins in the same way is meant more probably than
/// one with similar letters, and a negated one would turn the meaning of the rule around.
fn suggest_operator(word: &str) -> String {
    let is_negated = |word: &str| word.starts_with('n');
    let has_prefix = |operator: &&str| {
        let shared = word.chars().zip(operator.chars()).take_while(|(one, other)| one == other).count();
        shared >= 5
    };
    if let Some(operator) = Operator::WORDS.iter().copied().find(has_prefix) {
        return format!("did you mean `{operator}`?");
    }
    let help = suggest_word(word, Operator::WORDS);
    let suggests_negated = Operator::WORDS
        .iter()
        .any(|operator| is_negated(operator) && !is_negated(word) && help == format!("did you mean `{operator}`?"));
    if !suggests_negated {
        return help;
    }
    let positive: Vec<&str> = Operator::WORDS.iter().copied().filter(|operator| !is_negated(operator)).collect();
    suggest_word(word, &positive)
}

fn read_operator(node: &SyntaxNode, parser: &mut PolicyParser) -> Option<Operator> {
    let word = read_text(node, "op", parser)?;
    let found = Operator::from_word(word);
    if found.is_none() {
        let diagnostic = Diagnostic::error(
            DiagnosticCode::UnknownOperator,
            node.span.clone(),
            format!("`{word}` is not an operator"),
        );
        parser.report(diagnostic.with_help(suggest_operator(word)));
    }
    found
}
