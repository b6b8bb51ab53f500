//! The counters used by a policy's limits. Comparing two versions of a policy shows which counters restart.

use std::sync::Arc;

use crate::compile::compiled_policy::{Policy, RuleBlock};
use crate::compile::limit::{CounterRef, LimitScope, LimitWindow, RATE_COUNTER_SUFFIX, WindowAlignment};

/// The part of a counter's identity that the policy defines. If any field changes, the counter restarts at zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CounterIdentity {
    /// Name of the counter. A `rate_limit` that applies to several tools has one counter for each of them. Its name
    /// then contains the block's glob, or `<tool>`, in place of the tool's name.
    pub name: Arc<str>,
    /// Length of the window.
    pub window: LimitWindow,
    /// How the start of the window is determined.
    pub align: WindowAlignment,
    /// Which calls share the counter: those in one session, with one grant, and so on.
    pub scope: LimitScope,
}

impl Policy {
    /// Returns all counters, sorted by name, without duplicates.
    pub fn counters(&self) -> Vec<CounterIdentity> {
        let categories = self.categories.iter().filter_map(|(_, rule)| rule.block()).map(|block| ("<tool>", block));
        let tables = [&self.tools, &self.resources, &self.prompts].into_iter().flat_map(|table| table.blocks());
        let named = tables.map(|block| (block.pointer.rsplit('/').next().unwrap_or_default(), block));
        let all = self.all_tools.iter().map(|block| ("<tool>", block));
        let mut identities: Vec<CounterIdentity> =
            all.chain(categories).chain(named).flat_map(|(tool, block)| counter_identities(tool, block)).collect();
        identities.sort_by(|a, b| a.name.cmp(&b.name));
        identities.dedup();
        identities
    }
}

fn counter_identities(tool: &str, block: &RuleBlock) -> impl Iterator<Item = CounterIdentity> {
    block.limits.iter().map(move |limit| {
        let name = match &limit.counter {
            CounterRef::Named(name) => Arc::clone(name),
            CounterRef::PerTool { prefix } => format!("{prefix}{tool}{RATE_COUNTER_SUFFIX}").into(),
        };
        CounterIdentity { name, window: limit.window, align: limit.align, scope: limit.scope }
    })
}

#[cfg(test)]
mod tests {
    use crate::{DocumentFormat, parse};

    #[test]
    fn each_counter_is_listed_once_with_its_identity() {
        let text = r#"{"version": "1", "default": "deny",
            "all_tools": {"rate_limit": "9/minute"},
            "categories": {"read": {"rate_limit": "5/hour"}},
            "tools": {"pay": {"limits": [{"counter": "spend", "window": "day", "max": 5}]},
                      "refund": {"limits": [{"counter": "spend", "window": "day", "max": 3}]},
                      "get_*": {"rate_limit": "1/minute"}}}"#;
        let policy = parse(text.as_bytes(), DocumentFormat::Json).expect("a policy");
        let counters = policy.counters();
        let counters: Vec<String> = counters
            .iter()
            .map(|identity| format!("{} {} {:?}", identity.name, identity.window, identity.scope))
            .collect();
        assert_eq!(
            counters,
            ["<tool>_rate hour Grant", "all:<tool>_rate minute Grant", "get_*_rate minute Grant", "spend day Grant"]
        );
    }
}
