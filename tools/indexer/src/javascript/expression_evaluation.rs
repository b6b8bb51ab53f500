//! Evaluates expressions statically. Calls to the package's own small functions are inlined; anything with a side
//! effect is opaque.

mod builtin_methods;
mod call_sites;
mod calling_contexts;
mod default_conditions;
mod evaluate_call;
mod evaluate_member;
mod module_resolution;

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use super::entry_points::PackageJsonPaths;
use super::static_value::{JsEvaluationError, JsFrameChain, JsFrameOwner, JsValue, JsValueResult, find_frame};
use super::syntax::{
    JsAppendTarget, JsBindingId, JsBindingSource, JsFunctionId, JsIdentifierId, JsNode, JsNodeId, JsObjectEntry,
    JsPatternStep, JsScopeId, JsSyntax,
};

/// Maximum number of evaluation steps for a package.
const MAX_STEPS_PER_PACKAGE: usize = 8_000_000;
/// Maximum number of evaluation steps for one query.
const MAX_STEPS_PER_QUERY: usize = 400_000;
/// Maximum number of cached values. Values beyond it are evaluated again.
const MAX_CACHED_VALUES: usize = 1_000_000;
/// Maximum nesting of evaluations.
const MAX_EVALUATION_DEPTH: usize = 150;

use default_conditions::as_primitive;

pub(super) struct JsEvaluator<'a> {
    pub syntax: &'a JsSyntax,
    /// Paths named in `package.json`.
    package_paths: &'a PackageJsonPaths,
    steps: usize,
    step_limit: usize,
    /// Whether the current query has left out elements because of a limit.
    has_omissions: bool,
    /// Whether any query may have left out tools because of a limit.
    is_truncated: bool,
    depth: usize,
    /// Cached values of expressions that do not depend on a calling context.
    known_values: HashMap<(JsNodeId, bool), JsValue>,
    /// Whether a condition is being evaluated. If so, uncertain values are treated as unknown.
    is_strict: bool,
    /// Names of the tools that a filter removes by default.
    pub filtered_tools: HashSet<Rc<str>>,
    /// Whether each function is called only under conditions that are false by default.
    disabled_functions: HashMap<JsFunctionId, bool>,
    /// Names that occur only in their declaration. A function with such a name is never called.
    pub unused_names: HashSet<JsIdentifierId>,
    dead_functions: HashMap<JsFunctionId, bool>,
    /// Collections that are being evaluated, to detect cycles.
    collections_in_progress: HashSet<JsAppendTarget>,
    /// Calls in other files that add elements to an imported collection, keyed by the collection.
    cross_file_additions: HashMap<JsAppendTarget, Vec<JsNodeId>>,
    call_index: Option<Rc<call_sites::JsCallIndex>>,
    files_by_path: HashMap<&'a str, super::syntax::JsFileId>,
}

impl<'a> JsEvaluator<'a> {
    pub fn new(syntax: &'a JsSyntax, named: &'a PackageJsonPaths) -> Self {
        let mut evaluator = Self {
            syntax,
            package_paths: named,
            steps: 0,
            step_limit: MAX_STEPS_PER_QUERY,
            has_omissions: false,
            is_truncated: false,
            depth: 0,
            known_values: HashMap::new(),
            is_strict: false,
            filtered_tools: HashSet::new(),
            disabled_functions: HashMap::new(),
            unused_names: HashSet::new(),
            dead_functions: HashMap::new(),
            collections_in_progress: HashSet::new(),
            cross_file_additions: HashMap::new(),
            call_index: None,
            files_by_path: module_resolution::files_by_path(syntax),
        };
        evaluator.cross_file_additions = evaluator.collect_cross_file_additions();
        evaluator
    }

    /// Starts a query with its own step limit, so that one query cannot use up all steps.
    pub fn begin_query(&mut self) {
        self.step_limit = MAX_STEPS_PER_PACKAGE.min(self.steps + MAX_STEPS_PER_QUERY);
        self.has_omissions = false;
    }

    /// If `more` is true, records that the current query left out elements because of a limit.
    pub fn record_omission(&mut self, more: bool) {
        self.has_omissions |= more;
    }

