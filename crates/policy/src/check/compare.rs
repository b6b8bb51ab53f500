//! A condition held against what is known of the value it looks at.

use std::cmp::Ordering;
use std::ops::Range;

use gatelodge_json::Decimal;

use super::located_block::LocatedCondition;
use super::nearest::Offers;
use super::value_shape::{KindSet, PossibleValues, ValueShape, accepted_kinds};
use crate::condition::CompiledOperator;
use crate::diagnostic::{Diagnostic, DiagnosticCode};
use crate::scalar::{Operand, ScalarSet};
use crate::syntax_tree::{NodeValue, SyntaxNode};

/// Of the members of one list, no more than this are named.
const MOST_MEMBERS: usize = 8;
/// Of the values that can come, no more than this are named.
const MOST_WORDS: usize = 12;

/// A warning in the making; the tools it is about are added later.
#[derive(Debug, Clone)]
pub(super) struct Finding {
    pub code: DiagnosticCode,
    pub span: Range<usize>,
    pub claim: String,
    pub help: String,
}

impl Finding {
    /// Whether two tools gave the same reason.
    pub fn is_same(&self, other: &Self) -> bool {
        (self.code, &self.span, &self.claim) == (other.code, &other.span, &other.claim)
    }

    pub fn into_warning(self) -> Diagnostic {
        Diagnostic::warning(self.code, self.span, self.claim).with_help(self.help)
    }
}

/// Says what can never be, given the shape of the value.
pub(super) fn with_shape(clause: LocatedCondition<'_>, shape: &ValueShape<'_>, offers: &mut Offers) -> Vec<Finding> {
    let test = &clause.condition.compiled;
    // Without kinds only null is left, which is more than can be judged here.
    if matches!(test, CompiledOperator::Exists(_)) || shape.kinds.is_empty() {
        return Vec::new();
    }
    if !shape.kinds.has(accepted_kinds(test)) {
        return vec![wrong_kind(clause, shape)];
    }
    if let Some(finding) = out_of_bounds(clause, shape).or_else(|| none_listed(clause, shape, offers)) {
        return vec![finding];
    }
    match test {
        CompiledOperator::MemberOf { negated, .. } => wrong_members(clause, shape, *negated, offers),
        _ => Vec::new(),
    }
}

fn wrong_kind(clause: LocatedCondition<'_>, shape: &ValueShape<'_>) -> Finding {
    let condition = clause.condition;
    let (path, operator, kinds) = (&condition.path, condition.operator, shape.kinds);
    let (span, relation) = match condition.compiled {
        CompiledOperator::MemberOf { .. } => (clause.value_span(), "compares with"),
        _ => (clause.operator_span(), "is for"),
    };
    Finding {
        code: DiagnosticCode::ImpossibleComparison,
        span,
        claim: format!("`{path}` is {kinds}, and `{operator}` {relation} {}", accepted_kinds(&condition.compiled)),
        help: format!("as it stands every call with it is refused; compare it as {kinds}"),
    }
}

