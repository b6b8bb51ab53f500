//! Decides whether a condition holds with default settings. Conditions whose result is uncertain are left undecided.

use super::JsEvaluator;
use crate::javascript::static_value::{JsEvaluationError, JsFrameChain, JsValue, JsValueResult};
use crate::javascript::syntax::{JsFunctionId, JsFunctionUse, JsIdentifierId, JsNode, JsNodeId};
use crate::required_setting_heuristic::is_user_supplied;

/// A condition that depends on more callers than this is left undecided.
const MAX_CALLERS: usize = 50;

/// A value that is known exactly.
#[derive(PartialEq)]
pub(super) enum JsPrimitive<'a> {
    Nullish,
    Bool(bool),
    Number(f64),
    Text(&'a str),
}

pub(super) fn as_primitive(value: &JsValue) -> Option<JsPrimitive<'_>> {
    match value {
        JsValue::Nullish => Some(JsPrimitive::Nullish),
        JsValue::Bool(truth) => Some(JsPrimitive::Bool(*truth)),
        JsValue::Number(number) => Some(JsPrimitive::Number(*number)),
        JsValue::Text(text) => Some(JsPrimitive::Text(text)),
        _ => None,
    }
}

fn truthiness(value: &JsValue) -> Option<bool> {
    match as_primitive(value) {
        Some(JsPrimitive::Nullish) => Some(false),
        Some(JsPrimitive::Bool(truth)) => Some(truth),
        Some(JsPrimitive::Number(number)) => Some(number != 0.0 && !number.is_nan()),
        Some(JsPrimitive::Text(text)) => Some(!text.is_empty()),
        None => None,
    }
}