    /// Records that the current query found tools. If the query left out elements, some of them may be tools as well.
    pub fn record_tools_found(&mut self) {
        self.is_truncated |= self.has_omissions;
    }

    /// Returns whether tools may be missing because a limit was reached.
    pub fn is_truncated(&self) -> bool {
        self.steps > MAX_STEPS_PER_PACKAGE || self.is_truncated
    }

    /// Evaluates an expression.
    pub fn evaluate(&mut self, node: JsNodeId, env: &JsFrameChain) -> JsValueResult {
        if env.is_none()
            && let Some(value) = self.known_values.get(&(node, self.is_strict))
        {
            return Ok(value.clone());
        }
        self.steps += 1;
        if self.steps > self.step_limit {
            return Err(JsEvaluationError::OutOfSteps);
        }
        if self.depth >= MAX_EVALUATION_DEPTH {
            return Ok(JsValue::Opaque(None));
        }
        self.depth += 1;
        let value = self.evaluate_node(node, env);
        self.depth -= 1;
        if env.is_none()
            && self.collections_in_progress.is_empty()
            && self.depth < MAX_EVALUATION_DEPTH / 2
            && self.known_values.len() < MAX_CACHED_VALUES
            && let Ok(value) = &value
        {
            self.known_values.insert((node, self.is_strict), value.clone());
        }
        value
    }

    /// Evaluates a lazy value.
    pub fn force(&mut self, value: &JsValue) -> JsValueResult {
        match value {
            JsValue::Lazy(node, env) => self.evaluate(*node, env),
            _ => Ok(value.clone()),
        }
    }

    fn evaluate_node(&mut self, node: JsNodeId, env: &JsFrameChain) -> JsValueResult {
        let syntax = self.syntax;
        match syntax.node(node) {
            JsNode::Text(text) => Ok(JsValue::Text(text.as_ref().into())),
            JsNode::Number(number) => Ok(JsValue::Number(*number)),
            JsNode::Bool(truth) => Ok(JsValue::Bool(*truth)),
            JsNode::Nullish => Ok(JsValue::Nullish),
            JsNode::Concat(pieces) => self.evaluate_concat(node, pieces, env),
            JsNode::Name(word, scope) => self.resolve_name(*word, *scope, env),
            JsNode::This(scope) => Ok(self.evaluate_this(*scope, env)?),
            JsNode::Member(object, key) => {
                if let Some(value) = self.find_process_member(*object, *key) {
                    return Ok(value);
                }
                let object = self.evaluate(*object, env)?;
                match self.evaluate_member(&object, &syntax.shared_symbol_text(*key))? {
                    // The fields of a schema can still be read from the expression.
                    JsValue::Opaque(None) if syntax.symbol_text(*key) == "shape" => {
                        Ok(JsValue::Opaque(Some((node, env.clone()))))
                    }
                    value => Ok(value),
                }
            }
            JsNode::Index(object, index) => self.evaluate_index(*object, *index, env),
            JsNode::Call(callee, items) => self.evaluate_call(node, *callee, items, env),
            JsNode::New(callee, items) => self.evaluate_new(node, *callee, items, env),
            JsNode::List(items) => self.evaluate_list(items, env),
            JsNode::Object(entries) => self.evaluate_object(entries, env),
            JsNode::Spread(inner) => self.evaluate(*inner, env),
            JsNode::Function(function) => Ok(JsValue::Function(*function, env.clone())),
            JsNode::Class(class) => Ok(JsValue::Class(*class, env.clone())),
            JsNode::Or(left, right) if self.is_strict => self.decide_or(*left, *right, env),
            JsNode::Or(first, second) => self.evaluate_or(*first, *second, env),
            JsNode::Not(inner) => self.decide_not(*inner, env),
            JsNode::And(left, right) if self.is_strict => self.decide_and(*left, *right, env),
            JsNode::Conditional(test, first, second) if self.is_strict => {
                self.decide_conditional(*test, *first, *second, env)
            }
            JsNode::And(left, right) => {
                let left = self.evaluate(*left, env);
                match (left, self.evaluate(*right, env)?) {
                    (Ok(JsValue::Bool(false)), _) => Ok(JsValue::Bool(false)),
                    (Ok(JsValue::Bool(true)), right) => Ok(right),
                    // The value is unknown; guessing a boolean would be a claim.
                    (_, JsValue::Bool(_)) => Ok(JsValue::Opaque(None)),
                    (_, right) => Ok(right),
                }
            }
            JsNode::Conditional(test, first, second) => match self.evaluate(*test, env) {
                Ok(JsValue::Bool(true)) => self.evaluate(*first, env),
                Ok(JsValue::Bool(false)) => self.evaluate(*second, env),
                _ => self.evaluate_uncertain(*first, *second, env),
            },
            JsNode::Equal(left, right, wanted) => self.evaluate_equality(*left, *right, *wanted, env),
            JsNode::Module(from, specifier) => Ok(match self.resolve_import(*from, specifier) {
                Some(file) => JsValue::Module(file),
                None => JsValue::Opaque(None),
            }),
            JsNode::Super | JsNode::Opaque => Ok(JsValue::Opaque(None)),
        }
    }

