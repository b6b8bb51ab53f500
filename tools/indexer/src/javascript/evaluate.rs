//! Finds the values of expressions. Nothing runs: calls of the package's own small functions are
//! followed on paper, and whatever has an effect is opaque.

mod builtin;
mod call;
mod context;
mod decide;
mod member;
mod modules;
mod sites;

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use super::entry::Named;
use super::syntax::{
    JsBindingId, JsBindingSource, JsCollection, JsFunctionId, JsNode, JsNodeId, JsObjectEntry, JsPatternStep,
    JsScopeId, JsSymbol, JsSyntax,
};
use super::value::{Env, Found, Owner, Stop, Value, find_frame};

/// Steps for a whole package.
const MOST_STEPS: usize = 8_000_000;
/// Steps for one question.
const MOST_STEPS_EACH: usize = 400_000;
/// Values that are kept; what is not kept is found again.
const MOST_KNOWN: usize = 1_000_000;
/// How deep one value may rest on others.
const DEEPEST: usize = 150;

use decide::plain;

pub(super) struct Evaluator<'a> {
    pub syntax: &'a JsSyntax,
    /// What the package says of its own files.
    named: &'a Named,
    steps: usize,
    limit: usize,
    /// Whether some of what was asked for last was left out, and whether that was so where there are tools.
    has_left_out: bool,
    is_cut: bool,
    depth: usize,
    /// Values that do not depend on who calls.
    known: HashMap<(JsNodeId, bool), Value>,
    /// Whether a condition is looked at: then only what is sure counts.
    is_deciding: bool,
    /// Names of tools that a filter leaves out by default.
    pub left_out: HashSet<Rc<str>>,
    /// Functions that are called only under conditions that are off.
    off: HashMap<JsFunctionId, bool>,
    /// Words that nobody uses; a function with such a name is never called.
    pub unused: HashSet<JsSymbol>,
    dead: HashMap<JsFunctionId, bool>,
    /// Collections that are being filled, to notice circles.
    filling: HashSet<JsCollection>,
    /// What other files add to a name that they import.
    added_from_afar: HashMap<JsCollection, Vec<JsNodeId>>,
    sites: Option<Rc<sites::Sites>>,
    paths: HashMap<&'a str, super::syntax::JsFileId>,
}

impl<'a> Evaluator<'a> {
    pub fn new(syntax: &'a JsSyntax, named: &'a Named) -> Self {
        let mut evaluator = Self {
            syntax,
            named,
            steps: 0,
            limit: MOST_STEPS_EACH,
            has_left_out: false,
            is_cut: false,
            depth: 0,
            known: HashMap::new(),
            is_deciding: false,
            left_out: HashSet::new(),
            off: HashMap::new(),
            unused: HashSet::new(),
            dead: HashMap::new(),
            filling: HashSet::new(),
            added_from_afar: HashMap::new(),
            sites: None,
            paths: modules::paths(syntax),
        };
        evaluator.added_from_afar = evaluator.find_additions_from_afar();
        evaluator
    }

    /// Gives the next question its share of the steps: one that leads nowhere must not starve
    /// the rest.
    pub fn begin(&mut self) {
        self.limit = MOST_STEPS.min(self.steps + MOST_STEPS_EACH);
        self.has_left_out = false;
    }

    /// Takes note that there is more of what is asked for than is looked at.
    pub fn leave_out(&mut self, more: bool) {
        self.has_left_out |= more;
    }

    /// Takes note that what was asked for last are tools: what was left out of it would be some as well.
    pub fn met_tools(&mut self) {
        self.is_cut |= self.has_left_out;
    }

    /// Whether there may be more tools than were found: no steps are left, or there are more elements than are followed.
    pub fn is_cut(&self) -> bool {
        self.steps > MOST_STEPS || self.is_cut
    }

    /// The value of an expression.
    pub fn value(&mut self, node: JsNodeId, env: &Env) -> Found {
        if env.is_none()
            && let Some(value) = self.known.get(&(node, self.is_deciding))
        {
            return Ok(value.clone());
        }
        self.steps += 1;
        if self.steps > self.limit {
            return Err(Stop::Spent);
        }
        if self.depth >= DEEPEST {
            return Ok(Value::Opaque(None));
        }
        self.depth += 1;
        let value = self.value_of(node, env);
        self.depth -= 1;
        if env.is_none()
            && self.filling.is_empty()
            && self.depth < DEEPEST / 2
            && self.known.len() < MOST_KNOWN
            && let Ok(value) = &value
        {
            self.known.insert((node, self.is_deciding), value.clone());
        }
        value
    }

    /// The same for a value that was not looked at.
    pub fn force(&mut self, value: &Value) -> Found {
        match value {
            Value::Lazy(node, env) => self.value(*node, env),
            _ => Ok(value.clone()),
        }
    }