/// A comparison that no number between the bounds satisfies.
fn out_of_bounds(clause: LocatedCondition<'_>, shape: &ValueShape<'_>) -> Option<Finding> {
    let (bound, number, beyond, is_strict) = match &clause.condition.compiled {
        CompiledOperator::Greater(number) => (shape.maximum?, number, Ordering::Greater, true),
        CompiledOperator::GreaterOrEqual(number) => (shape.maximum?, number, Ordering::Greater, false),
        CompiledOperator::Less(number) => (shape.minimum?, number, Ordering::Less, true),
        CompiledOperator::LessOrEqual(number) => (shape.minimum?, number, Ordering::Less, false),
        _ => return None,
    };
    let order = number.value().cmp(&bound.number);
    let can_hold = match order {
        Ordering::Equal => !is_strict && !bound.is_exclusive,
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
    Some(Finding { code: DiagnosticCode::NeverHolds, span: clause.value_span(), claim, help })
}

/// A test that none of the values holds for that can come.
fn none_listed(clause: LocatedCondition<'_>, shape: &ValueShape<'_>, offers: &mut Offers) -> Option<Finding> {
    let PossibleValues::OneOf(values) = &shape.values else { return None };
    let test = &clause.condition.compiled;
    if values.operands().any(|value| test.holds(&value) == Some(true)) {
        return None;
    }
    Some(Finding {
        code: DiagnosticCode::NeverHolds,
        span: clause.value_span(),
        claim: format!("`{}` never holds for `{}`", clause.operator_text(), clause.condition.path),
        help: listing(values, clause.members(), offers),
    })
}

/// Members that the value can never be equal to. Members of another kind are left alone: they may be meant for it.
fn wrong_members(
    clause: LocatedCondition<'_>,
    shape: &ValueShape<'_>,
    negated: bool,
    offers: &mut Offers,
) -> Vec<Finding> {
    let can_be = |operand: &Operand<'_>| match (&shape.values, operand) {
        (PossibleValues::OneOf(values), operand) => values.contains(operand) == Some(true),
        (PossibleValues::Dates, Operand::Text(text)) => is_date(text),
        (_, Operand::Number(number)) => shape.is_within(*number),
        _ => true,
    };
    let fits = |operand: &Operand<'_>| shape.kinds.has(kind(operand));
    let fitting = clause.members().iter().filter(|member| operand(member).is_some_and(|operand| fits(&operand)));
    let (possible, wrong): (Vec<&SyntaxNode>, Vec<&SyntaxNode>) =
        fitting.partition(|member| operand(member).is_some_and(|operand| can_be(&operand)));
    let code =
        if possible.is_empty() && !negated { DiagnosticCode::NeverHolds } else { DiagnosticCode::ImpossibleComparison };
    let mut finding = |member: &&SyntaxNode| Finding {
        code,
        span: member.span.clone(),
        claim: format!("`{}` is never `{}`", clause.condition.path, short(&member.to_json())),
        help: match &shape.values {
            PossibleValues::OneOf(values) => listing(values, std::slice::from_ref(*member), offers),
            PossibleValues::Dates => "write a date as `2026-11-15`".to_owned(),
            PossibleValues::Any => "correct the number, or remove it".to_owned(),
        },
    };
    wrong.iter().take(MOST_MEMBERS).map(&mut finding).collect()
}

fn operand(member: &SyntaxNode) -> Option<Operand<'_>> {
    match &member.value {
        NodeValue::Text(text) => Some(Operand::Text(text.into())),
        NodeValue::Number(text) => Decimal::new(text).map(Operand::Number),
        NodeValue::Bool(value) => Some(Operand::Bool(*value)),
        NodeValue::Null | NodeValue::List(_) | NodeValue::Map(_) => None,
    }
}

fn kind(operand: &Operand<'_>) -> KindSet {
    match operand {
        Operand::Text(_) => KindSet::STRING,
        Operand::Number(_) => KindSet::NUMBER,
        Operand::Bool(_) => KindSet::BOOL,
        Operand::List(_) => KindSet::LIST,
        Operand::Other => KindSet::OBJECT,
    }
}

fn is_date(text: &str) -> bool {
    // Readers of dates take more than one spelling; the fact has one.
    text.parse::<jiff::civil::Date>().is_ok_and(|date| date.to_string() == text)
}

/// Offers what one member may have meant, or names some of the values that can come.
fn listing(values: &ScalarSet, members: &[SyntaxNode], offers: &mut Offers) -> String {
    let meant = match members {
        [SyntaxNode { value: NodeValue::Text(word), .. }] => {
            offers.find_nearest(word, values.member_texts().take(1_000))
        }
        _ => None,
    };
    if let Some(meant) = meant {
        return format!("did you mean `{meant}`?");
    }
    let mut words: Vec<String> =
        values.member_texts().take(MOST_WORDS).map(|word| format!("`{}`", short(word))).collect();
    if values.member_texts().nth(MOST_WORDS).is_some() {
        words.push("…".to_owned());
    }
    format!("it is one of {}", words.join(", "))
}

fn short(text: &str) -> String {
    let start: String = text.chars().take(40).collect();
    if start.len() < text.len() { format!("{start}…") } else { start }
}