    fn evaluate_concat(&mut self, node: JsNodeId, pieces: &[JsNodeId], env: &JsFrameChain) -> JsValueResult {
        let mut text = String::new();
        for piece in pieces {
            match self.evaluate(*piece, env)? {
                JsValue::Text(piece) => text.push_str(&piece),
                JsValue::Number(number) => text.push_str(&number.to_string()),
                _ => return Ok(JsValue::Opaque(Some((node, env.clone())))),
            }
        }
        Ok(JsValue::Text(text.into()))
    }

    fn evaluate_equality(
        &mut self,
        left: JsNodeId,
        right: JsNodeId,
        wanted: bool,
        env: &JsFrameChain,
    ) -> JsValueResult {
        let (left, right) = (self.evaluate(left, env)?, self.evaluate(right, env)?);
        Ok(match (&left, &right) {
            (JsValue::Text(left), JsValue::Text(right)) => JsValue::Bool((left == right) == wanted),
            _ if self.is_strict => match (as_primitive(&left), as_primitive(&right)) {
                (Some(left), Some(right)) => JsValue::Bool((left == right) == wanted),
                _ => JsValue::Opaque(None),
            },
            _ => JsValue::Opaque(None),
        })
    }

    fn resolve_name(&mut self, word: JsIdentifierId, scope: JsScopeId, env: &JsFrameChain) -> JsValueResult {
        match self.syntax.find_binding(word, scope) {
            Some(binding) => self.evaluate_binding(binding, env),
            None if self.syntax.symbol_text(word) == "undefined" => Ok(JsValue::Nullish),
            None => Ok(JsValue::Opaque(None)),
        }
    }

    fn evaluate_binding(&mut self, id: JsBindingId, env: &JsFrameChain) -> JsValueResult {
        let syntax = self.syntax;
        let Some(binding) = syntax.binding(id) else { return Ok(JsValue::Opaque(None)) };
        if self.is_strict && binding.is_reassigned {
            return Ok(JsValue::Opaque(None));
        }
        // A value at the top level of a file does not depend on the caller.
        let at_top = syntax.scopes.get(binding.scope.0 as usize).is_some_and(|scope| scope.parent.is_none());
        let env = if at_top { &None } else { env };
        let mut value = match &binding.source {
            JsBindingSource::Unset => JsValue::Opaque(None),
            JsBindingSource::Node(node) => self.evaluate(*node, env)?,
            JsBindingSource::Parameter(function, index) => {
                self.frame_value(JsFrameOwner::Function(*function), *index, env, binding.default)?
            }
            JsBindingSource::Arguments(function) => match find_frame(env, JsFrameOwner::Function(*function)) {
                Some(frame) => JsValue::list(frame.values.clone()),
                None => JsValue::Opaque(None),
            },
            JsBindingSource::Loop(id) => self.frame_value(JsFrameOwner::Loop(*id), 0, env, None)?,
            JsBindingSource::Import(from, specifier, word) => self.evaluate_import(*from, specifier, *word)?,
        };
        for step in &binding.path {
            value = self.apply_step(&value, *step)?;
        }
        if value.is_empty_or_unknown()
            && let Some(default) = binding.default
        {
            value = self.evaluate(default, env)?;
        }
        if !binding.assigned_members.is_empty() {
            value = self.with_assigned_members(value, &binding.assigned_members, env);
        }
        Ok(self.with_all_additions(JsAppendTarget::Binding(id), value))
    }

