//! Parts of values.

use std::rc::Rc;

use super::Evaluator;
use crate::javascript::syntax::{JsClassId, JsCollection, JsMemberKind, JsNode, JsNodeId, JsScopeId};
use crate::javascript::value::{Env, Found, Frame, Owner, Stop, Value, find_frame};

impl Evaluator<'_> {
    /// `value.key`.
    pub fn member(&mut self, value: &Value, key: &Rc<str>) -> Found {
        match value {
            Value::Lazy(..) => {
                let value = self.force(value)?;
                self.member(&value, key)
            }
            // A key written twice has its last value.
            Value::Object(pairs) => match pairs.iter().rev().find(|(name, _)| name == key) {
                Some((_, value)) => self.force(value),
                None => Ok(Value::Opaque(None)),
            },
            Value::Module(file) => self.exported(*file, key, 0),
            Value::Environment => Ok(self.variable(key)),
            Value::Instance(class, arguments) => self.instance_member(*class, arguments, key),
            Value::Class(class, env) => self.static_member(*class, env, key),
            Value::Opaque(Some((node, env))) => self.opaque_member(*node, &env.clone(), key),
            _ => Ok(Value::Opaque(None)),
        }
    }

    /// A foreign function such as `defineTool` mostly gives back what it was given.
    fn opaque_member(&mut self, node: JsNodeId, env: &Env, key: &Rc<str>) -> Found {
        let (JsNode::Call(_, items) | JsNode::New(_, items)) = self.syntax.node(node) else {
            return Ok(Value::Opaque(None));
        };
        for item in items {
            if let value @ Value::Object(_) = self.value(*item, env)? {
                return self.member(&value, key);
            }
        }
        Ok(Value::Opaque(None))
    }

    pub(super) fn indexed(&mut self, object: JsNodeId, index: JsNodeId, env: &Env) -> Found {
        let object = self.value(object, env)?;
        match (self.value(index, env)?, &object) {
            (Value::Text(key), _) => self.member(&object, &key),
            (Value::Number(place), Value::List(items)) => match items.get(place as usize) {
                Some(item) => self.force(item),
                None => Ok(Value::Nothing),
            },
            _ => Ok(Value::Opaque(None)),
        }
    }

    pub(super) fn this(&mut self, scope: JsScopeId, env: &Env) -> Found {
        let Some(class) = self.syntax.scopes.get(scope.0 as usize).and_then(|scope| scope.class) else {
            return Ok(Value::Opaque(None));
        };
        let owner = Owner::Class(class);
        let frame = find_frame(env, owner).ok_or(Stop::Open(owner, 0))?;
        Ok(frame.values.first().cloned().unwrap_or(Value::Opaque(None)))
    }

    /// The class that this one extends, where it is in the package.
    pub fn parent_class(&mut self, class: JsClassId) -> Option<JsClassId> {
        let parent = self.syntax.class(class)?.parent?;
        match self.value(parent, &None) {
            Ok(Value::Class(parent, _)) if parent != class => Some(parent),
            _ => None,
        }
    }

    fn instance_member(&mut self, class: JsClassId, arguments: &Rc<Vec<Value>>, key: &Rc<str>) -> Found {
        let this = Value::Instance(class, Rc::clone(arguments));
        let mut given = arguments.to_vec();
        let mut at = Some(class);
        for _ in 0..10 {
            let Some((id, class)) = at.and_then(|id| Some((id, self.syntax.class(id)?))) else { break };
            let mut env = Frame::env(Owner::Class(id), vec![this.clone()], &None);
            if let Some(constructor) = class.constructor {
                env = Frame::env(Owner::Function(constructor), given.clone(), &env);
            }
            if let Some(value) = self.own_member(id, key, &env)? {
                let word = self.syntax.find_symbol(key);
                return Ok(match word {
                    Some(word) => self.filled(JsCollection::Member(word), value),
                    None => value,
                });
            }
            if class.constructor.is_some() {
                let items = class.super_arguments.as_deref().unwrap_or_default();
                given = items.iter().map(|item| Value::Lazy(*item, env.clone())).collect();
            }
            at = self.parent_class(id);
        }
        Ok(Value::Opaque(None))
    }

    fn own_member(&mut self, id: JsClassId, key: &str, env: &Env) -> Result<Option<Value>, Stop> {
        let syntax = self.syntax;
        let Some(class) = syntax.class(id) else { return Ok(None) };
        let assigned = class.this_assignments.iter().filter(|(word, _)| syntax.symbol_text(*word) == key).count();
        let fields = class.members.iter().filter(|member| {
            syntax.symbol_text(member.key) == key && !matches!(syntax.node(member.value), JsNode::Opaque)
        });
        if self.is_deciding && assigned + fields.count() > 1 {
            return Ok(Some(Value::Opaque(None)));
        }
        for member in class.members.iter().filter(|member| !member.is_static) {
            if syntax.symbol_text(member.key) == key && !matches!(syntax.node(member.value), JsNode::Opaque) {
                return self.value(member.value, env).map(Some);
            }
        }
        for (word, value) in &class.this_assignments {
            if syntax.symbol_text(*word) == key {
                match self.value(*value, env) {
                    Ok(value) if !matches!(value, Value::Opaque(None) | Value::Nothing) => {
                        return Ok(Some(value));
                    }
                    Err(Stop::Spent) => return Err(Stop::Spent),
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    fn static_member(&mut self, class: JsClassId, env: &Env, key: &str) -> Found {
        let syntax = self.syntax;
        let members = syntax.class(class).map(|class| class.members.as_slice()).unwrap_or_default();
        for member in members {
            let fits = member.is_static || member.kind == JsMemberKind::Method;
            if fits && syntax.symbol_text(member.key) == key {
                return self.value(member.value, env);
            }
        }
        Ok(Value::Opaque(None))
    }
}
