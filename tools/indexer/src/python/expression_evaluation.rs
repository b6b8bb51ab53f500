//! Evaluates names and expressions.

mod evaluate_attribute;
mod evaluate_call;

use std::collections::HashSet;
use std::rc::Rc;

pub use evaluate_attribute::{annotated_fields, find_init};

use super::PyAnalyzer;
use super::scope::{PyBinding, PyScope, PyScopeId};
use super::static_value::{PyClassValue, PyFunction, PyInstance, PyValue};
use super::syntax::{PyClassDef, PyComparison, PyExpr};

/// Maximum nesting of evaluations.
const MAX_EVALUATION_DEPTH: usize = 60;
/// Step limit for evaluating one value. It is enough for a table of several hundred tools with their parameters.
const MAX_STEPS_PER_VALUE: usize = 100_000;
/// Maximum length of a concatenated string.
const MAX_JOINED_LENGTH: usize = 64 << 10;

/// State of the current evaluation, used to stop at cycles.
#[derive(Debug, Default)]
pub struct PyEvaluationState {
    names_in_progress: HashSet<(PyScopeId, Rc<str>)>,
    depth: usize,
    /// The step at which the evaluation stops.
    step_limit: usize,
    /// Number of times that the evaluation was cut short by a cycle or by the nesting limit.
    interruptions: usize,
}

