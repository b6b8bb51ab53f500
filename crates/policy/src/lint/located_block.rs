//! Pairs compiled rule blocks with their syntax nodes, so that warnings have locations.

use std::collections::HashMap;
use std::iter::zip;
use std::ops::Range;

use crate::compile::compiled_policy::{CategoryRule, Policy, Predicate, RuleBlock, RuleBlockTable};
use crate::compile::condition::Condition;
use crate::compile::limit::Limit;
use crate::syntax::syntax_tree::{SyntaxMapEntry, SyntaxNode, SyntaxNodeValue};

/// The fields of a policy that contain rule blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicySection {
    AllTools,
    Categories,
    Tools,
    Resources,
    Prompts,
}

/// The lists of predicates in a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PredicateListKind {
    Require,
    DenyIf,
    ApproveIf,
}

/// A rule block and its syntax node.
pub(super) struct LocatedBlock<'p> {
    pub field: PolicySection,
    pub entry: &'p SyntaxMapEntry,
    pub block: &'p RuleBlock,
}

/// A predicate and its syntax node.
#[derive(Clone, Copy)]
pub(super) struct LocatedPredicate<'p> {
    pub predicate: &'p Predicate,
    node: &'p SyntaxNode,
}

/// A condition and its syntax node.
#[derive(Clone, Copy)]
pub(super) struct LocatedCondition<'p> {
    pub condition: &'p Condition,
    node: &'p SyntaxNode,
}

impl PolicySection {
    fn from_key(word: &str) -> Option<Self> {
        match word {
            "all_tools" => Some(Self::AllTools),
            "categories" => Some(Self::Categories),
            "tools" => Some(Self::Tools),
            "resources" => Some(Self::Resources),
            "prompts" => Some(Self::Prompts),
            _ => None,
        }
    }

    /// Returns whether `all_tools` also applies to the blocks in this section.
    pub fn is_under_all_tools(self) -> bool {
        match self {
            Self::Categories | Self::Tools => true,
            Self::AllTools | Self::Resources | Self::Prompts => false,
        }
    }
}

impl PredicateListKind {
    pub const ALL: [Self; 3] = [Self::Require, Self::DenyIf, Self::ApproveIf];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Require => "require",
            Self::DenyIf => "deny_if",
            Self::ApproveIf => "approve_if",
        }
    }
}

/// Returns all rule blocks in document order.
pub(super) fn located_blocks<'p>(policy: &'p Policy, root: &'p SyntaxNode) -> Vec<LocatedBlock<'p>> {
    // INVARIANT: the parser records the span of each block's name.
    let blocks: HashMap<usize, &RuleBlock> = all_blocks(policy).map(|block| (block.span.start, block)).collect();
    let section = |field, entry: &'p SyntaxMapEntry| {
        let block = blocks.get(&entry.key_span.start)?;
        Some(LocatedBlock { field, entry, block })
    };
    let mut sections = Vec::new();
    for entry in entries(root) {
        match PolicySection::from_key(&entry.key) {
            None => {}
            Some(PolicySection::AllTools) => sections.extend(section(PolicySection::AllTools, entry)),
            Some(field) => sections.extend(entries(&entry.value).iter().filter_map(|entry| section(field, entry))),
        }
    }
    sections
}

fn all_blocks(policy: &Policy) -> impl Iterator<Item = &RuleBlock> {
    let categories = policy.categories.iter().filter_map(|(_, rule)| match rule {
        CategoryRule::Block(block) => Some(block),
        CategoryRule::Hide(_) => None,
    });
    let tables = [&policy.tools, &policy.resources, &policy.prompts];
    policy.all_tools.iter().chain(categories).chain(tables.into_iter().flat_map(RuleBlockTable::blocks))
}

impl<'p> LocatedBlock<'p> {
    pub fn predicates(&self, part: PredicateListKind) -> impl Iterator<Item = LocatedPredicate<'p>> + use<'p> {
        let predicates = match part {
            PredicateListKind::Require => &self.block.require,
            PredicateListKind::DenyIf => &self.block.deny_if,
            PredicateListKind::ApproveIf => &self.block.approve_if,
        };
        // INVARIANT: a document without errors has one predicate per list element.
        let nodes = self.entry.value.get(part.as_str()).map(items).unwrap_or_default();
        zip(predicates, nodes).map(|(predicate, node)| LocatedPredicate { predicate, node })
    }

