//! The steps of a judgement, each told whether or not an earlier one has refused.

use jiff::Timestamp;

use super::found::found;
use super::{ConditionLine, Step, raw};
use crate::call::{Call, CallTarget, CalledTool, CompletionReference, Definition};
use crate::charges;
use crate::compiled_policy::{Action, BlockTable, Default, Policy, Predicate, RuleBlock, ToolVisibility};
use crate::condition::{Answer, EvaluationTime, Quantifier};
use crate::decide::{ApplicableBlocks, argument_violation, refuse_ambiguous_uri};
use crate::decision::{Code, Decision};
use crate::method_rules;

pub(super) fn steps(policy: &Policy, call: &Call<'_>, at: Timestamp) -> Vec<Step> {
    let moment = EvaluationTime { at, time_zone: &policy.time_zone };
    let mut trace = Trace { policy, call, moment, steps: Vec::new() };
    match call.target {
        CallTarget::Tool(tool) => trace.tool(&tool),
        CallTarget::Task(tool) => {
            trace.admission(&tool);
        }
        CallTarget::Resource { uri } => {
            trace.uri(uri);
            trace.listed(&policy.resources, uri);
        }
        CallTarget::Prompt { name } => trace.listed(&policy.prompts, name),
        CallTarget::Completion(CompletionReference::Prompt(name)) => trace.referred(policy.prompts.find(name)),
        CallTarget::Completion(CompletionReference::Resource(uri)) => {
            trace.uri(uri);
            trace.referred(policy.find_resource_or_template(uri));
        }
        CallTarget::Completion(CompletionReference::Unknown) => {
            trace.refuse("standing", None, Code::NotListed, "the completion does not say what it refers to");
        }
        CallTarget::Method { name } => trace.method(name),
    }
    trace.steps
}

struct Trace<'a> {
    policy: &'a Policy,
    call: &'a Call<'a>,
    moment: EvaluationTime<'a>,
    steps: Vec<Step>,
}

impl<'a> Trace<'a> {
    fn push(&mut self, step: &'static str, rule: Option<&str>, outcome: &'static str, note: impl Into<String>) {
        let (rule, note) = (rule.map(Into::into), note.into());
        self.steps.push(Step { step, rule, outcome, code: None, note, conditions: Vec::new() });
    }

    fn refuse(&mut self, step: &'static str, rule: Option<&str>, code: Code, note: impl Into<String>) {
        self.push(step, rule, "refuse", note);
        if let Some(step) = self.steps.last_mut() {
            step.code = Some(code.as_str());
        }
    }

    fn tool(&mut self, tool: &CalledTool<'_>) {
        let blocks = self.admission(tool);
        for block in blocks.iter() {
            self.validation(block, tool);
            self.predicates(block);
        }
        self.limits(blocks, tool.name);
        self.questions(blocks);
    }

