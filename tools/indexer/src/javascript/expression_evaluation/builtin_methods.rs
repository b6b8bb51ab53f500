//! Evaluates the built-in methods that packages typically apply to lists of tools.

use std::rc::Rc;

use super::JsEvaluator;
use crate::javascript::static_value::{JsEvaluationError, JsFrameChain, JsValue, JsValueResult};
use crate::javascript::syntax::{JsNode, JsNodeId};

impl JsEvaluator<'_> {
    /// Evaluates `object.method(items)` if the method is one of the supported built-in methods.
    pub(super) fn call_builtin(
        &mut self,
        object: JsNodeId,
        method: &str,
        items: &[JsNodeId],
        env: &JsFrameChain,
    ) -> Result<Option<JsValue>, JsEvaluationError> {
        let syntax = self.syntax;
        if let JsNode::Name(word, scope) = syntax.node(object)
            && syntax.find_binding(*word, *scope).is_none()
        {
            return self.call_global_method(syntax.symbol_text(*word), method, items, env);
        }
        match method {
            "map" | "flatMap" | "filter" | "concat" | "flat" | "join" | "slice" | "sort" | "reverse" | "toSorted"
            | "values" | "keys" | "entries" | "get" | "trim" | "toString" | "toLowerCase" | "toUpperCase"
            | "includes" | "has" | "startsWith" => {
                let object = self.evaluate(object, env)?;
                match &object {
                    JsValue::List(values) => self.call_list_method(values, method, items, env),
                    JsValue::Object(pairs) => self.call_map_method(pairs, &object, method, items, env),
                    JsValue::CommandLine => Ok(match method {
                        "slice" => Some(JsValue::CommandLine),
                        "includes" => Some(JsValue::Bool(false)),
                        _ => None,
                    }),
                    JsValue::Text(text) if matches!(method, "includes" | "startsWith") => {
                        let text = text.clone();
                        self.text_contains(&text, method, items, env)
                    }
                    JsValue::Text(text) => Ok(call_text_method(text, method)),
                    _ => Ok(None),
                }
            }
            _ => Ok(None),
        }
    }

    fn call_global_method(
        &mut self,
        global: &str,
        method: &str,
        items: &[JsNodeId],
        env: &JsFrameChain,
    ) -> Result<Option<JsValue>, JsEvaluationError> {
        let Some(first) = items.first() else { return Ok(None) };
        match (global, method) {
            ("Object", "freeze" | "seal") | ("Promise", "all" | "resolve") => self.evaluate(*first, env).map(Some),
            ("Object", "values" | "keys" | "entries") => {
                let inner = self.evaluate(*first, env)?;
                let entries = self.object_entries(&inner);
                Ok(Some(list_pairs(&entries, method)))
            }
            ("Object", "assign") => {
                let mut pairs = Vec::new();
                for item in items {
                    let inner = self.evaluate(*item, env)?;
                    pairs.extend(self.object_entries(&inner));
                }
                Ok(Some(JsValue::Object(Rc::new(pairs))))
            }
            ("Object", "fromEntries") => {
                let inner = self.evaluate(*first, env)?;
                Ok(Some(self.object_from_pairs(&inner)))
            }
            ("Array", "from") => {
                let inner = self.evaluate(*first, env)?;
                let values = Rc::new(self.elements(&inner));
                match items.get(1) {
                    Some(function) => self.call_list_method(&values, "map", &[*function], env),
                    None => Ok(Some(JsValue::List(values))),
                }
            }
            _ => Ok(None),
        }
    }

    fn call_list_method(
        &mut self,
        values: &Rc<Vec<JsValue>>,
        method: &str,
        items: &[JsNodeId],
        env: &JsFrameChain,
    ) -> Result<Option<JsValue>, JsEvaluationError> {
        Ok(match method {
            "map" | "flatMap" => {
                let function = items.first().map(|item| self.evaluate(*item, env)).transpose()?;
                let Some(JsValue::Function(function, closure)) = function else { return Ok(None) };
                let mut mapped = Vec::with_capacity(values.len());
                for (place, value) in values.iter().enumerate() {
                    let arguments = vec![value.clone(), JsValue::Number(place as f64)];
                    mapped.push(self.apply(function, &closure, arguments));
                }
                Some(if method == "map" { JsValue::list(mapped) } else { self.flatten(&mapped) })
            }
            "includes" | "has" => self.list_contains(values, items, env)?,
            "filter" => Some(self.filter_list(values, items, env)),
            "slice" | "sort" | "reverse" | "toSorted" | "values" => Some(JsValue::List(Rc::clone(values))),
            "flat" => Some(self.flatten(values)),
            "concat" => {
                let mut all = values.to_vec();
                for item in items {
                    let inner = self.evaluate(*item, env)?;
                    all.extend(self.elements(&inner));
                }
                Some(JsValue::list(all))
            }
            "join" => Some(self.join_texts(values, items, env)?),
            _ => None,
        })
    }

    /// Returns whether a list contains an element, or `None` if some elements are unknown or are added later.
    fn list_contains(
        &mut self,
        values: &[JsValue],
        items: &[JsNodeId],
        env: &JsFrameChain,
    ) -> Result<Option<JsValue>, JsEvaluationError> {
        let [wanted] = items else { return Ok(None) };
        let JsValue::Text(wanted) = self.evaluate(*wanted, env)? else { return Ok(None) };
        let mut found = false;
        for value in values {
            match self.force(value)? {
                JsValue::Text(text) => found |= text == wanted,
                _ => return Ok(None),
            }
        }
        Ok((self.is_strict && !values.is_empty()).then_some(JsValue::Bool(found)))
    }

    fn text_contains(
        &mut self,
        text: &str,
        method: &str,
        items: &[JsNodeId],
        env: &JsFrameChain,
    ) -> Result<Option<JsValue>, JsEvaluationError> {
        let [part] = items else { return Ok(None) };
        let JsValue::Text(part) = self.evaluate(*part, env)? else { return Ok(None) };
        let has = if method == "includes" { text.contains(&*part) } else { text.starts_with(&*part) };
        Ok(self.is_strict.then_some(JsValue::Bool(has)))
    }

    /// Returns the list without the elements that the filter removes by default, and records the names of the removed
    /// tools.
    fn filter_list(&mut self, values: &Rc<Vec<JsValue>>, items: &[JsNodeId], env: &JsFrameChain) -> JsValue {
        let function = items.first().map(|item| self.evaluate(*item, env));
        let Some(Ok(JsValue::Function(function, closure))) = function else {
            return if self.is_strict { JsValue::Opaque(None) } else { JsValue::List(Rc::clone(values)) };
        };
        let mut left = Vec::with_capacity(values.len());
        for value in values.iter() {
            let kept = self.apply(function, &closure, vec![value.clone()]);
            let truth = self.decide_value(&kept);
            if self.is_strict && truth.is_none() {
                return JsValue::Opaque(None);
            }
            if truth != Some(false) {
                left.push(value.clone());
            } else if let Ok(JsValue::Text(name)) = self.evaluate_member(value, &"name".into()) {
                self.filtered_tools.insert(name);
            }
        }
        JsValue::list(left)
    }

    fn flatten(&mut self, values: &[JsValue]) -> JsValue {
        let mut all = Vec::new();
        for value in values {
            match self.force(value) {
                Ok(JsValue::List(inner)) => all.extend(inner.iter().cloned()),
                Ok(other) => all.push(other),
                Err(_) => {}
            }
        }
        JsValue::list(all)
    }

    fn join_texts(&mut self, values: &[JsValue], items: &[JsNodeId], env: &JsFrameChain) -> JsValueResult {
        let separator = match items.first().map(|item| self.evaluate(*item, env)).transpose()? {
            Some(JsValue::Text(text)) => text,
            _ => ",".into(),
        };
        let mut pieces = Vec::new();
        for value in values {
            match self.force(value)? {
                JsValue::Text(text) => pieces.push(text),
                _ => return Ok(JsValue::Opaque(None)),
            }
        }
        Ok(JsValue::Text(pieces.join(&separator).into()))
    }

    fn call_map_method(
        &mut self,
        pairs: &[(Rc<str>, JsValue)],
        object: &JsValue,
        method: &str,
        items: &[JsNodeId],
        env: &JsFrameChain,
    ) -> Result<Option<JsValue>, JsEvaluationError> {
        // A method of that name in the object itself takes precedence.
        if pairs.iter().any(|(key, _)| key.as_ref() == method) {
            return Ok(None);
        }
        match (method, items) {
            ("values" | "keys" | "entries", []) => Ok(Some(list_pairs(pairs, method))),
            ("get", [key]) => match self.evaluate(*key, env)? {
                JsValue::Text(key) => self.evaluate_member(object, &key).map(Some),
                _ => Ok(None),
            },
            _ => Ok(None),
        }
    }
}

fn list_pairs(pairs: &[(Rc<str>, JsValue)], method: &str) -> JsValue {
    let one = |(key, value): &(Rc<str>, JsValue)| match method {
        "keys" => JsValue::Text(Rc::clone(key)),
        "values" => value.clone(),
        _ => JsValue::pair(key, value),
    };
    JsValue::list(pairs.iter().map(one).collect())
}

fn call_text_method(text: &str, method: &str) -> Option<JsValue> {
    let text = match method {
        "trim" => text.trim().to_owned(),
        "toString" => text.to_owned(),
        "toLowerCase" => text.to_lowercase(),
        "toUpperCase" => text.to_uppercase(),
        _ => return None,
    };
    Some(JsValue::Text(text.into()))
}
