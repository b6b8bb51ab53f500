//! Evaluates calls.

use std::rc::Rc;

use crate::python::PyAnalyzer;
use crate::python::default_conditions::default_setting;
use crate::python::docstring::clean_docstring;
use crate::python::scope::{PyScope, PyScopeId};
use crate::python::static_value::{PyArguments, PyExternalObject, PyFunction, PyInstance, PyToolDecorator, PyValue};
use crate::python::syntax::{PyCall, PyExpr, PyStmt};

/// Maximum nesting of calls that are followed to find a value.
const MAX_CALL_DEPTH: usize = 6;
/// Maximum number of elements that are iterated over.
const MAX_ITERATED_ELEMENTS: usize = 2_000;

impl PyAnalyzer<'_> {
    pub fn evaluate_call(&mut self, call: &Rc<PyCall>, scope: PyScopeId) -> PyValue {
        let callee = self.evaluate(&call.callee, scope);
        if let PyValue::Unknown(Some(name)) = &callee {
            return self.call_builtin(name, call, scope);
        }
        let arguments = self.evaluate_arguments(call, scope);
        match callee {
            PyValue::Function(function) => self.evaluate_return(&function, &arguments),
            PyValue::Class(class) if self.is_enum(&class) => {
                arguments.positional.first().cloned().unwrap_or(PyValue::unknown())
            }
            PyValue::Class(class) => {
                let id = Some(Rc::as_ptr(call) as usize);
                PyValue::Instance(Rc::new(PyInstance { class, arguments: Some(arguments), id }))
            }
            callee if self.is_decorator_call(&callee, &arguments) => {
                PyValue::ToolDecorator(Rc::new(PyToolDecorator { callee, arguments }))
            }
            PyValue::External(path) => match self.is_strict.then(|| default_setting(&path, &arguments)).flatten() {
                Some(value) => value,
                None => call_external(path, arguments, Rc::as_ptr(call) as usize),
            },
            PyValue::Member(object, name) => self.call_builtin_method(&object, &name, &arguments),
            _ => PyValue::unknown(),
        }
    }

    /// Evaluates the arguments of a call.
    pub fn evaluate_arguments(&mut self, call: &PyCall, scope: PyScopeId) -> PyArguments {
        let mut out = PyArguments::default();
        for argument in &call.positional {
            match &**argument {
                PyExpr::Spread(inner) => match self.evaluate(inner, scope) {
                    PyValue::List(inner) => out.positional.extend(inner.iter().cloned()),
                    _ => out.has_unknown = true,
                },
                _ => out.positional.push(self.evaluate(argument, scope)),
            }
        }
        for (name, argument) in &call.keywords {
            let value = self.evaluate(argument, scope);
            match (name, value) {
                (Some(name), value) => out.keywords.push((name.clone(), value)),
                (None, PyValue::Dict(pairs)) => {
                    let named = pairs.iter().filter_map(|(key, value)| Some((key.as_str()?.clone(), value.clone())));
                    out.keywords.extend(named);
                }
                (None, _) => out.has_unknown = true,
            }
        }
        out
    }

    /// Evaluates the arguments of a call, and marks those that are uncertain. They count as unknown in conditions.
    pub fn arguments_with_certainty(&mut self, call: &Rc<PyCall>, scope: PyScopeId) -> PyArguments {
        let mut arguments = self.evaluate_arguments(call, scope);
        let before = std::mem::replace(&mut self.is_strict, true);
        let sure = self.evaluate_arguments(call, scope);
        self.is_strict = before;
        let is_plain =
            |value: &PyValue| !value.has_scope() && !matches!(value, PyValue::ExternalObject(_) | PyValue::External(_));
        let differs = |one: &PyValue, sure: &PyValue| is_plain(one) && one.is_known() && !sure.is_known();
        let places = arguments.positional.iter().zip(&sure.positional).enumerate();
        let places = places.filter(|(_, (one, sure))| differs(one, sure)).map(|(at, _)| (Some(at), None));
        let names = arguments.keywords.iter().zip(&sure.keywords);
        let names = names.filter(|((_, one), (_, sure))| differs(one, sure));
        arguments.uncertain = places.chain(names.map(|((name, _), _)| (None, Some(name.clone())))).collect();
        arguments
    }

    /// Returns the result of a function, if all of its `return` statements agree.
    pub fn evaluate_return(&mut self, function: &PyFunction, arguments: &PyArguments) -> PyValue {
        let key = Rc::as_ptr(&function.def) as usize;
        if self.return_stack.contains(&key) || self.return_stack.len() >= MAX_CALL_DEPTH {
            return PyValue::unknown();
        }
        self.return_stack.push(key);
        let scope = self.open_function_scope(function, arguments);
        let mut values = Vec::new();
        self.collect_returns(&function.def.body, scope, &mut values);
        self.return_stack.pop();
        self.merge_values(values)
    }

    /// Collects the values that may be returned. Returns true if the statements after `body` do not run.
    fn collect_returns(&mut self, body: &[PyStmt], scope: PyScopeId, out: &mut Vec<PyValue>) -> bool {
        for statement in body {
            let ends = match statement {
                PyStmt::Return(value) => {
                    out.push(self.evaluate(value, scope));
                    true
                }
                PyStmt::If { condition, body, otherwise } => {
                    let condition = self.evaluate(condition, scope);
                    match self.truthiness(&condition) {
                        Some(true) => self.collect_returns(body, scope, out),
                        Some(false) => self.collect_returns(otherwise, scope, out),
                        None => {
                            let (one, other) =
                                (self.collect_returns(body, scope, out), self.collect_returns(otherwise, scope, out));
                            one && other
                        }
                    }
                }
                PyStmt::Block(inner) => self.collect_returns(inner, scope, out),
                PyStmt::For { body: inner, .. } => {
                    self.collect_returns(inner, scope, out);
                    false
                }
                _ => false,
            };
            if ends {
                return true;
            }
        }
        false
    }

    fn call_builtin(&mut self, name: &Rc<str>, call: &Rc<PyCall>, scope: PyScopeId) -> PyValue {
        let arguments = self.evaluate_arguments(call, scope);
        let first = arguments.positional.first().cloned();
        match (&**name, first) {
            ("dict", first) => {
                let given = arguments.keywords.into_iter().map(|(name, value)| (PyValue::Str(name), value));
                let base = if let Some(PyValue::Dict(pairs)) = first { pairs.to_vec() } else { Vec::new() };
                PyValue::Dict(Rc::new(base.into_iter().chain(given).collect()))
            }
            ("list" | "tuple" | "set" | "sorted" | "reversed" | "frozenset" | "iter", Some(first)) => first,
            ("list" | "tuple" | "set", None) => PyValue::List(Rc::new(Vec::new())),
            ("str", Some(text @ PyValue::Str(_))) => text,
            ("bool", Some(value)) => self.truthiness(&value).map_or(PyValue::unknown(), PyValue::Bool),
            ("int", Some(PyValue::Str(text))) => {
                text.trim().parse::<i64>().map_or(PyValue::unknown(), |number| PyValue::Number(number.into()))
            }
            ("enumerate", Some(PyValue::List(list))) => {
                let pair = |value: &PyValue| PyValue::List(Rc::new(vec![PyValue::unknown(), value.clone()]));
                PyValue::List(Rc::new(list.iter().map(pair).collect()))
            }
            ("getattr", Some(object)) => match arguments.positional.get(1) {
                Some(PyValue::Str(name)) => self.evaluate_attribute(object, name),
                _ => PyValue::unknown(),
            },
            // An unknown class or function is identified by its name.
            _ => PyValue::Unknown(Some(name.clone())),
        }
    }

    fn call_builtin_method(&mut self, object: &PyValue, name: &Rc<str>, arguments: &PyArguments) -> PyValue {
        let first = arguments.positional.first();
        match (object, &**name) {
            (PyValue::Str(text), "strip") if first.is_none() => PyValue::text(text.trim()),
            (PyValue::Str(text), "startswith" | "endswith") => {
                let is_at =
                    |part: &str| if &**name == "startswith" { text.starts_with(part) } else { text.ends_with(part) };
                match first {
                    Some(PyValue::Str(part)) => PyValue::Bool(is_at(part)),
                    Some(PyValue::List(parts)) => {
                        let parts: Option<Vec<&Rc<str>>> = parts.iter().map(PyValue::as_str).collect();
                        parts.map_or(PyValue::unknown(), |parts| PyValue::Bool(parts.iter().any(|part| is_at(part))))
                    }
                    _ => PyValue::unknown(),
                }
            }
            (PyValue::Str(text), "lower") => PyValue::text(&text.to_lowercase()),
            (PyValue::Str(text), "upper") => PyValue::text(&text.to_uppercase()),
            (PyValue::Str(text), "replace") => match arguments.positional.as_slice() {
                [PyValue::Str(from), PyValue::Str(to)] if !from.is_empty() => PyValue::text(&text.replace(&**from, to)),
                _ => PyValue::unknown(),
            },
            (PyValue::Str(text), "join") => match first {
                Some(PyValue::List(parts)) => {
                    let parts: Option<Vec<&str>> = parts.iter().map(|part| part.as_str().map(|part| &**part)).collect();
                    parts.map_or(PyValue::unknown(), |parts| PyValue::text(&parts.join(text)))
                }
                _ => PyValue::unknown(),
            },
            (PyValue::Dict(pairs), "items") => {
                let pair = |(key, value): &(PyValue, PyValue)| PyValue::List(Rc::new(vec![key.clone(), value.clone()]));
                PyValue::List(Rc::new(pairs.iter().map(pair).collect()))
            }
            (PyValue::Dict(pairs), "values") => {
                PyValue::List(Rc::new(pairs.iter().map(|(_, value)| value.clone()).collect()))
            }
            (PyValue::Dict(pairs), "keys") => {
                PyValue::List(Rc::new(pairs.iter().map(|(key, _)| key.clone()).collect()))
            }
            (PyValue::Dict(_), "get" | "pop") => match first {
                Some(PyValue::Str(key)) => {
                    object.get(key).or_else(|| arguments.positional.get(1)).cloned().unwrap_or(PyValue::None)
                }
                _ => PyValue::unknown(),
            },
            (PyValue::Dict(_) | PyValue::List(_), "copy") => object.clone(),
            (PyValue::Class(class), "model_json_schema" | "schema") => {
                let class = class.clone();
                PyValue::from_json(&self.class_schema(&class, 0))
            }
            _ => self.parse_args_result(name),
        }
    }

    /// Runs `work` for each element that a loop or a comprehension iterates over, with the loop variables bound. If the
    /// elements are unknown, runs it once with unknown values.
    pub fn for_each_element(
        &mut self,
        clauses: &[(Rc<PyExpr>, Rc<PyExpr>)],
        scope: PyScopeId,
        work: &mut dyn FnMut(&mut Self, PyScopeId),
    ) {
        let Some(((target, iterated), rest)) = clauses.split_first() else { return work(self, scope) };
        let file = self.scopes.get(scope).map_or(0, |scope| scope.file);
        let before = self.registered_tools.count() + self.deferred_tools.count();
        let all = self.evaluate(iterated, scope);
        let is_long = match &all {
            PyValue::List(list) => list.len() > MAX_ITERATED_ELEMENTS,
            PyValue::Dict(pairs) => pairs.len() > MAX_ITERATED_ELEMENTS,
            _ => false,
        };
        let elements = match all {
            PyValue::List(list) => list.iter().take(MAX_ITERATED_ELEMENTS).cloned().collect(),
            PyValue::Dict(pairs) => pairs.iter().take(MAX_ITERATED_ELEMENTS).map(|(key, _)| key.clone()).collect(),
            PyValue::Class(class) if self.is_enum(&class) => self.enum_values(&class),
            _ => vec![PyValue::unknown()],
        };
        for element in elements {
            if !self.take_step() {
                return;
            }
            let mut inner = PyScope::within(scope, file);
            bind_target(&mut inner, target, &element);
            let inner = self.push_scope(inner);
            self.for_each_element(rest, inner, work);
        }
        // The omitted elements would have been tools as well.
        self.is_truncated |= is_long && self.registered_tools.count() + self.deferred_tools.count() > before;
    }

    /// Returns the values of an enumeration.
    pub fn enum_values(&mut self, class: &crate::python::static_value::PyClassValue) -> Vec<PyValue> {
        let mut out = Vec::new();
        for statement in &class.class.body {
            if let PyStmt::Assign { target, value: Some(value), .. } = statement
                && matches!(&**target, PyExpr::Name(_))
            {
                out.push(self.evaluate(value, class.scope));
            }
        }
        out
    }
}