    /// Whether the tool can be called at all, and the blocks that hold for it.
    fn admission(&mut self, tool: &CalledTool<'_>) -> ApplicableBlocks<'a> {
        let own = match self.policy.tool_visibility(tool) {
            ToolVisibility::Hidden(pointer) => {
                self.refuse("standing", Some(pointer), Code::Hidden, "the tool is hidden");
                self.policy.tools.find(tool.name)
            }
            ToolVisibility::Listed(block) => {
                self.push("standing", Some(&block.pointer), "pass", format!("this block holds for `{}`", tool.name));
                Some(block)
            }
            ToolVisibility::Unlisted => {
                self.unlisted();
                None
            }
        };
        if tool.definition == Definition::NotOffered {
            self.refuse("offered", None, Code::NotOffered, "the server does not offer this tool");
        }
        let blocks = ApplicableBlocks { own_block: own, all_tools_block: self.policy.all_tools.as_ref() };
        self.actions(blocks);
        match tool.definition {
            Definition::Accepted | Definition::NotOffered => {}
            Definition::New => self.refuse("accepted", None, Code::NotAccepted, "nobody has accepted the definition"),
            Definition::Changed => {
                self.refuse("accepted", None, Code::DefinitionChanged, "the definition is not the accepted one");
            }
        }
        blocks
    }

    fn listed(&mut self, table: &'a BlockTable, name: &str) {
        let own = table.find(name);
        self.referred_standing(own);
        let blocks = ApplicableBlocks { own_block: own, all_tools_block: None };
        self.actions(blocks);
        blocks.iter().for_each(|block| self.predicates(block));
        self.limits(blocks, name);
        self.questions(blocks);
    }

    fn referred(&mut self, own: Option<&'a RuleBlock>) {
        self.referred_standing(own);
        self.actions(ApplicableBlocks { own_block: own, all_tools_block: None });
    }

    fn referred_standing(&mut self, own: Option<&'a RuleBlock>) {
        match own {
            Some(block) => self.push("standing", Some(&block.pointer), "pass", "this block holds"),
            None => self.unlisted(),
        }
    }

    fn unlisted(&mut self) {
        match self.policy.default {
            Default::Allow => {
                self.push("standing", Some("/default"), "pass", "nothing speaks of it; the default allows")
            }
            Default::Deny => {
                self.refuse("standing", Some("/default"), Code::NotListed, "nothing speaks of it; the default denies");
            }
        }
    }

    fn uri(&mut self, uri: &str) {
        if let Err(reason) = refuse_ambiguous_uri(self.policy, uri) {
            self.refuse("uri", None, reason.code, reason.message.as_ref());
        }
    }

    fn method(&mut self, name: &str) {
        match crate::decide::as_decision(method_rules::decide_method(self.policy, name)) {
            Decision::Allow(terms) => self.push("method", terms.rule.as_deref(), "pass", "the method passes"),
            Decision::Deny(reason) => {
                self.refuse("method", reason.rule.as_deref(), reason.code, reason.message.as_ref())
            }
        }
    }

    fn actions(&mut self, blocks: ApplicableBlocks<'_>) {
        for block in blocks.iter().filter(|block| block.action == Action::Deny) {
            let note = block.reason.as_deref().unwrap_or("every call is denied");
            self.refuse("action", Some(&block.pointer), Code::Denied, note);
        }
    }

    fn validation(&mut self, block: &RuleBlock, tool: &CalledTool<'_>) {
        if !block.validate_arguments {
            return;
        }
        let rule = format!("{}/validate_arguments", block.pointer);
        match argument_violation(block, tool, self.call) {
            None => self.push("validate_arguments", Some(&rule), "pass", "the arguments satisfy the input schema"),
            Some(what) => self.refuse("validate_arguments", Some(&rule), Code::InvalidArguments, what),
        }
    }

    fn predicates(&mut self, block: &RuleBlock) {
        for predicate in &block.require {
            let answer = self.predicate("require", predicate, Quantifier::All);
            match answer {
                Answer::True => self.conclude("pass", None, "it holds"),
                Answer::False => self.conclude("refuse", Some(Code::Require), "it does not hold"),
                Answer::Absent => self.conclude("refuse", Some(Code::Require), "what it needs is not there"),
                Answer::Mismatch => self.conclude("refuse", Some(Code::TypeMismatch), "a value cannot be compared"),
            }
        }
        for (step, predicates) in [("deny_if", &block.deny_if), ("approve_if", &block.approve_if)] {
            for predicate in predicates {
                match self.predicate(step, predicate, Quantifier::Any) {
                    Answer::True if step == "deny_if" => self.conclude("refuse", Some(Code::DenyIf), "it holds"),
                    Answer::True => self.conclude("ask", None, "it holds"),
                    Answer::False => self.conclude("pass", None, "it does not hold"),
                    Answer::Absent => self.conclude("pass", None, "what it looks at is not there"),
                    Answer::Mismatch => self.conclude("refuse", Some(Code::TypeMismatch), "a value cannot be compared"),
                }
            }
        }
    }

    /// Tells a predicate's conditions; what follows from them is concluded by the caller.
    fn predicate(&mut self, step: &'static str, predicate: &Predicate, polarity: Quantifier) -> Answer {
        let (call, moment) = (self.call, self.moment);
        let line = |condition: &crate::condition::Condition| ConditionLine {
            path: condition.path.to_string(),
            op: condition.operator.as_str(),
            value: raw(condition.expected_json.to_string()),
            found: found(&condition.path, call, moment),
            answer: condition.evaluate(call, moment, polarity).as_str(),
        };
        self.push(step, Some(&predicate.pointer), "pass", "");
        if let Some(step) = self.steps.last_mut() {
            step.conditions = predicate.conditions.iter().map(line).collect();
        }
        predicate.evaluate(call, moment, polarity)
    }

    fn conclude(&mut self, outcome: &'static str, code: Option<Code>, note: &str) {
        if let Some(step) = self.steps.last_mut() {
            step.outcome = outcome;
            step.code = code.map(Code::as_str);
            step.note = note.to_owned();
        }
    }

    /// All amounts first, then the limits: so they are judged.
    fn limits(&mut self, blocks: ApplicableBlocks<'_>, name: &str) {
        for limit in
            charges::applicable_limits(blocks).filter(|limit| charges::charged_amount(limit, self.call).is_none())
        {
            let note = format!("`{}`: the amount cannot be counted", limit.counter.name(name));
            self.refuse("limit", Some(&limit.pointer), Code::Amount, note);
        }
        for (at, limit) in charges::applicable_limits(blocks).enumerate() {
            let Some(amount) = charges::charged_amount(limit, self.call) else { continue };
            let (counter, rule) = (limit.counter.name(name), Some(&*limit.pointer));
            if !charges::is_strictest_limit(limit, at, blocks, name) {
                self.push("limit", rule, "pass", format!("`{counter}`: a stricter limit on the same counter rules"));
            } else if amount > limit.max {
                let note = format!("`{counter}`: {amount} alone is more than the {} of a {}", limit.max, limit.window);
                self.refuse("limit", rule, Code::Limit, note);
            } else {
                let note = format!("`{counter}`: takes {amount} of {} in a {}", limit.max, limit.window);
                self.push("limit", rule, "charge", note);
            }
        }
    }

    fn questions(&mut self, blocks: ApplicableBlocks<'_>) {
        for block in blocks.iter().filter(|block| block.action == Action::Approve) {
            let note = block.reason.as_deref().unwrap_or("every call waits for a person");
            self.push("action", Some(&block.pointer), "ask", note);
        }
    }
}
