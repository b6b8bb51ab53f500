//! Limits that do not bound what they seem to.

use std::collections::HashMap;

use super::located_block::{LocatedBlock, member_span};
use crate::diagnostic::{Diagnostic, DiagnosticCode};
use crate::limit::{CounterRef, Limit, Scope};
use crate::syntax_tree::SyntaxNode;

/// What the limits of one block come to.
#[derive(Default)]
pub(super) struct Bounds<'p> {
    /// Of each counter the limit that rules: the smallest, the first of equals.
    ruling: HashMap<&'p str, (&'p Limit, &'p SyntaxNode)>,
    /// Those that never rule, each with the one that does.
    idle: Vec<(&'p SyntaxNode, &'p SyntaxNode)>,
    outlives_session: bool,
}

impl<'p> Bounds<'p> {
    pub fn of(section: &LocatedBlock<'p>) -> Self {
        let mut bounds = Self::default();
        for (limit, node) in section.limits() {
            bounds.outlives_session |= limit.scope != Scope::Session;
            // A block has one `rate_limit`, on a counter of its own.
            let CounterRef::Named(name) = &limit.counter else { continue };
            let (ruling, place) = *bounds.ruling.entry(name).or_insert((limit, node));
            if limit.max < ruling.max {
                bounds.idle.push((place, node));
                bounds.ruling.insert(name, (limit, node));
            } else if !std::ptr::eq(limit, ruling) {
                bounds.idle.push((node, place));
            }
        }
        bounds
    }
}

pub(super) fn check(section: &LocatedBlock<'_>, all_tools: Option<&Bounds<'_>>, warnings: &mut Vec<Diagnostic>) {
    let own = Bounds::of(section);
    if !own.outlives_session && all_tools.is_none_or(|all| !all.outlives_session) {
        warnings.extend(section.limits().map(|(_, node)| session_alone(node)));
    }
    warnings.extend(own.idle.iter().map(|(idle, ruling)| never_rules(idle, ruling)));
    let Some(all_tools) = all_tools else { return };
    for (name, (limit, node)) in &own.ruling {
        let smaller = all_tools.ruling.get(name).filter(|(other, _)| other.max < limit.max);
        warnings.extend(smaller.map(|(_, other)| never_rules(node, other)));
    }
}

fn session_alone(node: &SyntaxNode) -> Diagnostic {
    let message = "a session bounds a loop, not an agent: each new session begins at zero";
    let warning = Diagnostic::warning(DiagnosticCode::SessionAlone, member_span(node, "scope"), message);
    warning.with_help(r#"write a second limit with "scope": "grant" beside it"#)
}

fn never_rules(node: &SyntaxNode, ruling: &SyntaxNode) -> Diagnostic {
    let message = "another limit on the same counter is always full first";
    let warning = Diagnostic::warning(DiagnosticCode::Shadowed, member_span(node, "max"), message);
    let warning = warning.with_related(member_span(ruling, "max"), "this one");
    warning.with_help("remove one of the two, or give them counters of their own")
}
