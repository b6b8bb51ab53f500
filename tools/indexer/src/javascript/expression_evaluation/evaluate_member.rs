//! Evaluates member access.

use std::rc::Rc;

use super::JsEvaluator;
use crate::javascript::static_value::{
    JsEvaluationError, JsFrame, JsFrameChain, JsFrameOwner, JsValue, JsValueResult, find_frame,
};
use crate::javascript::syntax::{JsAppendTarget, JsClassId, JsMemberKind, JsNode, JsNodeId, JsScopeId};

impl JsEvaluator<'_> {
    /// Evaluates `value.key`.
    pub fn evaluate_member(&mut self, value: &JsValue, key: &Rc<str>) -> JsValueResult {
        match value {
            JsValue::Lazy(..) => {
                let value = self.force(value)?;
                self.evaluate_member(&value, key)
            }
            // The last of several equal keys applies.
            JsValue::Object(pairs) => match pairs.iter().rev().find(|(name, _)| name == key) {
                Some((_, value)) => self.force(value),
                None => Ok(JsValue::Opaque(None)),
            },
            JsValue::Module(file) => self.evaluate_export(*file, key, 0),
            JsValue::Environment => Ok(self.environment_variable(key)),
            JsValue::Instance(class, arguments) => self.instance_member(*class, arguments, key),
            JsValue::Class(class, env) => self.static_member(*class, env, key),
            JsValue::Opaque(Some((node, env))) => self.opaque_member(*node, &env.clone(), key),
            _ => Ok(JsValue::Opaque(None)),
        }
    }

    /// Looks for a member in the arguments of an external function, because functions such as `defineTool` mostly
    /// return their argument.
    fn opaque_member(&mut self, node: JsNodeId, env: &JsFrameChain, key: &Rc<str>) -> JsValueResult {
        let (JsNode::Call(_, items) | JsNode::New(_, items)) = self.syntax.node(node) else {
            return Ok(JsValue::Opaque(None));
        };
        for item in items {
            if let value @ JsValue::Object(_) = self.evaluate(*item, env)? {
                return self.evaluate_member(&value, key);
            }
        }
        Ok(JsValue::Opaque(None))
    }

    pub(super) fn evaluate_index(&mut self, object: JsNodeId, index: JsNodeId, env: &JsFrameChain) -> JsValueResult {
        let object = self.evaluate(object, env)?;
        match (self.evaluate(index, env)?, &object) {
            (JsValue::Text(key), _) => self.evaluate_member(&object, &key),
            (JsValue::Number(place), JsValue::List(items)) => match items.get(place as usize) {
                Some(item) => self.force(item),
                None => Ok(JsValue::Nullish),
            },
            _ => Ok(JsValue::Opaque(None)),
        }
    }

    pub(super) fn evaluate_this(&mut self, scope: JsScopeId, env: &JsFrameChain) -> JsValueResult {
        let Some(class) = self.syntax.scopes.get(scope.0 as usize).and_then(|scope| scope.class) else {
            return Ok(JsValue::Opaque(None));
        };
        let owner = JsFrameOwner::Class(class);
        let frame = find_frame(env, owner).ok_or(JsEvaluationError::Unbound(owner, 0))?;
        Ok(frame.values.first().cloned().unwrap_or(JsValue::Opaque(None)))
    }

    /// Returns the superclass if the package defines it.
    pub fn find_parent_class(&mut self, class: JsClassId) -> Option<JsClassId> {
        let parent = self.syntax.class(class)?.parent?;
        match self.evaluate(parent, &None) {
            Ok(JsValue::Class(parent, _)) if parent != class => Some(parent),
            _ => None,
        }
    }

    fn instance_member(&mut self, class: JsClassId, arguments: &Rc<Vec<JsValue>>, key: &Rc<str>) -> JsValueResult {
        let this = JsValue::Instance(class, Rc::clone(arguments));
        let mut given = arguments.to_vec();
        let mut at = Some(class);
        for _ in 0..10 {
            let Some((id, class)) = at.and_then(|id| Some((id, self.syntax.class(id)?))) else { break };
            let mut env = JsFrame::extend(JsFrameOwner::Class(id), vec![this.clone()], &None);
            if let Some(constructor) = class.constructor {
                env = JsFrame::extend(JsFrameOwner::Function(constructor), given.clone(), &env);
            }
            if let Some(value) = self.find_own_member(id, key, &env)? {
                let word = self.syntax.find_symbol(key);
                return Ok(match word {
                    Some(word) => self.with_all_additions(JsAppendTarget::Member(word), value),
                    None => value,
                });
            }
            if class.constructor.is_some() {
                let items = class.super_arguments.as_deref().unwrap_or_default();
                given = items.iter().map(|item| JsValue::Lazy(*item, env.clone())).collect();
            }
            at = self.find_parent_class(id);
        }
        Ok(JsValue::Opaque(None))
    }

    fn find_own_member(
        &mut self,
        id: JsClassId,
        key: &str,
        env: &JsFrameChain,
    ) -> Result<Option<JsValue>, JsEvaluationError> {
        let syntax = self.syntax;
        let Some(class) = syntax.class(id) else { return Ok(None) };
        let assigned = class.this_assignments.iter().filter(|(word, _)| syntax.symbol_text(*word) == key).count();
        let fields = class.members.iter().filter(|member| {
            syntax.symbol_text(member.key) == key && !matches!(syntax.node(member.value), JsNode::Opaque)
        });
        if self.is_strict && assigned + fields.count() > 1 {
            return Ok(Some(JsValue::Opaque(None)));
        }
        for member in class.members.iter().filter(|member| !member.is_static) {
            if syntax.symbol_text(member.key) == key && !matches!(syntax.node(member.value), JsNode::Opaque) {
                return self.evaluate(member.value, env).map(Some);
            }
        }
        for (word, value) in &class.this_assignments {
            if syntax.symbol_text(*word) == key {
                match self.evaluate(*value, env) {
                    Ok(value) if !matches!(value, JsValue::Opaque(None) | JsValue::Nullish) => {
                        return Ok(Some(value));
                    }
                    Err(JsEvaluationError::OutOfSteps) => return Err(JsEvaluationError::OutOfSteps),
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    fn static_member(&mut self, class: JsClassId, env: &JsFrameChain, key: &str) -> JsValueResult {
        let syntax = self.syntax;
        let members = syntax.class(class).map(|class| class.members.as_slice()).unwrap_or_default();
        for member in members {
            let fits = member.is_static || member.kind == JsMemberKind::Method;
            if fits && syntax.symbol_text(member.key) == key {
                return self.evaluate(member.value, env);
            }
        }
        Ok(JsValue::Opaque(None))
    }
}
