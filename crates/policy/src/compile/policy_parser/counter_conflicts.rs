//! Checks that limits on the same counter agree with each other.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::rule_block_parser::RuleBlockKind;
use crate::compile::compiled_policy::{Policy, RuleBlock};
use crate::compile::limit::{ALL_TOOLS_COUNTER_PREFIX, CounterRef, Limit, RATE_COUNTER_SUFFIX};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, MAX_SEARCHED_DIAGNOSTICS};

/// A limit and its block.
#[derive(Clone, Copy)]
struct CounterUse<'p> {
    limit: &'p Limit,
    block: &'p RuleBlock,
    block_kind: RuleBlockKind,
}

pub(super) fn check_counters(policy: &Policy, diagnostics: &mut Vec<Diagnostic>) {
    let mut checker = CounterConflictChecker { policy, diagnostics };
    let uses = checker.counter_uses();
    let mut by_name: BTreeMap<&str, Vec<CounterUse<'_>>> = BTreeMap::new();
    for user in &uses {
        if let CounterRef::Named(name) = &user.limit.counter {
            by_name.entry(name).or_default().push(*user);
        }
    }
    for (name, users) in &by_name {
        checker.check_window_and_scope(users);
        checker.check_amount_paths(users);
        checker.check_rate_limits(name, users);
    }
}

struct CounterConflictChecker<'p, 'f> {
    policy: &'p Policy,
    diagnostics: &'f mut Vec<Diagnostic>,
}

