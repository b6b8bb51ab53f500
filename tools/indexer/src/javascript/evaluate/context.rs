//! For a place that depends on who calls: all the ways in which it is reached.

use std::rc::Rc;

use super::Evaluator;
use crate::javascript::syntax::{JsClassId, JsFunctionId, JsFunctionUse, JsNode, JsNodeId};
use crate::javascript::value::{Env, Frame, Owner, Stop, Value};

/// How many calls and loops may lie around one another.
const LONGEST_ROAD: usize = 7;
/// How many ways are looked at.
const MOST_WAYS: usize = 3_000;

impl Evaluator<'_> {
    /// The surroundings in which all these expressions have values.
    pub fn settle(&mut self, nodes: &[JsNodeId], env: &Env) -> Vec<Env> {
        self.settle_within(nodes, env, LONGEST_ROAD)
    }

    fn settle_within(&mut self, nodes: &[JsNodeId], env: &Env, road: usize) -> Vec<Env> {
        for node in nodes {
            let Some((owner, index)) = self.open(*node, env) else { continue };
            if road == 0 {
                return Vec::new();
            }
            let mut ways = Vec::new();
            for way in self.ways(owner, index, env, road - 1) {
                ways.extend(self.settle_within(nodes, &way, road - 1));
                if ways.len() > MOST_WAYS {
                    self.leave_out(true);
                    break;
                }
            }
            return ways;
        }
        vec![env.clone()]
    }

    /// What a value waits for. Of an object, its name: it is what we are after.
    fn open(&mut self, node: JsNodeId, env: &Env) -> Option<(Owner, usize)> {
        let found = self.value(node, env).and_then(|value| match value {
            Value::Object(_) => {
                self.member(&value, &"name".into())?;
                self.member(&value, &"tools".into())
            }
            other => Ok(other),
        });
        match found {
            Err(Stop::Open(owner, index)) => Some((owner, index)),
            _ => None,
        }
    }

    fn ways(&mut self, owner: Owner, index: usize, env: &Env, road: usize) -> Vec<Env> {
        match owner {
            Owner::Loop(id) => {
                let Some(over) = self.syntax.loops.get(id.0 as usize).copied() else { return Vec::new() };
                self.over(over, env, road, |_, element| vec![element], owner)
            }
            Owner::Class(class) => self.instances(class, env),
            Owner::Function(function) => self.callers(function, index, env, road),
        }
    }

    /// One way for each element.
    fn over(
        &mut self,
        list: JsNodeId,
        env: &Env,
        road: usize,
        values: impl Fn(usize, Value) -> Vec<Value>,
        owner: Owner,
    ) -> Vec<Env> {
        let mut ways = Vec::new();
        for env in self.settle_within(&[list], env, road) {
            let Ok(value) = self.value(list, &env) else { continue };
            self.leave_out(value.is_too_long());
            for (place, element) in self.elements(&value).into_iter().enumerate() {
                ways.push(Frame::env(owner, values(place, element), &env));
            }
        }
        ways
    }

    fn callers(&mut self, function: JsFunctionId, index: usize, env: &Env, road: usize) -> Vec<Env> {
        let syntax = self.syntax;
        let owner = Owner::Function(function);
        match syntax.function(function).map(|function| function.usage) {
            Some(JsFunctionUse::Argument(call)) => {
                let JsNode::Call(callee, items) = syntax.node(call) else { return Vec::new() };
                let JsNode::Member(list, method) = syntax.node(*callee) else { return Vec::new() };
                match syntax.symbol_text(*method) {
                    "map" | "forEach" | "flatMap" | "filter" | "some" | "every" | "find" => {
                        self.over(*list, env, road, |_, element| vec![element], owner)
                    }
                    "reduce" => self.over(*list, env, road, |_, element| vec![Value::Opaque(None), element], owner),
                    "from" => match items.first() {
                        Some(list) => self.over(*list, env, road, |_, element| vec![element], owner),
                        None => Vec::new(),
                    },
                    _ => Vec::new(),
                }
            }
            Some(JsFunctionUse::Called(call)) => self.at_site(call, owner, index, env, road),
            Some(JsFunctionUse::Named) => {
                let mut ways = Vec::new();
                for call in self.call_sites(function) {
                    ways.extend(self.at_site(call, owner, index, env, road));
                    if ways.len() > MOST_WAYS {
                        self.leave_out(true);
                        break;
                    }
                }
                ways
            }
            None => Vec::new(),
        }
    }

    fn at_site(&mut self, call: JsNodeId, owner: Owner, index: usize, env: &Env, road: usize) -> Vec<Env> {
        let (JsNode::Call(_, items) | JsNode::New(_, items)) = self.syntax.node(call) else { return Vec::new() };
        let around = if matches!(owner, Owner::Function(_)) { &None } else { env };
        let settled = match items.get(index) {
            Some(item) => self.settle_within(&[*item], around, road),
            None => vec![around.clone()],
        };
        let mut ways = Vec::new();
        for site in settled {
            if let Ok(arguments) = self.arguments(items, &site) {
                ways.push(Frame::env(owner, arguments, env));
            }
        }
        ways
    }

    /// `this` of a class: an instance of it, or of a class made from it.
    fn instances(&mut self, class: JsClassId, env: &Env) -> Vec<Env> {
        let mut ways = Vec::new();
        for index in 0..self.syntax.classes.len() {
            let id = JsClassId(index as u32);
            if self.is_made_from(id, class) && self.is_made(id) {
                for arguments in self.constructions(id) {
                    let this = Value::Instance(id, arguments);
                    ways.push(Frame::env(Owner::Class(class), vec![this], env));
                }
            }
        }
        ways
    }

    fn is_made_from(&mut self, class: JsClassId, ancestor: JsClassId) -> bool {
        let mut at = Some(class);
        for _ in 0..10 {
            match at {
                Some(id) if id == ancestor => return true,
                Some(id) => at = self.parent_class(id),
                None => return false,
            }
        }
        false
    }

    /// The arguments a class is made with, wherever that is; without any, if nowhere.
    pub fn constructions(&mut self, class: JsClassId) -> Vec<Rc<Vec<Value>>> {
        let mut found = Vec::new();
        for new in self.news_of(class) {
            if let JsNode::New(_, items) = self.syntax.node(new)
                && !items.is_empty()
                && let Ok(arguments) = self.arguments(items, &None)
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
