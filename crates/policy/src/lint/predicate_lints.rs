//! Finds predicates that do less than they seem to. These lints do not need the server's tool list.

use std::collections::{HashMap, HashSet};

use gatelodge_json::quote_into;

use super::did_you_mean::NameSuggester;
use super::located_block::{LocatedBlock, LocatedCondition, LocatedPredicate, PolicySection, PredicateListKind};
use super::value_shape::ValueShape;
use super::{contradiction, impossible_condition, regex_anchoring};
use crate::call::call_path::{CallPath, CallPathRoot, CallPathSegment};
use crate::operators::Operator;
use crate::operators::value_restriction::ValueRestriction;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};

/// Paths with more segments than this are recorded without their parents.
const MAX_PARENT_SEGMENTS: usize = 32;

/// The paths that a block requires: if a call has no value at one of them, the call is refused or needs approval.
pub(super) struct RequiredCallPaths<'p> {
    paths: HashSet<(&'p CallPathRoot, &'p [CallPathSegment])>,
    /// Whether arguments are validated against the input schema, which may require more paths. It is not examined here.
    validates_arguments: bool,
}

impl<'p> RequiredCallPaths<'p> {
    pub fn of(section: &LocatedBlock<'p>) -> Self {
        let mut guarded = Self { paths: HashSet::new(), validates_arguments: section.block.validate_arguments };
        for clause in section.predicates(PredicateListKind::Require).flat_map(|rule| rule.conditions()) {
            if !clause.condition.requires_absence() {
                guarded.add_with_parents(&clause.condition.path);
            }
        }
        // A call without an amount that can be charged is refused.
        section.block.limits.iter().filter_map(|limit| limit.amount.as_ref()).for_each(|path| guarded.add(path));
        for part in [PredicateListKind::DenyIf, PredicateListKind::ApproveIf] {
            for rule in section.predicates(part) {
                // Absence alone is denied or needs approval.
                if let [condition] = rule.predicate.conditions.as_slice()
                    && condition.requires_absence()
                {
                    guarded.add(&condition.path);
                }
            }
        }
        guarded
    }

    fn add(&mut self, path: &'p CallPath) {
        self.paths.insert((&path.root, &path.segments));
    }

    /// Adds a path and its parents: if a value is present, so are its parents.
    fn add_with_parents(&mut self, path: &'p CallPath) {
        self.add(path);
        let mut segments = path.segments.as_slice();
        while let Some((_, parents)) = segments.split_last().filter(|_| segments.len() <= MAX_PARENT_SEGMENTS) {
            self.paths.insert((&path.root, parents));
            segments = parents;
        }
    }

    fn has(&self, path: &CallPath) -> bool {
        let is_validated = self.validates_arguments && path.root == CallPathRoot::Args;
        is_validated || self.paths.contains(&(&path.root, path.segments.as_slice()))
    }
}

pub(super) fn lint_predicates(
    section: &LocatedBlock<'_>,
    all_tools: Option<&RequiredCallPaths<'_>>,
    suggester: &mut NameSuggester,
    warnings: &mut Vec<Diagnostic>,
) {
    let own = RequiredCallPaths::of(section);
    let is_guarded = |path: &CallPath| own.has(path) || all_tools.is_some_and(|all| all.has(path));
    for (part, rule) in section.all_predicates() {
        warnings.extend(find_client_claim_only(&rule));
        contradiction::find_contradictions(part, &rule, warnings);
        for clause in rule.conditions() {
            if let Some(shape) = ValueShape::of_fact(&clause.condition.path.root) {
                let findings = impossible_condition::find_impossible(clause, &shape, suggester);
                warnings.extend(findings.into_iter().map(impossible_condition::LintFinding::into_warning));
            }
            match part {
                PredicateListKind::Require => warnings.extend(find_unanchored_regex(clause)),
                PredicateListKind::DenyIf | PredicateListKind::ApproveIf => {
                    let is_safe = is_guarded(&clause.condition.path) || is_always_present(section.field, clause);
                    warnings.extend((!is_safe).then(|| find_absence_passes(clause)).flatten());
                }
            }
        }
    }
    for part in PredicateListKind::ALL {
        find_shadowed_predicates(section, part, warnings);
    }
}

fn find_client_claim_only(rule: &LocatedPredicate<'_>) -> Option<Diagnostic> {
    let first = rule.conditions().next()?;
    let is_claim = |clause: LocatedCondition<'_>| clause.condition.path.is_client_claim();
    if !rule.conditions().all(is_claim) {
        return None;
    }
    let message = "a client can report any name and version, and this rule checks nothing else";
    let warning = Diagnostic::warning(DiagnosticCode::ClaimAlone, first.path_span(), message);
    Some(warning.with_help("check `grant.label` or `grant.labels`, which the gateway sets itself"))
}

