//! Evaluates attribute access.

use std::rc::Rc;

use crate::python::PyAnalyzer;
use crate::python::scope::{PyBinding, PyScope, PyScopeId};
use crate::python::static_value::{PyArguments, PyClassValue, PyFunction, PyInstance, PyValue};
use crate::python::syntax::{PyClassDef, PyExpr, PyFunctionDef, PyParameterKind, PyStmt};
use crate::required_setting_heuristic::is_user_supplied;

/// Maximum number of base classes that are followed.
const MAX_BASE_CLASSES: usize = 12;

impl PyAnalyzer<'_> {
    /// Evaluates an attribute of a value.
    pub fn evaluate_attribute(&mut self, object: PyValue, name: &Rc<str>) -> PyValue {
        let member = |object: PyValue| PyValue::Member(Rc::new(object), name.clone());
        if self.is_strict && is_user_supplied(name) {
            return member(object);
        }
        match &object {
            PyValue::Module(file) => self.module_member(*file, name),
            PyValue::External(path) => PyValue::External(format!("{path}.{name}").into()),
            PyValue::Str(_) if &**name == "value" => object,
            PyValue::Function(function) => match &**name {
                "__name__" => PyValue::Str(function.def.name.clone()),
                "__doc__" => function.def.docstring.clone().map_or(PyValue::None, PyValue::Str),
                _ => member(object),
            },
            PyValue::Class(class) if &**name == "__name__" => PyValue::Str(class.class.name.clone()),
            PyValue::Class(class) => self.find_class_member(class, name, None).unwrap_or_else(|| member(object)),
            PyValue::Instance(instance) => {
                let instance = instance.clone();
                self.find_instance_member(&instance, name).unwrap_or_else(|| member(object))
            }
            PyValue::ExternalObject(foreign) => {
                let known =
                    foreign.arguments.get(name, None).cloned().or_else(|| self.find_flag_default(foreign, name));
                known.unwrap_or_else(|| member(object))
            }
            _ => member(object),
        }
    }

    /// Returns a class and those of its base classes that are in the package, nearest first, and the names of external
    /// base classes.
    pub fn lineage(&mut self, class: &PyClassValue) -> (Vec<PyClassValue>, Vec<Rc<str>>) {
        let (mut own, mut others, mut at) = (vec![class.clone()], Vec::new(), 0);
        while let Some(class) = own.get(at).cloned() {
            at += 1;
            // A base is resolved in the scope around the class, not inside it.
            let outside = self.scopes.get(class.scope).and_then(|scope| scope.parent).unwrap_or(class.scope);
            for base in &class.class.bases {
                match self.evaluate(base, outside) {
                    PyValue::Class(base)
                        if own.len() < MAX_BASE_CLASSES
                            && !own.iter().any(|known| Rc::ptr_eq(&known.class, &base.class)) =>
                    {
                        own.push(base);
                    }
                    PyValue::External(path) => others.push(path),
                    PyValue::Unknown(Some(name)) => others.push(name),
                    _ => {}
                }
            }
        }
        (own, others)
    }

    pub fn is_enum(&mut self, class: &PyClassValue) -> bool {
        let (_, others) = self.lineage(class);
        others.iter().any(|base| matches!(last_segment(base), "Enum" | "StrEnum" | "IntEnum"))
    }

    /// Returns an attribute if the class itself defines it.
    fn find_class_member(&mut self, class: &PyClassValue, name: &Rc<str>, own: Option<&PyValue>) -> Option<PyValue> {
        for class in self.lineage(class).0 {
            let Some(binding) = self.scopes.get(class.scope).and_then(|scope| scope.get(name).cloned()) else {
                continue;
            };
            let PyBinding::Def(def) = &binding else { return Some(self.evaluate_binding(name, binding, class.scope)) };
            let function = PyFunction { def: def.clone(), scope: class.scope, receiver: own.cloned() };
            let is_property = def.decorators.iter().any(|decorator| {
                matches!(&**decorator, PyExpr::Name(name) if matches!(&**name, "property" | "cached_property"))
            });
            return Some(match (is_property, own) {
                (true, Some(_)) => self.evaluate_return(&function, &PyArguments::default()),
                _ => PyValue::Function(Rc::new(function)),
            });
        }
        None
    }

    fn find_instance_member(&mut self, instance: &Rc<PyInstance>, name: &Rc<str>) -> Option<PyValue> {
        let lineage = self.lineage(&instance.class).0;
        if let Some(given) = self.find_constructor_field(instance, &lineage, name) {
            return Some(given);
        }
        if self.is_strict && count_assignments(&lineage, name) > 1 {
            return Some(PyValue::unknown());
        }
        for class in &lineage {
            for statement in &class.class.body {
                let PyStmt::Def(def) = statement else { continue };
                let Some(value) = find_self_assignment(&def.body, name) else { continue };
                let scope = self.open_method_scope(instance, &lineage, class, def);
                let value = self.evaluate(&value, scope);
                if value.is_known() {
                    return Some(value);
                }
            }
        }
        self.find_class_member(&instance.class, name, Some(&PyValue::Instance(instance.clone())))
    }

    /// Returns a field that was passed to the constructor, unless the class itself defines it.
    fn find_constructor_field(
        &mut self,
        instance: &PyInstance,
        lineage: &[PyClassValue],
        name: &Rc<str>,
    ) -> Option<PyValue> {
        let arguments = instance.arguments.as_ref()?;
        if lineage.iter().any(|class| find_init(&class.class).is_some()) {
            return None;
        }
        let fields = lineage.iter().rev().flat_map(|class| annotated_fields(&class.class));
        let place = fields.map(|(field, ..)| field).position(|field| field == *name);
        arguments.get(name, place).cloned()
    }

    /// Opens a scope for a method call on an object.
    fn open_method_scope(
        &mut self,
        instance: &Rc<PyInstance>,
        lineage: &[PyClassValue],
        class: &PyClassValue,
        def: &Rc<PyFunctionDef>,
    ) -> PyScopeId {
        let own = Some(PyValue::Instance(instance.clone()));
        let function = PyFunction { def: def.clone(), scope: class.scope, receiver: own };
        let arguments = if &*def.name == "__init__" { self.init_arguments(instance, lineage, class) } else { None };
        self.open_function_scope(&function, &arguments.unwrap_or_default())
    }

    /// Returns the arguments of a class's `__init__`: the ones that the object was created with, or the ones that a
    /// subclass passes to `super().__init__`.
    fn init_arguments(
        &mut self,
        instance: &Rc<PyInstance>,
        lineage: &[PyClassValue],
        of: &PyClassValue,
    ) -> Option<PyArguments> {
        let nearer = lineage.iter().take_while(|class| !Rc::ptr_eq(&class.class, &of.class));
        let nearer = nearer.filter_map(|class| Some((class.clone(), find_init(&class.class)?.clone())));
        let mut arguments = instance.arguments.clone();
        for (class, def) in nearer.collect::<Vec<_>>() {
            let own = Some(PyValue::Instance(instance.clone()));
            let function = PyFunction { def: def.clone(), scope: class.scope, receiver: own };
            let scope = self.open_function_scope(&function, &arguments.unwrap_or_default());
            let call = find_super_init_call(&def.body)?;
            arguments = Some(self.evaluate_arguments(&call, scope));
        }
        arguments
    }

    /// Opens a scope for a function, with its parameters bound to the arguments.
    pub fn open_function_scope(&mut self, function: &PyFunction, arguments: &PyArguments) -> PyScopeId {
        let file = self.scopes.get(function.scope).map_or(0, |scope| scope.file);
        let mut scope = PyScope::within(function.scope, file).with_names(self.bound_names(&function.def.body));
        let mut place = 0;
        for (at, parameter) in function.def.parameters.iter().enumerate() {
            if let (0, Some(own)) = (at, &function.receiver) {
                scope.bind_value(&parameter.name, own.clone());
                continue;
            }
            if let Some(rest) = rest_argument(&function.def, parameter.kind, arguments, place) {
                scope.bind_value(&parameter.name, rest);
                continue;
            }
            match arguments.get(&parameter.name, Some(place)) {
                Some(value) if value.is_known() && arguments.is_uncertain(&parameter.name, place) => {
                    scope.bind_uncertain(&parameter.name, value.clone());
                }
                Some(value) if value.is_known() => scope.bind_value(&parameter.name, value.clone()),
                given => scope.bind_parameter(parameter, given.is_some() || arguments.has_unknown),
            }
            place += 1;
        }
        self.push_scope(scope)
    }
}

