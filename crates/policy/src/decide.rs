//! `decide`: a policy, a call and a time give an answer. It cannot fail; what cannot be judged is denied.
//!
//! The order of the steps is the order of what is reported; the first refusal is the answer.

use std::sync::Arc;

use gatelodge_mutants::mutant;
use jiff::Timestamp;

use crate::ambiguous_uri;
use crate::call::{Call, CallTarget, CalledTool, CompletionReference, Definition};
use crate::charges;
use crate::compiled_policy::{Action, BlockTable, Default, Policy, Predicate, RuleBlock, ToolVisibility};
use crate::condition::{Answer, EvaluationTime, Quantifier};
use crate::decision::{ApprovalRequirement, Code, Decision, Reason, Terms};
use crate::method_rules;

/// Judges one call.
pub fn decide(policy: &Policy, call: &Call<'_>, at: Timestamp) -> Decision {
    let judged = match call.target {
        CallTarget::Tool(tool) => decide_tool(policy, call, &tool, at),
        CallTarget::Task(tool) => decide_task(policy, &tool),
        CallTarget::Resource { uri } => decide_resource(policy, call, uri, at),
        CallTarget::Prompt { name } => decide_named(policy, call, &policy.prompts, name, at),
        CallTarget::Completion(reference) => decide_completion(policy, reference),
        CallTarget::Method { name } => method_rules::decide_method(policy, name),
    };
    as_decision(judged)
}

pub(crate) fn as_decision(judged: Result<Terms, Reason>) -> Decision {
    match judged {
        Ok(terms) => Decision::Allow(terms),
        Err(reason) => Decision::Deny(reason),
    }
}

fn decide_tool(policy: &Policy, call: &Call<'_>, tool: &CalledTool<'_>, at: Timestamp) -> Result<Terms, Reason> {
    let blocks = admit_tool(policy, tool)?;
    let moment = EvaluationTime { at, time_zone: &policy.time_zone };
    for block in blocks.iter() {
        refuse_invalid_arguments(block, tool, call)?;
        refuse_by_predicates(block, call, moment)?;
    }
    build_terms(policy, blocks, call, tool.name, moment)
}

/// A task passes where its tool can be called at all. What the rule says of arguments, times, limits and approval was
/// settled when the call was made.
fn decide_task(policy: &Policy, tool: &CalledTool<'_>) -> Result<Terms, Reason> {
    let blocks = admit_tool(policy, tool)?;
    let rule = blocks.own_block.map_or(&policy.default_pointer, |block| &block.pointer);
    Ok(Terms { rule: Some(Arc::clone(rule)), ..Terms::default() })
}

/// The blocks that hold for a tool that can be called at all.
fn admit_tool<'p>(policy: &'p Policy, tool: &CalledTool<'_>) -> Result<ApplicableBlocks<'p>, Reason> {
    let own = match policy.tool_visibility(tool) {
        ToolVisibility::Hidden(pointer) => {
            return Err(Reason::new(Code::Hidden, Some(pointer), "the tool is hidden by the policy"));
        }
        ToolVisibility::Listed(block) => Some(block),
        ToolVisibility::Unlisted => apply_default(policy)?,
    };
    if tool.definition == Definition::NotOffered {
        return Err(Reason::new(Code::NotOffered, None, "the server does not offer this tool"));
    }
    let blocks = ApplicableBlocks { own_block: own, all_tools_block: policy.all_tools.as_ref() };
    refuse_denied(blocks)?;
    refuse_unaccepted(tool)?;
    Ok(blocks)
}

fn decide_resource(policy: &Policy, call: &Call<'_>, uri: &str, at: Timestamp) -> Result<Terms, Reason> {
    refuse_ambiguous_uri(policy, uri)?;
    decide_named(policy, call, &policy.resources, uri, at)
}

/// Judges a resource or a prompt by the block of its name.
fn decide_named(
    policy: &Policy,
    call: &Call<'_>,
    table: &BlockTable,
    name: &str,
    at: Timestamp,
) -> Result<Terms, Reason> {
    let own = match table.find(name) {
        Some(block) => Some(block),
        None => apply_default(policy)?,
    };
    let blocks = ApplicableBlocks { own_block: own, all_tools_block: None };
    refuse_denied(blocks)?;
    let moment = EvaluationTime { at, time_zone: &policy.time_zone };
    for block in blocks.iter() {
        refuse_by_predicates(block, call, moment)?;
    }
    build_terms(policy, blocks, call, name, moment)
}

