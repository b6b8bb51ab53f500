//! Evaluates a call against a policy at a given time. Evaluation cannot fail: a call that cannot be evaluated is
//! denied.
//!
//! The steps run in the order in which an explanation lists them. The first step that refuses the call decides.

use std::sync::Arc;

use gatelodge_mutants::mutant;
use jiff::Timestamp;

use crate::call::{Call, CallTarget, CalledTool, CompletionReference, DefinitionStatus};
use crate::compile::compiled_policy::{
    BlockAction, DefaultAction, Policy, Predicate, RuleBlock, RuleBlockTable, ToolVisibility,
};
use crate::eval::ambiguous_uri;
use crate::eval::call_fact::EvaluationTime;
use crate::eval::charges;
use crate::eval::condition_evaluation::Quantifier;
use crate::eval::decision::{AllowTerms, ApprovalRequirement, Decision, Reason, ReasonCode};
use crate::eval::method_rules;
use crate::operators::condition_result::ConditionResult;

/// Decides whether a call is allowed, and on what terms.
///
/// # Examples
/// ```
/// use gatelodge_policy::{Call, CallTarget, ClientFacts, Decision, DocumentFormat, decide, parse};
///
/// let text = br#"{"version": "1", "default": "deny", "prompts": {"greet": {}}}"#;
/// let policy = parse(text, DocumentFormat::Json).expect("a policy");
/// let call = |name| Call {
///     target: CallTarget::Prompt { name },
///     arguments: None,
///     server: None,
///     client: ClientFacts::default(),
///     session: None,
/// };
/// let now = jiff::Timestamp::UNIX_EPOCH;
/// assert!(matches!(decide(&policy, &call("greet"), now), Decision::Allow(_)));
/// assert!(matches!(decide(&policy, &call("insult"), now), Decision::Deny(_)));
/// ```
pub fn decide(policy: &Policy, call: &Call<'_>, at: Timestamp) -> Decision {
    let result = match call.target {
        CallTarget::Tool(tool) => decide_tool(policy, call, &tool, at),
        CallTarget::Task(tool) => decide_task(policy, &tool),
        CallTarget::Resource { uri } => decide_resource(policy, call, uri, at),
        CallTarget::Prompt { name } => decide_named(policy, call, &policy.prompts, name, at),
        CallTarget::Completion(reference) => decide_completion(policy, reference),
        CallTarget::Method { name } => method_rules::decide_method(policy, name),
    };
    as_decision(result)
}

pub(crate) fn as_decision(result: Result<AllowTerms, Reason>) -> Decision {
    match result {
        Ok(terms) => Decision::Allow(terms),
        Err(reason) => Decision::Deny(reason),
    }
}

fn decide_tool(policy: &Policy, call: &Call<'_>, tool: &CalledTool<'_>, at: Timestamp) -> Result<AllowTerms, Reason> {
    let blocks = admit_tool(policy, tool)?;
    let moment = EvaluationTime { at, time_zone: &policy.time_zone };
    for block in blocks.iter() {
        refuse_invalid_arguments(block, tool, call)?;
        refuse_by_predicates(block, call, moment)?;
    }
    build_terms(policy, blocks, call, tool.name, moment)
}

/// Allows a task operation if the task's tool may be called at all. Arguments, times, limits and approval were checked
/// for the call that created the task.
fn decide_task(policy: &Policy, tool: &CalledTool<'_>) -> Result<AllowTerms, Reason> {
    let blocks = admit_tool(policy, tool)?;
    let rule = blocks.own_block.map_or(&policy.default_pointer, |block| &block.pointer);
    Ok(AllowTerms { rule: Some(Arc::clone(rule)), ..AllowTerms::default() })
}

/// Checks that the tool may be called at all, and returns the blocks that apply to it.
fn admit_tool<'p>(policy: &'p Policy, tool: &CalledTool<'_>) -> Result<ApplicableRuleBlocks<'p>, Reason> {
    let own = match policy.tool_visibility(tool) {
        ToolVisibility::Hidden(pointer) => {
            return Err(Reason::new(ReasonCode::Hidden, Some(pointer), "the tool is hidden by the policy"));
        }
        ToolVisibility::Listed(block) => Some(block),
        ToolVisibility::Unlisted => apply_default(policy)?,
    };
    if tool.definition == DefinitionStatus::NotOffered {
        return Err(Reason::new(ReasonCode::NotOffered, None, "the server does not offer this tool"));
    }
    let blocks = ApplicableRuleBlocks { own_block: own, all_tools_block: policy.all_tools.as_ref() };
    refuse_denied(blocks)?;
    refuse_unaccepted(tool)?;
    Ok(blocks)
}

fn decide_resource(policy: &Policy, call: &Call<'_>, uri: &str, at: Timestamp) -> Result<AllowTerms, Reason> {
    refuse_ambiguous_uri(policy, uri)?;
    decide_named(policy, call, &policy.resources, uri, at)
}

