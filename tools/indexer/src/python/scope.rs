//! Which names stand for what.

use std::collections::HashMap;
use std::rc::Rc;

use super::syntax::{PyClassDef, PyExpr, PyFunctionDef, PyImport, PyParameter, PyStmt};
use super::value::Value;

/// A scope, by its place among all.
pub type ScopeId = usize;

/// What a name stands for.
#[derive(Debug, Clone)]
pub enum Binding {
    /// What an expression comes to; looked at when it is asked for.
    Expr(Rc<PyExpr>),
    /// One of several expressions: which one depends on what runs.
    OneOf(Vec<Rc<PyExpr>>),
    Def(Rc<PyFunctionDef>),
    Class(Rc<PyClassDef>),
    Import {
        up: usize,
        module: Rc<str>,
        item: Option<Rc<str>>,
    },
    /// A parameter that nobody has given.
    Parameter {
        annotation: Option<Rc<PyExpr>>,
        default: Option<Rc<PyExpr>>,
        /// Whether it was given, by what is not known.
        is_given: bool,
    },
    Value(Value),
    /// A value that a condition must not rely on.
    Unsure(Value),
}

/// Whether a binding takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    Always,
    /// Under a condition.
    Perhaps,
    /// If something before it failed.
    Otherwise,
}

/// Names, and where to look further.
#[derive(Debug, Default)]
pub struct Scope {
    pub parent: Option<ScopeId>,
    /// The file it is in.
    pub file: usize,
    /// Parameters, and what a loop is at.
    given: Vec<(Rc<str>, Binding)>,
    /// What the statements bind; the same for all calls of a function.
    body: Option<Rc<Names>>,
    /// What names came to, by whether a condition asked.
    came_to: HashMap<(Rc<str>, bool), Value>,
}

impl Scope {
    /// The scope of a file.
    pub fn of_file(file: usize) -> Self {
        Self { file, ..Self::default() }
    }

    pub fn within(parent: ScopeId, file: usize) -> Self {
        Self { parent: Some(parent), file, ..Self::default() }
    }

    /// With what statements bind.
    pub fn with(self, body: Rc<Names>) -> Self {
        Self { body: Some(body), ..self }
    }

    pub fn get(&self, name: &str) -> Option<&Binding> {
        let given = self.given.iter().rev().find(|(known, _)| &**known == name).map(|(_, binding)| binding);
        given.or_else(|| self.body.as_ref()?.names.get(name))
    }

    /// What a name came to when it was looked at before.
    pub fn known(&self, name: &Rc<str>, is_deciding: bool) -> Option<&Value> {
        if self.came_to.is_empty() { None } else { self.came_to.get(&(name.clone(), is_deciding)) }
    }

    /// Keeps what a name came to. In a long function a name may stand for one of many, and they for others in turn.
    pub fn keep(&mut self, name: &Rc<str>, is_deciding: bool, value: Value) {
        self.came_to.insert((name.clone(), is_deciding), value);
    }

    /// Modules all of whose names are taken over.
    pub fn stars(&self) -> &[(usize, Rc<str>)] {
        self.body.as_ref().map_or(&[], |body| &body.stars)
    }

    pub fn value(&mut self, name: &Rc<str>, value: Value) {
        self.given.push((name.clone(), Binding::Value(value)));
    }

    pub fn unsure(&mut self, name: &Rc<str>, value: Value) {
        self.given.push((name.clone(), Binding::Unsure(value)));
    }

    pub fn parameter(&mut self, parameter: &PyParameter, is_given: bool) {
        let (annotation, default) = (parameter.annotation.clone(), parameter.default.clone());
        self.given.push((parameter.name.clone(), Binding::Parameter { annotation, default, is_given }));
    }
}

/// What statements bind.
#[derive(Debug, Default)]
pub struct Names {
    names: HashMap<Rc<str>, Binding>,
    stars: Vec<(usize, Rc<str>)>,
}

impl Names {
    /// Python runs statements in order; of several bindings the last one counts.
    pub fn of(statements: &[PyStmt]) -> Self {
        let mut names = Self::default();
        names.bind_all(statements, When::Always);
        names
    }

    fn bind_all(&mut self, statements: &[PyStmt], when: When) {
        for statement in statements {
            match statement {
                PyStmt::Def(def) => self.set(&def.name, Binding::Def(def.clone()), when),
                PyStmt::Class(class) => self.set(&class.name, Binding::Class(class.clone()), when),
                PyStmt::Assign { target, value: Some(value), .. } => self.assign(target, value, when),
                PyStmt::Import(imports) => imports.iter().for_each(|import| self.import(import, when)),
                PyStmt::Block(inner) => self.bind_all(inner, when),
                PyStmt::For { body: inner, .. } => self.bind_all(inner, when.max(When::Perhaps)),
                PyStmt::If { body, otherwise, .. } => {
                    self.bind_all(body, when.max(When::Perhaps));
                    self.bind_all(otherwise, when.max(When::Perhaps));
                }
                PyStmt::Fallback(inner) => self.bind_all(inner, When::Otherwise),
                _ => {}
            }
        }
    }

    fn set(&mut self, name: &Rc<str>, binding: Binding, when: When) {
        let known = self.names.get_mut(name);
        match (when, known, binding) {
            (When::Otherwise, Some(_), _) => {}
            (When::Perhaps, Some(Binding::OneOf(known)), Binding::Expr(value)) => known.push(value),
            (When::Perhaps, Some(known @ Binding::Expr(_)), Binding::Expr(value)) => {
                if let Binding::Expr(first) = known.clone() {
                    *known = Binding::OneOf(vec![first, value]);
                }
            }
            (_, _, binding) => {
                self.names.insert(name.clone(), binding);
            }
        }
    }

    fn assign(&mut self, target: &PyExpr, value: &Rc<PyExpr>, when: When) {
        match target {
            PyExpr::Name(name) => {
                // `mcp = None` before the real one, or after it, says nothing.
                if matches!(&**value, PyExpr::None) && self.names.contains_key(name) {
                    return;
                }
                self.set(name, Binding::Expr(value.clone()), when);
            }
            PyExpr::List(targets) => {
                let values = if let PyExpr::List(values) = &**value { values.as_slice() } else { &[] };
                for (at, target) in targets.iter().enumerate() {
                    match (values.get(at), &**target) {
                        (Some(value), _) => self.assign(target, value, when),
                        (None, PyExpr::Name(name)) => {
                            self.set(name, Binding::Value(Value::Unknown(Some(name.clone()))), when);
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }

    fn import(&mut self, import: &PyImport, when: When) {
        if &*import.bound_name == "*" {
            self.stars.push((import.up, import.module.clone()));
            return;
        }
        let (up, module, item) = (import.up, import.module.clone(), import.item.clone());
        self.set(&import.bound_name, Binding::Import { up, module, item }, when);
    }
}
