//! Drafts a policy from recorded calls: it has one block for each tool, resource, prompt or method that was used, and
//! denies everything else.
//!
//! The result does not depend on the order of the calls: the same calls give the same text, byte for byte.

mod draft_conditions;
mod draft_text;
mod draft_usage_tally;

use std::collections::BTreeMap;

use gatelodge_json::JsonValue;
use jiff::Timestamp;

use crate::call::{Call, CallTarget, ClientFacts, CompletionReference};
use crate::compile::compiled_policy::{ClientRequestKind, Policy};
use crate::compile::method_names::{TASK_METHOD_PREFIX, is_policy_exempt};
use crate::compile::policy_parser::parse;
use crate::eval::decide::decide;
use crate::eval::decision::Decision;
use crate::string_enum::string_enum;
use crate::syntax::diagnostic::Diagnostic;
use crate::syntax::syntax_tree::DocumentFormat;
use draft_usage_tally::DraftUsageTally;

/// One recorded call.
#[derive(Debug, Clone, Copy)]
pub struct ObservedCall<'a> {
    /// Method name.
    pub method: &'a str,
    /// The tool, resource or prompt, if the method has one.
    pub target: Option<&'a str>,
    /// Time of the call.
    pub at: Timestamp,
    /// Names of the call's arguments.
    pub argument_names: &'a [&'a str],
    /// Arguments of the call, if they were recorded.
    pub arguments: Option<JsonValue<'a>>,
    /// Reason code, if the policy active at that time would have refused the call.
    pub reason_code: Option<&'a str>,
}

string_enum! {
    /// Section of a policy that a block belongs to.
    DraftSection {
        /// Tool calls.
        Tools = "tools",
        /// Requests to read or subscribe to resources.
        Resources = "resources",
        /// Requests for prompts.
        Prompts = "prompts",
        /// Other methods.
        Methods = "methods",
        /// Requests from the server to the client.
        ClientRequests = "client_requests",
    }
}

/// Collects recorded calls and writes a draft from them.
///
/// # Examples
/// ```
/// use gatelodge_policy::{CallLogDraftBuilder, ObservedCall};
///
/// let mut builder = CallLogDraftBuilder::default();
/// builder.add(&ObservedCall {
///     method: "tools/call",
///     target: Some("search"),
///     at: jiff::Timestamp::UNIX_EPOCH,
///     argument_names: &["query"],
///     arguments: None,
///     reason_code: None,
/// });
/// let draft = builder.write("the log of grant `ci`").expect("a draft");
/// assert!(draft.policy.contains(r#""search": { "rate_limit": "10/hour" }"#));
/// ```
#[derive(Debug, Default)]
pub struct CallLogDraftBuilder {
    tallies: BTreeMap<(DraftSection, Box<str>), DraftUsageTally>,
    completions: BTreeMap<Box<str>, u64>,
    uncovered: BTreeMap<(Box<str>, &'static str), u64>,
}

/// A drafted policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallLogDraft {
    /// The policy: JSON with comments, in canonical layout. It always loads.
    pub policy: String,
    /// The blocks, in the order in which the policy contains them.
    pub blocks: Vec<DraftBlock>,
    /// Calls that the draft does not cover.
    pub uncovered: Vec<DraftCoverageGap>,
}

/// A block of the draft, with the usage that it is based on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftBlock {
    /// Section of the policy.
    pub section: DraftSection,
    /// Name of the block.
    pub name: String,
    /// Number of calls.
    pub calls: u64,
    /// Time of the first call.
    pub first: Timestamp,
    /// Time of the last call.
    pub last: Timestamp,
    /// Highest number of calls in one minute, one hour and one day (UTC).
    pub peaks: [u64; 3],
    /// Argument names, each with the number of calls that used it.
    pub arguments: Vec<(String, u64)>,
    /// Conditions that all calls satisfy, as JSON. The policy contains them as comments.
    pub suggested_conditions: Vec<String>,
    /// Number of calls that the policy active at that time would have refused, by reason code. Calls refused only
    /// because the policy did not list them are left out.
    pub reason_codes: Vec<(String, u64)>,
    /// The block's `rate_limit`, if it has one.
    pub rate_limit: Option<String>,
}