/// A completion passes where what it refers to is visible and not denied.
fn decide_completion(policy: &Policy, reference: CompletionReference<'_>) -> Result<Terms, Reason> {
    let found = match reference {
        CompletionReference::Prompt(name) => policy.prompts.find(name),
        CompletionReference::Resource(uri) => {
            refuse_ambiguous_uri(policy, uri)?;
            policy.find_resource_or_template(uri)
        }
        CompletionReference::Unknown => {
            return Err(Reason::new(Code::NotListed, None, "the completion does not say what it refers to"));
        }
    };
    let own = match found {
        Some(block) => Some(block),
        None => apply_default(policy)?,
    };
    refuse_denied(ApplicableBlocks { own_block: own, all_tools_block: None })?;
    let rule = own.map_or(&policy.default_pointer, |block| &block.pointer);
    Ok(Terms { rule: Some(Arc::clone(rule)), ..Terms::default() })
}

/// The blocks that hold for a call: its own, then `all_tools`.
#[derive(Clone, Copy)]
pub(crate) struct ApplicableBlocks<'p> {
    pub own_block: Option<&'p RuleBlock>,
    pub all_tools_block: Option<&'p RuleBlock>,
}

impl<'p> ApplicableBlocks<'p> {
    pub fn iter(self) -> impl Iterator<Item = &'p RuleBlock> {
        self.own_block.into_iter().chain(self.all_tools_block)
    }
}

/// What nothing speaks of has no block; under `default: deny` it is refused.
fn apply_default(policy: &Policy) -> Result<Option<&RuleBlock>, Reason> {
    match policy.default {
        Default::Allow => Ok(None),
        Default::Deny => {
            let message = "the policy does not list it, and its default is deny";
            Err(Reason::new(Code::NotListed, Some(&policy.default_pointer), message))
        }
    }
}

pub(crate) fn refuse_ambiguous_uri(policy: &Policy, uri: &str) -> Result<(), Reason> {
    if policy.resources.exact.contains_key(uri) || !ambiguous_uri::is_ambiguous(uri) {
        return Ok(());
    }
    let message = "the URI could mean another resource than it says; it must be listed exactly";
    Err(Reason::new(Code::Denied, None, message))
}

fn refuse_denied(blocks: ApplicableBlocks<'_>) -> Result<(), Reason> {
    match blocks.iter().find(|block| block.action == Action::Deny) {
        None => Ok(()),
        Some(block) => {
            let message = block.reason.clone().unwrap_or_else(|| "the policy denies every call".into());
            Err(Reason::new(Code::Denied, Some(&block.pointer), message))
        }
    }
}

fn refuse_unaccepted(tool: &CalledTool<'_>) -> Result<(), Reason> {
    match tool.definition {
        Definition::Accepted | Definition::NotOffered => Ok(()),
        Definition::New => Err(Reason::new(Code::NotAccepted, None, "nobody has accepted the definition of this tool")),
        Definition::Changed => {
            let message = "the definition of this tool is no longer the one that was accepted";
            Err(Reason::new(Code::DefinitionChanged, None, message))
        }
    }
}

fn refuse_invalid_arguments(block: &RuleBlock, tool: &CalledTool<'_>, call: &Call<'_>) -> Result<(), Reason> {
    match argument_violation(block, tool, call) {
        None => Ok(()),
        Some(message) => {
            let pointer: Arc<str> = format!("{}/validate_arguments", block.pointer).into();
            Err(Reason::new(Code::InvalidArguments, Some(&pointer), message))
        }
    }
}

/// What is wrong with the arguments, where the block asks for their validation.
pub(crate) fn argument_violation(block: &RuleBlock, tool: &CalledTool<'_>, call: &Call<'_>) -> Option<String> {
    if !block.validate_arguments {
        return None;
    }
    match tool.schema {
        None => Some("the tool has no usable input schema that the arguments could be held against".into()),
        Some(schema) => {
            schema.find_violation(call.arguments).map(|what| format!("the arguments are not valid: {what}"))
        }
    }
}

