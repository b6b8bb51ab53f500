//! Scopes, and the names that are bound in them.

use std::collections::HashMap;
use std::rc::Rc;

use super::static_value::PyValue;
use super::syntax::{PyClassDef, PyExpr, PyFunctionDef, PyImport, PyParameter, PyStmt};

/// Index of a scope.
pub type PyScopeId = usize;

/// The origin of a name's value.
#[derive(Debug, Clone)]
pub enum PyBinding {
    /// An expression, which is evaluated on demand.
    Expr(Rc<PyExpr>),
    /// One of several expressions, depending on which statement runs.
    Alternatives(Vec<Rc<PyExpr>>),
    Def(Rc<PyFunctionDef>),
    Class(Rc<PyClassDef>),
    Import {
        up: usize,
        module: Rc<str>,
        item: Option<Rc<str>>,
    },
    /// A parameter whose argument is not known.
    Parameter {
        annotation: Option<Rc<PyExpr>>,
        default: Option<Rc<PyExpr>>,
        /// Whether the caller passes an argument. Its value is unknown.
        is_passed: bool,
    },
    Value(PyValue),
    /// A value that is uncertain and therefore counts as unknown in conditions.
    Uncertain(PyValue),
}

/// The conditions under which a binding takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum PyBindingCondition {
    Always,
    /// The binding takes effect only under a condition.
    Conditional,
    /// The binding takes effect only if an earlier statement failed.
    Fallback,
}

/// A scope with its names and its parent.
#[derive(Debug, Default)]
pub struct PyScope {
    pub parent: Option<PyScopeId>,
    /// The file that the scope is in.
    pub file: usize,
    /// Parameters and loop variables.
    parameter_bindings: Vec<(Rc<str>, PyBinding)>,
    /// Names that the statements in the scope bind. All calls to a function share them.
    body_names: Option<Rc<PyBoundNames>>,
    /// Cached values of names. The flag in the key is true if the value was evaluated as part of a condition.
    resolved_values: HashMap<(Rc<str>, bool), PyValue>,
}

impl PyScope {
    /// Creates the scope of a file.
    pub fn of_file(file: usize) -> Self {
        Self { file, ..Self::default() }
    }

    pub fn within(parent: PyScopeId, file: usize) -> Self {
        Self { parent: Some(parent), file, ..Self::default() }
    }

    /// Adds the names that the statements in the scope bind.
    pub fn with_names(self, body: Rc<PyBoundNames>) -> Self {
        Self { body_names: Some(body), ..self }
    }

    pub fn get(&self, name: &str) -> Option<&PyBinding> {
        let given =
            self.parameter_bindings.iter().rev().find(|(known, _)| &**known == name).map(|(_, binding)| binding);
        given.or_else(|| self.body_names.as_ref()?.bindings.get(name))
    }

    /// Returns the cached value of a name.
    pub fn resolved_value(&self, name: &Rc<str>, is_deciding: bool) -> Option<&PyValue> {
        if self.resolved_values.is_empty() { None } else { self.resolved_values.get(&(name.clone(), is_deciding)) }
    }

    /// Caches the value of a name. This matters in long functions, where a name may have many alternatives that in turn
    /// refer to other names.
    pub fn cache_value(&mut self, name: &Rc<str>, is_deciding: bool, value: PyValue) {
        self.resolved_values.insert((name.clone(), is_deciding), value);
    }

    /// Returns the modules that are imported with `from … import *`.
    pub fn star_imports(&self) -> &[(usize, Rc<str>)] {
        self.body_names.as_ref().map_or(&[], |body| &body.star_imports)
    }

    pub fn bind_value(&mut self, name: &Rc<str>, value: PyValue) {
        self.parameter_bindings.push((name.clone(), PyBinding::Value(value)));
    }

    pub fn bind_uncertain(&mut self, name: &Rc<str>, value: PyValue) {
        self.parameter_bindings.push((name.clone(), PyBinding::Uncertain(value)));
    }

