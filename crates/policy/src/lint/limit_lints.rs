//! Finds limits that do not restrict what they seem to.

use std::collections::HashMap;

use super::located_block::{LocatedBlock, member_span};
use crate::compile::limit::{CounterRef, Limit, LimitScope};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::syntax_tree::SyntaxNode;

/// Summary of one block's limits.
#[derive(Default)]
pub(super) struct RuleBlockLimitSummary<'p> {
    /// The strictest limit on each counter: the smallest, or the first of several equal ones.
    strictest: HashMap<&'p str, (&'p Limit, &'p SyntaxNode)>,
    /// Limits that never take effect, each with the limit that takes effect instead.
    shadowed: Vec<(&'p SyntaxNode, &'p SyntaxNode)>,
    outlives_session: bool,
}

impl<'p> RuleBlockLimitSummary<'p> {
    pub fn of(section: &LocatedBlock<'p>) -> Self {
        let mut bounds = Self::default();
        for (limit, node) in section.limits() {
            bounds.outlives_session |= limit.scope != LimitScope::Session;
            // A block has at most one `rate_limit`, and that has a counter of its own.
            let CounterRef::Named(name) = &limit.counter else { continue };
            let (ruling, place) = *bounds.strictest.entry(name).or_insert((limit, node));
            if limit.max < ruling.max {
                bounds.shadowed.push((place, node));
                bounds.strictest.insert(name, (limit, node));
            } else if !std::ptr::eq(limit, ruling) {
                bounds.shadowed.push((node, place));
            }
        }
        bounds
    }
}

pub(super) fn lint_limits(
    section: &LocatedBlock<'_>,
    all_tools: Option<&RuleBlockLimitSummary<'_>>,
    warnings: &mut Vec<Diagnostic>,
) {
    let own = RuleBlockLimitSummary::of(section);
    if !own.outlives_session && all_tools.is_none_or(|all| !all.outlives_session) {
        warnings.extend(section.limits().map(|(_, node)| session_scope_only_warning(node)));
    }
    warnings.extend(own.shadowed.iter().map(|(idle, ruling)| shadowed_limit_warning(idle, ruling)));
    let Some(all_tools) = all_tools else { return };
    for (name, (limit, node)) in &own.strictest {
        let smaller = all_tools.strictest.get(name).filter(|(other, _)| other.max < limit.max);
        warnings.extend(smaller.map(|(_, other)| shadowed_limit_warning(node, other)));
    }
}

fn session_scope_only_warning(node: &SyntaxNode) -> Diagnostic {
    let message = "a session limit alone does not limit an agent: each new session starts at zero";
    let warning = Diagnostic::warning(DiagnosticCode::SessionAlone, member_span(node, "scope"), message);
    warning.with_help(r#"add a second limit with "scope": "grant""#)
}

fn shadowed_limit_warning(node: &SyntaxNode, ruling: &SyntaxNode) -> Diagnostic {
    let message = "another limit on the same counter is always reached first";
    let warning = Diagnostic::warning(DiagnosticCode::Shadowed, member_span(node, "max"), message);
    let warning = warning.with_related(member_span(ruling, "max"), "this one");
    warning.with_help("remove one of the two, or give them different counters")
}
