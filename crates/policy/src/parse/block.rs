//! Rule blocks.

use std::ops::Range;
use std::sync::Arc;

use super::Parser;
use super::field::{check_names, entries, list, text, word, wrong_type};
use super::limit::{limit, rate_limit};
use super::predicate::predicate;
use crate::compiled_policy::{Action, Predicate, RuleBlock};
use crate::diagnostic::{Diagnostic, DiagnosticCode};
use crate::limit::ALL_TOOLS_COUNTER_PREFIX;
use crate::syntax_tree::{MapEntry, NodeValue, SyntaxNode};

/// The fields of a rule block.
pub(crate) const FIELDS: [&str; 8] =
    ["action", "reason", "require", "deny_if", "approve_if", "limits", "rate_limit", "validate_arguments"];

/// More limits in one block than this are refused: each is compared with each in every call.
const MAX_LIMITS: usize = 100;

/// Where a block stands; not every field makes sense everywhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Tool,
    Category,
    AllTools,
    Resource,
    Prompt,
}

impl Place {
    pub fn is_for_tools(self) -> bool {
        match self {
            Self::Tool | Self::Category | Self::AllTools => true,
            Self::Resource | Self::Prompt => false,
        }
    }
}

/// A block that only has an action.
pub(super) fn plain(pointer: Arc<str>, span: Range<usize>, action: Action) -> RuleBlock {
    RuleBlock {
        pointer,
        span,
        action,
        reason: None,
        require: Vec::new(),
        deny_if: Vec::new(),
        approve_if: Vec::new(),
        limits: Vec::new(),
        validate_arguments: false,
    }
}

pub(super) fn block(entry: &MapEntry, pointer: Arc<str>, place: Place, parser: &mut Parser) -> RuleBlock {
    let (node, span) = (&entry.value, entry.key_span.clone());
    let fields = entries(node, "a rule block", parser);
    check_names(fields, &FIELDS, "a rule block", parser);
    let mut block = plain(pointer, span, Action::Allow);
    for field in fields {
        let value = &field.value;
        match field.key.as_str() {
            "action" => {
                block.action = word(value, "action", Action::WORDS, Action::from_word, parser).unwrap_or(Action::Deny)
            }
            "reason" => block.reason = text(value, "reason", parser).map(Into::into),
            "require" => block.require = predicates(field, &block.pointer, place, parser),
            "deny_if" => block.deny_if = predicates(field, &block.pointer, place, parser),
            "approve_if" => block.approve_if = predicates(field, &block.pointer, place, parser),
            "validate_arguments" => block.validate_arguments = flag(field, place, parser),
            _ => {}
        }
    }
    add_limits(&mut block, node, place, parser);
    block
}

fn predicates(field: &MapEntry, block: &str, place: Place, parser: &mut Parser) -> Vec<Predicate> {
    let items = list(&field.value, &field.key, parser);
    let at = |(at, item)| predicate(item, format!("{block}/{}/{at}", field.key).into(), place, parser);
    items.iter().enumerate().map(at).collect()
}

fn flag(field: &MapEntry, place: Place, parser: &mut Parser) -> bool {
    if !place.is_for_tools() {
        refuse_here(field, "only tools have an input schema", parser);
    }
    match field.value.value {
        NodeValue::Bool(value) => value,
        _ => {
            wrong_type(&field.value, "`validate_arguments`", "true or false", parser);
            true
        }
    }
}

/// `limits` in their order, then `rate_limit`, however the two are written.
fn add_limits(block: &mut RuleBlock, node: &SyntaxNode, place: Place, parser: &mut Parser) {
    let field = |name: &str| match &node.value {
        NodeValue::Map(entries) => entries.iter().find(|entry| entry.key == name),
        _ => None,
    };
    if let Some(limits) = field("limits") {
        refuse_many(&limits.value, parser);
        for (at, item) in list(&limits.value, "limits", parser).iter().enumerate().take(MAX_LIMITS) {
            let pointer = format!("{}/limits/{at}", block.pointer).into();
            block.limits.extend(limit(item, pointer, parser).map(Arc::new));
        }
    }
    if let Some(rate) = field("rate_limit") {
        if !place.is_for_tools() {
            return refuse_here(rate, "write the same as one of `limits`", parser);
        }
        let prefix = if place == Place::AllTools { ALL_TOOLS_COUNTER_PREFIX } else { "" };
        let pointer = format!("{}/rate_limit", block.pointer).into();
        block.limits.extend(rate_limit(&rate.value, pointer, prefix, parser).map(Arc::new));
    }
}

fn refuse_many(limits: &SyntaxNode, parser: &mut Parser) {
    if matches!(&limits.value, NodeValue::List(items) if items.len() > MAX_LIMITS) {
        let span = limits.span.start..limits.span.start + 1;
        let fault =
            Diagnostic::error(DiagnosticCode::TooLarge, span, format!("more than {MAX_LIMITS} limits in one block"));
        parser.report(fault.with_help("one limit for each counter is enough: the smallest rules"));
    }
}

fn refuse_here(field: &MapEntry, help: &str, parser: &mut Parser) {
    let message = format!("`{}` is for tools; it has no meaning for resources and prompts", field.key);
    parser.report(Diagnostic::error(DiagnosticCode::UnknownField, field.key_span.clone(), message).with_help(help));
}