/// Returns the value of a `*` or `**` parameter.
fn rest_argument(def: &PyFunctionDef, rest: PyParameterKind, arguments: &PyArguments, place: usize) -> Option<PyValue> {
    match rest {
        PyParameterKind::Single => None,
        PyParameterKind::VarPositional => {
            Some(PyValue::List(Rc::new(arguments.positional.iter().skip(place).cloned().collect())))
        }
        PyParameterKind::VarKeyword => {
            let known = |name: &str| def.parameters.iter().any(|other| &*other.name == name);
            let rest = arguments.keywords.iter().filter(|(name, _)| !known(name));
            Some(PyValue::Dict(Rc::new(
                rest.map(|(name, value)| (PyValue::Str(name.clone()), value.clone())).collect(),
            )))
        }
    }
}

fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

pub fn find_init(class: &PyClassDef) -> Option<&Rc<PyFunctionDef>> {
    class.body.iter().find_map(|statement| match statement {
        PyStmt::Def(def) if &*def.name == "__init__" => Some(def),
        _ => None,
    })
}

/// Returns the annotated fields of a class, each with name, type and default.
pub fn annotated_fields(class: &PyClassDef) -> impl Iterator<Item = (Rc<str>, Rc<PyExpr>, Option<Rc<PyExpr>>)> {
    class.body.iter().filter_map(|statement| match statement {
        PyStmt::Assign { target, annotation: Some(annotation), value } => match &**target {
            PyExpr::Name(name) => Some((name.clone(), annotation.clone(), value.clone())),
            _ => None,
        },
        _ => None,
    })
}

