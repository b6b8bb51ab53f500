//! A small model of how Intercept decides calls, for comparison. An approval request counts as a refusal.

use std::collections::BTreeMap;

use regex::Regex;
use serde_json::Value;

/// A policy and its counters, all within one window.
pub struct Intercept {
    policy: Value,
    counters: BTreeMap<String, i64>,
}

impl Intercept {
    pub fn new(policy: Value) -> Self {
        Self { policy, counters: BTreeMap::new() }
    }

    /// Decides a call, and counts it if it passes.
    pub fn passes(&mut self, tool: &str, arguments: &Value) -> bool {
        let hidden = self.policy["hide"].as_array().cloned().unwrap_or_default();
        let is_hidden = hidden.iter().any(|name| name == tool || name == "*");
        let is_unlisted = self.policy["default"] == "deny" && self.policy["tools"].get(tool).is_none();
        if is_hidden || is_unlisted {
            return false;
        }
        let rules = self.rules(tool);
        let all_hold = rules.iter().all(|(rule, _)| self.holds(rule, arguments));
        all_hold && self.reserve(&rules, arguments)
    }

    /// Returns the rules for a tool, each with the key of its counters. Rates are expanded.
    fn rules(&self, tool: &str) -> Vec<(Value, String)> {
        let mut found = Vec::new();
        for (key, scope) in [(tool, tool), ("*", "_global")] {
            for rule in self.policy["tools"][key]["rules"].as_array().into_iter().flatten() {
                found.push((expand_rate(rule, scope), scope.to_owned()));
            }
        }
        found
    }

    fn holds(&self, rule: &Value, arguments: &Value) -> bool {
        let conditions = rule["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
        let all = || conditions.iter().all(|condition| self.condition_holds(condition, arguments));
        match rule["action"].as_str() {
            Some("deny") => false,
            // Only matching calls require approval. This is the reading that allows the most calls.
            Some("require_approval") => !conditions.is_empty() && !all(),
            _ => all(),
        }
    }

    fn condition_holds(&self, condition: &Value, arguments: &Value) -> bool {
        let path = condition["path"].as_str().unwrap_or_default();
        let counted;
        let found = match path.strip_prefix("state.") {
            Some(key) => {
                counted = Value::from(self.counters.get(key).copied().unwrap_or_default());
                Some(&counted)
            }
            None => find(arguments, path),
        };
        let (operator, expected) = (condition["op"].as_str().unwrap_or_default(), &condition["value"]);
        if operator == "exists" {
            return found.is_some_and(|value| !value.is_null()) == (expected == &Value::Bool(true));
        }
        found.is_some_and(|actual| compare(operator, actual, expected))
    }

    fn reserve(&mut self, rules: &[(Value, String)], arguments: &Value) -> bool {
        let mut taken: BTreeMap<String, i64> = self.counters.clone();
        for (rule, scope) in rules {
            let Some(state) = rule.get("state") else { continue };
            let key = format!("{scope}.{}", state["counter"].as_str().unwrap_or_default());
            let amount = match state["increment_from"].as_str() {
                None => Some(state["increment"].as_i64().unwrap_or(1)),
                Some(path) => find(arguments, path).and_then(Value::as_f64).map(|number| number as i64),
            };
            let Some(amount) = amount else { return false };
            let Some(limit) = limit(rule, &key) else { continue };
            let used = taken.entry(key).or_default();
            if *used + amount > limit {
                return false;
            }
            *used += amount;
        }
        self.counters = taken;
        true
    }
}

fn expand_rate(rule: &Value, scope: &str) -> Value {
    let Some((count, window)) = rule["rate_limit"].as_str().and_then(|rate| rate.split_once('/')) else {
        return rule.clone();
    };
    let (counter, count) = (format!("_rate_{window}"), count.parse::<i64>().expect("a count"));
    serde_json::json!({
        "conditions": [{ "path": format!("state.{scope}.{counter}"), "op": "lte", "value": count }],
        "state": { "counter": counter, "window": window },
    })
}

/// Returns the first bound that the conditions of a rule set for its counter.
fn limit(rule: &Value, key: &str) -> Option<i64> {
    let conditions = rule["conditions"].as_array()?;
    conditions.iter().filter(|condition| condition["path"] == format!("state.{key}")).find_map(|condition| {
        let value = condition["value"].as_f64()? as i64;
        match condition["op"].as_str()? {
            "lt" => Some(value - 1),
            "lte" => Some(value),
            _ => None,
        }
    })
}

fn find<'v>(arguments: &'v Value, path: &str) -> Option<&'v Value> {
    path.strip_prefix("args.")?.split('.').try_fold(arguments, |value, key| value.as_object()?.get(key))
}

fn compare(operator: &str, actual: &Value, expected: &Value) -> bool {
    let members = expected.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_member = || members.iter().any(|member| is_equal(actual, member));
    let numbers = actual.as_f64().zip(expected.as_f64());
    match operator {
        "eq" => is_equal(actual, expected),
        "neq" => !is_equal(actual, expected),
        "in" => is_member(),
        "not_in" => !is_member(),
        "lt" => numbers.is_some_and(|(a, b)| a < b),
        "lte" => numbers.is_some_and(|(a, b)| a <= b),
        "gt" => numbers.is_some_and(|(a, b)| a > b),
        "gte" => numbers.is_some_and(|(a, b)| a >= b),
        "contains" => match (actual, expected) {
            (Value::String(text), Value::String(part)) => text.contains(part),
            (Value::Array(items), expected) => items.iter().any(|item| is_equal(item, expected)),
            _ => false,
        },
        "regex" => match (actual, expected) {
            (Value::String(text), Value::String(pattern)) => ascii(pattern).is_match(text),
            _ => false,
        },
        other => panic!("no operator: {other}"),
    }
}

/// Compares numbers as floats, and everything else by its printed form.
fn is_equal(actual: &Value, expected: &Value) -> bool {
    match actual.as_f64().zip(expected.as_f64()) {
        Some((a, b)) => a == b,
        None => printed(actual) == printed(expected),
    }
}

fn printed(value: &Value) -> String {
    match value {
        Value::Null => "<nil>".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => format!("[{}]", items.iter().map(printed).collect::<Vec<_>>().join(" ")),
        Value::Object(members) => {
            let member = |(key, value): (&String, &Value)| format!("{key}:{}", printed(value));
            format!("map[{}]", members.iter().map(member).collect::<Vec<_>>().join(" "))
        }
        other => other.to_string(),
    }
}

/// Makes the classes of a regex ASCII, as in Go. Sufficient for the patterns of the test.
fn ascii(pattern: &str) -> Regex {
    let pattern = pattern.replace(r"\d", "[0-9]").replace(r"\w", "[0-9A-Za-z_]").replace(r"\S", r"[^\t\n\f\r ]");
    Regex::new(&pattern).expect("a pattern")
}