/// Decides whether a request for a resource or prompt is allowed, by the block that matches its name or URI.
fn decide_named(
    policy: &Policy,
    call: &Call<'_>,
    table: &RuleBlockTable,
    name: &str,
    at: Timestamp,
) -> Result<AllowTerms, Reason> {
    let own = match table.find(name) {
        Some(block) => Some(block),
        None => apply_default(policy)?,
    };
    let blocks = ApplicableRuleBlocks { own_block: own, all_tools_block: None };
    refuse_denied(blocks)?;
    let moment = EvaluationTime { at, time_zone: &policy.time_zone };
    for block in blocks.iter() {
        refuse_by_predicates(block, call, moment)?;
    }
    build_terms(policy, blocks, call, name, moment)
}

/// Allows a completion if the prompt or resource that it refers to is visible and not denied.
fn decide_completion(policy: &Policy, reference: CompletionReference<'_>) -> Result<AllowTerms, Reason> {
    let found = match reference {
        CompletionReference::Prompt(name) => policy.prompts.find(name),
        CompletionReference::Resource(uri) => {
            refuse_ambiguous_uri(policy, uri)?;
            policy.find_resource_or_template(uri)
        }
        CompletionReference::Unknown => {
            return Err(Reason::new(ReasonCode::NotListed, None, "the completion does not say what it refers to"));
        }
    };
    let own = match found {
        Some(block) => Some(block),
        None => apply_default(policy)?,
    };
    refuse_denied(ApplicableRuleBlocks { own_block: own, all_tools_block: None })?;
    let rule = own.map_or(&policy.default_pointer, |block| &block.pointer);
    Ok(AllowTerms { rule: Some(Arc::clone(rule)), ..AllowTerms::default() })
}

/// The blocks that apply to a call: the target's own block, then `all_tools`.
#[derive(Clone, Copy)]
pub(crate) struct ApplicableRuleBlocks<'p> {
    pub own_block: Option<&'p RuleBlock>,
    pub all_tools_block: Option<&'p RuleBlock>,
}

impl<'p> ApplicableRuleBlocks<'p> {
    pub fn iter(self) -> impl Iterator<Item = &'p RuleBlock> {
        self.own_block.into_iter().chain(self.all_tools_block)
    }
}

/// Applies `default` to a name that no block matches. Returns an error if the default is `deny`. If it is `allow`,
/// returns `None`, because no block applies.
fn apply_default(policy: &Policy) -> Result<Option<&RuleBlock>, Reason> {
    match policy.default {
        DefaultAction::Allow => Ok(None),
        DefaultAction::Deny => {
            let message = "no rule of the policy matches, and its default is deny";
            Err(Reason::new(ReasonCode::NotListed, Some(&policy.default_pointer), message))
        }
    }
}

pub(crate) fn refuse_ambiguous_uri(policy: &Policy, uri: &str) -> Result<(), Reason> {
    if policy.resources.exact.contains_key(uri) || !ambiguous_uri::is_ambiguous(uri) {
        return Ok(());
    }
    let message = "the URI is ambiguous; the policy must list it exactly";
    Err(Reason::new(ReasonCode::Denied, None, message))
}

fn refuse_denied(blocks: ApplicableRuleBlocks<'_>) -> Result<(), Reason> {
    match blocks.iter().find(|block| block.action == BlockAction::Deny) {
        None => Ok(()),
        Some(block) => {
            let message = block.reason.clone().unwrap_or_else(|| "the policy denies every call".into());
            Err(Reason::new(ReasonCode::Denied, Some(&block.pointer), message))
        }
    }
}

fn refuse_unaccepted(tool: &CalledTool<'_>) -> Result<(), Reason> {
    match tool.definition {
        DefinitionStatus::Accepted | DefinitionStatus::NotOffered => Ok(()),
        DefinitionStatus::New => {
            Err(Reason::new(ReasonCode::NotAccepted, None, "the definition of this tool has not been accepted"))
        }
        DefinitionStatus::Changed => {
            let message = "the definition of this tool has changed since it was accepted";
            Err(Reason::new(ReasonCode::DefinitionChanged, None, message))
        }
    }
}

fn refuse_invalid_arguments(block: &RuleBlock, tool: &CalledTool<'_>, call: &Call<'_>) -> Result<(), Reason> {
    match argument_violation(block, tool, call) {
        None => Ok(()),
        Some(message) => {
            let pointer: Arc<str> = format!("{}/validate_arguments", block.pointer).into();
            Err(Reason::new(ReasonCode::InvalidArguments, Some(&pointer), message))
        }
    }
}

