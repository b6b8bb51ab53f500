//! Finds conditions that can never hold, given what is known about the value at their path.

use std::cmp::Ordering;
use std::ops::Range;

use gatelodge_json::Decimal;

use super::did_you_mean::NameSuggester;
use super::located_block::LocatedCondition;
use super::value_shape::{PossibleValues, ValueShape};
use crate::call::call_value::CallValue;
use crate::operators::json_kind_set::JsonKindSet;
use crate::operators::scalar_set::ScalarSet;
use crate::operators::value_restriction::ValueRestriction;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::syntax_tree::{SyntaxNode, SyntaxNodeValue};

/// Maximum number of members reported per list.
const MAX_NAMED_MEMBERS: usize = 8;
/// Maximum number of possible values shown.
const MAX_NAMED_VALUES: usize = 12;

/// A warning that concerns certain tools. The names of the tools are added to it later.
#[derive(Debug, Clone)]
pub(super) struct LintFinding {
    pub code: DiagnosticCode,
    pub span: Range<usize>,
    pub message: String,
    pub help: String,
}

impl LintFinding {
    /// Returns whether two findings for different tools can be reported as one.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.code, &self.span, &self.message) == (other.code, &other.span, &other.message)
    }

    pub fn into_warning(self) -> Diagnostic {
        Diagnostic::warning(self.code, self.span, self.message).with_help(self.help)
    }
}

/// Returns findings about parts of a condition that can never hold, given the shape of the value.
pub(super) fn find_impossible(
    clause: LocatedCondition<'_>,
    shape: &ValueShape<'_>,
    suggester: &mut NameSuggester,
) -> Vec<LintFinding> {
    let restriction = clause.condition.operator.restriction();
    // An empty set of kinds means that only null is possible, which is not checked here.
    if matches!(restriction, ValueRestriction::Presence | ValueRestriction::Absence) || shape.kinds.is_empty() {
        return Vec::new();
    }
    if !shape.kinds.has(clause.condition.operator.accepted_kinds()) {
        return vec![wrong_kind_finding(clause, shape)];
    }
    if let Some(finding) = find_out_of_bounds(clause, shape).or_else(|| find_no_match(clause, shape, suggester)) {
        return vec![finding];
    }
    match restriction {
        ValueRestriction::Member(_) => impossible_members(clause, shape, false, suggester),
        ValueRestriction::NoMember => impossible_members(clause, shape, true, suggester),
        _ => Vec::new(),
    }
}

fn wrong_kind_finding(clause: LocatedCondition<'_>, shape: &ValueShape<'_>) -> LintFinding {
    let condition = clause.condition;
    let (path, operator, kinds) = (&condition.path, condition.operator.operator(), shape.kinds);
    let (span, relation) = match condition.operator.restriction() {
        ValueRestriction::Member(_) | ValueRestriction::NoMember => (clause.value_span(), "compares with"),
        _ => (clause.operator_span(), "needs"),
    };
    LintFinding {
        code: DiagnosticCode::ImpossibleComparison,
        span,
        message: format!("`{path}` is {kinds}, and `{operator}` {relation} {}", condition.operator.accepted_kinds()),
        help: format!("every call that has it is refused; compare it as {kinds}"),
    }
}

/// Finds a comparison that no number within the bounds satisfies.
fn find_out_of_bounds(clause: LocatedCondition<'_>, shape: &ValueShape<'_>) -> Option<LintFinding> {
    let (bound, limit, beyond) = match clause.condition.operator.restriction() {
        ValueRestriction::AtLeast(limit) => (shape.maximum?, limit, Ordering::Greater),
        ValueRestriction::AtMost(limit) => (shape.minimum?, limit, Ordering::Less),
        _ => return None,
    };
    let order = limit.number.value().cmp(&bound.number);
    let can_hold = match order {
        Ordering::Equal => !limit.is_exclusive && !bound.is_exclusive,
        order => order != beyond,
    };
    if can_hold {
        return None;
    }
    let side = match (beyond, bound.is_exclusive) {
        (Ordering::Greater, false) => "at most",
        (Ordering::Greater, true) => "less than",
        (_, false) => "at least",
        (_, true) => "more than",
    };
    let claim =
        format!("`{}` is {side} {}, so `{}` never holds", clause.condition.path, bound.text, clause.operator_text());
    let help = "correct the number, or remove the condition".to_owned();
    Some(LintFinding { code: DiagnosticCode::NeverHolds, span: clause.value_span(), message: claim, help })
}