impl PyAnalyzer<'_> {
    /// Evaluates an expression.
    pub fn evaluate(&mut self, expr: &Rc<PyExpr>, scope: PyScopeId) -> PyValue {
        if self.evaluation.depth == 0 {
            self.evaluation.step_limit = self.steps + MAX_STEPS_PER_VALUE;
            self.evaluation.depth = 1;
            let mark = self.scopes.len();
            let value = self.evaluate(expr, scope);
            self.evaluation.depth = 0;
            self.pop_scopes(mark, value.has_scope());
            return value;
        }
        if !self.take_step() || self.evaluation.depth >= MAX_EVALUATION_DEPTH || self.steps > self.evaluation.step_limit
        {
            self.evaluation.interruptions += 1;
            return PyValue::unknown();
        }
        self.evaluation.depth += 1;
        let value = self.evaluate_expr(expr, scope);
        self.evaluation.depth -= 1;
        value
    }

    fn evaluate_expr(&mut self, expr: &Rc<PyExpr>, scope: PyScopeId) -> PyValue {
        match &**expr {
            PyExpr::Str(text) => PyValue::Str(text.clone()),
            PyExpr::Number(number) => PyValue::Number(number.clone()),
            PyExpr::Bool(value) => PyValue::Bool(*value),
            PyExpr::None => PyValue::None,
            PyExpr::Name(name) => self.resolve_name(name, scope),
            PyExpr::Attribute(object, name) => {
                let object = self.evaluate(object, scope);
                self.evaluate_attribute(object, name)
            }
            PyExpr::Call(call) => self.evaluate_call(call, scope),
            PyExpr::List(items) => self.evaluate_list(items, scope),
            PyExpr::Dict(pairs) => self.evaluate_dict(pairs, scope),
            PyExpr::Index(object, keys) => self.evaluate_index(object, keys, scope),
            PyExpr::Add(one, other) | PyExpr::Union(one, other) => {
                let (one, other) = (self.evaluate(one, scope), self.evaluate(other, scope));
                // If one operand is unknown, elements may be missing in the sum.
                let is_part = std::mem::discriminant(&one) != std::mem::discriminant(&other);
                if self.is_strict && is_part { PyValue::unknown() } else { add_values(&one, &other) }
            }
            PyExpr::Or(one, other) => {
                let one = self.evaluate(one, scope);
                match self.truthiness(&one) {
                    Some(true) => one,
                    None if self.is_strict => deciding_operand(self.evaluate(other, scope), true),
                    _ => self.evaluate(other, scope),
                }
            }
            PyExpr::And(one, other) => {
                let one = self.evaluate(one, scope);
                match self.truthiness(&one) {
                    Some(false) => one,
                    None if self.is_strict => deciding_operand(self.evaluate(other, scope), false),
                    _ => self.evaluate(other, scope),
                }
            }
            PyExpr::Not(inner) => {
                let inner = self.evaluate(inner, scope);
                self.truthiness(&inner).map_or(PyValue::unknown(), |truth| PyValue::Bool(!truth))
            }
            PyExpr::Compare(one, how, other) => {
                let (one, other) = (self.evaluate(one, scope), self.evaluate(other, scope));
                let truth =
                    self.compare_with_environment(&one, *how, &other).or_else(|| compare_values(&one, *how, &other));
                truth.map_or(PyValue::unknown(), PyValue::Bool)
            }
            PyExpr::JoinedStr(parts) => self.evaluate_joined(parts, scope),
            PyExpr::Conditional { then, condition, otherwise } => {
                let condition = self.evaluate(condition, scope);
                match self.truthiness(&condition) {
                    Some(true) => self.evaluate(then, scope),
                    Some(false) => self.evaluate(otherwise, scope),
                    None => {
                        let values = vec![self.evaluate(then, scope), self.evaluate(otherwise, scope)];
                        self.merge_values(values)
                    }
                }
            }
            PyExpr::Comprehension(each) => {
                let (mut made, mut pairs) = (Vec::new(), Vec::new());
                self.for_each_element(&each.clauses, scope, &mut |reader, inner| match each.body.as_slice() {
                    [body] => made.push(reader.evaluate(body, inner)),
                    [key, value] => pairs.push((reader.evaluate(key, inner), reader.evaluate(value, inner))),
                    _ => {}
                });
                if each.body.len() == 2 { PyValue::Dict(Rc::new(pairs)) } else { PyValue::List(Rc::new(made)) }
            }
            PyExpr::Spread(_) | PyExpr::Other(_) | PyExpr::Ellipsis => PyValue::unknown(),
        }
    }

    /// Resolves a name, from the innermost scope outwards.
    pub fn resolve_name(&mut self, name: &Rc<str>, scope: PyScopeId) -> PyValue {
        let mut at = Some(scope);
        while let Some(id) = at {
            let Some(scope) = self.scopes.get(id) else { break };
            if let Some(binding) = scope.get(name).cloned() {
                return self.evaluate_binding(name, binding, id);
            }
            at = scope.parent;
            if at.is_none() && !scope.star_imports().is_empty() {
                return self.resolve_star_import(name, id);
            }
        }
        PyValue::Unknown(Some(name.clone()))
    }

    /// Evaluates a binding.
    pub fn evaluate_binding(&mut self, name: &Rc<str>, binding: PyBinding, scope: PyScopeId) -> PyValue {
        let known_as = (scope, name.clone(), self.is_strict);
        if let Some(known) = self.resolved_names.get(&known_as) {
            return known.clone();
        }
        if let Some(known) = self.scopes.get(scope).and_then(|scope| scope.resolved_value(name, self.is_strict)) {
            return known.clone();
        }
        let (is_first, steps, ends) =
            (self.evaluation.names_in_progress.is_empty(), self.steps, self.evaluation.interruptions);
        let key = (scope, name.clone());
        if self.is_strict && self.is_reassignable(name, &binding, scope) {
            return PyValue::Unknown(Some(name.clone()));
        }
        if !self.evaluation.names_in_progress.insert(key.clone()) {
            self.evaluation.interruptions += 1;
            return PyValue::Unknown(Some(name.clone()));
        }
        let is_found = matches!(binding, PyBinding::Expr(_) | PyBinding::Alternatives(_));
        let is_lasting = matches!(binding, PyBinding::Expr(_) | PyBinding::Alternatives(_) | PyBinding::Import { .. });
        let value = match binding {
            PyBinding::Expr(expr) => self.evaluate(&expr, scope),
            PyBinding::Alternatives(all) => {
                let values = all.iter().map(|expr| self.evaluate(expr, scope)).collect();
                self.merge_values(values)
            }
            PyBinding::Def(def) => self.function_value(Rc::new(PyFunction { def, scope, receiver: None })),
            PyBinding::Class(class) => PyValue::Class(self.class_value(&class, scope)),
            PyBinding::Import { up, module, item } => self.resolve_import(up, &module, item.as_deref(), scope),
            PyBinding::Parameter { default: Some(_), is_passed: true, .. } if self.is_strict => PyValue::unknown(),
            PyBinding::Parameter { annotation, default, .. } => {
                self.evaluate_parameter(name, annotation.as_ref(), default.as_ref(), scope)
            }
            PyBinding::Uncertain(_) if self.is_strict => PyValue::unknown(),
            PyBinding::Value(value) | PyBinding::Uncertain(value) => value,
        };
        self.evaluation.names_in_progress.remove(&key);
        // Values in modules and classes do not change between evaluations.
        if is_lasting && value.is_known() && self.permanent_scopes.contains(&scope) {
            if value.has_scope() {
                self.retained_scope_count = self.scopes.len();
            }
            self.resolved_names.insert(known_as, value.clone());
        }
        let value = match value {
            PyValue::Unknown(None) => PyValue::Unknown(Some(name.clone())),
            value => value,
        };
        // The value can be cached if evaluating it again would give the same: nothing interrupted it, or it started
        // here and had most of the steps.
        let is_whole = self.evaluation.interruptions == ends || (is_first && self.steps <= self.evaluation.step_limit);
        let is_same = is_whole || (is_first && self.steps - steps > MAX_STEPS_PER_VALUE / 2);
        if is_found && is_same && !value.has_scope() && !self.permanent_scopes.contains(&scope) {
            let is_deciding = self.is_strict;
            self.scopes
                .get_mut(scope)
                .into_iter()
                .for_each(|scope| scope.cache_value(name, is_deciding, value.clone()));
        }
        value
    }

    /// Returns the value that a function definition binds to its name. For a function decorated with
    /// `functools.wraps(other)`, this is the value of `other`.
    fn function_value(&mut self, function: Rc<PyFunction>) -> PyValue {
        for decorator in &function.def.decorators {
            let PyExpr::Call(call) = &**decorator else { continue };
            let is_wraps =
                matches!(&*call.callee, PyExpr::Name(name) | PyExpr::Attribute(_, name) if &**name == "wraps");
            if let (true, Some(other)) = (is_wraps, call.positional.first()) {
                return self.evaluate(other, function.scope);
            }
        }
        PyValue::Function(function)
    }

    /// Evaluates a parameter whose argument is unknown. If its type is a class, the value is an object of that class;
    /// otherwise it is the parameter's default.
    fn evaluate_parameter(
        &mut self,
        name: &Rc<str>,
        annotation: Option<&Rc<PyExpr>>,
        default: Option<&Rc<PyExpr>>,
        scope: PyScopeId,
    ) -> PyValue {
        let kind = annotation.map(|annotation| self.evaluate(annotation, scope));
        match kind {
            Some(PyValue::Class(class)) if !self.is_enum(&class) => {
                PyValue::Instance(Rc::new(PyInstance { class, arguments: None, id: None }))
            }
            Some(PyValue::External(path)) if !path.starts_with("typing") => {
                PyValue::Member(Rc::new(PyValue::External(path)), name.clone())
            }
            _ => match default {
                Some(default) => self.evaluate(default, scope),
                None => PyValue::Unknown(Some(name.clone())),
            },
        }
    }

    /// Returns the value of a class. The scope of the class is created only once.
    pub fn class_value(&mut self, class: &Rc<PyClassDef>, scope: PyScopeId) -> PyClassValue {
        let key = Rc::as_ptr(class) as usize;
        if let Some(own) = self.class_scopes.get(&key) {
            return PyClassValue { class: class.clone(), scope: *own };
        }
        let file = self.scopes.get(scope).map_or(0, |scope| scope.file);
        let own = PyScope::within(scope, file).with_names(self.bound_names(&class.body));
        let own = self.push_scope(own);
        self.class_scopes.insert(key, own);
        self.retain_scope(own);
        PyClassValue { class: class.clone(), scope: own }
    }

    fn resolve_import(&mut self, up: usize, module: &str, item: Option<&str>, scope: PyScopeId) -> PyValue {
        let from = self.scopes.get(scope).map_or(0, |scope| scope.file);
        let outside = |item: Option<&str>| {
            let path = item.map_or_else(|| module.to_owned(), |item| format!("{module}.{item}"));
            PyValue::External(path.into())
        };
        // An absolute `mcp` is the SDK, even if the package has a module of that name.
        let is_sdk = up == 0 && matches!(module.split('.').next(), Some("mcp" | "fastmcp"));
        let file = if is_sdk { None } else { self.files.find_module(from, up, module) };
        let Some(item) = item else { return file.map_or_else(|| outside(None), PyValue::Module) };
        // In `__init__.py`, `from . import shelf` means the file `shelf` in the same folder.
        let sibling =
            if file == Some(from) { self.files.find_module(from, up, &join_dotted(module, item)) } else { None };
        if let Some(sibling) = sibling {
            return PyValue::Module(sibling);
        }
        let Some(file) = file else {
            let inner = if is_sdk { None } else { self.files.find_module(from, up, &join_dotted(module, item)) };
            return inner.map_or_else(|| outside(Some(item)), PyValue::Module);
        };
        self.module_member(file, item)
    }

    /// Returns the value of a name in a module. The name may be that of a submodule.
    pub fn module_member(&mut self, file: usize, item: &str) -> PyValue {
        let scope = self.module_scope(file);
        let name: Rc<str> = item.into();
        let has_star = self.scopes.get(scope).is_some_and(|scope| !scope.star_imports().is_empty());
        let binding = self.scopes.get(scope).and_then(|scope| scope.get(&name).cloned());
        match binding {
            Some(binding) => self.evaluate_binding(&name, binding, scope),
            None => {
                let is_package = self.files.get(file).is_some_and(|file| file.path.ends_with("__init__.py"));
                let up = if is_package { 1 } else { return PyValue::Unknown(Some(name)) };
                match self.files.find_module(file, up, item) {
                    Some(below) => PyValue::Module(below),
                    None if has_star => self.resolve_star_import(&name, scope),
                    None => PyValue::Unknown(Some(name)),
                }
            }
        }
    }

    /// Resolves a name through `from x import *`.
    fn resolve_star_import(&mut self, name: &Rc<str>, scope: PyScopeId) -> PyValue {
        let key = (scope, Rc::from(format!("* {name}")));
        if !self.evaluation.names_in_progress.insert(key.clone()) {
            return PyValue::Unknown(Some(name.clone()));
        }
        let (from, stars) =
            self.scopes.get(scope).map(|scope| (scope.file, scope.star_imports().to_vec())).unwrap_or_default();
        let mut found = PyValue::Unknown(Some(name.clone()));
        for (up, module) in stars {
            let value = match self.files.find_module(from, up, &module) {
                Some(file) => self.module_member(file, name),
                // `from mcp.types import *` is the only external one worth a guess: it defines `Tool`.
                None if &*module == "mcp.types" => PyValue::External(format!("{module}.{name}").into()),
                None => continue,
            };
            if value.is_known() {
                found = value;
                break;
            }
        }
        self.evaluation.names_in_progress.remove(&key);
        found
    }

    fn evaluate_list(&mut self, items: &[Rc<PyExpr>], scope: PyScopeId) -> PyValue {
        let mut out = Vec::new();
        for item in items {
            match &**item {
                PyExpr::Spread(inner) => match self.evaluate(inner, scope) {
                    PyValue::List(inner) => out.extend(inner.iter().cloned()),
                    _ => out.push(PyValue::unknown()),
                },
                _ => out.push(self.evaluate(item, scope)),
            }
        }
        PyValue::List(Rc::new(out))
    }

    fn evaluate_dict(&mut self, pairs: &[(Option<Rc<PyExpr>>, Rc<PyExpr>)], scope: PyScopeId) -> PyValue {
        let mut out = Vec::new();
        for (key, value) in pairs {
            let value = self.evaluate(value, scope);
            match key {
                Some(key) => out.push((self.evaluate(key, scope), value)),
                None => {
                    if let PyValue::Dict(inner) = value {
                        out.extend(inner.iter().cloned());
                    }
                }
            }
        }
        PyValue::Dict(Rc::new(out))
    }

    fn evaluate_index(&mut self, object: &Rc<PyExpr>, keys: &[Rc<PyExpr>], scope: PyScopeId) -> PyValue {
        let object = self.evaluate(object, scope);
        let [key] = keys else { return object };
        match (&object, self.evaluate(key, scope)) {
            (PyValue::Dict(_), PyValue::Str(key)) => object.get(&key).cloned().unwrap_or(PyValue::unknown()),
            (PyValue::List(list), PyValue::Number(at)) => {
                let at = at.as_u64().and_then(|at| usize::try_from(at).ok());
                at.and_then(|at| list.get(at)).cloned().unwrap_or(PyValue::unknown())
            }
            // `Context[Session]` is a `Context`.
            (PyValue::External(_) | PyValue::Class(_), _) => object,
            _ => PyValue::unknown(),
        }
    }

    fn evaluate_joined(&mut self, parts: &[Rc<PyExpr>], scope: PyScopeId) -> PyValue {
        let mut text = String::new();
        for part in parts {
            match self.evaluate(part, scope) {
                PyValue::Str(part) if text.len() + part.len() <= MAX_JOINED_LENGTH => text.push_str(&part),
                PyValue::Number(number) => text.push_str(&number.to_string()),
                _ => return PyValue::unknown(),
            }
        }
        PyValue::text(&text)
    }
}

