//! Finds conditions in one predicate that can never hold at the same time.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::located_block::{LocatedCondition, LocatedPredicate, PredicateListKind};
use crate::call::call_path::{CallPathRoot, CallPathSegment};
use crate::call::call_value::CallValue;
use crate::operators::json_kind_set::JsonKindSet;
use crate::operators::value_restriction::{NumericLimit, ValueRestriction};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};

/// Maximum number of comparisons between list members and conditions. If a list needs more, its members are not
/// checked.
const MAX_MEMBER_TRIALS: usize = 1_000_000;

/// Two conditions that cannot both hold; the second is the one to report.
type ConflictingConditions<'p> = (LocatedCondition<'p>, LocatedCondition<'p>);

/// Warns about the first contradiction on each path. Skips paths with `[*]`, where each condition may be about a
/// different element.
pub(super) fn find_contradictions(
    part: PredicateListKind,
    rule: &LocatedPredicate<'_>,
    warnings: &mut Vec<Diagnostic>,
) {
    let mut by_path: HashMap<(&CallPathRoot, &[CallPathSegment]), Vec<LocatedCondition<'_>>> = HashMap::new();
    for clause in rule.conditions().filter(|clause| !clause.condition.path.has_wildcard()) {
        let path = &clause.condition.path;
        by_path.entry((&path.root, &path.segments)).or_default().push(clause);
    }
    for clauses in by_path.values().filter(|clauses| clauses.len() > 1) {
        let pair = find_presence_conflict(clauses)
            .or_else(|| find_kind_conflict(clauses))
            .or_else(|| find_range_conflict(clauses))
            .or_else(|| find_affix_conflict(clauses, required_prefix, |long, short| long.starts_with(short)))
            .or_else(|| find_affix_conflict(clauses, required_suffix, |long, short| long.ends_with(short)))
            .or_else(|| find_member_conflict(clauses));
        warnings.extend(pair.map(|pair| contradiction_warning(part, pair)));
    }
}

fn contradiction_warning(part: PredicateListKind, (first, second): ConflictingConditions<'_>) -> Diagnostic {
    let path = &second.condition.path;
    let message = format!("`{path}` cannot be `{}` and `{}` at once", first.operator_text(), second.operator_text());
    let warning = Diagnostic::warning(DiagnosticCode::NeverHolds, second.value_span(), message);
    let warning = warning.with_related(first.value_span(), "contradicts it");
    warning.with_help(match part {
        PredicateListKind::Require => "every call is refused; remove or widen one of the two",
        PredicateListKind::DenyIf | PredicateListKind::ApproveIf => {
            "all conditions of a rule must hold; write two rules if one of them is enough"
        }
    })
}

/// Finds two conditions, one of which requires a value to be absent while the other requires it to be present.
fn find_presence_conflict<'p>(clauses: &[LocatedCondition<'p>]) -> Option<ConflictingConditions<'p>> {
    let is_absence = |clause: &&LocatedCondition<'p>| clause.condition.requires_absence();
    let absence = clauses.iter().find(is_absence)?;
    let other = clauses.iter().find(|clause| !is_absence(clause))?;
    Some((*other, *absence))
}

fn find_kind_conflict<'p>(clauses: &[LocatedCondition<'p>]) -> Option<ConflictingConditions<'p>> {
    let mut left = JsonKindSet::ALL;
    let mut narrowest: Option<LocatedCondition<'p>> = None;
    for clause in clauses {
        let next = left.and(clause.condition.operator.accepted_kinds());
        if next.is_empty() {
            return narrowest.map(|first| (first, *clause));
        }
        if next != left {
            (left, narrowest) = (next, Some(*clause));
        }
    }
    None
}

/// Lower or upper end of a range of numbers.
struct RangeEnd<'p> {
    limit: NumericLimit<'p>,
    condition: LocatedCondition<'p>,
}

fn find_range_conflict<'p>(clauses: &[LocatedCondition<'p>]) -> Option<ConflictingConditions<'p>> {
    let (mut low, mut high): (Option<RangeEnd<'p>>, Option<RangeEnd<'p>>) = (None, None);
    for clause in clauses {
        let end = |limit| RangeEnd { limit, condition: *clause };
        match clause.condition.operator.restriction() {
            ValueRestriction::AtLeast(limit) => low = Some(narrower_end(low, end(limit), Ordering::Greater)),
            ValueRestriction::AtMost(limit) => high = Some(narrower_end(high, end(limit), Ordering::Less)),
            _ => continue,
        }
        if let (Some(low), Some(high)) = (&low, &high)
            && is_empty_range(low, high)
        {
            let is_low_last = low.condition.value_span().start > high.condition.value_span().start;
            return Some(if is_low_last { (high.condition, low.condition) } else { (low.condition, high.condition) });
        }
    }
    None
}

/// Returns the stricter of two range ends. If both have the same number, an exclusive end is stricter.
fn narrower_end<'p>(old: Option<RangeEnd<'p>>, new: RangeEnd<'p>, wins: Ordering) -> RangeEnd<'p> {
    let Some(old) = old else { return new };
    let order = new.limit.number.value().cmp(&old.limit.number.value());
    let is_narrower = order == wins || (order == Ordering::Equal && new.limit.is_exclusive);
    if is_narrower { new } else { old }
}

fn is_empty_range(low: &RangeEnd<'_>, high: &RangeEnd<'_>) -> bool {
    match low.limit.number.value().cmp(&high.limit.number.value()) {
        Ordering::Greater => true,
        Ordering::Equal => low.limit.is_exclusive || high.limit.is_exclusive,
        Ordering::Less => false,
    }
}

fn required_prefix(restriction: ValueRestriction<'_>) -> Option<&str> {
    match restriction {
        ValueRestriction::Prefix(text) => Some(text),
        _ => None,
    }
}

fn required_suffix(restriction: ValueRestriction<'_>) -> Option<&str> {
    match restriction {
        ValueRestriction::Suffix(text) => Some(text),
        _ => None,
    }
}

/// Finds two prefixes, or two suffixes, that no string can have at the same time: neither prefix starts with the other,
/// or neither suffix ends with the other.
fn find_affix_conflict<'p>(
    clauses: &[LocatedCondition<'p>],
    text_of: fn(ValueRestriction<'p>) -> Option<&'p str>,
    fits: fn(&str, &str) -> bool,
) -> Option<ConflictingConditions<'p>> {
    let mut longest: Option<(&str, LocatedCondition<'p>)> = None;
    for clause in clauses {
        let Some(text) = text_of(clause.condition.operator.restriction()) else { continue };
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

/// Finds a condition that lists the possible values, such as `eq` or `in`, for which no listed value satisfies all other conditions.
fn find_member_conflict<'p>(clauses: &[LocatedCondition<'p>]) -> Option<ConflictingConditions<'p>> {
    let listed = clauses.iter().find_map(|clause| match clause.condition.operator.restriction() {
        ValueRestriction::Member(members) => Some((*clause, members)),
        _ => None,
    });
    let (first, members) = listed?;
    let mut left: Vec<CallValue<'_>> = members.operands().collect();
    if left.len().saturating_mul(clauses.len()) > MAX_MEMBER_TRIALS {
        return None;
    }
    for clause in clauses {
        left.retain(|value| clause.condition.operator.holds(value) == Some(true));
        if left.is_empty() {
            return Some((first, *clause));
        }
    }
    None
}
