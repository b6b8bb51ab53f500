//! The compiled policy: indexed and immutable.

use std::ops::Range;
use std::sync::Arc;

use foldhash::HashMap;
use gatelodge_mutants::mutant;
use jiff::tz::TimeZone;

use crate::call::{CalledTool, Category};
use crate::compile::condition::Condition;
use crate::compile::glob::Glob;
use crate::compile::limit::Limit;
use crate::string_enum::string_enum;

/// A compiled policy.
#[derive(Debug)]
pub struct Policy {
    pub(crate) default: DefaultAction,
    pub(crate) default_pointer: Arc<str>,
    pub(crate) hide: HideList,
    pub(crate) all_tools: Option<RuleBlock>,
    pub(crate) categories: Vec<(Category, CategoryRule)>,
    pub(crate) tools: RuleBlockTable,
    pub(crate) resources: RuleBlockTable,
    pub(crate) prompts: RuleBlockTable,
    pub(crate) methods: Option<MethodTable>,
    pub(crate) client_requests: Option<Vec<(ClientRequestKind, MethodRule)>>,
    pub(crate) time_zone: TimeZone,
}

string_enum! {
    /// What happens to calls that no rule of the policy matches.
    DefaultAction {
        /// Calls that no rule matches are allowed.
        Allow = "allow",
        /// Calls that no rule matches are denied.
        Deny = "deny",
    }
}

string_enum! {
    /// What a rule block does with a call that satisfies its conditions.
    BlockAction {
        /// Allows the call.
        Allow = "allow",
        /// Denies the call. The tool stays visible.
        Deny = "deny",
        /// Requires approval by a person.
        Approve = "approve",
    }
}

string_enum! {
    /// The kinds of requests that a server may send to a client.
    ClientRequestKind {
        /// A `sampling/createMessage` request.
        Sampling = "sampling",
        /// An `elicitation/create` request.
        Elicitation = "elicitation",
        /// A `roots/list` request.
        Roots = "roots",
    }
}

impl ClientRequestKind {
    /// Returns the kind of request that has this method name.
    pub fn of_method(method: &str) -> Option<Self> {
        match method {
            "sampling/createMessage" => Some(Self::Sampling),
            "elicitation/create" => Some(Self::Elicitation),
            "roots/list" => Some(Self::Roots),
            _ => None,
        }
    }
}

/// A rule that allows or denies a method, and its JSON Pointer.
#[derive(Debug, Clone)]
pub(crate) struct MethodRule {
    pub allows: bool,
    pub pointer: Arc<str>,
}

/// The rules for one tool, category, resource or prompt.
#[derive(Debug)]
pub(crate) struct RuleBlock {
    pub pointer: Arc<str>,
    /// Location of the block's name in the document.
    pub span: Range<usize>,
    pub action: BlockAction,
    pub reason: Option<Arc<str>>,
    pub require: Vec<Predicate>,
    pub deny_if: Vec<Predicate>,
    pub approve_if: Vec<Predicate>,
    pub limits: Vec<Arc<Limit>>,
    pub validate_arguments: bool,
}

/// Conditions that must all hold.
#[derive(Debug)]
pub(crate) struct Predicate {
    pub pointer: Arc<str>,
    /// Location of the predicate in the policy document.
    pub span: Range<usize>,
    pub conditions: Vec<Condition>,
    pub on_deny: Option<Arc<str>>,
}

/// The rule for one category.
#[derive(Debug)]
pub(crate) enum CategoryRule {
    Block(RuleBlock),
    Hide(Arc<str>),
}

impl CategoryRule {
    pub fn block(&self) -> Option<&RuleBlock> {
        match self {
            Self::Block(block) => Some(block),
            Self::Hide(_) => None,
        }
    }
}

