//! Calls, and what is added to collections.

use std::rc::Rc;

use super::Evaluator;
use crate::javascript::syntax::{JsCollection, JsFunctionId, JsNode, JsNodeId};
use crate::javascript::value::{Env, Found, Frame, Owner, Stop, Value};
use crate::javascript::zod;

/// What compilers and bundlers put around modules.
const MODULE_HELPERS: [&str; 6] =
    ["__toESM", "__importStar", "__importDefault", "_interopRequireDefault", "_interopRequireWildcard", "__toCommonJS"];

impl Evaluator<'_> {
    pub(super) fn call(&mut self, node: JsNodeId, callee: JsNodeId, items: &[JsNodeId], env: &Env) -> Found {
        let syntax = self.syntax;
        let opaque = Value::Opaque(Some((node, env.clone())));
        // Bundles carry zod along; to follow it would lead away from what the author wrote.
        if zod::is_word(syntax, callee) {
            return Ok(opaque);
        }
        if let JsNode::Member(object, method) = syntax.node(callee) {
            if let Some(value) = self.builtin(*object, syntax.symbol_text(*method), items, env)? {
                return Ok(value);
            }
        } else if let JsNode::Name(word, _) = syntax.node(callee)
            && MODULE_HELPERS.contains(&syntax.symbol_text(*word))
            && let Some(inner) = items.first()
        {
            return self.value(*inner, env);
        }
        match self.value(callee, env) {
            Ok(Value::Function(function, closure)) => {
                let arguments = self.arguments(items, env)?;
                let value = self.apply(function, &closure, arguments);
                match self.force(&value) {
                    // What it gives back is unknown, but its own arguments may still tell.
                    Ok(Value::Opaque(_)) => Ok(opaque),
                    other => other,
                }
            }
            Err(Stop::Spent) => Err(Stop::Spent),
            _ => Ok(opaque),
        }
    }

    pub(super) fn arguments(&mut self, items: &[JsNodeId], env: &Env) -> Result<Vec<Value>, Stop> {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            match self.syntax.node(*item) {
                JsNode::Spread(inner) => {
                    let inner = self.value(*inner, env)?;
                    values.extend(self.elements(&inner));
                }
                _ => values.push(Value::Lazy(*item, env.clone())),
            }
        }
        Ok(values)
    }

    /// What the function gives back for these arguments, not looked at yet.
    pub(super) fn apply(&mut self, function: JsFunctionId, closure: &Env, arguments: Vec<Value>) -> Value {
        match self.syntax.function(function).and_then(|function| function.result) {
            Some(result) => Value::Lazy(result, Frame::env(Owner::Function(function), arguments, closure)),
            None => Value::Nothing,
        }
    }

    pub(super) fn instance(&mut self, node: JsNodeId, callee: JsNodeId, items: &[JsNodeId], env: &Env) -> Found {
        let syntax = self.syntax;
        if let JsNode::Name(word, _) = syntax.node(callee) {
            match syntax.symbol_text(*word) {
                "Map" => return self.map_of(items, env),
                "Set" | "Array" => {
                    let inner = items.first().map(|item| self.value(*item, env)).transpose()?;
                    let values = inner.map(|inner| self.elements(&inner)).unwrap_or_default();
                    return Ok(Value::list(values));
                }
                _ => {}
            }
        }
        match self.value(callee, env) {
            Ok(Value::Class(class, _)) => {
                let arguments = self.arguments(items, env)?;
                Ok(Value::Instance(class, Rc::new(arguments)))
            }
            Err(Stop::Spent) => Err(Stop::Spent),
            _ => Ok(Value::Opaque(Some((node, env.clone())))),
        }
    }

    fn map_of(&mut self, items: &[JsNodeId], env: &Env) -> Found {
        let Some(first) = items.first() else { return Ok(Value::Object(Rc::default())) };
        let inner = self.value(*first, env)?;
        Ok(self.paired(&inner))
    }

    /// `[[key, value], …]` as an object.
    pub(super) fn paired(&mut self, value: &Value) -> Value {
        let mut pairs = Vec::new();
        for element in self.elements(value) {
            if let Ok(Value::List(pair)) = self.force(&element)
                && let [key, value, ..] = pair.as_slice()
                && let Ok(Value::Text(key)) = self.force(key)
            {
                pairs.push((key, value.clone()));
            }
        }
        Value::Object(Rc::new(pairs))
    }

    /// What one gets by running over a value; over a map, pairs.
    pub fn elements(&mut self, value: &Value) -> Vec<Value> {
        match value {
            Value::List(items) => items.to_vec(),
            Value::Object(pairs) => pairs.iter().map(|(key, value)| Value::pair(key, value)).collect(),
            _ => Vec::new(),
        }
    }

    pub fn entries(&mut self, value: &Value) -> Vec<(Rc<str>, Value)> {
        match value {
            Value::Object(pairs) => pairs.to_vec(),
            Value::Module(file) => self.all_exports(*file, 0),
            Value::Opaque(Some((node, env))) => self.opaque_entries(*node, env),
            _ => Vec::new(),
        }
    }

    /// The parts of a schema as far as they are written out, and, as in `opaque_member`, of what
    /// a foreign function is given.
    fn opaque_entries(&mut self, node: JsNodeId, env: &Env) -> Vec<(Rc<str>, Value)> {
        let syntax = self.syntax;
        let (callee, items) = match syntax.node(node) {
            JsNode::Member(object, _) => {
                return self.value(*object, env).map(|object| self.entries(&object)).unwrap_or_default();
            }
            JsNode::Call(callee, items) | JsNode::New(callee, items) => (*callee, items),
            _ => return Vec::new(),
        };
        let mut pairs = Vec::new();
        if let JsNode::Member(object, word) = syntax.node(callee)
            && zod::changes(syntax.symbol_text(*word))
            && let Ok(inner) = self.value(*object, env)
        {
            pairs = self.entries(&inner);
            if !zod::extends(syntax.symbol_text(*word)) {
                return pairs;
            }
        }
        let mut objects = items.iter().map(|item| self.value(*item, env));
        if let Some(Ok(Value::Object(more))) = objects.find(|value| matches!(value, Ok(Value::Object(_)))) {
            pairs.extend(more.iter().cloned());
        }
        pairs
    }

    /// A value with what is assigned to its members elsewhere.
    pub(super) fn with_members(&mut self, value: Value, members: &[(JsNodeId, JsNodeId)], env: &Env) -> Value {
        let mut pairs = match &value {
            Value::Object(pairs) => pairs.to_vec(),
            Value::Opaque(None) => Vec::new(),
            _ => return value,
        };
        for (key, value) in members {
            if let Ok(Value::Text(key)) = self.value(*key, env) {
                // It may be assigned, or not.
                let value = if self.is_deciding { Value::Opaque(None) } else { Value::Lazy(*value, env.clone()) };
                pairs.push((key, value));
            }
        }
        Value::Object(Rc::new(pairs))
    }

    /// A collection with what is added to it elsewhere.
    pub(super) fn filled(&mut self, collection: JsCollection, value: Value) -> Value {
        let syntax = self.syntax;
        let here = syntax.additions.get(&collection).into_iter().flatten();
        let afar = self.added_from_afar.get(&collection).into_iter().flatten();
        let calls: Vec<JsNodeId> = here.chain(afar).copied().take(1_000).collect();
        if calls.is_empty() || !matches!(value, Value::List(_) | Value::Object(_)) {
            return value;
        }
        if self.is_deciding {
            return Value::Opaque(None);
        }
        if !self.filling.insert(collection) {
            return value;
        }
        let mut value = value;
        for call in calls {
            if let JsNode::Call(_, items) = syntax.node(call) {
                value = self.with_addition(value, items);
            }
        }
        self.filling.remove(&collection);
        value
    }

    fn with_addition(&mut self, value: Value, items: &[JsNodeId]) -> Value {
        match (value, items) {
            (Value::List(known), _) => {
                let mut known = known.to_vec();
                for item in items {
                    for env in self.settle(&[*item], &None) {
                        match self.syntax.node(*item) {
                            JsNode::Spread(inner) => {
                                if let Ok(inner) = self.value(*inner, &env) {
                                    known.extend(self.elements(&inner));
                                }
                            }
                            _ => known.push(Value::Lazy(*item, env)),
                        }
                    }
                }
                Value::list(known)
            }
            (Value::Object(known), [key, item]) => {
                let mut known = known.to_vec();
                for env in self.settle(&[*key, *item], &None) {
                    if let Ok(Value::Text(key)) = self.value(*key, &env) {
                        known.push((key, Value::Lazy(*item, env)));
                    }
                }
                Value::Object(Rc::new(known))
            }
            (value, _) => value,
        }
    }
}
