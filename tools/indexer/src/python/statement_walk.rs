//! Walks all statements to find registrations of tools.

use std::rc::Rc;

use super::PyAnalyzer;
use super::registration_reachability::PyCodeBlock;
use super::scope::{PyScope, PyScopeId};
use super::static_value::{PyArguments, PyClassValue, PyFunction, PyInstance, PyValue};
use super::syntax::{PyCall, PyClassDef, PyExpr, PyFunctionDef, PyStmt};

/// Maximum nesting of functions that are followed.
const MAX_WALK_DEPTH: usize = 8;

impl PyAnalyzer<'_> {
    /// Walks a file.
    pub fn walk_file(&mut self, file: usize) {
        let scope = self.module_scope(file);
        if let Some(statements) = self.module_statements(file) {
            self.walk_from(PyCodeBlock::File(file), |reader| reader.walk_statements(&statements, scope));
        }
    }

    /// Walks a list of statements. Returns true if the statements after them do not run.
    pub fn walk_statements(&mut self, statements: &[PyStmt], scope: PyScopeId) -> bool {
        let mut has_left = false;
        for statement in statements {
            if !self.take_step() {
                return has_left;
            }
            has_left |= self.with_condition(!has_left, |reader| reader.walk_statement(statement, scope));
        }
        has_left
    }

    fn walk_statement(&mut self, statement: &PyStmt, scope: PyScopeId) -> bool {
        match statement {
            PyStmt::Def(def) => self.walk_def(def, scope, None),
            PyStmt::Class(class) => self.walk_class(class, scope),
            PyStmt::Assign { target, value: Some(value), .. } => {
                self.register_keyed_assignment(target, value, scope);
                self.walk_expression(value, scope);
            }
            PyStmt::For { target, iterated, body } => {
                self.walk_expression(iterated, scope);
                let clause = [(target.clone(), iterated.clone())];
                self.for_each_element(&clause, scope, &mut |reader, inner| {
                    // The bindings of the body depend on the element.
                    let file = reader.scopes.get(inner).map_or(0, |scope| scope.file);
                    let names = reader.bound_names(body);
                    let inner = reader.push_scope(PyScope::within(inner, file).with_names(names));
                    reader.walk_statements(body, inner);
                });
            }
            PyStmt::Block(inner) | PyStmt::Fallback(inner) => {
                self.walk_statements(inner, scope);
            }
            PyStmt::If { condition, body, otherwise } => {
                self.walk_expression(condition, scope);
                // If the condition is unknown, either branch may run.
                let truth = self.decide_condition(condition, scope);
                let one = self.with_condition(truth != Some(false), |reader| reader.walk_statements(body, scope));
                let other = self.with_condition(truth != Some(true), |reader| reader.walk_statements(otherwise, scope));
                return match truth {
                    Some(true) => one,
                    Some(false) => other,
                    None => one && other,
                };
            }
            PyStmt::Return(value) => {
                self.walk_expression(value, scope);
                return true;
            }
            PyStmt::Continue => return true,
            PyStmt::Expr(value) => self.walk_expression(value, scope),
            PyStmt::Import(imports) => self.record_imports(imports, scope),
            PyStmt::Assign { .. } => {}
        }
        false
    }

    fn walk_def(&mut self, def: &Rc<PyFunctionDef>, scope: PyScopeId, own: Option<&PyValue>) {
        if !def.mentions_tools && def.decorators.is_empty() {
            return;
        }
        let function = PyFunction { def: def.clone(), scope, receiver: own.cloned() };
        self.register_decorated(&Rc::new(function), scope);
        if def.mentions_tools {
            let function = PyFunction { def: def.clone(), scope, receiver: own.cloned() };
            self.walk_without_arguments(&function);
        }
    }

    /// Walks a function's body when the arguments it is called with are unknown.
    fn walk_without_arguments(&mut self, function: &PyFunction) {
        let is_inside = !self.walk_stack.is_empty();
        let walk = |reader: &mut Self| reader.walk_function(function, &PyArguments::default());
        if is_inside {
            return walk(self);
        }
        self.walk_from(PyCodeBlock::Function(Rc::as_ptr(&function.def) as usize), walk);
    }

    /// Walks a function's body with its parameters bound to the arguments.
    pub fn walk_function(&mut self, function: &PyFunction, arguments: &PyArguments) {
        let key = Rc::as_ptr(&function.def) as usize;
        if self.walk_stack.contains(&key) || self.walk_stack.len() >= MAX_WALK_DEPTH {
            return;
        }
        self.walk_stack.push(key);
        let mark = self.scopes.len();
        let scope = self.open_function_scope(function, arguments);
        self.walk_statements(&function.def.body, scope);
        self.pop_scopes(mark, false);
        self.walk_stack.pop();
    }

    /// Walks the statements of a class and its methods, including inherited ones, on an arbitrary instance.
    fn walk_class(&mut self, class: &Rc<PyClassDef>, scope: PyScopeId) {
        let value = self.class_value(class, scope);
        let own = PyValue::Instance(Rc::new(PyInstance { class: value.clone(), arguments: None, id: None }));
        for statement in &class.body {
            match statement {
                PyStmt::Def(def) => self.walk_def(def, value.scope, Some(&own)),
                other => drop(self.walk_statements(std::slice::from_ref(other), value.scope)),
            }
        }
        if self.follows_calls {
            for base in self.lineage(&value).0.iter().skip(1) {
                self.walk_class_methods(&own, base);
            }
        }
    }

    /// Walks the methods, including inherited ones, of an object that a particular constructor call creates.
    fn walk_methods(&mut self, own: &PyValue, class: &PyClassValue) {
        for class in &self.lineage(class).0 {
            self.walk_class_methods(own, class);
        }
    }

    fn walk_class_methods(&mut self, own: &PyValue, class: &PyClassValue) {
        for statement in &class.class.body {
            let PyStmt::Def(def) = statement else { continue };
            if def.can_register_tools {
                let function = PyFunction { def: def.clone(), scope: class.scope, receiver: Some(own.clone()) };
                let place = PyCodeBlock::Function(Rc::as_ptr(def) as usize);
                self.walk_from(place, |reader| reader.walk_function(&function, &PyArguments::default()));
            }
        }
    }

    /// Walks an expression and all its parts.
    pub fn walk_expression(&mut self, expr: &Rc<PyExpr>, scope: PyScopeId) {
        if !self.take_step() {
            return;
        }
        match &**expr {
            PyExpr::Call(call) => self.walk_call(call, scope),
            PyExpr::Dict(pairs) => {
                self.register_dict_expr(expr, scope);
                for (key, value) in pairs {
                    if let Some(key) = key {
                        self.register_keyed_pair(key, value, scope);
                    }
                    self.walk_expression(value, scope);
                }
            }
            PyExpr::Comprehension(each) => self.for_each_element(&each.clauses, scope, &mut |reader, inner| {
                each.body.iter().for_each(|body| reader.walk_expression(body, inner));
            }),
            PyExpr::List(items) | PyExpr::JoinedStr(items) | PyExpr::Other(items) => {
                items.iter().for_each(|item| self.walk_expression(item, scope));
            }
            PyExpr::Attribute(inner, _) | PyExpr::Spread(inner) => self.walk_expression(inner, scope),
            PyExpr::Index(object, keys) => {
                self.walk_expression(object, scope);
                keys.iter().for_each(|key| self.walk_expression(key, scope));
            }
            PyExpr::Not(inner) => self.walk_expression(inner, scope),
            PyExpr::Add(one, other)
            | PyExpr::Union(one, other)
            | PyExpr::Or(one, other)
            | PyExpr::And(one, other)
            | PyExpr::Compare(one, _, other) => {
                self.walk_expression(one, scope);
                self.walk_expression(other, scope);
            }
            PyExpr::Conditional { then, condition, otherwise } => {
                let truth = self.decide_condition(condition, scope);
                self.with_condition(truth != Some(false), |reader| reader.walk_expression(then, scope));
                self.with_condition(truth != Some(true), |reader| reader.walk_expression(otherwise, scope));
            }
            _ => {}
        }
    }

    fn walk_call(&mut self, call: &Rc<PyCall>, scope: PyScopeId) {
        self.walk_expression(&call.callee, scope);
        call.positional.iter().for_each(|argument| self.walk_expression(argument, scope));
        call.keywords.iter().for_each(|(_, argument)| self.walk_expression(argument, scope));
        let callee = self.evaluate(&call.callee, scope);
        if let PyValue::Function(function) = &callee {
            self.record_call(call, function);
        }
        self.record_flag(call, scope);
        self.register_call(call, &callee, scope);
        self.defer_described(call, &callee, scope);
        if !self.follows_calls {
            return;
        }
        if let PyValue::Class(class) = &callee {
            let arguments = Some(self.arguments_with_certainty(call, scope));
            let id = Some(Rc::as_ptr(call) as usize);
            self.walk_methods(&PyValue::Instance(Rc::new(PyInstance { class: class.clone(), arguments, id })), class);
        }
        if let PyValue::Function(function) = callee
            && function.def.can_register_tools
        {
            let arguments = self.arguments_with_certainty(call, scope);
            let says = |value: &PyValue| value.is_known();
            if arguments.positional.iter().any(says) || arguments.keywords.iter().any(|(_, value)| says(value)) {
                let (def, call) = (Rc::as_ptr(&function.def) as usize, Rc::as_ptr(call) as usize);
                self.entered_calls.entry(def).or_default().insert(call);
                self.walk_function(&function, &arguments);
            }
        }
    }
}
