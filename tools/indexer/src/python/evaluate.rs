//! What names and expressions come to.

mod attribute;
mod call;

use std::collections::HashSet;
use std::rc::Rc;

pub use attribute::{fields, init};

use super::Reader;
use super::scope::{Binding, Scope, ScopeId};
use super::syntax::{PyClassDef, PyComparison, PyExpr};
use super::value::{ClassValue, Function, Instance, Value};

/// How deep one value may rest on another.
const DEEPEST: usize = 60;
/// How many steps one value may take: a table of some hundred tools with all they take.
const LONGEST_LOOK: usize = 100_000;
/// The longest text that is put together.
const LONGEST: usize = 64 << 10;

/// What is being looked at, so that what rests on itself ends.
#[derive(Debug, Default)]
pub struct Looking {
    names: HashSet<(ScopeId, Rc<str>)>,
    depth: usize,
    /// The step at which looking ends.
    until: usize,
    /// How often it ended before its end: by what rests on itself, or by its depth.
    ends: usize,
}

impl Reader<'_> {
    /// What an expression comes to.
    pub fn evaluate(&mut self, expr: &Rc<PyExpr>, scope: ScopeId) -> Value {
        if self.looking.depth == 0 {
            self.looking.until = self.steps + LONGEST_LOOK;
            self.looking.depth = 1;
            let mark = self.scopes.len();
            let value = self.evaluate(expr, scope);
            self.looking.depth = 0;
            self.close(mark, value.has_scope());
            return value;
        }
        if !self.step() || self.looking.depth >= DEEPEST || self.steps > self.looking.until {
            self.looking.ends += 1;
            return Value::unknown();
        }
        self.looking.depth += 1;
        let value = self.evaluated(expr, scope);
        self.looking.depth -= 1;
        value
    }

    fn evaluated(&mut self, expr: &Rc<PyExpr>, scope: ScopeId) -> Value {
        match &**expr {
            PyExpr::Str(text) => Value::Str(text.clone()),
            PyExpr::Number(number) => Value::Number(number.clone()),
            PyExpr::Bool(value) => Value::Bool(*value),
            PyExpr::None => Value::None,
            PyExpr::Name(name) => self.name(name, scope),
            PyExpr::Attribute(object, name) => {
                let object = self.evaluate(object, scope);
                self.attribute(object, name)
            }
            PyExpr::Call(call) => self.call(call, scope),
            PyExpr::List(items) => self.list(items, scope),
            PyExpr::Dict(pairs) => self.dict(pairs, scope),
            PyExpr::Index(object, keys) => self.index(object, keys, scope),
            PyExpr::Add(one, other) | PyExpr::Union(one, other) => {
                let (one, other) = (self.evaluate(one, scope), self.evaluate(other, scope));
                // A part of a list says nothing about what is not in it.
                let is_part = std::mem::discriminant(&one) != std::mem::discriminant(&other);
                if self.is_deciding && is_part { Value::unknown() } else { added(&one, &other) }
            }
            PyExpr::Or(one, other) => {
                let one = self.evaluate(one, scope);
                match self.truth(&one) {
                    Some(true) => one,
                    None if self.is_deciding => decided_or(self.evaluate(other, scope), true),
                    _ => self.evaluate(other, scope),
                }
            }
            PyExpr::And(one, other) => {
                let one = self.evaluate(one, scope);
                match self.truth(&one) {
                    Some(false) => one,
                    None if self.is_deciding => decided_or(self.evaluate(other, scope), false),
                    _ => self.evaluate(other, scope),
                }
            }
            PyExpr::Not(inner) => {
                let inner = self.evaluate(inner, scope);
                self.truth(&inner).map_or(Value::unknown(), |truth| Value::Bool(!truth))
            }
            PyExpr::Compare(one, how, other) => {
                let (one, other) = (self.evaluate(one, scope), self.evaluate(other, scope));
                let truth = self.compared_outside(&one, *how, &other).or_else(|| compared(&one, *how, &other));
                truth.map_or(Value::unknown(), Value::Bool)
            }
            PyExpr::JoinedStr(parts) => self.joined(parts, scope),
            PyExpr::Conditional { then, condition, otherwise } => {
                let condition = self.evaluate(condition, scope);
                match self.truth(&condition) {
                    Some(true) => self.evaluate(then, scope),
                    Some(false) => self.evaluate(otherwise, scope),
                    None => {
                        let values = vec![self.evaluate(then, scope), self.evaluate(otherwise, scope)];
                        self.agreed(values)
                    }
                }
            }
            PyExpr::Comprehension(each) => {
                let (mut made, mut pairs) = (Vec::new(), Vec::new());
                self.each(&each.clauses, scope, &mut |reader, inner| match each.body.as_slice() {
                    [body] => made.push(reader.evaluate(body, inner)),
                    [key, value] => pairs.push((reader.evaluate(key, inner), reader.evaluate(value, inner))),
                    _ => {}
                });
                if each.body.len() == 2 { Value::Dict(Rc::new(pairs)) } else { Value::List(Rc::new(made)) }
            }
            PyExpr::Spread(_) | PyExpr::Other(_) | PyExpr::Ellipsis => Value::unknown(),
        }
    }

    /// What a name stands for, from the inside out.
    pub fn name(&mut self, name: &Rc<str>, scope: ScopeId) -> Value {
        let mut at = Some(scope);
        while let Some(id) = at {
            let Some(scope) = self.scopes.get(id) else { break };
            if let Some(binding) = scope.get(name).cloned() {
                return self.bound(name, binding, id);
            }
            at = scope.parent;
            if at.is_none() && !scope.stars().is_empty() {
                return self.starred(name, id);
            }
        }
        Value::Unknown(Some(name.clone()))
    }

    /// What a binding comes to.
    pub fn bound(&mut self, name: &Rc<str>, binding: Binding, scope: ScopeId) -> Value {
        let known_as = (scope, name.clone(), self.is_deciding);
        if let Some(known) = self.known.get(&known_as) {
            return known.clone();
        }
        if let Some(known) = self.scopes.get(scope).and_then(|scope| scope.known(name, self.is_deciding)) {
            return known.clone();
        }
        let (is_first, steps, ends) = (self.looking.names.is_empty(), self.steps, self.looking.ends);
        let key = (scope, name.clone());
        if self.is_deciding && self.is_unsettled(name, &binding, scope) {
            return Value::Unknown(Some(name.clone()));
        }
        if !self.looking.names.insert(key.clone()) {
            self.looking.ends += 1;
            return Value::Unknown(Some(name.clone()));
        }
        let is_found = matches!(binding, Binding::Expr(_) | Binding::OneOf(_));
        let is_lasting = matches!(binding, Binding::Expr(_) | Binding::OneOf(_) | Binding::Import { .. });
        let value = match binding {
            Binding::Expr(expr) => self.evaluate(&expr, scope),
            Binding::OneOf(all) => {
                let values = all.iter().map(|expr| self.evaluate(expr, scope)).collect();
                self.agreed(values)
            }
            Binding::Def(def) => self.function(Rc::new(Function { def, scope, own: None })),
            Binding::Class(class) => Value::Class(self.class(&class, scope)),
            Binding::Import { up, module, item } => self.imported(up, &module, item.as_deref(), scope),
            Binding::Parameter { default: Some(_), is_given: true, .. } if self.is_deciding => Value::unknown(),
            Binding::Parameter { annotation, default, .. } => {
                self.parameter(name, annotation.as_ref(), default.as_ref(), scope)
            }
            Binding::Unsure(_) if self.is_deciding => Value::unknown(),
            Binding::Value(value) | Binding::Unsure(value) => value,
        };
        self.looking.names.remove(&key);
        // What a module or a class says does not change from one look to the next.
        if is_lasting && value.is_known() && self.lasting.contains(&scope) {
            if value.has_scope() {
                self.floor = self.scopes.len();
            }
            self.known.insert(known_as, value.clone());
        }
        let value = match value {
            Value::Unknown(None) => Value::Unknown(Some(name.clone())),
            value => value,
        };
        // Another look would come to the same: nothing ended it, or it began here and had most of the steps there are.
        let is_whole = self.looking.ends == ends || (is_first && self.steps <= self.looking.until);
        let is_same = is_whole || (is_first && self.steps - steps > LONGEST_LOOK / 2);
        if is_found && is_same && !value.has_scope() && !self.lasting.contains(&scope) {
            let is_deciding = self.is_deciding;
            self.scopes.get_mut(scope).into_iter().for_each(|scope| scope.keep(name, is_deciding, value.clone()));
        }
        value
    }

    /// A function under `functools.wraps(other)` stands for the other.
    fn function(&mut self, function: Rc<Function>) -> Value {
        for decorator in &function.def.decorators {
            let PyExpr::Call(call) = &**decorator else { continue };
            let is_wraps =
                matches!(&*call.callee, PyExpr::Name(name) | PyExpr::Attribute(_, name) if &**name == "wraps");
            if let (true, Some(other)) = (is_wraps, call.positional.first()) {
                return self.evaluate(other, function.scope);
            }
        }
        Value::Function(function)
    }

    /// A parameter that nobody has given: any object of its type, or what it is if it is left out.
    fn parameter(
        &mut self,
        name: &Rc<str>,
        annotation: Option<&Rc<PyExpr>>,
        default: Option<&Rc<PyExpr>>,
        scope: ScopeId,
    ) -> Value {
        let kind = annotation.map(|annotation| self.evaluate(annotation, scope));
        match kind {
            Some(Value::Class(class)) if !self.is_enum(&class) => {
                Value::Instance(Rc::new(Instance { class, arguments: None, id: None }))
            }
            Some(Value::External(path)) if !path.starts_with("typing") => {
                Value::Member(Rc::new(Value::External(path)), name.clone())
            }
            _ => match default {
                Some(default) => self.evaluate(default, scope),
                None => Value::Unknown(Some(name.clone())),
            },
        }
    }

    /// The value of a class; its scope is made once.
    pub fn class(&mut self, class: &Rc<PyClassDef>, scope: ScopeId) -> ClassValue {
        let key = Rc::as_ptr(class) as usize;
        if let Some(own) = self.classes.get(&key) {
            return ClassValue { class: class.clone(), scope: *own };
        }
        let file = self.scopes.get(scope).map_or(0, |scope| scope.file);
        let own = Scope::within(scope, file).with(self.names(&class.body));
        let own = self.open(own);
        self.classes.insert(key, own);
        self.last(own);
        ClassValue { class: class.clone(), scope: own }
    }

    fn imported(&mut self, up: usize, module: &str, item: Option<&str>, scope: ScopeId) -> Value {
        let from = self.scopes.get(scope).map_or(0, |scope| scope.file);
        let outside = |item: Option<&str>| {
            let path = item.map_or_else(|| module.to_owned(), |item| format!("{module}.{item}"));
            Value::External(path.into())
        };
        // What a package calls `mcp` inside itself is not the SDK, but an absolute `mcp` is.
        let is_sdk = up == 0 && matches!(module.split('.').next(), Some("mcp" | "fastmcp"));
        let file = if is_sdk { None } else { self.files.module(from, up, module) };
        let Some(item) = item else { return file.map_or_else(|| outside(None), Value::Module) };
        // `from . import shelf` in the package's own file means the file beside it.
        let beside = if file == Some(from) { self.files.module(from, up, &join(module, item)) } else { None };
        if let Some(beside) = beside {
            return Value::Module(beside);
        }
        let Some(file) = file else {
            let inner = if is_sdk { None } else { self.files.module(from, up, &join(module, item)) };
            return inner.map_or_else(|| outside(Some(item)), Value::Module);
        };
        self.member_of(file, item)
    }

    /// A name of a module, or a module below it.
    pub fn member_of(&mut self, file: usize, item: &str) -> Value {
        let scope = self.module(file);
        let name: Rc<str> = item.into();
        let has_star = self.scopes.get(scope).is_some_and(|scope| !scope.stars().is_empty());
        let binding = self.scopes.get(scope).and_then(|scope| scope.get(&name).cloned());
        match binding {
            Some(binding) => self.bound(&name, binding, scope),
            None => {
                let is_package = self.files.get(file).is_some_and(|file| file.path.ends_with("__init__.py"));
                let up = if is_package { 1 } else { return Value::Unknown(Some(name)) };
                match self.files.module(file, up, item) {
                    Some(below) => Value::Module(below),
                    None if has_star => self.starred(&name, scope),
                    None => Value::Unknown(Some(name)),
                }
            }
        }
    }

    /// A name that `from x import *` may bring.
    fn starred(&mut self, name: &Rc<str>, scope: ScopeId) -> Value {
        let key = (scope, Rc::from(format!("* {name}")));
        if !self.looking.names.insert(key.clone()) {
            return Value::Unknown(Some(name.clone()));
        }
        let (from, stars) =
            self.scopes.get(scope).map(|scope| (scope.file, scope.stars().to_vec())).unwrap_or_default();
        let mut found = Value::Unknown(Some(name.clone()));
        for (up, module) in stars {
            let value = match self.files.module(from, up, &module) {
                Some(file) => self.member_of(file, name),
                // Only these are worth a guess: `Tool` of `from mcp.types import *`.
                None if &*module == "mcp.types" => Value::External(format!("{module}.{name}").into()),
                None => continue,
            };
            if value.is_known() {
                found = value;
                break;
            }
        }
        self.looking.names.remove(&key);
        found
    }

    fn list(&mut self, items: &[Rc<PyExpr>], scope: ScopeId) -> Value {
        let mut out = Vec::new();
        for item in items {
            match &**item {
                PyExpr::Spread(inner) => match self.evaluate(inner, scope) {
                    Value::List(inner) => out.extend(inner.iter().cloned()),
                    _ => out.push(Value::unknown()),
                },
                _ => out.push(self.evaluate(item, scope)),
            }
        }
        Value::List(Rc::new(out))
    }

    fn dict(&mut self, pairs: &[(Option<Rc<PyExpr>>, Rc<PyExpr>)], scope: ScopeId) -> Value {
        let mut out = Vec::new();
        for (key, value) in pairs {
            let value = self.evaluate(value, scope);
            match key {
                Some(key) => out.push((self.evaluate(key, scope), value)),
                None => {
                    if let Value::Dict(inner) = value {
                        out.extend(inner.iter().cloned());
                    }
                }
            }
        }
        Value::Dict(Rc::new(out))
    }

    fn index(&mut self, object: &Rc<PyExpr>, keys: &[Rc<PyExpr>], scope: ScopeId) -> Value {
        let object = self.evaluate(object, scope);
        let [key] = keys else { return object };
        match (&object, self.evaluate(key, scope)) {
            (Value::Dict(_), Value::Str(key)) => object.get(&key).cloned().unwrap_or(Value::unknown()),
            (Value::List(list), Value::Number(at)) => {
                let at = at.as_u64().and_then(|at| usize::try_from(at).ok());
                at.and_then(|at| list.get(at)).cloned().unwrap_or(Value::unknown())
            }
            // `Context[Session]` is a `Context`.
            (Value::External(_) | Value::Class(_), _) => object,
            _ => Value::unknown(),
        }
    }

    fn joined(&mut self, parts: &[Rc<PyExpr>], scope: ScopeId) -> Value {
        let mut text = String::new();
        for part in parts {
            match self.evaluate(part, scope) {
                Value::Str(part) if text.len() + part.len() <= LONGEST => text.push_str(&part),
                Value::Number(number) => text.push_str(&number.to_string()),
                _ => return Value::unknown(),
            }
        }
        Value::text(&text)
    }
}

