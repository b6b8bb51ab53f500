//! Parses predicates and conditions: paths, operators and their values.

use std::ops::Range;
use std::sync::Arc;

use gatelodge_json::Decimal;
use regex::{Regex, RegexBuilder};

use super::PolicyParser;
use super::rule_block_parser::RuleBlockKind;
use crate::call::call_path::CallPath;
use crate::compile::compiled_policy::Predicate;
use crate::compile::condition::{CompiledOperator, Condition, Operator};
use crate::compile::limit::Amount;
use crate::operators::host_in::HostPattern;
use crate::operators::path_within::DirectoryPath;
use crate::operators::scalar::{DecimalText, ScalarSet};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, DiagnosticSink};
use crate::syntax::field_reader::{
    check_field_names, read_entries, read_list, read_text, report_wrong_type, suggest_word,
};
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
    let compiled = compile_operator(operator, value, parser)?;
    Some(Condition { path: path?, operator, compiled, expected_json: value.to_json().into(), span: node.span.clone() })
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

fn read_operator(node: &SyntaxNode, parser: &mut PolicyParser) -> Option<Operator> {
    let word = read_text(node, "op", parser)?;
    let found = Operator::from_word(word);
    if found.is_none() {
        let diagnostic = Diagnostic::error(
            DiagnosticCode::UnknownOperator,
            node.span.clone(),
            format!("`{word}` is not an operator"),
        );
        parser.report(diagnostic.with_help(suggest_word(word, Operator::WORDS)));
    }
    found
}

fn compile_operator(operator: Operator, value: &SyntaxNode, parser: &mut PolicyParser) -> Option<CompiledOperator> {
    Some(match operator {
        Operator::Eq => CompiledOperator::MemberOf { members: read_scalar(value, operator, parser)?, negated: false },
        Operator::Neq => CompiledOperator::MemberOf { members: read_scalar(value, operator, parser)?, negated: true },
        Operator::In => CompiledOperator::MemberOf { members: read_scalars(value, operator, parser)?, negated: false },
        Operator::NotIn => {
            CompiledOperator::MemberOf { members: read_scalars(value, operator, parser)?, negated: true }
        }
        Operator::Lt => CompiledOperator::Less(read_number(value, operator, parser)?),
        Operator::Lte => CompiledOperator::LessOrEqual(read_number(value, operator, parser)?),
        Operator::Gt => CompiledOperator::Greater(read_number(value, operator, parser)?),
        Operator::Gte => CompiledOperator::GreaterOrEqual(read_number(value, operator, parser)?),
        Operator::Contains => CompiledOperator::Contains(read_scalar(value, operator, parser)?),
        Operator::StartsWith => CompiledOperator::StartsWith(read_string(value, operator, parser)?.to_owned()),
        Operator::EndsWith => CompiledOperator::EndsWith(read_string(value, operator, parser)?.to_owned()),
        Operator::Regex => {
            let pattern = read_string(value, operator, parser)?;
            CompiledOperator::Regex(Box::new(compile_regex(pattern, &value.span, parser)?))
        }
        Operator::Exists => match value.value {
            SyntaxNodeValue::Bool(expected) => CompiledOperator::Exists(expected),
            _ => return report_wrong_value(value, operator, "true or false", parser),
        },
        Operator::LengthLte => CompiledOperator::LengthAtMost(read_length(value, parser)?),
        Operator::SubsetOf => CompiledOperator::SubsetOf(read_scalars(value, operator, parser)?),
        Operator::PathWithin => CompiledOperator::PathWithin(read_directory(value, parser)?),
        Operator::HostIn => CompiledOperator::HostIn(read_hosts(value, parser)?),
    })
}

fn report_wrong_value<T>(value: &SyntaxNode, operator: Operator, wanted: &str, parser: &mut PolicyParser) -> Option<T> {
    report_wrong_type(value, &format!("the value of `{operator}`"), wanted, parser);
    None
}

fn read_string<'n>(value: &'n SyntaxNode, operator: Operator, parser: &mut PolicyParser) -> Option<&'n str> {
    match &value.value {
        SyntaxNodeValue::Text(text) => Some(text),
        _ => report_wrong_value(value, operator, "a string", parser),
    }
}