/// Returns why the arguments fail validation, or `None` if they are valid or the block does not ask for validation.
pub(crate) fn argument_violation(block: &RuleBlock, tool: &CalledTool<'_>, call: &Call<'_>) -> Option<String> {
    if !block.validate_arguments {
        return None;
    }
    match tool.schema {
        None => Some("the tool has no usable input schema to validate the arguments against".into()),
        Some(schema) => {
            schema.find_violation(call.arguments).map(|what| format!("the arguments are not valid: {what}"))
        }
    }
}

fn refuse_by_predicates(block: &RuleBlock, call: &Call<'_>, moment: EvaluationTime<'_>) -> Result<(), Reason> {
    for predicate in &block.require {
        match predicate.evaluate(call, moment, Quantifier::All) {
            ConditionResult::True => {}
            ConditionResult::False | ConditionResult::Absent => {
                return Err(predicate_reason(ReasonCode::Require, predicate));
            }
            ConditionResult::Mismatch => return Err(predicate_reason(ReasonCode::TypeMismatch, predicate)),
        }
    }
    for predicate in &block.deny_if {
        match predicate.evaluate(call, moment, Quantifier::Any) {
            ConditionResult::True => return Err(predicate_reason(ReasonCode::DenyIf, predicate)),
            ConditionResult::False | ConditionResult::Absent => {}
            ConditionResult::Mismatch => return Err(predicate_reason(ReasonCode::TypeMismatch, predicate)),
        }
    }
    for predicate in &block.approve_if {
        if predicate.evaluate(call, moment, Quantifier::Any) == ConditionResult::Mismatch
            && !mutant!("approve-type-mismatch-ignored")
        {
            return Err(predicate_reason(ReasonCode::TypeMismatch, predicate));
        }
    }
    Ok(())
}

fn predicate_reason(code: ReasonCode, predicate: &Predicate) -> Reason {
    let message = match (code, &predicate.on_deny) {
        // `on_deny` describes the case that the rule is about, not a type mismatch.
        (ReasonCode::TypeMismatch, _) => "a value cannot be compared with what the rule expects".into(),
        (_, Some(text)) => Arc::clone(text),
        (ReasonCode::DenyIf, None) => "the policy denies these arguments".into(),
        (_, None) => "the arguments do not satisfy the policy".into(),
    };
    Reason::new(code, Some(&predicate.pointer), message)
}

fn build_terms(
    policy: &Policy,
    blocks: ApplicableRuleBlocks<'_>,
    call: &Call<'_>,
    name: &str,
    moment: EvaluationTime<'_>,
) -> Result<AllowTerms, Reason> {
    let charges = charges::compute_charges(blocks, call, name)?;
    let rule = blocks.own_block.map_or(&policy.default_pointer, |block| &block.pointer);
    let approval = blocks.iter().find_map(|block| find_approval_requirement(block, call, moment));
    Ok(AllowTerms { rule: Some(Arc::clone(rule)), charges, approval })
}

/// Returns the first rule in a block that requires approval for the call.
fn find_approval_requirement(
    block: &RuleBlock,
    call: &Call<'_>,
    moment: EvaluationTime<'_>,
) -> Option<ApprovalRequirement> {
    if block.action == BlockAction::Approve {
        return Some(ApprovalRequirement { rule: Arc::clone(&block.pointer), message: block.reason.clone() });
    }
    let asks = |predicate: &&Predicate| predicate.evaluate(call, moment, Quantifier::Any) == ConditionResult::True;
    let predicate = block.approve_if.iter().find(asks)?;
    Some(ApprovalRequirement { rule: Arc::clone(&predicate.pointer), message: predicate.on_deny.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Category, ClientFacts, DocumentFormat, parse};

    fn decide_task_for_tool(name: &str, definition: DefinitionStatus) -> Result<Option<Arc<str>>, ReasonCode> {
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
    fn a_task_follows_the_unconditional_rules_of_its_tool() {
        use DefinitionStatus::{Accepted, Changed, New, NotOffered};
        assert_eq!(
            decide_task_for_tool("pay", Accepted),
            Ok(Some("/tools/pay".into())),
            "its arguments were evaluated before"
        );
        assert_eq!(
            decide_task_for_tool("ask", Accepted),
            Ok(Some("/tools/ask".into())),
            "the call was approved when it created the task"
        );
        assert_eq!(decide_task_for_tool("shut", Accepted), Err(ReasonCode::Denied));
        assert_eq!(decide_task_for_tool("secret", Accepted), Err(ReasonCode::Hidden));
        assert_eq!(decide_task_for_tool("other", Accepted), Err(ReasonCode::NotListed));
        assert_eq!(decide_task_for_tool("pay", New), Err(ReasonCode::NotAccepted));
        assert_eq!(decide_task_for_tool("pay", Changed), Err(ReasonCode::DefinitionChanged));
        assert_eq!(decide_task_for_tool("pay", NotOffered), Err(ReasonCode::NotOffered));
    }
}