fn join_dotted(module: &str, item: &str) -> String {
    if module.is_empty() { item.to_owned() } else { format!("{module}.{item}") }
}

/// Returns the known operand if it alone decides the result, given that the other operand is unknown.
fn deciding_operand(other: PyValue, deciding: bool) -> PyValue {
    if other.is_certain() && other.truthiness() == Some(deciding) { other } else { PyValue::unknown() }
}

/// Returns the value that the alternatives agree on, ignoring those that are `None` or unknown.
pub fn common_value(values: Vec<PyValue>) -> PyValue {
    let mut known = values.into_iter().filter(|value| value.is_known() && !matches!(value, PyValue::None));
    let Some(first) = known.next() else { return PyValue::unknown() };
    let agrees = |other: PyValue| match (&first, &other) {
        (PyValue::Str(one), PyValue::Str(other)) => one == other,
        (PyValue::Bool(one), PyValue::Bool(other)) => one == other,
        // Of two servers either is good enough; annotations have to be equal.
        (PyValue::ExternalObject(one), PyValue::ExternalObject(other)) => {
            one.path == other.path && !one.path.ends_with("Annotations")
        }
        (PyValue::Dict(_), PyValue::Dict(_)) => first.to_json() == other.to_json(),
        (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
    };
    if known.all(agrees) { first } else { PyValue::unknown() }
}

fn compare_values(one: &PyValue, how: PyComparison, other: &PyValue) -> Option<bool> {
    let equal = |one: &PyValue, other: &PyValue| match (one, other) {
        (PyValue::Str(one), PyValue::Str(other)) => Some(one == other),
        (PyValue::Bool(one), PyValue::Bool(other)) => Some(one == other),
        (PyValue::Number(one), PyValue::Number(other)) => Some(one == other),
        (PyValue::None, PyValue::None) => Some(true),
        // External values may be anything.
        (one, other) if one.is_certain() && other.is_certain() => Some(false),
        _ => None,
    };
    match (how, other) {
        (PyComparison::Equal, _) => equal(one, other),
        (PyComparison::Unequal, _) => equal(one, other).map(|equal| !equal),
        (_, PyValue::List(list)) if !list.is_empty() => {
            let equals: Vec<_> = list.iter().map(|element| equal(one, element)).collect();
            let is_found = equals.contains(&Some(true));
            let found = (is_found || !equals.contains(&None)).then_some(is_found);
            found.map(|found| found == (how == PyComparison::In))
        }
        (_, PyValue::Dict(_)) => one.as_str().map(|key| other.get(key).is_some() == (how == PyComparison::In)),
        (_, PyValue::Str(text)) => one.as_str().map(|part| text.contains(&**part) == (how == PyComparison::In)),
        _ => None,
    }
}

fn add_values(one: &PyValue, other: &PyValue) -> PyValue {
    match (one, other) {
        (PyValue::Str(one), PyValue::Str(other)) if one.len() + other.len() <= MAX_JOINED_LENGTH => {
            PyValue::text(&format!("{one}{other}"))
        }
        (PyValue::List(one), PyValue::List(other)) if one.len() + other.len() <= MAX_JOINED_LENGTH => {
            PyValue::List(Rc::new(one.iter().chain(&**other).cloned().collect()))
        }
        (PyValue::List(list), _) | (_, PyValue::List(list)) => PyValue::List(list.clone()),
        (PyValue::Dict(one), PyValue::Dict(other)) => {
            PyValue::Dict(Rc::new(one.iter().chain(&**other).cloned().collect()))
        }
        // A type or `None`: the type.
        (known, PyValue::None) | (PyValue::None, known) => known.clone(),
        _ => PyValue::unknown(),
    }
}
