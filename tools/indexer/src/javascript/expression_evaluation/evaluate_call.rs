//! Evaluates calls, including those that add elements to collections, such as `push`.

use std::rc::Rc;

use super::JsEvaluator;
use crate::javascript::static_value::{JsEvaluationError, JsFrame, JsFrameChain, JsFrameOwner, JsValue, JsValueResult};
use crate::javascript::syntax::{JsAppendTarget, JsFunctionId, JsNode, JsNodeId};
use crate::javascript::zod_schema;

/// Helper functions in which compilers and bundlers wrap modules.
const MODULE_INTEROP_HELPERS: [&str; 6] =
    ["__toESM", "__importStar", "__importDefault", "_interopRequireDefault", "_interopRequireWildcard", "__toCommonJS"];

impl JsEvaluator<'_> {
    pub(super) fn evaluate_call(
        &mut self,
        node: JsNodeId,
        callee: JsNodeId,
        items: &[JsNodeId],
        env: &JsFrameChain,
    ) -> JsValueResult {
        let syntax = self.syntax;
        let opaque = JsValue::Opaque(Some((node, env.clone())));
        // Bundles contain zod itself. Inlining it would lose the schema as the author wrote it.
        if zod_schema::is_zod_call(syntax, callee) {
            return Ok(opaque);
        }
        if let JsNode::Member(object, method) = syntax.node(callee) {
            if let Some(value) = self.call_builtin(*object, syntax.symbol_text(*method), items, env)? {
                return Ok(value);
            }
        } else if let JsNode::Name(word, _) = syntax.node(callee)
            && MODULE_INTEROP_HELPERS.contains(&syntax.symbol_text(*word))
            && let Some(inner) = items.first()
        {
            return self.evaluate(*inner, env);
        }
        match self.evaluate(callee, env) {
            Ok(JsValue::Function(function, closure)) => {
                let arguments = self.evaluate_arguments(items, env)?;
                let value = self.apply(function, &closure, arguments);
                match self.force(&value) {
                    // The result is unknown, but the arguments of the call may still contain a schema.
                    Ok(JsValue::Opaque(_)) => Ok(opaque),
                    other => other,
                }
            }
            Err(JsEvaluationError::OutOfSteps) => Err(JsEvaluationError::OutOfSteps),
            _ => Ok(opaque),
        }
    }

    pub(super) fn evaluate_arguments(
        &mut self,
        items: &[JsNodeId],
        env: &JsFrameChain,
    ) -> Result<Vec<JsValue>, JsEvaluationError> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            match self.syntax.node(*item) {
                JsNode::Spread(inner) => {
                    let inner = self.evaluate(*inner, env)?;
                    values.extend(self.elements(&inner));
                }
                _ => values.push(JsValue::Lazy(*item, env.clone())),
            }
        }
        Ok(values)
    }

    /// Returns the result of calling a function with the given arguments as a lazy value.
    pub(super) fn apply(&mut self, function: JsFunctionId, closure: &JsFrameChain, arguments: Vec<JsValue>) -> JsValue {
        match self.syntax.function(function).and_then(|function| function.result) {
            Some(result) => {
                JsValue::Lazy(result, JsFrame::extend(JsFrameOwner::Function(function), arguments, closure))
            }
            None => JsValue::Nullish,
        }
    }

    pub(super) fn evaluate_new(
        &mut self,
        node: JsNodeId,
        callee: JsNodeId,
        items: &[JsNodeId],
        env: &JsFrameChain,
    ) -> JsValueResult {
        let syntax = self.syntax;
        if let JsNode::Name(word, _) = syntax.node(callee) {
            match syntax.symbol_text(*word) {
                "Map" => return self.evaluate_new_map(items, env),
                "Set" | "Array" => {
                    let inner = items.first().map(|item| self.evaluate(*item, env)).transpose()?;
                    let values = inner.map(|inner| self.elements(&inner)).unwrap_or_default();
                    return Ok(JsValue::list(values));
                }
                _ => {}
            }
        }
        match self.evaluate(callee, env) {
            Ok(JsValue::Class(class, _)) => {
                let arguments = self.evaluate_arguments(items, env)?;
                Ok(JsValue::Instance(class, Rc::new(arguments)))
            }
            Err(JsEvaluationError::OutOfSteps) => Err(JsEvaluationError::OutOfSteps),
            _ => Ok(JsValue::Opaque(Some((node, env.clone())))),
        }
    }

    fn evaluate_new_map(&mut self, items: &[JsNodeId], env: &JsFrameChain) -> JsValueResult {
        let Some(first) = items.first() else { return Ok(JsValue::Object(Rc::default())) };
        let inner = self.evaluate(*first, env)?;
        Ok(self.object_from_pairs(&inner))
    }

    /// Converts `[[key, value], …]` to an object.
    pub(super) fn object_from_pairs(&mut self, value: &JsValue) -> JsValue {
        let mut pairs = Vec::new();
        for element in self.elements(value) {
            if let Ok(JsValue::List(pair)) = self.force(&element)
                && let [key, value, ..] = pair.as_slice()
                && let Ok(JsValue::Text(key)) = self.force(key)
            {
                pairs.push((key, value.clone()));
            }
        }
        JsValue::Object(Rc::new(pairs))
    }

    /// Returns the elements produced by iterating over a value. For a map these are pairs.
    pub fn elements(&mut self, value: &JsValue) -> Vec<JsValue> {
        match value {
            JsValue::List(items) => items.to_vec(),
            JsValue::Object(pairs) => pairs.iter().map(|(key, value)| JsValue::pair(key, value)).collect(),
            _ => Vec::new(),
        }
    }

    pub fn object_entries(&mut self, value: &JsValue) -> Vec<(Rc<str>, JsValue)> {
        match value {
            JsValue::Object(pairs) => pairs.to_vec(),
            JsValue::Module(file) => self.all_exports(*file, 0),
            JsValue::Opaque(Some((node, env))) => self.opaque_entries(*node, env),
            _ => Vec::new(),
        }
    }

    /// Returns the entries of an object that is wrapped in a schema expression or passed to an external function.
    /// Functions such as `defineTool` mostly return their argument.
    fn opaque_entries(&mut self, node: JsNodeId, env: &JsFrameChain) -> Vec<(Rc<str>, JsValue)> {
        let syntax = self.syntax;
        let (callee, items) = match syntax.node(node) {
            JsNode::Member(object, _) => {
                return self.evaluate(*object, env).map(|object| self.object_entries(&object)).unwrap_or_default();
            }
            JsNode::Call(callee, items) | JsNode::New(callee, items) => (*callee, items),
            _ => return Vec::new(),
        };
        let mut pairs = Vec::new();
        if let JsNode::Member(object, word) = syntax.node(callee)
            && zod_schema::is_modifier(syntax.symbol_text(*word))
            && let Ok(inner) = self.evaluate(*object, env)
        {
            pairs = self.object_entries(&inner);
            if !zod_schema::is_extension(syntax.symbol_text(*word)) {
                return pairs;
            }
        }
        let mut objects = items.iter().map(|item| self.evaluate(*item, env));
        if let Some(Ok(JsValue::Object(more))) = objects.find(|value| matches!(value, Ok(JsValue::Object(_)))) {
            pairs.extend(more.iter().cloned());
        }
        pairs
    }

    /// Returns a value together with the members that are assigned to it elsewhere.
    pub(super) fn with_assigned_members(
        &mut self,
        value: JsValue,
        members: &[(JsNodeId, JsNodeId)],
        env: &JsFrameChain,
    ) -> JsValue {
        let mut pairs = match &value {
            JsValue::Object(pairs) => pairs.to_vec(),
            JsValue::Opaque(None) => Vec::new(),
            _ => return value,
        };
        for (key, value) in members {
            if let Ok(JsValue::Text(key)) = self.evaluate(*key, env) {
                // The assignment may or may not have run.
                let value = if self.is_strict { JsValue::Opaque(None) } else { JsValue::Lazy(*value, env.clone()) };
                pairs.push((key, value));
            }
        }
        JsValue::Object(Rc::new(pairs))
    }

    /// Returns a collection together with the elements that are added to it elsewhere.
    pub(super) fn with_all_additions(&mut self, collection: JsAppendTarget, value: JsValue) -> JsValue {
        let syntax = self.syntax;
        let here = syntax.additions.get(&collection).into_iter().flatten();
        let cross_file = self.cross_file_additions.get(&collection).into_iter().flatten();
        let calls: Vec<JsNodeId> = here.chain(cross_file).copied().take(1_000).collect();
        if calls.is_empty() || !matches!(value, JsValue::List(_) | JsValue::Object(_)) {
            return value;
        }
        if self.is_strict {
            return JsValue::Opaque(None);
        }
        if !self.collections_in_progress.insert(collection) {
            return value;
        }
        let mut value = value;
        for call in calls {
            if let JsNode::Call(_, items) = syntax.node(call) {
                value = self.with_addition(value, items);
            }
        }
        self.collections_in_progress.remove(&collection);
        value
    }

    fn with_addition(&mut self, value: JsValue, items: &[JsNodeId]) -> JsValue {
        match (value, items) {
            (JsValue::List(known), _) => {
                let mut known = known.to_vec();
                for item in items {
                    for env in self.calling_contexts(&[*item], &None) {
                        match self.syntax.node(*item) {
                            JsNode::Spread(inner) => {
                                if let Ok(inner) = self.evaluate(*inner, &env) {
                                    known.extend(self.elements(&inner));
                                }
                            }
                            _ => known.push(JsValue::Lazy(*item, env)),
                        }
                    }
                }
                JsValue::list(known)
            }
            (JsValue::Object(known), [key, item]) => {
                let mut known = known.to_vec();
                for env in self.calling_contexts(&[*key, *item], &None) {
                    if let Ok(JsValue::Text(key)) = self.evaluate(*key, &env) {
                        known.push((key, JsValue::Lazy(*item, env)));
                    }
                }
                JsValue::Object(Rc::new(known))
            }
            (value, _) => value,
        }
    }
}