fn find_unanchored_regex(clause: LocatedCondition<'_>) -> Option<Diagnostic> {
    let ValueRestriction::Pattern(pattern) = clause.condition.operator.restriction() else { return None };
    if regex_anchoring::is_anchored(pattern) {
        return None;
    }
    let message = "the expression can match anywhere in the text, with anything around it";
    let warning = Diagnostic::warning(DiagnosticCode::UnanchoredRegex, clause.value_span(), message);
    Some(warning.with_help(regex_anchoring::anchoring_help(pattern)))
}

/// Warns about a condition that excludes values, such as `neq`, `not_in` or `gt`. It seems to leave only the values
/// that it allows, but it does not hold if the value is absent, so the call passes.
fn find_absence_passes(clause: LocatedCondition<'_>) -> Option<Diagnostic> {
    let (ValueRestriction::NoMember | ValueRestriction::AtLeast(_) | ValueRestriction::AtMost(_)) =
        clause.condition.operator.restriction()
    else {
        return None;
    };
    let path = &clause.condition.path;
    let message = format!("without `{path}` this does not hold, and the call passes");
    let warning = Diagnostic::warning(DiagnosticCode::AbsencePasses, clause.path_span(), message);
    let mut quoted = String::new();
    quote_into(&path.to_string(), &mut quoted);
    Some(warning.with_help(format!(r#"add {{"path": {quoted}, "op": "exists", "value": true}} to `require`"#)))
}

fn is_always_present(field: PolicySection, clause: LocatedCondition<'_>) -> bool {
    let path = &clause.condition.path;
    match &path.root {
        CallPathRoot::Args => {
            let is_uri = matches!(path.segments.as_slice(), [CallPathSegment::Name(name)] if **name == *"uri");
            path.segments.is_empty() || (field == PolicySection::Resources && is_uri)
        }
        CallPathRoot::GrantLabel
        | CallPathRoot::GrantLabels(_)
        | CallPathRoot::ClientName
        | CallPathRoot::ClientVersion => false,
        CallPathRoot::ToolName | CallPathRoot::ToolCategory | CallPathRoot::ToolLevel | CallPathRoot::ServerName => {
            true
        }
        CallPathRoot::TimeHour | CallPathRoot::TimeWeekday | CallPathRoot::TimeDate => true,
    }
}

/// Finds predicates made redundant by an unconditional or identical predicate earlier in the same list.
fn find_shadowed_predicates(section: &LocatedBlock<'_>, part: PredicateListKind, warnings: &mut Vec<Diagnostic>) {
    let mut seen: HashMap<Vec<ConditionIdentity<'_>>, LocatedPredicate<'_>> = HashMap::new();
    let mut always: Option<LocatedPredicate<'_>> = None;
    for rule in section.predicates(part) {
        let conditions = rule.predicate.conditions.as_slice();
        let same = seen.insert(condition_keys(&rule), rule);
        if let Some(earlier) = always {
            warnings.push(shadowed_warning(&rule, &earlier, "an unconditional rule before it always holds"));
        } else if let Some(earlier) = same.filter(|_| !conditions.is_empty()) {
            warnings.push(shadowed_warning(&rule, &earlier, "an earlier rule has the same conditions"));
        }
        if conditions.is_empty() && part != PredicateListKind::Require && always.is_none() {
            always = Some(rule);
        }
    }
}

type ConditionIdentity<'p> = (&'p CallPathRoot, &'p [CallPathSegment], Operator, &'p str);

/// Returns a key that is equal for predicates with the same conditions in any order.
fn condition_keys<'p>(rule: &LocatedPredicate<'p>) -> Vec<ConditionIdentity<'p>> {
    let key = |clause: LocatedCondition<'p>| {
        let condition = clause.condition;
        (
            &condition.path.root,
            condition.path.segments.as_slice(),
            condition.operator.operator(),
            &*condition.expected_json,
        )
    };
    let mut keys: Vec<ConditionIdentity<'_>> = rule.conditions().map(key).collect();
    keys.sort();
    keys
}

fn shadowed_warning(rule: &LocatedPredicate<'_>, earlier: &LocatedPredicate<'_>, message: &str) -> Diagnostic {
    let warning =
        Diagnostic::warning(DiagnosticCode::Shadowed, rule.short_span(), format!("this rule never decides: {message}"));
    warning.with_related(earlier.short_span(), "this one").with_help("remove one of the two")
}