impl JsEvaluator<'_> {
    /// Returns whether a condition holds by default, or `None` if that cannot be decided.
    pub fn decide_condition(&mut self, test: JsNodeId, env: &JsFrameChain) -> Option<bool> {
        let before = std::mem::replace(&mut self.is_strict, true);
        let truth = match self.evaluate(test, env) {
            Ok(value) => truthiness(&value),
            Err(JsEvaluationError::Unbound(..)) => self.decide_for_all_callers(test, env),
            Err(JsEvaluationError::OutOfSteps) => None,
        };
        self.is_strict = before;
        truth
    }

    /// Decides a condition that depends on the caller. Returns `None` unless the result is the same for all callers.
    fn decide_for_all_callers(&mut self, test: JsNodeId, env: &JsFrameChain) -> Option<bool> {
        let ways = self.calling_contexts(&[test], env);
        let (first, rest) = ways.split_first().filter(|_| ways.len() <= MAX_CALLERS)?;
        let first = truthiness(&self.evaluate(test, first).ok()?)?;
        let is_same =
            |way: &JsFrameChain| self.evaluate(test, way).ok().and_then(|value| truthiness(&value)) == Some(first);
        rest.iter().all(is_same).then_some(first)
    }

    /// Like [`Self::decide_condition`], but takes a value instead of an expression.
    pub(super) fn decide_value(&mut self, value: &JsValue) -> Option<bool> {
        let before = std::mem::replace(&mut self.is_strict, true);
        let value = self.force(value);
        self.is_strict = before;
        truthiness(&value.ok()?)
    }

    /// Returns whether a call or an object is reached only under conditions that are false by default.
    pub fn is_disabled(&mut self, node: JsNodeId, env: &JsFrameChain) -> bool {
        let guards = self.syntax.guards.get(&node).cloned();
        let is_off =
            |(test, holds): &(JsNodeId, bool)| self.decide_condition(*test, env).is_some_and(|truth| truth != *holds);
        if guards.is_some_and(|guards| guards.iter().any(is_off)) {
            return true;
        }
        self.syntax.enclosing_functions.get(&node).copied().is_some_and(|function| self.is_function_disabled(function))
    }

    /// Returns whether all calls to a function are disabled.
    fn is_function_disabled(&mut self, function: JsFunctionId) -> bool {
        if let Some(known) = self.disabled_functions.get(&function) {
            return *known;
        }
        // A recursive call does not disable the function.
        self.disabled_functions.insert(function, false);
        let sites = self.call_sites(function);
        let is_off = (!sites.is_empty() && sites.iter().all(|site| self.is_disabled(*site, &None)))
            || self
                .syntax
                .function(function)
                .and_then(|known| known.enclosing)
                .is_some_and(|o| self.is_function_disabled(o));
        self.disabled_functions.insert(function, is_off);
        is_off
    }

    /// Returns whether a call or an object is inside a function that is never called.
    pub fn is_dead(&mut self, node: JsNodeId) -> bool {
        self.syntax.enclosing_functions.get(&node).copied().is_some_and(|function| self.is_function_dead(function))
    }

    fn is_function_dead(&mut self, function: JsFunctionId) -> bool {
        if let Some(known) = self.dead_functions.get(&function) {
            return *known;
        }
        // A recursive call does not decide.
        self.dead_functions.insert(function, false);
        let Some(known) = self.syntax.function(function) else { return false };
        let is_named = known.method_name.is_none() && matches!(known.usage, JsFunctionUse::Named);
        let is_unused = is_named && self.is_function_unused(function);
        let sites = if is_named && !is_unused { self.call_sites(function) } else { Vec::new() };
        let is_dead = is_unused
            || (!sites.is_empty() && sites.iter().all(|site| self.is_dead(*site)))
            || known.enclosing.is_some_and(|outer| self.is_function_dead(outer));
        self.dead_functions.insert(function, is_dead);
        is_dead
    }

    /// Returns the value of `process.env` or `process.argv`, or `None` for any other member.
    pub(super) fn find_process_member(&mut self, object: JsNodeId, key: JsIdentifierId) -> Option<JsValue> {
        let syntax = self.syntax;
        let is_process = |node: JsNodeId| match syntax.node(node) {
            JsNode::Name(word, scope) => {
                syntax.symbol_text(*word) == "process" && syntax.find_binding(*word, *scope).is_none()
            }
            _ => false,
        };
        match syntax.symbol_text(key) {
            "env" if is_process(object) => Some(JsValue::Environment),
            "argv" if is_process(object) => Some(JsValue::CommandLine),
            _ => None,
        }
    }

    /// Returns the value of an environment variable: unknown if the user has to supply the variable, otherwise unset.
    pub(super) fn environment_variable(&self, name: &str) -> JsValue {
        if is_user_supplied(name) { JsValue::Opaque(None) } else { JsValue::Nullish }
    }

    pub(super) fn decide_not(&mut self, inner: JsNodeId, env: &JsFrameChain) -> JsValueResult {
        if !self.is_strict {
            return Ok(JsValue::Opaque(None));
        }
        let inner = self.evaluate(inner, env)?;
        Ok(truthiness(&inner).map_or(JsValue::Opaque(None), |truth| JsValue::Bool(!truth)))
    }

    pub(super) fn decide_and(&mut self, left: JsNodeId, right: JsNodeId, env: &JsFrameChain) -> JsValueResult {
        let left = self.evaluate(left, env)?;
        match truthiness(&left) {
            Some(false) => Ok(left),
            Some(true) => self.evaluate(right, env),
            None => {
                let right = self.evaluate(right, env)?;
                Ok(if truthiness(&right) == Some(false) { right } else { JsValue::Opaque(None) })
            }
        }
    }

    pub(super) fn decide_or(&mut self, left: JsNodeId, right: JsNodeId, env: &JsFrameChain) -> JsValueResult {
        let left = self.evaluate(left, env)?;
        match truthiness(&left) {
            Some(true) => Ok(left),
            Some(false) => self.evaluate(right, env),
            None if matches!(left, JsValue::Opaque(_)) => {
                let right = self.evaluate(right, env)?;
                Ok(if truthiness(&right) == Some(true) { right } else { JsValue::Opaque(None) })
            }
            // A list or an object is truthy.
            None => Ok(left),
        }
    }

    pub(super) fn decide_conditional(
        &mut self,
        test: JsNodeId,
        first: JsNodeId,
        second: JsNodeId,
        env: &JsFrameChain,
    ) -> JsValueResult {
        let test = self.evaluate(test, env)?;
        match truthiness(&test) {
            Some(true) => self.evaluate(first, env),
            Some(false) => self.evaluate(second, env),
            None => {
                let (first, second) = (self.evaluate(first, env)?, self.evaluate(second, env)?);
                let is_one = truthiness(&first).is_some() && truthiness(&first) == truthiness(&second);
                Ok(if is_one { first } else { JsValue::Opaque(None) })
            }
        }
    }
}
