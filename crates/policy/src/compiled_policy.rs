//! A policy: compiled, indexed, immutable.

use std::ops::Range;
use std::sync::Arc;

use foldhash::HashMap;
use gatelodge_mutants::mutant;
use jiff::tz::TimeZone;

use crate::call::{CalledTool, Category};
use crate::condition::{Answer, Condition, EvaluationTime, Quantifier};
use crate::glob::Glob;
use crate::limit::{Limit, string_enum};

/// A policy that was read without a fault.
#[derive(Debug)]
pub struct Policy {
    pub(crate) default: Default,
    pub(crate) default_pointer: Arc<str>,
    pub(crate) hide: HideList,
    pub(crate) all_tools: Option<RuleBlock>,
    pub(crate) categories: Vec<(Category, CategoryRule)>,
    pub(crate) tools: BlockTable,
    pub(crate) resources: BlockTable,
    pub(crate) prompts: BlockTable,
    pub(crate) methods: Option<MethodTable>,
    pub(crate) client_requests: Option<Vec<(ClientRequest, MethodRule)>>,
    pub(crate) time_zone: TimeZone,
}

string_enum! {
    /// The fate of what no other part of a policy speaks of.
    Default {
        /// It passes.
        Allow = "allow",
        /// It is refused.
        Deny = "deny",
    }
}

string_enum! {
    /// What a rule block does with a call that passes its conditions.
    Action {
        /// Lets it through.
        Allow = "allow",
        /// Refuses it, visibly.
        Deny = "deny",
        /// Waits for a person.
        Approve = "approve",
    }
}

string_enum! {
    /// What a server may ask of a client.
    ClientRequest {
        /// `sampling/createMessage`.
        Sampling = "sampling",
        /// `elicitation/create`.
        Elicitation = "elicitation",
        /// `roots/list`.
        Roots = "roots",
    }
}

impl ClientRequest {
    /// Finds the request that a method is.
    pub fn of_method(method: &str) -> Option<Self> {
        match method {
            "sampling/createMessage" => Some(Self::Sampling),
            "elicitation/create" => Some(Self::Elicitation),
            "roots/list" => Some(Self::Roots),
            _ => None,
        }
    }
}

/// A plain yes or no, and the rule that says so.
#[derive(Debug, Clone)]
pub(crate) struct MethodRule {
    pub allows: bool,
    pub pointer: Arc<str>,
}

/// One rule block.
#[derive(Debug)]
pub(crate) struct RuleBlock {
    pub pointer: Arc<str>,
    /// Where its name stands in the document.
    pub span: Range<usize>,
    pub action: Action,
    pub reason: Option<Arc<str>>,
    pub require: Vec<Predicate>,
    pub deny_if: Vec<Predicate>,
    pub approve_if: Vec<Predicate>,
    pub limits: Vec<Arc<Limit>>,
    pub validate_arguments: bool,
}

/// Conditions that must hold together.
#[derive(Debug)]
pub(crate) struct Predicate {
    pub pointer: Arc<str>,
    /// Where it stands in the document.
    pub span: Range<usize>,
    pub conditions: Vec<Condition>,
    pub on_deny: Option<Arc<str>>,
}

impl Predicate {
    pub fn evaluate(&self, call: &crate::Call<'_>, moment: EvaluationTime<'_>, polarity: Quantifier) -> Answer {
        let answers = self.conditions.iter().map(|condition| condition.evaluate(call, moment, polarity));
        answers.fold(Answer::True, Answer::and)
    }
}

/// What a category is mapped to.
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

/// Rule blocks by name or glob.
#[derive(Debug, Default)]
pub(crate) struct BlockTable {
    pub exact: HashMap<Box<str>, RuleBlock>,
    /// The more exact first.
    pub globs: Vec<(Glob, RuleBlock)>,
}

impl BlockTable {
    pub fn find(&self, name: &str) -> Option<&RuleBlock> {
        self.exact.get(name).or_else(|| self.find_glob(name))
    }

    fn find_glob(&self, name: &str) -> Option<&RuleBlock> {
        self.globs.iter().find(|(glob, _)| glob.matches(name)).map(|(_, block)| block)
    }

    /// Finds a block that some text matching the glob could have.
    pub fn find_overlapping(&self, other: &Glob) -> Option<&RuleBlock> {
        let exact = self.exact.iter().filter(|(name, _)| other.matches(name)).map(|(_, block)| block);
        let glob = self.globs.iter().find(|(glob, _)| glob.can_overlap(other)).map(|(_, block)| block);
        // Of several exact ones any will do, but always the same.
        exact.min_by(|a, b| a.pointer.cmp(&b.pointer)).or(glob)
    }

    pub fn blocks(&self) -> impl Iterator<Item = &RuleBlock> {
        self.exact.values().chain(self.globs.iter().map(|(_, block)| block))
    }
}

/// The `hide` list.
#[derive(Debug, Default)]
pub(crate) struct HideList {
    /// Names, each with its first place in the list.
    pub exact: HashMap<Box<str>, (usize, Arc<str>)>,
    pub globs: Vec<(usize, Glob, Arc<str>)>,
}

impl HideList {
    /// The first entry in document order that hides the name.
    pub fn find(&self, name: &str) -> Option<&Arc<str>> {
        let exact = self.exact.get(name).map(|(at, pointer)| (*at, pointer));
        let glob = self.globs.iter().find(|(_, glob, _)| glob.matches(name)).map(|(at, _, pointer)| (*at, pointer));
        exact.into_iter().chain(glob).min_by_key(|(at, _)| *at).map(|(_, pointer)| pointer)
    }
}

/// The `methods` map.
#[derive(Debug, Default)]
pub(crate) struct MethodTable {
    pub exact: HashMap<Box<str>, MethodRule>,
    /// Texts that `x/*` begins with, the longest first.
    pub prefixes: Vec<(Box<str>, MethodRule)>,
}

impl MethodTable {
    pub fn find(&self, method: &str) -> Option<&MethodRule> {
        let by_prefix = || self.prefixes.iter().find(|(prefix, _)| method.starts_with(&**prefix));
        self.exact.get(method).or_else(|| by_prefix().map(|(_, verdict)| verdict))
    }
}

/// What a policy says of a tool, before any condition is looked at.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ToolVisibility<'p> {
    Hidden(&'p Arc<str>),
    Listed(&'p RuleBlock),
    /// Nothing speaks of it; `default` decides.
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