fn read_number(value: &SyntaxNode, operator: Operator, parser: &mut PolicyParser) -> Option<DecimalText> {
    match &value.value {
        SyntaxNodeValue::Number(text) => DecimalText::new(text),
        _ => report_wrong_value(value, operator, "a number", parser),
    }
}

fn add_scalar(scalars: &mut ScalarSet, node: &SyntaxNode) -> Option<()> {
    match &node.value {
        SyntaxNodeValue::Text(text) => scalars.add_text(text),
        // A number out of range has already been reported.
        SyntaxNodeValue::Number(text) => {
            DecimalText::new(text).into_iter().for_each(|number| scalars.add_number(number))
        }
        SyntaxNodeValue::Bool(value) => scalars.add_bool(*value),
        SyntaxNodeValue::Null | SyntaxNodeValue::List(_) | SyntaxNodeValue::Map(_) => return None,
    }
    Some(())
}

fn read_scalar(value: &SyntaxNode, operator: Operator, parser: &mut PolicyParser) -> Option<ScalarSet> {
    let mut scalars = ScalarSet::default();
    match add_scalar(&mut scalars, value) {
        Some(()) => Some(scalars),
        None => report_wrong_value(value, operator, "a string, a number or a boolean", parser),
    }
}

fn read_members<'n>(value: &'n SyntaxNode, operator: Operator, parser: &mut PolicyParser) -> Option<&'n [SyntaxNode]> {
    match &value.value {
        SyntaxNodeValue::List(items) if items.is_empty() => {
            let message = format!("the list of `{operator}` is empty, so it could never hold");
            let span = value.span.clone();
            parser.report(
                Diagnostic::error(DiagnosticCode::EmptyList, span, message).with_help("name at least one member"),
            );
            None
        }
        SyntaxNodeValue::List(items) => Some(items),
        _ => report_wrong_value(value, operator, "a list", parser),
    }
}

fn read_scalars(value: &SyntaxNode, operator: Operator, parser: &mut PolicyParser) -> Option<ScalarSet> {
    let mut scalars = ScalarSet::default();
    for item in read_members(value, operator, parser)? {
        if add_scalar(&mut scalars, item).is_none() {
            report_wrong_type(item, &format!("a member of `{operator}`"), "a string, a number or a boolean", parser);
        }
    }
    Some(scalars.sorted())
}

fn read_length(value: &SyntaxNode, parser: &mut PolicyParser) -> Option<u64> {
    let number = read_number(value, Operator::LengthLte, parser)?;
    let decimal = number.value();
    if decimal.is_negative() || !decimal.is_integer() {
        let message = "the value of `length_lte` must be a non-negative whole number";
        parser.report(
            Diagnostic::error(DiagnosticCode::BadValue, value.span.clone(), message)
                .with_help("write a number such as 200"),
        );
        return None;
    }
    // Any larger value is longer than every text.
    let fits = Amount::new(decimal).and_then(|amount| u64::try_from(amount.billionths() / 1_000_000_000).ok());
    Some(fits.unwrap_or(u64::MAX))
}

fn read_directory(value: &SyntaxNode, parser: &mut PolicyParser) -> Option<DirectoryPath> {
    let text = read_string(value, Operator::PathWithin, parser)?;
    let directory = DirectoryPath::new(text);
    if directory.is_none() {
        let (message, help) = if text.contains('\\') {
            (
                format!("`{text}` has a backslash in it"),
                "write it with slashes, such as `/srv/files`; nothing is escaped",
            )
        } else if text.contains('\0') {
            ("the directory has a NUL character in it".to_owned(), "remove it")
        } else {
            (
                format!("`{text}` is not an absolute directory"),
                "write a path that begins with a slash, such as `/srv/files`",
            )
        };
        parser.report(Diagnostic::error(DiagnosticCode::BadValue, value.span.clone(), message).with_help(help));
    }
    directory
}