    pub fn all_predicates(&self) -> impl Iterator<Item = (PredicateListKind, LocatedPredicate<'p>)> {
        PredicateListKind::ALL.into_iter().flat_map(|part| self.predicates(part).map(move |rule| (part, rule)))
    }

    /// Returns the limits with their syntax nodes; `rate_limit` comes last.
    pub fn limits(&self) -> impl Iterator<Item = (&'p Limit, &'p SyntaxNode)> + use<'p> {
        let listed = self.entry.value.get("limits").map(items).unwrap_or_default();
        let nodes = listed.iter().chain(self.entry.value.get("rate_limit"));
        zip(&self.block.limits, nodes).map(|(limit, node)| (&**limit, node))
    }

    /// Returns the span of a field's name.
    pub fn key_span(&self, name: &str) -> Option<Range<usize>> {
        key_span(&self.entry.value, name)
    }
}

impl<'p> LocatedPredicate<'p> {
    pub fn conditions(&self) -> impl Iterator<Item = LocatedCondition<'p>> + use<'p> {
        let nodes = match self.node.get("conditions") {
            Some(list) => items(list),
            // A bare condition is a predicate with one condition.
            None => std::slice::from_ref(self.node),
        };
        zip(&self.predicate.conditions, nodes).map(|(condition, node)| LocatedCondition { condition, node })
    }

    /// Returns a short span that represents the whole predicate.
    pub fn short_span(&self) -> Range<usize> {
        let name = key_span(self.node, "conditions").or_else(|| key_span(self.node, "path"));
        name.unwrap_or_else(|| self.predicate.span.clone())
    }
}

impl<'p> LocatedCondition<'p> {
    pub fn path_span(&self) -> Range<usize> {
        self.member_span("path")
    }

    pub fn operator_span(&self) -> Range<usize> {
        self.member_span("op")
    }

    fn member_span(&self, name: &str) -> Range<usize> {
        self.node.get(name).map_or(&self.condition.span, |node| &node.span).clone()
    }

    /// Returns the span of a scalar value. For a list, which may be long, returns the span of the operator instead.
    pub fn value_span(&self) -> Range<usize> {
        match self.node.get("value") {
            Some(SyntaxNode { value: SyntaxNodeValue::List(_), .. }) | None => self.operator_span(),
            Some(value) => value.span.clone(),
        }
    }

    /// Returns the members of the condition's list, or its single value.
    pub fn members(&self) -> &'p [SyntaxNode] {
        match self.node.get("value") {
            Some(SyntaxNode { value: SyntaxNodeValue::List(members), .. }) => members,
            Some(value) => std::slice::from_ref(value),
            None => &[],
        }
    }

    /// Formats the operator and its value for messages.
    pub fn operator_text(&self) -> String {
        const MAX_VALUE_CHARS: usize = 40;
        let expected: String = self.condition.expected_json.chars().take(MAX_VALUE_CHARS).collect();
        let rest = if expected.len() < self.condition.expected_json.len() { "…" } else { "" };
        format!("{} {expected}{rest}", self.condition.operator.operator())
    }
}

pub(super) fn entries(node: &SyntaxNode) -> &[SyntaxMapEntry] {
    match &node.value {
        SyntaxNodeValue::Map(entries) => entries,
        _ => &[],
    }
}

pub(super) fn items(node: &SyntaxNode) -> &[SyntaxNode] {
    match &node.value {
        SyntaxNodeValue::List(items) => items,
        _ => &[],
    }
}

/// Returns the span of a member's value, or of the whole node if it has no such member.
pub(super) fn member_span(node: &SyntaxNode, name: &str) -> Range<usize> {
    node.get(name).unwrap_or(node).span.clone()
}

fn key_span(node: &SyntaxNode, name: &str) -> Option<Range<usize>> {
    entries(node).iter().find(|entry| entry.key == name).map(|entry| entry.key_span.clone())
}