/// Finds a condition that holds for none of the possible values.
fn find_no_match(
    clause: LocatedCondition<'_>,
    shape: &ValueShape<'_>,
    suggester: &mut NameSuggester,
) -> Option<LintFinding> {
    let PossibleValues::OneOf(values) = &shape.values else { return None };
    if values.operands().any(|value| clause.condition.operator.holds(&value) == Some(true)) {
        return None;
    }
    Some(LintFinding {
        code: DiagnosticCode::NeverHolds,
        span: clause.value_span(),
        message: format!("`{}` never holds for `{}`", clause.operator_text(), clause.condition.path),
        help: possible_values_help(values, clause.members(), suggester),
    })
}

/// Returns findings about list members that the value can never be equal to. Members whose type the value cannot have
/// are skipped, because they may be intentional.
fn impossible_members(
    clause: LocatedCondition<'_>,
    shape: &ValueShape<'_>,
    negated: bool,
    suggester: &mut NameSuggester,
) -> Vec<LintFinding> {
    let can_be = |operand: &CallValue<'_>| match (&shape.values, operand) {
        (PossibleValues::OneOf(values), operand) => values.contains(operand) == Some(true),
        (PossibleValues::Dates, CallValue::Text(text)) => is_date(text),
        (_, CallValue::Number(number)) => shape.is_within(*number),
        _ => true,
    };
    let fits = |operand: &CallValue<'_>| shape.kinds.has(operand_kind(operand));
    let fitting = clause.members().iter().filter(|member| node_operand(member).is_some_and(|operand| fits(&operand)));
    let (possible, wrong): (Vec<&SyntaxNode>, Vec<&SyntaxNode>) =
        fitting.partition(|member| node_operand(member).is_some_and(|operand| can_be(&operand)));
    let code =
        if possible.is_empty() && !negated { DiagnosticCode::NeverHolds } else { DiagnosticCode::ImpossibleComparison };
    let mut finding = |member: &&SyntaxNode| LintFinding {
        code,
        span: member.span.clone(),
        message: format!("`{}` is never `{}`", clause.condition.path, shorten(&member.to_json())),
        help: match &shape.values {
            PossibleValues::OneOf(values) => possible_values_help(values, std::slice::from_ref(*member), suggester),
            PossibleValues::Dates => "write a date as `2026-11-15`".to_owned(),
            PossibleValues::Any => "correct the number, or remove it".to_owned(),
        },
    };
    wrong.iter().take(MAX_NAMED_MEMBERS).map(&mut finding).collect()
}

fn node_operand(member: &SyntaxNode) -> Option<CallValue<'_>> {
    match &member.value {
        SyntaxNodeValue::Text(text) => Some(CallValue::Text(text.into())),
        SyntaxNodeValue::Number(text) => Decimal::new(text).map(CallValue::Number),
        SyntaxNodeValue::Bool(value) => Some(CallValue::Bool(*value)),
        SyntaxNodeValue::Null | SyntaxNodeValue::List(_) | SyntaxNodeValue::Map(_) => None,
    }
}

fn operand_kind(operand: &CallValue<'_>) -> JsonKindSet {
    match operand {
        CallValue::Text(_) => JsonKindSet::STRING,
        CallValue::Number(_) => JsonKindSet::NUMBER,
        CallValue::Bool(_) => JsonKindSet::BOOL,
        CallValue::List(_) => JsonKindSet::LIST,
        CallValue::Other => JsonKindSet::OBJECT,
    }
}

fn is_date(text: &str) -> bool {
    // Date parsers accept several spellings, but the `time.date` fact has only one.
    text.parse::<jiff::civil::Date>().is_ok_and(|date| date.to_string() == text)
}

/// Returns a help text: the value that a single misspelled member was probably meant to be or, failing that, some of
/// the possible values.
fn possible_values_help(values: &ScalarSet, members: &[SyntaxNode], suggester: &mut NameSuggester) -> String {
    let meant = match members {
        [SyntaxNode { value: SyntaxNodeValue::Text(word), .. }] => {
            suggester.find_nearest(word, values.member_texts().take(1_000))
        }
        _ => None,
    };
    if let Some(meant) = meant {
        return format!("did you mean `{meant}`?");
    }
    let mut words: Vec<String> =
        values.member_texts().take(MAX_NAMED_VALUES).map(|word| format!("`{}`", shorten(word))).collect();
    if values.member_texts().nth(MAX_NAMED_VALUES).is_some() {
        words.push("…".to_owned());
    }
    format!("it is one of {}", words.join(", "))
}

fn shorten(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}
