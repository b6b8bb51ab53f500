//! Traces all steps of an evaluation, including those after the first refusal.

use jiff::Timestamp;

use super::path_values::values_at_path;
use super::{ConditionExplanation, DecisionTraceStep, raw_json};
use crate::call::{Call, CallTarget, CalledTool, CompletionReference, DefinitionStatus};
use crate::compile::compiled_policy::{
    BlockAction, DefaultAction, Policy, Predicate, RuleBlock, RuleBlockTable, ToolVisibility,
};
use crate::eval::call_fact::EvaluationTime;
use crate::eval::charges;
use crate::eval::condition_evaluation::Quantifier;
use crate::eval::decide::{ApplicableRuleBlocks, argument_violation, refuse_ambiguous_uri};
use crate::eval::decision::{Decision, ReasonCode};
use crate::eval::method_rules;
use crate::operators::condition_result::ConditionResult;

pub(super) fn trace_steps(policy: &Policy, call: &Call<'_>, at: Timestamp) -> Vec<DecisionTraceStep> {
    let moment = EvaluationTime { at, time_zone: &policy.time_zone };
    let mut trace = DecisionTraceBuilder { policy, call, moment, steps: Vec::new() };
    match call.target {
        CallTarget::Tool(tool) => trace.trace_tool(&tool),
        CallTarget::Task(tool) => {
            trace.trace_admission(&tool);
        }
        CallTarget::Resource { uri } => {
            trace.trace_uri(uri);
            trace.trace_named(&policy.resources, uri);
        }
        CallTarget::Prompt { name } => trace.trace_named(&policy.prompts, name),
        CallTarget::Completion(CompletionReference::Prompt(name)) => trace.trace_reference(policy.prompts.find(name)),
        CallTarget::Completion(CompletionReference::Resource(uri)) => {
            trace.trace_uri(uri);
            trace.trace_reference(policy.find_resource_or_template(uri));
        }
        CallTarget::Completion(CompletionReference::Unknown) => {
            trace.push_refusal(
                "standing",
                None,
                ReasonCode::NotListed,
                "the completion does not say what it refers to",
            );
        }
        CallTarget::Method { name } => trace.trace_method(name),
    }
    trace.steps
}

struct DecisionTraceBuilder<'a> {
    policy: &'a Policy,
    call: &'a Call<'a>,
    moment: EvaluationTime<'a>,
    steps: Vec<DecisionTraceStep>,
}

impl<'a> DecisionTraceBuilder<'a> {
    fn push_step(&mut self, step: &'static str, rule: Option<&str>, outcome: &'static str, note: impl Into<String>) {
        let (rule, note) = (rule.map(Into::into), note.into());
        self.steps.push(DecisionTraceStep { step, rule, outcome, code: None, note, conditions: Vec::new() });
    }

    fn push_refusal(&mut self, step: &'static str, rule: Option<&str>, code: ReasonCode, note: impl Into<String>) {
        self.push_step(step, rule, "refuse", note);
        if let Some(step) = self.steps.last_mut() {
            step.code = Some(code.as_str());
        }
    }

    fn trace_tool(&mut self, tool: &CalledTool<'_>) {
        let blocks = self.trace_admission(tool);
        for block in blocks.iter() {
            self.trace_validation(block, tool);
            self.trace_predicates(block);
        }
        self.trace_limits(blocks, tool.name);
        self.trace_approvals(blocks);
    }