fn read_hosts(value: &SyntaxNode, parser: &mut PolicyParser) -> Option<Vec<HostPattern>> {
    let mut hosts = Vec::new();
    for item in read_members(value, Operator::HostIn, parser)? {
        let Some(member) = read_text(item, "a member of `host_in`", parser) else { continue };
        match HostPattern::new(member) {
            Some(host) => hosts.push(host),
            None => {
                let diagnostic =
                    Diagnostic::error(DiagnosticCode::BadValue, item.span.clone(), format!("`{member}` is not a host"));
                parser.report(
                    diagnostic.with_help("write `example.com`, `*.example.com` or `example.com:8443`, in ASCII"),
                );
            }
        }
    }
    Some(hosts)
}

/// Memory budget for all regular expressions in one document.
pub(crate) struct RegexBudget {
    remaining_bytes: usize,
}

impl Default for RegexBudget {
    fn default() -> Self {
        Self { remaining_bytes: 256 << 20 }
    }
}

/// Size limits for compiled patterns. They are tried in ascending order, so that no pattern takes much more of the
/// budget than it needs.
const REGEX_SIZE_STEPS_BYTES: [usize; 5] = [8 << 10, 64 << 10, USUAL_REGEX_BYTES, 4 << 20, 16 << 20];
/// Patterns above this size must be limited to short matches. Otherwise, a pattern of 16 MiB could take half a second
/// to search 64 KiB of text.
const USUAL_REGEX_BYTES: usize = 1 << 20;
/// Maximum match length of a large pattern, in bytes. For example, `^[\w.-]{1,255}$` matches up to 1,020 bytes.
const MAX_SHORT_MATCH_BYTES: usize = 4_096;

fn compile_regex(pattern: &str, span: &Range<usize>, parser: &mut PolicyParser) -> Option<Regex> {
    for size in REGEX_SIZE_STEPS_BYTES {
        if size > USUAL_REGEX_BYTES && !has_short_match(pattern) {
            break;
        }
        // Failed attempts are charged, too. Once the budget is used up, nothing more is tried.
        if size > parser.regex_budget.remaining_bytes {
            break;
        }
        match RegexBuilder::new(pattern).size_limit(size).build() {
            Ok(regex) => {
                parser.regex_budget.remaining_bytes -= size;
                return Some(regex);
            }
            Err(regex::Error::CompiledTooBig(_)) => {
                parser.regex_budget.remaining_bytes = parser.regex_budget.remaining_bytes.saturating_sub(size)
            }
            Err(error) => {
                let whole = error.to_string();
                let what = whole.lines().last().unwrap_or_default().trim_start_matches("error: ");
                let diagnostic = Diagnostic::error(
                    DiagnosticCode::BadRegex,
                    span.clone(),
                    format!("this is not a regular expression: {what}"),
                );
                parser.report(
                    diagnostic.with_help("the syntax is that of Rust's `regex`: no look-around, no back-references"),
                );
                return None;
            }
        }
    }
    let message = "the regular expression is too large to compile";
    let diagnostic = Diagnostic::error(DiagnosticCode::LargeRegex, span.clone(), message);
    let help = "write ASCII classes, such as `[0-9A-Za-z_]` for `\\w` and `[0-9]` for `\\d`, which are far smaller; or fewer \
                repetitions, with an additional `length_lte`";
    parser.report(diagnostic.with_help(help));
    None
}

/// Returns whether a pattern matches only at the start of a string, with matches of at most [`MAX_SHORT_MATCH_BYTES`].
fn has_short_match(pattern: &str) -> bool {
    let Ok(parsed) = regex_syntax::parse(pattern) else { return false };
    let properties = parsed.properties();
    let starts = properties.look_set_prefix().contains(regex_syntax::hir::Look::Start);
    starts && properties.maximum_len().is_some_and(|length| length <= MAX_SHORT_MATCH_BYTES)
}

/// Parses an amount greater than zero, for limits.
pub(super) fn parse_positive_amount(text: &str) -> Option<Amount> {
    Decimal::new(text).and_then(Amount::new).filter(|amount| !amount.is_zero())
}
