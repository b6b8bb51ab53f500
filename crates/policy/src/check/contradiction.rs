//! Conditions of one predicate that can never hold together.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::located_block::{LocatedCondition, LocatedPredicate, PredicateList};
use super::value_shape::{KindSet, accepted_kinds};
use crate::call_path::{PathRoot, PathSegment};
use crate::condition::CompiledOperator;
use crate::diagnostic::{Diagnostic, DiagnosticCode};
use crate::scalar::{DecimalText, Operand};

/// Larger lists are not tried member by member.
const MOST_TRIALS: usize = 1_000_000;

/// Two conditions of which the second excludes the first.
type Pair<'p> = (LocatedCondition<'p>, LocatedCondition<'p>);

/// Warns at the first contradiction on each path. Under `[*]` each condition may mean another element.
pub(super) fn find(part: PredicateList, rule: &LocatedPredicate<'_>, warnings: &mut Vec<Diagnostic>) {
    let mut by_path: HashMap<(&PathRoot, &[PathSegment]), Vec<LocatedCondition<'_>>> = HashMap::new();
    for clause in rule.conditions().filter(|clause| !clause.condition.path.has_wildcard()) {
        let path = &clause.condition.path;
        by_path.entry((&path.root, &path.segments)).or_default().push(clause);
    }
    for clauses in by_path.values().filter(|clauses| clauses.len() > 1) {
        let pair = presence(clauses)
            .or_else(|| kinds(clauses))
            .or_else(|| range(clauses))
            .or_else(|| ends(clauses, as_start, |long, short| long.starts_with(short)))
            .or_else(|| ends(clauses, as_end, |long, short| long.ends_with(short)))
            .or_else(|| members(clauses));
        warnings.extend(pair.map(|pair| contradiction(part, pair)));
    }
}

fn contradiction(part: PredicateList, (first, second): Pair<'_>) -> Diagnostic {
    let path = &second.condition.path;
    let message = format!("`{path}` cannot be `{}` and `{}` at once", first.operator_text(), second.operator_text());
    let warning = Diagnostic::warning(DiagnosticCode::NeverHolds, second.value_span(), message);
    let warning = warning.with_related(first.value_span(), "excludes it");
    warning.with_help(match part {
        PredicateList::Require => "as it stands every call is refused; remove or widen one of the two",
        PredicateList::DenyIf | PredicateList::ApproveIf => {
            "the conditions of a rule hold together; write two rules if one is enough"
        }
    })
}

/// What must not be there cannot be compared.
fn presence<'p>(clauses: &[LocatedCondition<'p>]) -> Option<Pair<'p>> {
    let is_absence =
        |clause: &&LocatedCondition<'p>| matches!(clause.condition.compiled, CompiledOperator::Exists(false));
    let absence = clauses.iter().find(is_absence)?;
    let other = clauses.iter().find(|clause| !is_absence(clause))?;
    Some((*other, *absence))
}

fn kinds<'p>(clauses: &[LocatedCondition<'p>]) -> Option<Pair<'p>> {
    let mut left = KindSet::ALL;
    let mut narrowest: Option<LocatedCondition<'p>> = None;
    for clause in clauses {
        let next = left.and(accepted_kinds(&clause.condition.compiled));
        if next.is_empty() {
            return narrowest.map(|first| (first, *clause));
        }
        if next != left {
            (left, narrowest) = (next, Some(*clause));
        }
    }
    None
}

/// One end of a range: the number, and whether it belongs to the range.
struct End<'p> {
    number: &'p DecimalText,
    is_open: bool,
    clause: LocatedCondition<'p>,
}

fn range<'p>(clauses: &[LocatedCondition<'p>]) -> Option<Pair<'p>> {
    let (mut low, mut high): (Option<End<'p>>, Option<End<'p>>) = (None, None);
    for clause in clauses {
        let end = |number, is_open| End { number, is_open, clause: *clause };
        match &clause.condition.compiled {
            CompiledOperator::Greater(number) => low = Some(narrower(low, end(number, true), Ordering::Greater)),
            CompiledOperator::GreaterOrEqual(number) => {
                low = Some(narrower(low, end(number, false), Ordering::Greater))
            }
            CompiledOperator::Less(number) => high = Some(narrower(high, end(number, true), Ordering::Less)),
            CompiledOperator::LessOrEqual(number) => high = Some(narrower(high, end(number, false), Ordering::Less)),
            _ => continue,
        }
        if let (Some(low), Some(high)) = (&low, &high)
            && is_empty(low, high)
        {
            let is_low_last = low.clause.value_span().start > high.clause.value_span().start;
            return Some(if is_low_last { (high.clause, low.clause) } else { (low.clause, high.clause) });
        }
    }
    None
}

/// The end that leaves less: a number that compares so, or the open one of equals.
fn narrower<'p>(old: Option<End<'p>>, new: End<'p>, wins: Ordering) -> End<'p> {
    let Some(old) = old else { return new };
    let order = new.number.value().cmp(&old.number.value());
    let is_narrower = order == wins || (order == Ordering::Equal && new.is_open);
    if is_narrower { new } else { old }
}

fn is_empty(low: &End<'_>, high: &End<'_>) -> bool {
    match low.number.value().cmp(&high.number.value()) {
        Ordering::Greater => true,
        Ordering::Equal => low.is_open || high.is_open,
        Ordering::Less => false,
    }
}

fn as_start(test: &CompiledOperator) -> Option<&str> {
    match test {
        CompiledOperator::StartsWith(text) => Some(text),
        _ => None,
    }
}

fn as_end(test: &CompiledOperator) -> Option<&str> {
    match test {
        CompiledOperator::EndsWith(text) => Some(text),
        _ => None,
    }
}

/// Of two beginnings of one text the longer begins with the shorter; likewise its ends.
fn ends<'p>(
    clauses: &[LocatedCondition<'p>],
    text_of: fn(&'p CompiledOperator) -> Option<&'p str>,
    fits: fn(&str, &str) -> bool,
) -> Option<Pair<'p>> {
    let mut longest: Option<(&str, LocatedCondition<'p>)> = None;
    for clause in clauses {
        let Some(text) = text_of(&clause.condition.compiled) else { continue };
        let Some((known, first)) = longest else {
            longest = Some((text, *clause));
            continue;
        };
        if !fits(known, text) && !fits(text, known) {
            return Some((first, *clause));
        }
        if text.len() > known.len() {
            longest = Some((text, *clause));
        }
    }
    None
}

/// Tries the values that an `eq` or `in` leaves against all other conditions.
fn members<'p>(clauses: &[LocatedCondition<'p>]) -> Option<Pair<'p>> {
    let listed = clauses.iter().find_map(|clause| match &clause.condition.compiled {
        CompiledOperator::MemberOf { members, negated: false } => Some((*clause, members)),
        _ => None,
    });
    let (first, members) = listed?;
    let mut left: Vec<Operand<'_>> = members.operands().collect();
    if left.len().saturating_mul(clauses.len()) > MOST_TRIALS {
        return None;
    }
    for clause in clauses {
        let test = &clause.condition.compiled;
        left.retain(|value| matches!(test, CompiledOperator::Exists(_)) || test.holds(value) == Some(true));
        if left.is_empty() {
            return Some((first, *clause));
        }
    }
    None
}