/// Rule blocks, looked up by exact name or glob.
#[derive(Debug, Default)]
pub(crate) struct RuleBlockTable {
    pub exact: HashMap<Box<str>, RuleBlock>,
    /// Globs with their blocks, sorted from most to least specific.
    pub globs: Vec<(Glob, RuleBlock)>,
}

impl RuleBlockTable {
    pub fn find(&self, name: &str) -> Option<&RuleBlock> {
        self.exact.get(name).or_else(|| self.find_glob(name))
    }

    fn find_glob(&self, name: &str) -> Option<&RuleBlock> {
        self.globs.iter().find(|(glob, _)| glob.matches(name)).map(|(_, block)| block)
    }

    /// Finds a block that applies to at least one name that the glob `other` matches.
    pub fn find_overlapping(&self, other: &Glob) -> Option<&RuleBlock> {
        let exact = self.exact.iter().filter(|(name, _)| other.matches(name)).map(|(_, block)| block);
        let glob = self.globs.iter().find(|(glob, _)| glob.can_overlap(other)).map(|(_, block)| block);
        // Any exact match will do; the smallest pointer makes the choice deterministic.
        exact.min_by(|a, b| a.pointer.cmp(&b.pointer)).or(glob)
    }

    pub fn blocks(&self) -> impl Iterator<Item = &RuleBlock> {
        self.exact.values().chain(self.globs.iter().map(|(_, block)| block))
    }
}

/// The `hide` list of a policy.
#[derive(Debug, Default)]
pub(crate) struct HideList {
    /// Exact names, each with the index and JSON Pointer of its first occurrence in the list.
    pub exact: HashMap<Box<str>, (usize, Arc<str>)>,
    pub globs: Vec<(usize, Glob, Arc<str>)>,
}

impl HideList {
    /// Returns the first entry in document order that hides the name.
    pub fn find(&self, name: &str) -> Option<&Arc<str>> {
        let exact = self.exact.get(name).map(|(at, pointer)| (*at, pointer));
        let glob = self.globs.iter().find(|(_, glob, _)| glob.matches(name)).map(|(at, _, pointer)| (*at, pointer));
        exact.into_iter().chain(glob).min_by_key(|(at, _)| *at).map(|(_, pointer)| pointer)
    }
}

/// The `methods` map of a policy.
#[derive(Debug, Default)]
pub(crate) struct MethodTable {
    pub exact: HashMap<Box<str>, MethodRule>,
    /// Rules for patterns such as `x/*`, each with the prefix that it matches (`x/`), longest prefix first.
    pub prefixes: Vec<(Box<str>, MethodRule)>,
}

impl MethodTable {
    pub fn find(&self, method: &str) -> Option<&MethodRule> {
        let by_prefix = || self.prefixes.iter().find(|(prefix, _)| method.starts_with(&**prefix));
        self.exact.get(method).or_else(|| by_prefix().map(|(_, rule)| rule))
    }
}

/// Result of looking up a tool in a policy, before its conditions are evaluated.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ToolVisibility<'p> {
    Hidden(&'p Arc<str>),
    Listed(&'p RuleBlock),
    /// No rule names the tool; `default` decides.
    Unlisted,
}

impl Policy {
    pub(crate) fn tool_visibility(&self, tool: &CalledTool<'_>) -> ToolVisibility<'_> {
        if let Some(pointer) = self.hide.find(tool.name)
            && !(mutant!("tools-block-wins-over-hide") && self.tools.find(tool.name).is_some())
        {
            return ToolVisibility::Hidden(pointer);
        }
        if let Some(block) = self.tools.find(tool.name) {
            return ToolVisibility::Listed(block);
        }
        let category = tool.effective_category();
        match self.categories.iter().find(|(own, _)| *own == category) {
            Some((_, CategoryRule::Hide(pointer))) => ToolVisibility::Hidden(pointer),
            Some((_, CategoryRule::Block(block))) => ToolVisibility::Listed(block),
            None => ToolVisibility::Unlisted,
        }
    }
}
