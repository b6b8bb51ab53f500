//! Whether a condition holds if nobody changes a setting. Only what is sure counts.

use std::rc::Rc;

use super::Reader;
use super::evaluate::one_of;
use super::scope::{Binding, ScopeId};
use super::syntax::{PyCall, PyComparison, PyExpr};
use super::value::{Arguments, Foreign, Value};
use crate::user_supplied_settings::is_user_supplied;

/// Where parsed arguments of the command line come from.
const PARSED: &str = "argparse.parse_args";

/// What the environment, or a field with a default, comes to if nobody sets it.
pub fn asked(path: &str, arguments: &Arguments) -> Option<Value> {
    match path.rsplit('.').next().unwrap_or(path) {
        "getenv" | "get" if path.starts_with("os.") => Some(match arguments.positional.first() {
            Some(Value::Str(name)) if !is_user_supplied(name) => {
                arguments.get("default", Some(1)).cloned().unwrap_or(Value::None)
            }
            _ => Value::unknown(),
        }),
        "Field" | "field" | "Option" | "Parameter" => {
            Some(arguments.get("default", Some(0)).cloned().unwrap_or_else(Value::unknown))
        }
        _ => None,
    }
}

impl Reader<'_> {
    /// Whether a condition holds by default, if that can be said.
    pub fn decide(&mut self, condition: &Rc<PyExpr>, scope: ScopeId) -> Option<bool> {
        let before = std::mem::replace(&mut self.is_deciding, true);
        let value = self.evaluate(condition, scope);
        let truth = self.truth(&value);
        self.is_deciding = before;
        truth
    }

    /// Whether a value counts as true. A list that is empty may be filled elsewhere.
    pub fn truth(&self, value: &Value) -> Option<bool> {
        let is_sure = value.is_sure() || matches!(value, Value::Function(_) | Value::Class(_) | Value::Module(_));
        if self.is_deciding && !is_sure { None } else { value.truth() }
    }

    /// What several values agree on.
    pub fn agreed(&mut self, values: Vec<Value>) -> Value {
        if !self.is_deciding {
            return one_of(values);
        }
        let truths: Vec<_> = values.iter().map(|value| self.truth(value)).collect();
        let first = truths.first().copied().flatten();
        let is_one = first.is_some() && truths.iter().all(|truth| *truth == first);
        match values.as_slice() {
            [only] => only.clone(),
            [first, ..] if is_one => first.clone(),
            _ => Value::unknown(),
        }
    }

    /// Whether a name may come to something else than what it is bound to.
    pub fn is_unsettled(&self, name: &Rc<str>, binding: &Binding, scope: ScopeId) -> bool {
        let file = self.scopes.get(scope).map_or(0, |scope| scope.file);
        let is_empty = matches!(binding, Binding::Expr(value) if matches!(**value, PyExpr::None));
        is_empty || is_user_supplied(name) || self.reach.is_changed(file, name)
    }

    /// `"NAME" in os.environ`.
    pub fn compared_outside(&self, one: &Value, how: PyComparison, other: &Value) -> Option<bool> {
        match (one, how, other) {
            (Value::Str(name), PyComparison::In | PyComparison::NotIn, Value::External(path))
                if self.is_deciding && &**path == "os.environ" && !is_user_supplied(name) =>
            {
                Some(how == PyComparison::NotIn)
            }
            _ => None,
        }
    }

    /// What parsing the command line gives: the flags that are left out.
    pub fn parsed(&self, name: &str) -> Value {
        let made = || Value::Foreign(Rc::new(Foreign { path: PARSED.into(), arguments: Arguments::default(), id: 0 }));
        match name {
            "parse_args" => made(),
            "parse_known_args" => Value::List(Rc::new(vec![made(), Value::unknown()])),
            _ => Value::unknown(),
        }
    }

    /// A flag that is left out.
    pub fn flag(&self, of: &Foreign, name: &str) -> Option<Value> {
        if &*of.path == PARSED { self.flags.get(name)?.clone() } else { None }
    }

    /// Takes note of a flag that a program takes: `parser.add_argument("--writes", action="store_true")`.
    pub fn note_flag(&mut self, call: &Rc<PyCall>, scope: ScopeId) {
        if !matches!(&*call.callee, PyExpr::Attribute(_, name) if &**name == "add_argument") {
            return;
        }
        let before = std::mem::replace(&mut self.is_deciding, true);
        let arguments = self.arguments(call, scope);
        self.is_deciding = before;
        let long = arguments.positional.iter().filter_map(Value::as_str).find_map(|flag| flag.strip_prefix("--"));
        let given = arguments.get("dest", None).and_then(Value::as_str).map(|name| &**name);
        let Some(name) = given.or(long).map(|name| name.replace('-', "_")) else { return };
        let default = left_out(&arguments);
        let is_same = |known: &Value, value: &Value| known.to_json() == value.to_json();
        match self.flags.get_mut(&name) {
            Some(known) if !matches!((&*known, &default), (Some(one), Some(other)) if is_same(one, other)) => {
                *known = None;
            }
            Some(_) => {}
            None => {
                self.flags.insert(name, default);
            }
        }
    }
}

/// What a flag is that is left out.
pub fn left_out(arguments: &Arguments) -> Option<Value> {
    let action = arguments.get("action", None).and_then(Value::as_str).map(|action| &**action);
    let is_flag = arguments.get("is_flag", None).is_some_and(|flag| flag.truth() == Some(true));
    match (arguments.get("default", None), action) {
        (Some(default), _) => default.is_sure().then(|| default.clone()),
        (None, Some("store_true")) => Some(Value::Bool(false)),
        (None, Some("store_false")) => Some(Value::Bool(true)),
        (None, _) if is_flag => Some(Value::Bool(false)),
        _ => Some(Value::None),
    }
}