    /// Adds the steps that check whether the tool may be called at all, and returns the blocks that apply to it.
    fn trace_admission(&mut self, tool: &CalledTool<'_>) -> ApplicableRuleBlocks<'a> {
        let own = match self.policy.tool_visibility(tool) {
            ToolVisibility::Hidden(pointer) => {
                self.push_refusal("standing", Some(pointer), ReasonCode::Hidden, "the tool is hidden");
                self.policy.tools.find(tool.name)
            }
            ToolVisibility::Listed(block) => {
                self.push_step(
                    "standing",
                    Some(&block.pointer),
                    "pass",
                    format!("this block applies to `{}`", tool.name),
                );
                Some(block)
            }
            ToolVisibility::Unlisted => {
                self.trace_default();
                None
            }
        };
        if tool.definition == DefinitionStatus::NotOffered {
            self.push_refusal("offered", None, ReasonCode::NotOffered, "the server does not offer this tool");
        }
        let blocks = ApplicableRuleBlocks { own_block: own, all_tools_block: self.policy.all_tools.as_ref() };
        self.trace_actions(blocks);
        match tool.definition {
            DefinitionStatus::Accepted | DefinitionStatus::NotOffered => {}
            DefinitionStatus::New => {
                self.push_refusal("accepted", None, ReasonCode::NotAccepted, "the definition has not been accepted")
            }
            DefinitionStatus::Changed => {
                self.push_refusal(
                    "accepted",
                    None,
                    ReasonCode::DefinitionChanged,
                    "the definition has changed since it was accepted",
                );
            }
        }
        blocks
    }

    fn trace_named(&mut self, table: &'a RuleBlockTable, name: &str) {
        let own = table.find(name);
        self.trace_block_match(own);
        let blocks = ApplicableRuleBlocks { own_block: own, all_tools_block: None };
        self.trace_actions(blocks);
        blocks.iter().for_each(|block| self.trace_predicates(block));
        self.trace_limits(blocks, name);
        self.trace_approvals(blocks);
    }

    fn trace_reference(&mut self, own: Option<&'a RuleBlock>) {
        self.trace_block_match(own);
        self.trace_actions(ApplicableRuleBlocks { own_block: own, all_tools_block: None });
    }

    fn trace_block_match(&mut self, own: Option<&'a RuleBlock>) {
        match own {
            Some(block) => self.push_step("standing", Some(&block.pointer), "pass", "this block applies"),
            None => self.trace_default(),
        }
    }

    fn trace_default(&mut self) {
        match self.policy.default {
            DefaultAction::Allow => {
                self.push_step("standing", Some("/default"), "pass", "no rule matches; the default allows it")
            }
            DefaultAction::Deny => {
                self.push_refusal(
                    "standing",
                    Some("/default"),
                    ReasonCode::NotListed,
                    "no rule matches; the default denies it",
                );
            }
        }
    }

    fn trace_uri(&mut self, uri: &str) {
        if let Err(reason) = refuse_ambiguous_uri(self.policy, uri) {
            self.push_refusal("uri", None, reason.code, reason.message.as_ref());
        }
    }

    fn trace_method(&mut self, name: &str) {
        match crate::eval::decide::as_decision(method_rules::decide_method(self.policy, name)) {
            Decision::Allow(terms) => self.push_step("method", terms.rule.as_deref(), "pass", "the method is allowed"),
            Decision::Deny(reason) => {
                self.push_refusal("method", reason.rule.as_deref(), reason.code, reason.message.as_ref())
            }
        }
    }

    fn trace_actions(&mut self, blocks: ApplicableRuleBlocks<'_>) {
        for block in blocks.iter().filter(|block| block.action == BlockAction::Deny) {
            let note = block.reason.as_deref().unwrap_or("every call is denied");
            self.push_refusal("action", Some(&block.pointer), ReasonCode::Denied, note);
        }
    }

    fn trace_validation(&mut self, block: &RuleBlock, tool: &CalledTool<'_>) {
        if !block.validate_arguments {
            return;
        }
        let rule = format!("{}/validate_arguments", block.pointer);
        match argument_violation(block, tool, self.call) {
            None => self.push_step("validate_arguments", Some(&rule), "pass", "the arguments satisfy the input schema"),
            Some(what) => self.push_refusal("validate_arguments", Some(&rule), ReasonCode::InvalidArguments, what),
        }
    }

    fn trace_predicates(&mut self, block: &RuleBlock) {
        for predicate in &block.require {
            let answer = self.trace_predicate("require", predicate, Quantifier::All);
            match answer {
                ConditionResult::True => self.conclude("pass", None, "it holds"),
                ConditionResult::False => self.conclude("refuse", Some(ReasonCode::Require), "it does not hold"),
                ConditionResult::Absent => self.conclude("refuse", Some(ReasonCode::Require), "the value is absent"),
                ConditionResult::Mismatch => {
                    self.conclude("refuse", Some(ReasonCode::TypeMismatch), "a value cannot be compared")
                }
            }
        }
        for (step, predicates) in [("deny_if", &block.deny_if), ("approve_if", &block.approve_if)] {
            for predicate in predicates {
                match self.trace_predicate(step, predicate, Quantifier::Any) {
                    ConditionResult::True if step == "deny_if" => {
                        self.conclude("refuse", Some(ReasonCode::DenyIf), "it holds")
                    }
                    ConditionResult::True => self.conclude("ask", None, "it holds"),
                    ConditionResult::False => self.conclude("pass", None, "it does not hold"),
                    ConditionResult::Absent => self.conclude("pass", None, "the value is absent"),
                    ConditionResult::Mismatch => {
                        self.conclude("refuse", Some(ReasonCode::TypeMismatch), "a value cannot be compared")
                    }
                }
            }
        }
    }

    /// Adds a step with the conditions of a predicate. The caller sets the outcome.
    fn trace_predicate(
        &mut self,
        step: &'static str,
        predicate: &Predicate,
        quantifier: Quantifier,
    ) -> ConditionResult {
        let (call, moment) = (self.call, self.moment);
        let line = |condition: &crate::compile::condition::Condition| ConditionExplanation {
            path: condition.path.to_string(),
            op: condition.operator.operator().as_str(),
            value: raw_json(condition.expected_json.to_string()),
            found: values_at_path(&condition.path, call, moment),
            answer: condition.evaluate(call, moment, quantifier).as_str(),
        };
        self.push_step(step, Some(&predicate.pointer), "pass", "");
        if let Some(step) = self.steps.last_mut() {
            step.conditions = predicate.conditions.iter().map(line).collect();
        }
        predicate.evaluate(call, moment, quantifier)
    }

    fn conclude(&mut self, outcome: &'static str, code: Option<ReasonCode>, note: &str) {
        if let Some(step) = self.steps.last_mut() {
            step.outcome = outcome;
            step.code = code.map(ReasonCode::as_str);
            step.note = note.to_owned();
        }
    }

    /// Adds a step for each invalid amount, and then one for each limit, in the order of evaluation.
    fn trace_limits(&mut self, blocks: ApplicableRuleBlocks<'_>, name: &str) {
        for limit in
            charges::applicable_limits(blocks).filter(|limit| charges::charged_amount(limit, self.call).is_none())
        {
            let note = format!("`{}`: the amount cannot be counted", limit.counter.name(name));
            self.push_refusal("limit", Some(&limit.pointer), ReasonCode::Amount, note);
        }
        for (at, limit) in charges::applicable_limits(blocks).enumerate() {
            let Some(amount) = charges::charged_amount(limit, self.call) else { continue };
            let (counter, rule) = (limit.counter.name(name), Some(&*limit.pointer));
            if !charges::is_strictest_limit(limit, at, blocks, name) {
                self.push_step(
                    "limit",
                    rule,
                    "pass",
                    format!("`{counter}`: a stricter limit on the same counter applies"),
                );
            } else if amount > limit.max {
                let note = format!(
                    "`{counter}`: {amount} alone is more than the maximum of {} per {}",
                    limit.max, limit.window
                );
                self.push_refusal("limit", rule, ReasonCode::Limit, note);
            } else {
                let note = format!("`{counter}`: takes {amount} of {} per {}", limit.max, limit.window);
                self.push_step("limit", rule, "charge", note);
            }
        }
    }

    fn trace_approvals(&mut self, blocks: ApplicableRuleBlocks<'_>) {
        for block in blocks.iter().filter(|block| block.action == BlockAction::Approve) {
            let note = block.reason.as_deref().unwrap_or("every call requires approval");
            self.push_step("action", Some(&block.pointer), "ask", note);
        }
    }
}