    pub fn bind_parameter(&mut self, parameter: &PyParameter, is_given: bool) {
        let (annotation, default) = (parameter.annotation.clone(), parameter.default.clone());
        self.parameter_bindings
            .push((parameter.name.clone(), PyBinding::Parameter { annotation, default, is_passed: is_given }));
    }
}

/// The names that statements bind.
#[derive(Debug, Default)]
pub struct PyBoundNames {
    bindings: HashMap<Rc<str>, PyBinding>,
    star_imports: Vec<(usize, Rc<str>)>,
}

impl PyBoundNames {
    /// Collects the bindings in statement order. If a name is bound more than once, the last binding applies.
    pub fn of(statements: &[PyStmt]) -> Self {
        let mut names = Self::default();
        names.bind_all(statements, PyBindingCondition::Always);
        names
    }

    fn bind_all(&mut self, statements: &[PyStmt], when: PyBindingCondition) {
        for statement in statements {
            match statement {
                PyStmt::Def(def) => self.bind(&def.name, PyBinding::Def(def.clone()), when),
                PyStmt::Class(class) => self.bind(&class.name, PyBinding::Class(class.clone()), when),
                PyStmt::Assign { target, value: Some(value), .. } => self.bind_assignment(target, value, when),
                PyStmt::Import(imports) => imports.iter().for_each(|import| self.bind_import(import, when)),
                PyStmt::Block(inner) => self.bind_all(inner, when),
                PyStmt::For { body: inner, .. } => self.bind_all(inner, when.max(PyBindingCondition::Conditional)),
                PyStmt::If { body, otherwise, .. } => {
                    self.bind_all(body, when.max(PyBindingCondition::Conditional));
                    self.bind_all(otherwise, when.max(PyBindingCondition::Conditional));
                }
                PyStmt::Fallback(inner) => self.bind_all(inner, PyBindingCondition::Fallback),
                _ => {}
            }
        }
    }

    fn bind(&mut self, name: &Rc<str>, binding: PyBinding, when: PyBindingCondition) {
        let known = self.bindings.get_mut(name);
        match (when, known, binding) {
            (PyBindingCondition::Fallback, Some(_), _) => {}
            (PyBindingCondition::Conditional, Some(PyBinding::Alternatives(known)), PyBinding::Expr(value)) => {
                known.push(value)
            }
            (PyBindingCondition::Conditional, Some(known @ PyBinding::Expr(_)), PyBinding::Expr(value)) => {
                if let PyBinding::Expr(first) = known.clone() {
                    *known = PyBinding::Alternatives(vec![first, value]);
                }
            }
            (_, _, binding) => {
                self.bindings.insert(name.clone(), binding);
            }
        }
    }

    fn bind_assignment(&mut self, target: &PyExpr, value: &Rc<PyExpr>, when: PyBindingCondition) {
        match target {
            PyExpr::Name(name) => {
                // `mcp = None` before or after the real value says nothing.
                if matches!(&**value, PyExpr::None) && self.bindings.contains_key(name) {
                    return;
                }
                self.bind(name, PyBinding::Expr(value.clone()), when);
            }
            PyExpr::List(targets) => {
                let values = if let PyExpr::List(values) = &**value { values.as_slice() } else { &[] };
                for (at, target) in targets.iter().enumerate() {
                    match (values.get(at), &**target) {
                        (Some(value), _) => self.bind_assignment(target, value, when),
                        (None, PyExpr::Name(name)) => {
                            self.bind(name, PyBinding::Value(PyValue::Unknown(Some(name.clone()))), when);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn bind_import(&mut self, import: &PyImport, when: PyBindingCondition) {
        if &*import.bound_name == "*" {
            self.star_imports.push((import.up, import.module.clone()));
            return;
        }
        let (up, module, item) = (import.up, import.module.clone(), import.item.clone());
        self.bind(&import.bound_name, PyBinding::Import { up, module, item }, when);
    }
}
