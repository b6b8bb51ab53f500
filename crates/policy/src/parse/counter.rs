//! Counters that several limits share: what they must agree on.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::block::Place;
use crate::compiled_policy::{Policy, RuleBlock};
use crate::diagnostic::{Diagnostic, DiagnosticCode, MAX_SEARCHED_DIAGNOSTICS};
use crate::limit::{ALL_TOOLS_COUNTER_PREFIX, CounterRef, Limit, RATE_COUNTER_SUFFIX};

/// A limit and the block it stands in.
#[derive(Clone, Copy)]
struct Use<'p> {
    limit: &'p Limit,
    block: &'p RuleBlock,
    block_kind: Place,
}

pub(super) fn check(policy: &Policy, faults: &mut Vec<Diagnostic>) {
    let mut checker = Checker { policy, diagnostics: faults };
    let uses = checker.uses();
    let mut by_name: BTreeMap<&str, Vec<Use<'_>>> = BTreeMap::new();
    for user in &uses {
        if let CounterRef::Named(name) = &user.limit.counter {
            by_name.entry(name).or_default().push(*user);
        }
    }
    for (name, users) in &by_name {
        checker.agree(users);
        checker.agree_on_amount(users);
        checker.agree_with_rates(name, users);
    }
}

struct Checker<'p, 'f> {
    policy: &'p Policy,
    diagnostics: &'f mut Vec<Diagnostic>,
}

impl<'p> Checker<'p, '_> {
    /// All limits, in the order of the document's parts.
    fn uses(&self) -> Vec<Use<'p>> {
        let policy = self.policy;
        let blocks = policy
            .tools
            .blocks()
            .map(|block| (block, Place::Tool))
            .chain(policy.categories.iter().filter_map(|(_, rule)| rule.block()).map(|block| (block, Place::Category)))
            .chain(policy.all_tools.iter().map(|block| (block, Place::AllTools)))
            .chain(policy.resources.blocks().map(|block| (block, Place::Resource)))
            .chain(policy.prompts.blocks().map(|block| (block, Place::Prompt)));
        let mut uses: Vec<Use<'p>> = blocks
            .flat_map(|(block, place)| block.limits.iter().map(move |limit| Use { limit, block, block_kind: place }))
            .collect();
        // Tables hash their names; places in the document are the order that people see.
        uses.sort_by_key(|user| user.limit.span.start);
        uses
    }

    /// Window, scope, align, and having an amount or not.
    fn agree(&mut self, users: &[Use<'_>]) {
        let Some((first, rest)) = users.split_first() else { return };
        for user in rest {
            if let Some(field) = difference(first.limit, user.limit) {
                self.clash(user, first, field);
            }
        }
    }

    /// Limits that can meet in one call: in one block, or in a tool's block and `all_tools`.
    fn agree_on_amount(&mut self, users: &[Use<'_>]) {
        let in_all: Option<&Use<'_>> = users.iter().find(|user| user.block_kind == Place::AllTools);
        let mut firsts: BTreeMap<&str, &Use<'_>> = BTreeMap::new();
        for user in users {
            let first = *firsts.entry(&user.block.pointer).or_insert(user);
            let others = [Some(first), in_all.filter(|_| user.block_kind.is_for_tools())];
            let path = |user: &Use<'_>| user.limit.amount.as_ref().map(|path| path.segments.clone());
            let differs = |other: &&Use<'_>| path(other).is_some() && path(user).is_some() && path(other) != path(user);
            if let Some(other) = others.into_iter().flatten().find(differs) {
                self.clash(user, other, "amount");
            }
        }
    }

    /// The counters that a `rate_limit` gives, by the name of the tool that is called.
    fn agree_with_rates(&mut self, name: &str, users: &[Use<'_>]) {
        for (block, rate) in self.rates_giving(name) {
            let rate = Use { limit: rate, block, block_kind: Place::Tool };
            for user in users {
                if std::ptr::eq(user.block, block) {
                    self.twice(name, user, &rate);
                } else if let Some(field) = difference(rate.limit, user.limit) {
                    self.clash(user, &rate, field);
                }
            }
        }
    }

    /// The blocks whose `rate_limit` could use a counter of this name, judged by their keys alone.
    fn rates_giving(&self, name: &str) -> Vec<(&'p RuleBlock, &'p Limit)> {
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

    /// Tells that a block counts the same twice: the two cannot agree, one has to go.
    fn twice(&mut self, name: &str, user: &Use<'_>, rate: &Use<'_>) {
        let message = format!("the counter `{name}` is also that of the block's own `rate_limit`");
        let fault = Diagnostic::error(DiagnosticCode::CounterClash, user.limit.span.clone(), message);
        let fault = fault.with_related(rate.limit.span.clone(), "which counts the same");
        self.push(
            fault.with_help(format!("remove one of the two, or name this counter otherwise, such as `{name}_2`")),
        );
    }

    /// Tells a disagreement.
    fn clash(&mut self, user: &Use<'_>, other: &Use<'_>, field: &str) {
        let name = match &user.limit.counter {
            CounterRef::Named(name) => name.to_string(),
            CounterRef::PerTool { .. } => String::new(),
        };
        let message = format!("the counter `{name}` is shared, and the limits on it disagree on {field}");
        let fault = Diagnostic::error(DiagnosticCode::CounterClash, user.limit.span.clone(), message);
        let fault = fault.with_related(other.limit.span.clone(), "shared with this one");
        self.push(fault.with_help(format!("make them agree, or give this one a name of its own, such as `{name}_2`")));
    }

    /// Keeps a fault, unless there are more already than anybody is told.
    fn push(&mut self, fault: Diagnostic) {
        if self.diagnostics.len() < MAX_SEARCHED_DIAGNOSTICS {
            self.diagnostics.push(fault);
        }
    }
}

/// The first field on which two limits of one counter disagree.
fn difference(a: &Limit, b: &Limit) -> Option<&'static str> {
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