    fn frame_value(
        &mut self,
        owner: JsFrameOwner,
        index: usize,
        env: &JsFrameChain,
        default: Option<JsNodeId>,
    ) -> JsValueResult {
        let Some(frame) = find_frame(env, owner) else { return Err(JsEvaluationError::Unbound(owner, index)) };
        match (frame.values.get(index), default) {
            (Some(value), _) => self.force(value),
            (None, Some(default)) => self.evaluate(default, env),
            (None, None) => Ok(JsValue::Nullish),
        }
    }

    fn apply_step(&mut self, value: &JsValue, step: JsPatternStep) -> JsValueResult {
        match (step, value) {
            (JsPatternStep::Key(word), _) => self.evaluate_member(value, &self.syntax.shared_symbol_text(word)),
            (JsPatternStep::Index(place), JsValue::List(items)) => match items.get(place) {
                Some(item) => self.force(item),
                None => Ok(JsValue::Nullish),
            },
            (JsPatternStep::RestFrom(place), JsValue::List(items)) => {
                Ok(JsValue::list(items.get(place..).unwrap_or_default().to_vec()))
            }
            _ => Ok(JsValue::Opaque(None)),
        }
    }

    fn evaluate_list(&mut self, items: &[JsNodeId], env: &JsFrameChain) -> JsValueResult {
        let mut values = Vec::with_capacity(items.len());
        for item in items {
            match self.syntax.node(*item) {
                JsNode::Spread(inner) => {
                    let inner = self.evaluate(*inner, env)?;
                    values.extend(self.elements(&inner));
                }
                _ => values.push(JsValue::Lazy(*item, env.clone())),
            }
        }
        Ok(JsValue::list(values))
    }

    fn evaluate_object(&mut self, entries: &[JsObjectEntry], env: &JsFrameChain) -> JsValueResult {
        let mut pairs = Vec::with_capacity(entries.len());
        for entry in entries {
            match entry {
                JsObjectEntry::Pair(key, value) => {
                    pairs.push((self.syntax.shared_symbol_text(*key), JsValue::Lazy(*value, env.clone())));
                }
                JsObjectEntry::Computed(key, value) => {
                    if let JsValue::Text(key) = self.evaluate(*key, env)? {
                        pairs.push((key, JsValue::Lazy(*value, env.clone())));
                    }
                }
                JsObjectEntry::Spread(inner) => {
                    let inner = self.evaluate(*inner, env)?;
                    pairs.extend(self.object_entries(&inner));
                }
            }
        }
        Ok(JsValue::Object(Rc::new(pairs)))
    }

    /// Evaluates a choice between two expressions when it is unknown which of them is used.
    fn evaluate_uncertain(&mut self, first: JsNodeId, second: JsNodeId, env: &JsFrameChain) -> JsValueResult {
        match (self.evaluate(first, env)?, self.evaluate(second, env)?) {
            (JsValue::Bool(left), JsValue::Bool(right)) if left != right => Ok(JsValue::Opaque(None)),
            _ => self.evaluate_or(first, second, env),
        }
    }

    /// Evaluates `first || second`. If both are lists, they are joined, because the server may offer the tools in
    /// either.
    fn evaluate_or(&mut self, first: JsNodeId, second: JsNodeId, env: &JsFrameChain) -> JsValueResult {
        let left = self.evaluate(first, env)?;
        if !left.is_empty_or_unknown() && !matches!(left, JsValue::List(_) | JsValue::Bool(false)) {
            return Ok(left);
        }
        let right = self.evaluate(second, env)?;
        match (&left, &right) {
            (JsValue::List(left), JsValue::List(right)) => {
                Ok(JsValue::list(left.iter().chain(right.iter()).cloned().collect()))
            }
            (JsValue::List(_), _) if right.is_empty_or_unknown() => Ok(left),
            (_, JsValue::Nullish) => Ok(left),
            (JsValue::Opaque(_), JsValue::Bool(_)) => Ok(JsValue::Opaque(None)),
            _ => Ok(right),
        }
    }
}