fn refuse_by_predicates(block: &RuleBlock, call: &Call<'_>, moment: EvaluationTime<'_>) -> Result<(), Reason> {
    for predicate in &block.require {
        match predicate.evaluate(call, moment, Quantifier::All) {
            Answer::True => {}
            Answer::False | Answer::Absent => return Err(predicate_reason(Code::Require, predicate)),
            Answer::Mismatch => return Err(predicate_reason(Code::TypeMismatch, predicate)),
        }
    }
    for predicate in &block.deny_if {
        match predicate.evaluate(call, moment, Quantifier::Any) {
            Answer::True => return Err(predicate_reason(Code::DenyIf, predicate)),
            Answer::False | Answer::Absent => {}
            Answer::Mismatch => return Err(predicate_reason(Code::TypeMismatch, predicate)),
        }
    }
    for predicate in &block.approve_if {
        if predicate.evaluate(call, moment, Quantifier::Any) == Answer::Mismatch
            && !mutant!("approve-type-mismatch-ignored")
        {
            return Err(predicate_reason(Code::TypeMismatch, predicate));
        }
    }
    Ok(())
}

fn predicate_reason(code: Code, predicate: &Predicate) -> Reason {
    let message = match (code, &predicate.on_deny) {
        // The rule's own words speak of another fault.
        (Code::TypeMismatch, _) => "a value cannot be compared with what the rule expects".into(),
        (_, Some(text)) => Arc::clone(text),
        (Code::DenyIf, None) => "the arguments are ones that the policy denies".into(),
        (_, None) => "the arguments do not satisfy the policy".into(),
    };
    Reason::new(code, Some(&predicate.pointer), message)
}

fn build_terms(
    policy: &Policy,
    blocks: ApplicableBlocks<'_>,
    call: &Call<'_>,
    name: &str,
    moment: EvaluationTime<'_>,
) -> Result<Terms, Reason> {
    let charges = charges::compute_charges(blocks, call, name)?;
    let rule = blocks.own_block.map_or(&policy.default_pointer, |block| &block.pointer);
    let question = blocks.iter().find_map(|block| find_approval_requirement(block, call, moment));
    Ok(Terms { rule: Some(Arc::clone(rule)), charges, approval: question })
}

/// The first thing in a block that asks for a person.
fn find_approval_requirement(
    block: &RuleBlock,
    call: &Call<'_>,
    moment: EvaluationTime<'_>,
) -> Option<ApprovalRequirement> {
    if block.action == Action::Approve {
        return Some(ApprovalRequirement { rule: Arc::clone(&block.pointer), message: block.reason.clone() });
    }
    let asks = |predicate: &&Predicate| predicate.evaluate(call, moment, Quantifier::Any) == Answer::True;
    let predicate = block.approve_if.iter().find(asks)?;
    Some(ApprovalRequirement { rule: Arc::clone(&predicate.pointer), message: predicate.on_deny.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Category, ClientFacts, DocumentFormat, parse};

    fn decide_task_for_tool(name: &str, definition: Definition) -> Result<Option<Arc<str>>, Code> {
        let text = br#"{"version":"1","default":"deny","hide":["secret"],"tools":{
            "pay":{"require":[{"conditions":[{"path":"args.n","op":"lte","value":1}]}],
                   "limits":[{"counter":"c","window":"day","max":1}]},
            "shut":{"action":"deny"},"ask":{"action":"approve"},"secret":{}}}"#;
        let policy = parse(text, DocumentFormat::Json).expect("a policy");
        let subject = CallTarget::Task(CalledTool { name, category: Category::Unknown, definition, schema: None });
        let call =
            Call { target: subject, arguments: None, server: None, client: ClientFacts::default(), session: None };
        match decide(&policy, &call, Timestamp::UNIX_EPOCH) {
            Decision::Deny(reason) => Err(reason.code),
            Decision::Allow(terms) => {
                assert!(terms.charges.is_empty() && terms.approval.is_none());
                Ok(terms.rule)
            }
        }
    }

    #[test]
    fn a_task_is_under_the_rule_of_its_tool_as_far_as_that_speaks_of_all_calls() {
        use Definition::{Accepted, Changed, New, NotOffered};
        assert_eq!(
            decide_task_for_tool("pay", Accepted),
            Ok(Some("/tools/pay".into())),
            "its arguments were judged before"
        );
        assert_eq!(decide_task_for_tool("ask", Accepted), Ok(Some("/tools/ask".into())), "somebody has agreed before");
        assert_eq!(decide_task_for_tool("shut", Accepted), Err(Code::Denied));
        assert_eq!(decide_task_for_tool("secret", Accepted), Err(Code::Hidden));
        assert_eq!(decide_task_for_tool("other", Accepted), Err(Code::NotListed));
        assert_eq!(decide_task_for_tool("pay", New), Err(Code::NotAccepted));
        assert_eq!(decide_task_for_tool("pay", Changed), Err(Code::DefinitionChanged));
        assert_eq!(decide_task_for_tool("pay", NotOffered), Err(Code::NotOffered));
    }
}
