//! Parses rule blocks.

use std::ops::Range;
use std::sync::Arc;

use super::PolicyParser;
use super::limit_parser::{read_limit, read_rate_limit};
use super::predicate_parser::read_predicate;
use crate::compile::compiled_policy::{BlockAction, Predicate, RuleBlock};
use crate::compile::limit::ALL_TOOLS_COUNTER_PREFIX;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, DiagnosticSink};
use crate::syntax::field_reader::{
    check_field_names, read_entries, read_list, read_text, read_word, report_wrong_type,
};
use crate::syntax::syntax_tree::{SyntaxMapEntry, SyntaxNode, SyntaxNodeValue};

/// The fields of a rule block.
pub(crate) const BLOCK_FIELDS: [&str; 8] =
    ["action", "reason", "require", "deny_if", "approve_if", "limits", "rate_limit", "validate_arguments"];

/// Maximum number of limits per block. There is a maximum because every call compares all pairs of limits.
const MAX_LIMITS_PER_BLOCK: usize = 100;

/// The part of a policy that contains a block. Some of a block's fields are valid only in certain parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RuleBlockKind {
    Tool,
    Category,
    AllTools,
    Resource,
    Prompt,
}

impl RuleBlockKind {
    pub fn is_for_tools(self) -> bool {
        match self {
            Self::Tool | Self::Category | Self::AllTools => true,
            Self::Resource | Self::Prompt => false,
        }
    }
}

/// Returns a block that has only an action.
pub(super) fn empty_block(pointer: Arc<str>, span: Range<usize>, action: BlockAction) -> RuleBlock {
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

pub(super) fn read_block(
    entry: &SyntaxMapEntry,
    pointer: Arc<str>,
    place: RuleBlockKind,
    parser: &mut PolicyParser,
) -> RuleBlock {
    let (node, span) = (&entry.value, entry.key_span.clone());
    let fields = read_entries(node, "a rule block", parser);
    check_field_names(fields, &BLOCK_FIELDS, "a rule block", parser);
    let mut block = empty_block(pointer, span, BlockAction::Allow);
    for field in fields {
        let value = &field.value;
        match field.key.as_str() {
            "action" => {
                block.action = read_word(value, "action", BlockAction::WORDS, BlockAction::from_word, parser)
                    .unwrap_or(BlockAction::Deny)
            }
            "reason" => block.reason = read_text(value, "reason", parser).map(Into::into),
            "require" => block.require = read_predicates(field, &block.pointer, place, parser),
            "deny_if" => block.deny_if = read_predicates(field, &block.pointer, place, parser),
            "approve_if" => block.approve_if = read_predicates(field, &block.pointer, place, parser),
            "validate_arguments" => block.validate_arguments = read_validate_arguments(field, place, parser),
            _ => {}
        }
    }
    add_limits(&mut block, node, place, parser);
    block
}

fn read_predicates(
    field: &SyntaxMapEntry,
    block: &str,
    place: RuleBlockKind,
    parser: &mut PolicyParser,
) -> Vec<Predicate> {
    let items = read_list(&field.value, &field.key, parser);
    let at = |(at, item)| read_predicate(item, format!("{block}/{}/{at}", field.key).into(), place, parser);
    items.iter().enumerate().map(at).collect()
}

fn read_validate_arguments(field: &SyntaxMapEntry, place: RuleBlockKind, parser: &mut PolicyParser) -> bool {
    if !place.is_for_tools() {
        refuse_tool_only_field(field, "only tools have an input schema", parser);
    }
    match field.value.value {
        SyntaxNodeValue::Bool(value) => value,
        _ => {
            report_wrong_type(&field.value, "`validate_arguments`", "true or false", parser);
            true
        }
    }
}

/// Adds all `limits` in document order and then `rate_limit`, even if `rate_limit` comes first in the document.
fn add_limits(block: &mut RuleBlock, node: &SyntaxNode, place: RuleBlockKind, parser: &mut PolicyParser) {
    let field = |name: &str| match &node.value {
        SyntaxNodeValue::Map(entries) => entries.iter().find(|entry| entry.key == name),
        _ => None,
    };
    if let Some(limits) = field("limits") {
        refuse_too_many_limits(&limits.value, parser);
        for (at, item) in read_list(&limits.value, "limits", parser).iter().enumerate().take(MAX_LIMITS_PER_BLOCK) {
            let pointer = format!("{}/limits/{at}", block.pointer).into();
            block.limits.extend(read_limit(item, pointer, parser).map(Arc::new));
        }
    }
    if let Some(rate) = field("rate_limit") {
        if !place.is_for_tools() {
            return refuse_tool_only_field(rate, "write the same as one of `limits`", parser);
        }
        let prefix = if place == RuleBlockKind::AllTools { ALL_TOOLS_COUNTER_PREFIX } else { "" };
        let pointer = format!("{}/rate_limit", block.pointer).into();
        block.limits.extend(read_rate_limit(&rate.value, pointer, prefix, parser).map(Arc::new));
    }
}

fn refuse_too_many_limits(limits: &SyntaxNode, parser: &mut PolicyParser) {
    if matches!(&limits.value, SyntaxNodeValue::List(items) if items.len() > MAX_LIMITS_PER_BLOCK) {
        let span = limits.span.start..limits.span.start + 1;
        let diagnostic = Diagnostic::error(
            DiagnosticCode::TooLarge,
            span,
            format!("more than {MAX_LIMITS_PER_BLOCK} limits in one block"),
        );
        parser.report(diagnostic.with_help("one limit per counter is enough: the smallest one applies"));
    }
}

fn refuse_tool_only_field(field: &SyntaxMapEntry, help: &str, parser: &mut PolicyParser) {
    let message = format!("`{}` is for tools; it has no meaning for resources and prompts", field.key);
    parser.report(Diagnostic::error(DiagnosticCode::UnknownField, field.key_span.clone(), message).with_help(help));
}
