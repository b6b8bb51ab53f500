//! The functions of the language that lists of tools go through.

use std::rc::Rc;

use super::Evaluator;
use crate::javascript::syntax::{JsNode, JsNodeId};
use crate::javascript::value::{Env, Found, Stop, Value};

impl Evaluator<'_> {
    /// The value of `object.call_builtin_method(lower_items)`, if it is one of these.
    pub(super) fn builtin(
        &mut self,
        object: JsNodeId,
        method: &str,
        items: &[JsNodeId],
        env: &Env,
    ) -> Result<Option<Value>, Stop> {
        let syntax = self.syntax;
        if let JsNode::Name(word, scope) = syntax.node(object)
            && syntax.find_binding(*word, *scope).is_none()
        {
            return self.of_global(syntax.symbol_text(*word), method, items, env);
        }
        match method {
            "map" | "flatMap" | "filter" | "concat" | "flat" | "join" | "slice" | "sort" | "reverse" | "toSorted"
            | "values" | "keys" | "entries" | "get" | "trim" | "toString" | "toLowerCase" | "toUpperCase"
            | "includes" | "has" | "startsWith" => {
                let object = self.value(object, env)?;
                match &object {
                    Value::List(values) => self.of_list(values, method, items, env),
                    Value::Object(pairs) => self.of_map(pairs, &object, method, items, env),
                    Value::CommandLine => Ok(match method {
                        "slice" => Some(Value::CommandLine),
                        "includes" => Some(Value::Truth(false)),
                        _ => None,
                    }),
                    Value::Text(text) if matches!(method, "includes" | "startsWith") => {
                        let text = text.clone();
                        self.has_part(&text, method, items, env)
                    }
                    Value::Text(text) => Ok(of_text(text, method)),
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    fn of_global(&mut self, global: &str, method: &str, items: &[JsNodeId], env: &Env) -> Result<Option<Value>, Stop> {
        let Some(first) = items.first() else { return Ok(None) };
        match (global, method) {
            ("Object", "freeze" | "seal") | ("Promise", "all" | "resolve") => self.value(*first, env).map(Some),
            ("Object", "values" | "keys" | "entries") => {
                let inner = self.value(*first, env)?;
                let entries = self.entries(&inner);
                Ok(Some(listed(&entries, method)))
            }
            ("Object", "assign") => {
                let mut pairs = Vec::new();
                for item in items {
                    let inner = self.value(*item, env)?;
                    pairs.extend(self.entries(&inner));
                }
                Ok(Some(Value::Object(Rc::new(pairs))))
            }
            ("Object", "fromEntries") => {
                let inner = self.value(*first, env)?;
                Ok(Some(self.paired(&inner)))
            }
            ("Array", "from") => {
                let inner = self.value(*first, env)?;
                let values = Rc::new(self.elements(&inner));
                match items.get(1) {
                    Some(function) => self.of_list(&values, "map", &[*function], env),
                    None => Ok(Some(Value::List(values))),
                }
            }
            _ => Ok(None),
        }
    }

    fn of_list(
        &mut self,
        values: &Rc<Vec<Value>>,
        method: &str,
        items: &[JsNodeId],
        env: &Env,
    ) -> Result<Option<Value>, Stop> {
        Ok(match method {
            "map" | "flatMap" => {
                let function = items.first().map(|item| self.value(*item, env)).transpose()?;
                let Some(Value::Function(function, closure)) = function else { return Ok(None) };
                let mut mapped = Vec::with_capacity(values.len());
                for (place, value) in values.iter().enumerate() {
                    let arguments = vec![value.clone(), Value::Number(place as f64)];
                    mapped.push(self.apply(function, &closure, arguments));
                }
                Some(if method == "map" { Value::list(mapped) } else { self.flat(&mapped) })
            }
            "includes" | "has" => self.contains(values, items, env)?,
            "filter" => Some(self.filtered(values, items, env)),
            "slice" | "sort" | "reverse" | "toSorted" | "values" => Some(Value::List(Rc::clone(values))),
            "flat" => Some(self.flat(values)),
            "concat" => {
                let mut all = values.to_vec();
                for item in items {
                    let inner = self.value(*item, env)?;
                    all.extend(self.elements(&inner));
                }
                Some(Value::list(all))
            }
            "join" => Some(self.join(values, items, env)?),
            _ => None,
        })
    }

    /// Whether a list has an element; only where all of it is known, and it is not one that is filled later.
    fn contains(&mut self, values: &[Value], items: &[JsNodeId], env: &Env) -> Result<Option<Value>, Stop> {
        let [wanted] = items else { return Ok(None) };
        let Value::Text(wanted) = self.value(*wanted, env)? else { return Ok(None) };
        let mut found = false;
        for value in values {
            match self.force(value)? {
                Value::Text(text) => found |= text == wanted,
                _ => return Ok(None),
            }
        }
        Ok((self.is_deciding && !values.is_empty()).then_some(Value::Truth(found)))
    }

    fn has_part(&mut self, text: &str, method: &str, items: &[JsNodeId], env: &Env) -> Result<Option<Value>, Stop> {
        let [part] = items else { return Ok(None) };
        let Value::Text(part) = self.value(*part, env)? else { return Ok(None) };
        let has = if method == "includes" { text.contains(&*part) } else { text.starts_with(&*part) };
        Ok(self.is_deciding.then_some(Value::Truth(has)))
    }

    /// A list without what a filter leaves out by default; the names of those are kept.
    fn filtered(&mut self, values: &Rc<Vec<Value>>, items: &[JsNodeId], env: &Env) -> Value {
        let function = items.first().map(|item| self.value(*item, env));
        let Some(Ok(Value::Function(function, closure))) = function else {
            return if self.is_deciding { Value::Opaque(None) } else { Value::List(Rc::clone(values)) };
        };
        let mut left = Vec::with_capacity(values.len());
        for value in values.iter() {
            let kept = self.apply(function, &closure, vec![value.clone()]);
            let truth = self.decide_value(&kept);
            if self.is_deciding && truth.is_none() {
                return Value::Opaque(None);
            }
            if truth != Some(false) {
                left.push(value.clone());
            } else if let Ok(Value::Text(name)) = self.member(value, &"name".into()) {
                self.left_out.insert(name);
            }
        }
        Value::list(left)
    }

    fn flat(&mut self, values: &[Value]) -> Value {
        let mut all = Vec::new();
        for value in values {
            match self.force(value) {
                Ok(Value::List(inner)) => all.extend(inner.iter().cloned()),
                Ok(other) => all.push(other),
                Err(_) => {}
            }
        }
        Value::list(all)
    }

    fn join(&mut self, values: &[Value], items: &[JsNodeId], env: &Env) -> Found {
        let separator = match items.first().map(|item| self.value(*item, env)).transpose()? {
            Some(Value::Text(text)) => text,
            _ => ",".into(),
        };
        let mut pieces = Vec::new();
        for value in values {
            match self.force(value)? {
                Value::Text(text) => pieces.push(text),
                _ => return Ok(Value::Opaque(None)),
            }
        }
        Ok(Value::Text(pieces.join(&separator).into()))
    }

    fn of_map(
        &mut self,
        pairs: &[(Rc<str>, Value)],
        object: &Value,
        method: &str,
        items: &[JsNodeId],
        env: &Env,
    ) -> Result<Option<Value>, Stop> {
        // A method of that name in the object itself comes first.
        if pairs.iter().any(|(key, _)| key.as_ref() == method) {
            return Ok(None);
        }
        match (method, items) {
            ("values" | "keys" | "entries", []) => Ok(Some(listed(pairs, method))),
            ("get", [key]) => match self.value(*key, env)? {
                Value::Text(key) => self.member(object, &key).map(Some),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

fn listed(pairs: &[(Rc<str>, Value)], method: &str) -> Value {
    let one = |(key, value): &(Rc<str>, Value)| match method {
        "keys" => Value::Text(Rc::clone(key)),
        "values" => value.clone(),
        _ => Value::pair(key, value),
    };
    Value::list(pairs.iter().map(one).collect())
}

fn of_text(text: &str, method: &str) -> Option<Value> {
    let text = match method {
        "trim" => text.trim().to_owned(),
        "toString" => text.to_owned(),
        "toLowerCase" => text.to_lowercase(),
        "toUpperCase" => text.to_uppercase(),
        _ => return None,
    };
    Some(Value::Text(text.into()))
}
