//! Enumerates the calling contexts in which an expression can be evaluated.

use std::rc::Rc;

use super::JsEvaluator;
use crate::javascript::static_value::{JsEvaluationError, JsFrame, JsFrameChain, JsFrameOwner, JsValue};
use crate::javascript::syntax::{JsClassId, JsFunctionId, JsFunctionUse, JsNode, JsNodeId};

/// Maximum nesting of calls and loops in a context.
const MAX_CONTEXT_DEPTH: usize = 7;
/// Maximum number of contexts.
const MAX_CONTEXTS: usize = 3_000;

impl JsEvaluator<'_> {
    /// Returns the contexts in which all of the given expressions can be evaluated.
    pub fn calling_contexts(&mut self, nodes: &[JsNodeId], env: &JsFrameChain) -> Vec<JsFrameChain> {
        self.contexts_within(nodes, env, MAX_CONTEXT_DEPTH)
    }

    fn contexts_within(&mut self, nodes: &[JsNodeId], env: &JsFrameChain, max_depth: usize) -> Vec<JsFrameChain> {
        for node in nodes {
            let Some((owner, index)) = self.find_unbound(*node, env) else { continue };
            if max_depth == 0 {
                return Vec::new();
            }
            let mut ways = Vec::new();
            for way in self.owner_contexts(owner, index, env, max_depth - 1) {
                ways.extend(self.contexts_within(nodes, &way, max_depth - 1));
                if ways.len() > MAX_CONTEXTS {
                    self.record_omission(true);
                    break;
                }
            }
            return ways;
        }
        vec![env.clone()]
    }

    /// Returns the unbound parameter or loop variable that a value depends on. In an object, only the members `name`
    /// and `tools` are examined.
    fn find_unbound(&mut self, node: JsNodeId, env: &JsFrameChain) -> Option<(JsFrameOwner, usize)> {
        let found = self.evaluate(node, env).and_then(|value| match value {
            JsValue::Object(_) => {
                self.evaluate_member(&value, &"name".into())?;
                self.evaluate_member(&value, &"tools".into())
            }
            other => Ok(other),
        });
        match found {
            Err(JsEvaluationError::Unbound(owner, index)) => Some((owner, index)),
            _ => None,
        }
    }

    fn owner_contexts(
        &mut self,
        owner: JsFrameOwner,
        index: usize,
        env: &JsFrameChain,
        max_depth: usize,
    ) -> Vec<JsFrameChain> {
        match owner {
            JsFrameOwner::Loop(id) => {
                let Some(over) = self.syntax.loops.get(id.0 as usize).copied() else { return Vec::new() };
                self.loop_contexts(over, env, max_depth, |_, element| vec![element], owner)
            }
            JsFrameOwner::Class(class) => self.instance_contexts(class, env),
            JsFrameOwner::Function(function) => self.caller_contexts(function, index, env, max_depth),
        }
    }

    /// Returns one context for each element of a list that is iterated over.
    fn loop_contexts(
        &mut self,
        list: JsNodeId,
        env: &JsFrameChain,
        max_depth: usize,
        values: impl Fn(usize, JsValue) -> Vec<JsValue>,
        owner: JsFrameOwner,
    ) -> Vec<JsFrameChain> {
        let mut ways = Vec::new();
        for env in self.contexts_within(&[list], env, max_depth) {
            let Ok(value) = self.evaluate(list, &env) else { continue };
            self.record_omission(value.is_over_limit());
            for (place, element) in self.elements(&value).into_iter().enumerate() {
                ways.push(JsFrame::extend(owner, values(place, element), &env));
            }
        }
        ways
    }

    fn caller_contexts(
        &mut self,
        function: JsFunctionId,
        index: usize,
        env: &JsFrameChain,
        max_depth: usize,
    ) -> Vec<JsFrameChain> {
        let syntax = self.syntax;
        let owner = JsFrameOwner::Function(function);
        match syntax.function(function).map(|function| function.usage) {
            Some(JsFunctionUse::Argument(call)) => {
                let JsNode::Call(callee, items) = syntax.node(call) else { return Vec::new() };
                let JsNode::Member(list, method) = syntax.node(*callee) else { return Vec::new() };
                match syntax.symbol_text(*method) {
                    "map" | "forEach" | "flatMap" | "filter" | "some" | "every" | "find" => {
                        self.loop_contexts(*list, env, max_depth, |_, element| vec![element], owner)
                    }
                    "reduce" => self.loop_contexts(
                        *list,
                        env,
                        max_depth,
                        |_, element| vec![JsValue::Opaque(None), element],
                        owner,
                    ),
                    "from" => match items.first() {
                        Some(list) => self.loop_contexts(*list, env, max_depth, |_, element| vec![element], owner),
                        None => Vec::new(),
                    },
                    _ => Vec::new(),
                }
            }
            Some(JsFunctionUse::Called(call)) => self.call_site_contexts(call, owner, index, env, max_depth),
            Some(JsFunctionUse::Named) => {
                let mut ways = Vec::new();
                for call in self.call_sites(function) {
                    ways.extend(self.call_site_contexts(call, owner, index, env, max_depth));
                    if ways.len() > MAX_CONTEXTS {
                        self.record_omission(true);
                        break;
                    }
                }
                ways
            }
            None => Vec::new(),
        }
    }

    fn call_site_contexts(
        &mut self,
        call: JsNodeId,
        owner: JsFrameOwner,
        index: usize,
        env: &JsFrameChain,
        max_depth: usize,
    ) -> Vec<JsFrameChain> {
        let (JsNode::Call(_, items) | JsNode::New(_, items)) = self.syntax.node(call) else { return Vec::new() };
        let around = if matches!(owner, JsFrameOwner::Function(_)) { &None } else { env };
        let settled = match items.get(index) {
            Some(item) => self.contexts_within(&[*item], around, max_depth),
            None => vec![around.clone()],
        };
        let mut ways = Vec::new();
        for site in settled {
            if let Ok(arguments) = self.evaluate_arguments(items, &site) {
                ways.push(JsFrame::extend(owner, arguments, env));
            }
        }
        ways
    }

    /// Returns the contexts in which `this` is an instance of the class or of one of its subclasses.
    fn instance_contexts(&mut self, class: JsClassId, env: &JsFrameChain) -> Vec<JsFrameChain> {
        let mut ways = Vec::new();
        for index in 0..self.syntax.classes.len() {
            let id = JsClassId(index as u32);
            if self.is_subclass_of(id, class) && self.is_instantiated(id) {
                for arguments in self.constructor_arguments(id) {
                    let this = JsValue::Instance(id, arguments);
                    ways.push(JsFrame::extend(JsFrameOwner::Class(class), vec![this], env));
                }
            }
        }
        ways
    }

    fn is_subclass_of(&mut self, class: JsClassId, ancestor: JsClassId) -> bool {
        let mut at = Some(class);
        for _ in 0..10 {
            match at {
                Some(id) if id == ancestor => return true,
                Some(id) => at = self.find_parent_class(id),
                None => return false,
            }
        }
        false
    }

    /// Returns the arguments of each `new` expression for a class, or one empty list if there is no such expression.
    pub fn constructor_arguments(&mut self, class: JsClassId) -> Vec<Rc<Vec<JsValue>>> {
        let mut found = Vec::new();
        for new in self.constructor_calls(class) {
            if let JsNode::New(_, items) = self.syntax.node(new)
                && !items.is_empty()
                && let Ok(arguments) = self.evaluate_arguments(items, &None)
            {
                found.push(Rc::new(arguments));
            }
        }
        if found.is_empty() {
            found.push(Rc::default());
        }
        found
    }
}