impl<'p> CounterConflictChecker<'p, '_> {
    /// Returns all limits in document order.
    fn counter_uses(&self) -> Vec<CounterUse<'p>> {
        let policy = self.policy;
        let blocks = policy
            .tools
            .blocks()
            .map(|block| (block, RuleBlockKind::Tool))
            .chain(
                policy
                    .categories
                    .iter()
                    .filter_map(|(_, rule)| rule.block())
                    .map(|block| (block, RuleBlockKind::Category)),
            )
            .chain(policy.all_tools.iter().map(|block| (block, RuleBlockKind::AllTools)))
            .chain(policy.resources.blocks().map(|block| (block, RuleBlockKind::Resource)))
            .chain(policy.prompts.blocks().map(|block| (block, RuleBlockKind::Prompt)));
        let mut uses: Vec<CounterUse<'p>> = blocks
            .flat_map(|(block, place)| {
                block.limits.iter().map(move |limit| CounterUse { limit, block, block_kind: place })
            })
            .collect();
        // Tables are hash maps; sorting by span gives document order.
        uses.sort_by_key(|user| user.limit.span.start);
        uses
    }

    /// Checks that all limits on one counter have the same window, scope and alignment, and that either all or none of
    /// them have an `amount`.
    fn check_window_and_scope(&mut self, users: &[CounterUse<'_>]) {
        let Some((first, rest)) = users.split_first() else { return };
        for user in rest {
            if let Some(field) = find_difference(first.limit, user.limit) {
                self.report_conflict(user, first, field);
            }
        }
    }

    /// Checks that limits have the same amount if they can apply to the same call: in one block, or in a tool's block
    /// and `all_tools`.
    fn check_amount_paths(&mut self, users: &[CounterUse<'_>]) {
        let in_all: Option<&CounterUse<'_>> = users.iter().find(|user| user.block_kind == RuleBlockKind::AllTools);
        let mut firsts: BTreeMap<&str, &CounterUse<'_>> = BTreeMap::new();
        for user in users {
            let first = *firsts.entry(&user.block.pointer).or_insert(user);
            let others = [Some(first), in_all.filter(|_| user.block_kind.is_for_tools())];
            let path = |user: &CounterUse<'_>| user.limit.amount.as_ref().map(|path| path.segments.clone());
            let differs =
                |other: &&CounterUse<'_>| path(other).is_some() && path(user).is_some() && path(other) != path(user);
            if let Some(other) = others.into_iter().flatten().find(differs) {
                self.report_conflict(user, other, "amount");
            }
        }
    }

    /// Compares the limits on the counter `name` with each `rate_limit` that could use the same counter. The counter of
    /// a `rate_limit` is named after the tool that is called.
    fn check_rate_limits(&mut self, name: &str, users: &[CounterUse<'_>]) {
        for (block, rate) in self.rate_limits_using(name) {
            let rate = CounterUse { limit: rate, block, block_kind: RuleBlockKind::Tool };
            for user in users {
                if std::ptr::eq(user.block, block) {
                    self.report_duplicate(name, user, &rate);
                } else if let Some(field) = find_difference(rate.limit, user.limit) {
                    self.report_conflict(user, &rate, field);
                }
            }
        }
    }

    /// Returns each `rate_limit` that could use a counter with this name, and its block. All categories are included,
    /// because it is not known which category a tool has.
    fn rate_limits_using(&self, name: &str) -> Vec<(&'p RuleBlock, &'p Limit)> {
        let policy = self.policy;
        let Some(tool) = name.strip_suffix(RATE_COUNTER_SUFFIX) else { return Vec::new() };
        let exact = policy.tools.exact.get(tool);
        let globs = policy.tools.globs.iter().filter(|(glob, _)| glob.matches(tool)).map(|(_, block)| block);
        let categories = policy.categories.iter().filter_map(|(_, rule)| rule.block());
        let all = policy.all_tools.iter().filter(|_| tool.starts_with(ALL_TOOLS_COUNTER_PREFIX));
        let rate = |block: &'p RuleBlock| {
            let is_rate = |limit: &&Arc<Limit>| matches!(limit.counter, CounterRef::PerTool { .. });
            block.limits.iter().find(is_rate).map(|limit| (block, &**limit))
        };
        exact.into_iter().chain(globs).chain(categories).chain(all).filter_map(rate).collect()
    }

    /// Reports a block in which a limit uses the counter of the block's own `rate_limit`. One of the two must be
    /// removed or renamed.
    fn report_duplicate(&mut self, name: &str, user: &CounterUse<'_>, rate: &CounterUse<'_>) {
        let message = format!("the block's own `rate_limit` also uses the counter `{name}`");
        let diagnostic = Diagnostic::error(DiagnosticCode::CounterClash, user.limit.span.clone(), message);
        let diagnostic = diagnostic.with_related(rate.limit.span.clone(), "which counts the same");
        self.push(
            diagnostic.with_help(format!("remove one of the two, or rename this counter, for example to `{name}_2`")),
        );
    }

    /// Reports two limits that disagree on a field.
    fn report_conflict(&mut self, user: &CounterUse<'_>, other: &CounterUse<'_>, field: &str) {
        let name = match &user.limit.counter {
            CounterRef::Named(name) => name.to_string(),
            CounterRef::PerTool { .. } => String::new(),
        };
        let message = format!("the counter `{name}` is shared, and the limits on it disagree on {field}");
        let diagnostic = Diagnostic::error(DiagnosticCode::CounterClash, user.limit.span.clone(), message);
        let diagnostic = diagnostic.with_related(other.limit.span.clone(), "shared with this one");
        self.push(
            diagnostic.with_help(format!("make them agree, or give this one a name of its own, such as `{name}_2`")),
        );
    }

    /// Adds a diagnostic, up to [`MAX_SEARCHED_DIAGNOSTICS`].
    fn push(&mut self, diagnostic: Diagnostic) {
        if self.diagnostics.len() < MAX_SEARCHED_DIAGNOSTICS {
            self.diagnostics.push(diagnostic);
        }
    }
}

/// Returns the first field in which two limits on one counter differ.
fn find_difference(a: &Limit, b: &Limit) -> Option<&'static str> {
    if a.window != b.window {
        return Some("`window`");
    }
    if a.scope != b.scope {
        return Some("`scope`");
    }
    if a.align != b.align {
        return Some("`align`");
    }
    (a.amount.is_some() != b.amount.is_some()).then_some("having an `amount`")
}