fn bind_target(scope: &mut PyScope, target: &PyExpr, element: &PyValue) {
    match target {
        PyExpr::Name(name) => {
            let element =
                if let PyValue::Unknown(_) = element { PyValue::Unknown(Some(name.clone())) } else { element.clone() };
            scope.bind_value(name, element);
        }
        PyExpr::List(targets) => {
            let parts = if let PyValue::List(parts) = element { parts.as_slice() } else { &[] };
            for (at, target) in targets.iter().enumerate() {
                bind_target(scope, target, parts.get(at).unwrap_or(&PyValue::unknown()));
            }
        }
        _ => {}
    }
}

fn call_external(path: Rc<str>, arguments: PyArguments, id: usize) -> PyValue {
    let first = arguments.positional.first();
    match (&*path, first) {
        ("os.getenv" | "os.environ.get", _) => arguments.positional.get(1).cloned().unwrap_or(PyValue::None),
        ("textwrap.dedent" | "inspect.cleandoc" | "dedent", Some(PyValue::Str(text))) => {
            PyValue::text(&clean_docstring(text))
        }
        ("copy.deepcopy" | "copy.copy", Some(value)) => value.clone(),
        _ => PyValue::ExternalObject(Rc::new(PyExternalObject { path, arguments, id })),
    }
}