/// Calls that the draft does not cover.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftCoverageGap {
    /// The method, and its target if it has one.
    pub description: String,
    /// Number of calls.
    pub calls: u64,
    /// Why the draft has no block for these calls.
    pub reason: &'static str,
}

impl CallLogDraftBuilder {
    /// Adds a call.
    pub fn add(&mut self, call: &ObservedCall<'_>) {
        if is_policy_exempt(call.method) {
            return;
        }
        let (section, name) = match (call.method, call.target) {
            ("completion/complete", target) => {
                *self.completions.entry(target.unwrap_or_default().into()).or_default() += 1;
                return;
            }
            ("tools/call", Some(name)) => (DraftSection::Tools, name),
            ("resources/read" | "resources/subscribe" | "resources/unsubscribe", Some(uri)) => {
                (DraftSection::Resources, uri)
            }
            ("prompts/get", Some(name)) => (DraftSection::Prompts, name),
            (method, _) => match ClientRequestKind::of_method(method) {
                Some(request) => (DraftSection::ClientRequests, request.as_str()),
                None => (DraftSection::Methods, method),
            },
        };
        match uncoverable_reason(section, name) {
            Some(why) => *self.uncovered.entry((describe_call(call.method, call.target).into(), why)).or_default() += 1,
            None => {
                self.tallies.entry((section, name.into())).or_insert_with(|| DraftUsageTally::new(call.at)).add(call)
            }
        }
    }

    /// Writes the policy. `origin` describes in a few words what it was drafted from.
    ///
    /// # Errors
    /// Returns diagnostics if the draft exceeds the maximum size of a policy.
    pub fn write(&self, origin: &str) -> Result<CallLogDraft, Vec<Diagnostic>> {
        let blocks: Vec<DraftBlock> =
            self.tallies.iter().map(|((section, name), tally)| tally.summary(*section, name)).collect();
        let policy = draft_text::write_draft(origin, &blocks)?;
        let compiled = parse(policy.as_bytes(), DocumentFormat::Json)?;
        let mut left_out = self.uncovered.clone();
        for (target, calls) in self.completions.iter().filter(|(target, _)| !allows_completion(&compiled, target)) {
            let why = "a completion is allowed if its prompt or resource is, and neither was used";
            left_out.insert((describe_call("completion/complete", Some(target)).into(), why), *calls);
        }
        let left_out = left_out.into_iter().map(|((what, why), calls)| DraftCoverageGap {
            description: what.into(),
            calls,
            reason: why,
        });
        Ok(CallLogDraft { policy, blocks, uncovered: left_out.collect() })
    }
}

/// Describes a call by its method and target.
fn describe_call(method: &str, target: Option<&str>) -> String {
    match target {
        Some(target) => format!("{method} {target}"),
        None => method.to_owned(),
    }
}

/// Returns why a policy cannot have a block for exactly this name, or `None` if it can.
fn uncoverable_reason(section: DraftSection, name: &str) -> Option<&'static str> {
    match section {
        DraftSection::Methods
            if name.is_empty() || crate::compile::method_names::METHODS_DECIDED_BY_TARGET.contains(&name) =>
        {
            Some("the log does not record its target")
        }
        DraftSection::Methods if name.starts_with(TASK_METHOD_PREFIX) => {
            Some("a task follows the rule of the call that created it")
        }
        DraftSection::ClientRequests => None,
        _ if name.contains('*') => Some("a policy would read the `*` in its name as a wildcard"),
        _ => None,
    }
}

/// Returns whether the policy allows a completion. Tries both a prompt and a resource, because the log does not record
/// which of them the client meant.
fn allows_completion(policy: &Policy, target: &str) -> bool {
    [CompletionReference::Prompt(target), CompletionReference::Resource(target)].into_iter().any(|reference| {
        let subject = CallTarget::Completion(reference);
        let call =
            Call { target: subject, arguments: None, server: None, client: ClientFacts::default(), session: None };
        matches!(decide(policy, &call, Timestamp::UNIX_EPOCH), Decision::Allow(_))
    })
}