    fn value_of(&mut self, node: JsNodeId, env: &Env) -> Found {
        let syntax = self.syntax;
        match syntax.node(node) {
            JsNode::Text(text) => Ok(Value::Text(text.as_ref().into())),
            JsNode::Number(number) => Ok(Value::Number(*number)),
            JsNode::Bool(truth) => Ok(Value::Truth(*truth)),
            JsNode::Nullish => Ok(Value::Nothing),
            JsNode::Concat(pieces) => self.joined(node, pieces, env),
            JsNode::Name(word, scope) => self.name(*word, *scope, env),
            JsNode::This(scope) => Ok(self.this(*scope, env)?),
            JsNode::Member(object, key) => {
                if let Some(value) = self.of_process(*object, *key) {
                    return Ok(value);
                }
                let object = self.value(*object, env)?;
                match self.member(&object, &syntax.shared_symbol_text(*key))? {
                    // The fields of a schema: how it is written still tells them.
                    Value::Opaque(None) if syntax.symbol_text(*key) == "shape" => {
                        Ok(Value::Opaque(Some((node, env.clone()))))
                    }
                    value => Ok(value),
                }
            }
            JsNode::Index(object, index) => self.indexed(*object, *index, env),
            JsNode::Call(callee, items) => self.call(node, *callee, items, env),
            JsNode::New(callee, items) => self.instance(node, *callee, items, env),
            JsNode::List(items) => self.list(items, env),
            JsNode::Object(entries) => self.object(entries, env),
            JsNode::Spread(inner) => self.value(*inner, env),
            JsNode::Function(function) => Ok(Value::Function(*function, env.clone())),
            JsNode::Class(class) => Ok(Value::Class(*class, env.clone())),
            JsNode::Or(left, right) if self.is_deciding => self.one_or_other(*left, *right, env),
            JsNode::Or(first, second) => self.either(*first, *second, env),
            JsNode::Not(inner) => self.not(*inner, env),
            JsNode::And(left, right) if self.is_deciding => self.both(*left, *right, env),
            JsNode::Conditional(test, first, second) if self.is_deciding => self.choice(*test, *first, *second, env),
            JsNode::And(left, right) => {
                let left = self.value(*left, env);
                match (left, self.value(*right, env)?) {
                    (Ok(Value::Truth(false)), _) => Ok(Value::Truth(false)),
                    (Ok(Value::Truth(true)), right) => Ok(right),
                    // Not known, and a guess would be a claim.
                    (_, Value::Truth(_)) => Ok(Value::Opaque(None)),
                    (_, right) => Ok(right),
                }
            }
            JsNode::Conditional(test, first, second) => match self.value(*test, env) {
                Ok(Value::Truth(true)) => self.value(*first, env),
                Ok(Value::Truth(false)) => self.value(*second, env),
                _ => self.unsure(*first, *second, env),
            },
            JsNode::Equal(left, right, wanted) => self.same(*left, *right, *wanted, env),
            JsNode::Module(from, specifier) => Ok(match self.resolve(*from, specifier) {
                Some(file) => Value::Module(file),
                None => Value::Opaque(None),
            }),
            JsNode::Super | JsNode::Opaque => Ok(Value::Opaque(None)),
        }
    }

    fn joined(&mut self, node: JsNodeId, pieces: &[JsNodeId], env: &Env) -> Found {
        let mut text = String::new();
        for piece in pieces {
            match self.value(*piece, env)? {
                Value::Text(piece) => text.push_str(&piece),
                Value::Number(number) => text.push_str(&number.to_string()),
                _ => return Ok(Value::Opaque(Some((node, env.clone())))),
            }
        }
        Ok(Value::Text(text.into()))
    }

    fn same(&mut self, left: JsNodeId, right: JsNodeId, wanted: bool, env: &Env) -> Found {
        let (left, right) = (self.value(left, env)?, self.value(right, env)?);
        Ok(match (&left, &right) {
            (Value::Text(left), Value::Text(right)) => Value::Truth((left == right) == wanted),
            _ if self.is_deciding => match (plain(&left), plain(&right)) {
                (Some(left), Some(right)) => Value::Truth((left == right) == wanted),
                _ => Value::Opaque(None),
            },
            _ => Value::Opaque(None),
        })
    }

    fn name(&mut self, word: JsSymbol, scope: JsScopeId, env: &Env) -> Found {
        match self.syntax.find_binding(word, scope) {
            Some(binding) => self.binding(binding, env),
            None if self.syntax.symbol_text(word) == "undefined" => Ok(Value::Nothing),
            None => Ok(Value::Opaque(None)),
        }
    }