/// Returns the expression that `self.name = …` assigns.
fn find_self_assignment(body: &[PyStmt], name: &str) -> Option<Rc<PyExpr>> {
    body.iter().find_map(|statement| match statement {
        PyStmt::Assign { target, value: Some(value), .. } => match &**target {
            PyExpr::Attribute(object, member) if &**member == name => {
                let is_own = matches!(&**object, PyExpr::Name(own) if &**own == "self");
                (is_own && !matches!(&**value, PyExpr::None)).then(|| value.clone())
            }
            _ => None,
        },
        PyStmt::Block(inner) | PyStmt::Fallback(inner) | PyStmt::For { body: inner, .. } => {
            find_self_assignment(inner, name)
        }
        PyStmt::If { body, otherwise, .. } => {
            find_self_assignment(body, name).or_else(|| find_self_assignment(otherwise, name))
        }
        _ => None,
    })
}

/// Counts how often a class and its base classes assign an attribute.
fn count_assignments(lineage: &[PyClassValue], name: &str) -> usize {
    fn count_in_body(body: &[PyStmt], name: &str) -> usize {
        let each = body.iter().map(|statement| match statement {
            PyStmt::Assign { target, .. } => {
                usize::from(matches!(&**target, PyExpr::Attribute(_, member) if &**member == name))
            }
            PyStmt::Block(inner) | PyStmt::Fallback(inner) | PyStmt::For { body: inner, .. } => {
                count_in_body(inner, name)
            }
            PyStmt::If { body, otherwise, .. } => count_in_body(body, name) + count_in_body(otherwise, name),
            _ => 0,
        });
        each.sum()
    }
    let bodies = lineage.iter().flat_map(|class| &class.class.body);
    bodies.map(|statement| if let PyStmt::Def(def) = statement { count_in_body(&def.body, name) } else { 0 }).sum()
}

/// Returns the call `super().__init__(…)`.
fn find_super_init_call(body: &[PyStmt]) -> Option<Rc<crate::python::syntax::PyCall>> {
    body.iter().find_map(|statement| match statement {
        PyStmt::Expr(expr) => match &**expr {
            PyExpr::Call(call) => match &*call.callee {
                PyExpr::Attribute(_, name) if &**name == "__init__" => Some(call.clone()),
                _ => None,
            },
            _ => None,
        },
        PyStmt::Block(inner) | PyStmt::If { body: inner, .. } => find_super_init_call(inner),
        _ => None,
    })
}
