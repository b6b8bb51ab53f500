//! Drafts a policy from what was done: one block for each thing that was used, and nothing else is allowed.
//!
//! The order in which deeds come does not matter; the same deeds give the same text, byte for byte.

mod condition_suggestions;
mod draft_text;
mod usage_tally;

use std::collections::BTreeMap;

use gatelodge_json::JsonValue;
use jiff::Timestamp;

use crate::call::{Call, CallTarget, ClientFacts, CompletionReference};
use crate::compiled_policy::{ClientRequest, Policy};
use crate::decide::decide;
use crate::decision::Decision;
use crate::diagnostic::Diagnostic;
use crate::limit::string_enum;
use crate::method_rules::{TASK_METHOD_PREFIX, is_always_allowed};
use crate::policy_parser::parse;
use crate::syntax_tree::DocumentFormat;
use usage_tally::UsageTally;

/// Something that was done once.
#[derive(Debug, Clone, Copy)]
pub struct ObservedCall<'a> {
    /// The method.
    pub method: &'a str,
    /// The tool, resource or prompt.
    pub target: Option<&'a str>,
    /// When.
    pub at: Timestamp,
    /// The names of its arguments.
    pub argument_names: &'a [&'a str],
    /// Its arguments, where they are known.
    pub arguments: Option<JsonValue<'a>>,
    /// Why the policy of that time would have refused it, by its code.
    pub reason_code: Option<&'a str>,
}

string_enum! {
    /// The part of a policy that a block stands in.
    Part {
        /// Calls of tools.
        Tools = "tools",
        /// Reading and watching resources.
        Resources = "resources",
        /// Getting prompts.
        Prompts = "prompts",
        /// Other methods.
        Methods = "methods",
        /// What the server asked of the client.
        ClientRequests = "client_requests",
    }
}

/// What was done, as far as it was told.
#[derive(Debug, Default)]
pub struct DraftBuilder {
    tallies: BTreeMap<(Part, Box<str>), UsageTally>,
    completions: BTreeMap<Box<str>, u64>,
    uncovered: BTreeMap<(Box<str>, &'static str), u64>,
}

/// A drafted policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftPolicy {
    /// The policy: JSON with comments, in the usual layout. It loads.
    pub policy: String,
    /// What it allows, in the order of the text.
    pub blocks: Vec<DraftBlock>,
    /// What no block could be written for.
    pub uncovered: Vec<UncoveredCall>,
}

/// A block of the draft, and what it rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftBlock {
    /// Where it stands.
    pub section: Part,
    /// Its name there.
    pub name: String,
    /// How often it was used.
    pub calls: u64,
    /// The first time.
    pub first: Timestamp,
    /// The last time.
    pub last: Timestamp,
    /// The most within a minute, an hour and a day of UTC.
    pub peaks: [u64; 3],
    /// The names of arguments, and in how many calls each was there.
    pub arguments: Vec<(String, u64)>,
    /// Conditions that all calls satisfy, as JSON; they stand in the text as comments.
    pub suggested_conditions: Vec<String>,
    /// The calls that the policy of that time would have refused, by code; what it did not list is not among them.
    pub reason_codes: Vec<(String, u64)>,
    /// The limit of its block.
    pub rate_limit: Option<String>,
}

/// Deeds that the draft does not cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncoveredCall {
    /// What it was: a method, and what it was about.
    pub description: String,
    /// How often.
    pub calls: u64,
    /// Why no block was written.
    pub reason: &'static str,
}

impl DraftBuilder {
    /// Adds a deed.
    pub fn add(&mut self, deed: &ObservedCall<'_>) {
        if is_always_allowed(deed.method) {
            return;
        }
        let (part, name) = match (deed.method, deed.target) {
            ("completion/complete", target) => {
                *self.completions.entry(target.unwrap_or_default().into()).or_default() += 1;
                return;
            }
            ("tools/call", Some(name)) => (Part::Tools, name),
            ("resources/read" | "resources/subscribe" | "resources/unsubscribe", Some(uri)) => (Part::Resources, uri),
            ("prompts/get", Some(name)) => (Part::Prompts, name),
            (method, _) => match ClientRequest::of_method(method) {
                Some(request) => (Part::ClientRequests, request.as_str()),
                None => (Part::Methods, method),
            },
        };
        match uncoverable_reason(part, name) {
            Some(why) => *self.uncovered.entry((describe_call(deed.method, deed.target).into(), why)).or_default() += 1,
            None => self.tallies.entry((part, name.into())).or_insert_with(|| UsageTally::new(deed.at)).add(deed),
        }
    }

    /// Writes the policy; `origin` says in a few words what it was drafted from.
    ///
    /// # Errors
    /// There is so much that no policy can hold it.
    pub fn write(&self, origin: &str) -> Result<DraftPolicy, Vec<Diagnostic>> {
        let used: Vec<DraftBlock> =
            self.tallies.iter().map(|((part, name), tally)| tally.summary(*part, name)).collect();
        let policy = draft_text::write_draft(origin, &used)?;
        let compiled = parse(policy.as_bytes(), DocumentFormat::Json)?;
        let mut left_out = self.uncovered.clone();
        for (target, calls) in self.completions.iter().filter(|(target, _)| !allows_completion(&compiled, target)) {
            let why = "a completion passes where its prompt or resource does, and neither was used";
            left_out.insert((describe_call("completion/complete", Some(target)).into(), why), *calls);
        }
        let left_out = left_out.into_iter().map(|((what, why), calls)| UncoveredCall {
            description: what.into(),
            calls,
            reason: why,
        });
        Ok(DraftPolicy { policy, blocks: used, uncovered: left_out.collect() })
    }
}

/// What a deed was, in words: its method, and what it was about.
fn describe_call(method: &str, target: Option<&str>) -> String {
    match target {
        Some(target) => format!("{method} {target}"),
        None => method.to_owned(),
    }
}

/// Why no block can be written that allows this and nothing else.
fn uncoverable_reason(part: Part, name: &str) -> Option<&'static str> {
    match part {
        Part::Methods if name.is_empty() || crate::method_rules::METHODS_DECIDED_BY_TARGET.contains(&name) => {
            Some("the log does not say what it was about")
        }
        Part::Methods if name.starts_with(TASK_METHOD_PREFIX) => {
            Some("a task is under the rule of the call that made it")
        }
        Part::ClientRequests => None,
        _ if name.contains('*') => Some("a policy would take the `*` in its name for any text"),
        _ => None,
    }
}

/// Whether the policy lets a completion pass. The log does not say whether it was of a prompt or of a resource.
fn allows_completion(policy: &Policy, target: &str) -> bool {
    [CompletionReference::Prompt(target), CompletionReference::Resource(target)].into_iter().any(|reference| {
        let subject = CallTarget::Completion(reference);
        let call =
            Call { target: subject, arguments: None, server: None, client: ClientFacts::default(), session: None };
        matches!(decide(policy, &call, Timestamp::UNIX_EPOCH), Decision::Allow(_))
    })
}