fn join(module: &str, item: &str) -> String {
    if module.is_empty() { item.to_owned() } else { format!("{module}.{item}") }
}

/// Where one side is not known: the other, if it decides.
fn decided_or(other: Value, deciding: bool) -> Value {
    if other.is_sure() && other.truth() == Some(deciding) { other } else { Value::unknown() }
}

/// One of several values: the one they agree on. Those that are nothing, or not known, do not count.
pub fn one_of(values: Vec<Value>) -> Value {
    let mut known = values.into_iter().filter(|value| value.is_known() && !matches!(value, Value::None));
    let Some(first) = known.next() else { return Value::unknown() };
    let agrees = |other: Value| match (&first, &other) {
        (Value::Str(one), Value::Str(other)) => one == other,
        (Value::Bool(one), Value::Bool(other)) => one == other,
        // Of two servers, either; claims have to be the same ones.
        (Value::Foreign(one), Value::Foreign(other)) => one.path == other.path && !one.path.ends_with("Annotations"),
        (Value::Dict(_), Value::Dict(_)) => first.to_json() == other.to_json(),
        (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
    };
    if known.all(agrees) { first } else { Value::unknown() }
}

fn compared(one: &Value, how: PyComparison, other: &Value) -> Option<bool> {
    let equal = |one: &Value, other: &Value| match (one, other) {
        (Value::Str(one), Value::Str(other)) => Some(one == other),
        (Value::Bool(one), Value::Bool(other)) => Some(one == other),
        (Value::Number(one), Value::Number(other)) => Some(one == other),
        (Value::None, Value::None) => Some(true),
        // What comes from elsewhere may be anything.
        (one, other) if one.is_sure() && other.is_sure() => Some(false),
        _ => None,
    };
    match (how, other) {
        (PyComparison::Equal, _) => equal(one, other),
        (PyComparison::Unequal, _) => equal(one, other).map(|equal| !equal),
        (_, Value::List(list)) if !list.is_empty() => {
            let equals: Vec<_> = list.iter().map(|element| equal(one, element)).collect();
            let is_found = equals.contains(&Some(true));
            let found = (is_found || !equals.contains(&None)).then_some(is_found);
            found.map(|found| found == (how == PyComparison::In))
        }
        (_, Value::Dict(_)) => one.as_str().map(|key| other.get(key).is_some() == (how == PyComparison::In)),
        (_, Value::Str(text)) => one.as_str().map(|part| text.contains(&**part) == (how == PyComparison::In)),
        _ => None,
    }
}

fn added(one: &Value, other: &Value) -> Value {
    match (one, other) {
        (Value::Str(one), Value::Str(other)) if one.len() + other.len() <= LONGEST => {
            Value::text(&format!("{one}{other}"))
        }
        (Value::List(one), Value::List(other)) if one.len() + other.len() <= LONGEST => {
            Value::List(Rc::new(one.iter().chain(&**other).cloned().collect()))
        }
        (Value::List(list), _) | (_, Value::List(list)) => Value::List(list.clone()),
        (Value::Dict(one), Value::Dict(other)) => Value::Dict(Rc::new(one.iter().chain(&**other).cloned().collect())),
        // A type, or nothing: the type.
        (known, Value::None) | (Value::None, known) => known.clone(),
        _ => Value::unknown(),
    }
}
