//! Decides whether a condition holds with default settings. Conditions whose result is uncertain are left undecided.

use std::rc::Rc;

use super::PyAnalyzer;
use super::expression_evaluation::common_value;
use super::scope::{PyBinding, PyScopeId};
use super::static_value::{PyArguments, PyExternalObject, PyValue};
use super::syntax::{PyCall, PyComparison, PyExpr};
use crate::required_setting_heuristic::is_user_supplied;

/// Dotted name of the object that represents the parsed command-line arguments.
const PARSED_ARGS_PATH: &str = "argparse.parse_args";

/// Returns the value that an unset environment variable or settings field has.
pub fn default_setting(path: &str, arguments: &PyArguments) -> Option<PyValue> {
    match path.rsplit('.').next().unwrap_or(path) {
        "getenv" | "get" if path.starts_with("os.") => Some(match arguments.positional.first() {
            Some(PyValue::Str(name)) if !is_user_supplied(name) => {
                arguments.get("default", Some(1)).cloned().unwrap_or(PyValue::None)
            }
            _ => PyValue::unknown(),
        }),
        "Field" | "field" | "Option" | "Parameter" => {
            Some(arguments.get("default", Some(0)).cloned().unwrap_or_else(PyValue::unknown))
        }
        _ => None,
    }
}

impl PyAnalyzer<'_> {
    /// Returns whether a condition holds by default, or `None` if that cannot be decided.
    pub fn decide_condition(&mut self, condition: &Rc<PyExpr>, scope: PyScopeId) -> Option<bool> {
        let before = std::mem::replace(&mut self.is_strict, true);
        let value = self.evaluate(condition, scope);
        let truth = self.truthiness(&value);
        self.is_strict = before;
        truth
    }

    /// Returns whether a value is truthy, or `None` if that is unknown. In a condition, the truthiness of an empty list
    /// is also unknown, because the list may be filled elsewhere.
    pub fn truthiness(&self, value: &PyValue) -> Option<bool> {
        let is_sure =
            value.is_certain() || matches!(value, PyValue::Function(_) | PyValue::Class(_) | PyValue::Module(_));
        if self.is_strict && !is_sure { None } else { value.truthiness() }
    }

    /// Returns the value that all alternatives agree on.
    pub fn merge_values(&mut self, values: Vec<PyValue>) -> PyValue {
        if !self.is_strict {
            return common_value(values);
        }
        let truths: Vec<_> = values.iter().map(|value| self.truthiness(value)).collect();
        let first = truths.first().copied().flatten();
        let is_one = first.is_some() && truths.iter().all(|truth| *truth == first);
        match values.as_slice() {
            [only] => only.clone(),
            [first, ..] if is_one => first.clone(),
            _ => PyValue::unknown(),
        }
    }

    /// Returns whether a name may be given another value than the one in its binding at run time.
    pub fn is_reassignable(&self, name: &Rc<str>, binding: &PyBinding, scope: PyScopeId) -> bool {
        let file = self.scopes.get(scope).map_or(0, |scope| scope.file);
        let is_empty = matches!(binding, PyBinding::Expr(value) if matches!(**value, PyExpr::None));
        is_empty || is_user_supplied(name) || self.reachability.is_reassigned(file, name)
    }

    /// Evaluates `"NAME" in os.environ`.
    pub fn compare_with_environment(&self, one: &PyValue, how: PyComparison, other: &PyValue) -> Option<bool> {
        match (one, how, other) {
            (PyValue::Str(name), PyComparison::In | PyComparison::NotIn, PyValue::External(path))
                if self.is_strict && &**path == "os.environ" && !is_user_supplied(name) =>
            {
                Some(how == PyComparison::NotIn)
            }
            _ => None,
        }
    }

    /// Returns the result of parsing a command line without flags.
    pub fn parse_args_result(&self, name: &str) -> PyValue {
        let made = || {
            PyValue::ExternalObject(Rc::new(PyExternalObject {
                path: PARSED_ARGS_PATH.into(),
                arguments: PyArguments::default(),
                id: 0,
            }))
        };
        match name {
            "parse_args" => made(),
            "parse_known_args" => PyValue::List(Rc::new(vec![made(), PyValue::unknown()])),
            _ => PyValue::unknown(),
        }
    }

    /// Returns the default value of a command-line flag.
    pub fn find_flag_default(&self, of: &PyExternalObject, name: &str) -> Option<PyValue> {
        if &*of.path == PARSED_ARGS_PATH { self.flag_defaults.get(name)?.clone() } else { None }
    }

    /// Records a command-line flag: `parser.add_argument("--writes", action="store_true")`.
    pub fn record_flag(&mut self, call: &Rc<PyCall>, scope: PyScopeId) {
        if !matches!(&*call.callee, PyExpr::Attribute(_, name) if &**name == "add_argument") {
            return;
        }
        let before = std::mem::replace(&mut self.is_strict, true);
        let arguments = self.evaluate_arguments(call, scope);
        self.is_strict = before;
        let long = arguments.positional.iter().filter_map(PyValue::as_str).find_map(|flag| flag.strip_prefix("--"));
        let given = arguments.get("dest", None).and_then(PyValue::as_str).map(|name| &**name);
        let Some(name) = given.or(long).map(|name| name.replace('-', "_")) else { return };
        let default = omitted_flag_value(&arguments);
        let is_same = |known: &PyValue, value: &PyValue| known.to_json() == value.to_json();
        match self.flag_defaults.get_mut(&name) {
            Some(known) if !matches!((&*known, &default), (Some(one), Some(other)) if is_same(one, other)) => {
                *known = None;
            }
            Some(_) => {}
            None => {
                self.flag_defaults.insert(name, default);
            }
        }
    }
}

/// Returns the value of a flag that is not given on the command line.
pub fn omitted_flag_value(arguments: &PyArguments) -> Option<PyValue> {
    let action = arguments.get("action", None).and_then(PyValue::as_str).map(|action| &**action);
    let is_flag = arguments.get("is_flag", None).is_some_and(|flag| flag.truthiness() == Some(true));
    match (arguments.get("default", None), action) {
        (Some(default), _) => default.is_certain().then(|| default.clone()),
        (None, Some("store_true")) => Some(PyValue::Bool(false)),
        (None, Some("store_false")) => Some(PyValue::Bool(true)),
        (None, _) if is_flag => Some(PyValue::Bool(false)),
        _ => Some(PyValue::None),
    }
}