    fn binding(&mut self, id: JsBindingId, env: &Env) -> Found {
        let syntax = self.syntax;
        let Some(binding) = syntax.binding(id) else { return Ok(Value::Opaque(None)) };
        if self.is_deciding && binding.is_reassigned {
            return Ok(Value::Opaque(None));
        }
        // What stands at the top of a file is the same for all who call.
        let at_top = syntax.scopes.get(binding.scope.0 as usize).is_some_and(|scope| scope.parent.is_none());
        let env = if at_top { &None } else { env };
        let mut value = match &binding.source {
            JsBindingSource::Unset => Value::Opaque(None),
            JsBindingSource::Node(node) => self.value(*node, env)?,
            JsBindingSource::Parameter(function, index) => {
                self.given(Owner::Function(*function), *index, env, binding.default)?
            }
            JsBindingSource::Arguments(function) => match find_frame(env, Owner::Function(*function)) {
                Some(frame) => Value::list(frame.values.clone()),
                None => Value::Opaque(None),
            },
            JsBindingSource::Loop(id) => self.given(Owner::Loop(*id), 0, env, None)?,
            JsBindingSource::Import(from, specifier, word) => self.imported(*from, specifier, *word)?,
        };
        for step in &binding.path {
            value = self.step(&value, *step)?;
        }
        if value.is_weak()
            && let Some(default) = binding.default
        {
            value = self.value(default, env)?;
        }
        if !binding.assigned_members.is_empty() {
            value = self.with_members(value, &binding.assigned_members, env);
        }
        Ok(self.filled(JsCollection::Binding(id), value))
    }

    fn given(&mut self, owner: Owner, index: usize, env: &Env, default: Option<JsNodeId>) -> Found {
        let Some(frame) = find_frame(env, owner) else { return Err(Stop::Open(owner, index)) };
        match (frame.values.get(index), default) {
            (Some(value), _) => self.force(value),
            (None, Some(default)) => self.value(default, env),
            (None, None) => Ok(Value::Nothing),
        }
    }

    fn step(&mut self, value: &Value, step: JsPatternStep) -> Found {
        match (step, value) {
            (JsPatternStep::Key(word), _) => self.member(value, &self.syntax.shared_symbol_text(word)),
            (JsPatternStep::Index(place), Value::List(items)) => match items.get(place) {
                Some(item) => self.force(item),
                None => Ok(Value::Nothing),
            },
            (JsPatternStep::RestFrom(place), Value::List(items)) => {
                Ok(Value::list(items.get(place..).unwrap_or_default().to_vec()))
            }
            _ => Ok(Value::Opaque(None)),
        }
    }

    fn list(&mut self, items: &[JsNodeId], env: &Env) -> Found {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            match self.syntax.node(*item) {
                JsNode::Spread(inner) => {
                    let inner = self.value(*inner, env)?;
                    values.extend(self.elements(&inner));
                }
                _ => values.push(Value::Lazy(*item, env.clone())),
            }
        }
        Ok(Value::list(values))
    }

    fn object(&mut self, entries: &[JsObjectEntry], env: &Env) -> Found {
        let mut pairs = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry {
                JsObjectEntry::Pair(key, value) => {
                    pairs.push((self.syntax.shared_symbol_text(*key), Value::Lazy(*value, env.clone())));
                }
                JsObjectEntry::Computed(key, value) => {
                    if let Value::Text(key) = self.value(*key, env)? {
                        pairs.push((key, Value::Lazy(*value, env.clone())));
                    }
                }
                JsObjectEntry::Spread(inner) => {
                    let inner = self.value(*inner, env)?;
                    pairs.extend(self.entries(&inner));
                }
            }
        }
        Ok(Value::Object(Rc::new(pairs)))
    }

    /// One or the other, and it is not known which.
    fn unsure(&mut self, first: JsNodeId, second: JsNodeId, env: &Env) -> Found {
        match (self.value(first, env)?, self.value(second, env)?) {
            (Value::Truth(left), Value::Truth(right)) if left != right => Ok(Value::Opaque(None)),
            _ => self.either(first, second, env),
        }
    }

    /// Lists are joined: what is offered under either condition is offered.
    fn either(&mut self, first: JsNodeId, second: JsNodeId, env: &Env) -> Found {
        let left = self.value(first, env)?;
        if !left.is_weak() && !matches!(left, Value::List(_) | Value::Truth(false)) {
            return Ok(left);
        }
        let right = self.value(second, env)?;
        match (&left, &right) {
            (Value::List(left), Value::List(right)) => {
                Ok(Value::list(left.iter().chain(right.iter()).cloned().collect()))
            }
            (Value::List(_), _) if right.is_weak() => Ok(left),
            (_, Value::Nothing) => Ok(left),
            (Value::Opaque(_), Value::Truth(_)) => Ok(Value::Opaque(None)),
            _ => Ok(right),
        }
    }
}
