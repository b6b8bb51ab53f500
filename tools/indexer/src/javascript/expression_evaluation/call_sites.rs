//! Finds the call sites of functions.

use std::{collections::HashMap, rc::Rc};

use super::JsEvaluator;
use crate::javascript::static_value::{JsEvaluationError, JsValue};
use crate::javascript::syntax::{JsBindingSource, JsClassId, JsFunctionId, JsIdentifierId, JsNode, JsNodeId, JsSyntax};

/// If more classes than this have a method of the same name, a call is not attributed to any of them.
const MAX_SAME_NAME_METHODS: usize = 2;

#[derive(Default)]
pub(super) struct JsCallIndex {
    /// Calls and `new` expressions, keyed by the name of the function, method or class.
    calls_by_name: HashMap<JsIdentifierId, Vec<JsNodeId>>,
    /// The names under which each function is declared.
    function_names: HashMap<JsFunctionId, Vec<JsIdentifierId>>,
    method_counts: HashMap<JsIdentifierId, usize>,
    /// `new` expressions, keyed by class.
    constructor_calls: HashMap<JsClassId, Vec<JsNodeId>>,
    /// Whether the class of some `new` expression cannot be resolved.
    has_dynamic_new: bool,
}

impl JsCallIndex {
    fn new(syntax: &JsSyntax) -> Self {
        let mut sites = Self::default();
        for call in syntax.calls.iter().chain(&syntax.constructor_calls) {
            if let JsNode::Call(callee, _) | JsNode::New(callee, _) = syntax.node(*call)
                && let JsNode::Name(word, _) | JsNode::Member(_, word) = syntax.node(*callee)
            {
                sites.calls_by_name.entry(*word).or_default().push(*call);
            }
        }
        for ((_, word), binding) in &syntax.bindings_by_name {
            if let Some(JsBindingSource::Node(node)) = syntax.binding(*binding).map(|binding| &binding.source)
                && let JsNode::Function(function) = syntax.node(*node)
            {
                sites.function_names.entry(*function).or_default().push(*word);
            }
        }
        for (index, function) in syntax.functions.iter().enumerate() {
            if let Some(word) = function.method_name {
                *sites.method_counts.entry(word).or_default() += 1;
                sites.function_names.entry(JsFunctionId(index as u32)).or_default().push(word);
            }
        }
        sites.add_aliases(syntax);
        sites
    }

    /// Adds the names under which functions are imported: `import { a as b }`, and default imports.
    fn add_aliases(&mut self, syntax: &JsSyntax) {
        let mut aliases: HashMap<JsIdentifierId, Vec<JsIdentifierId>> = HashMap::new();
        for ((_, word), binding) in &syntax.bindings_by_name {
            if let Some(JsBindingSource::Import(_, _, Some(name))) =
                syntax.binding(*binding).map(|binding| &binding.source)
                && name != word
            {
                aliases.entry(*name).or_default().push(*word);
            }
        }
        for words in self.function_names.values_mut() {
            let more: Vec<JsIdentifierId> =
                words.iter().filter_map(|word| aliases.get(word)).flatten().copied().collect();
            words.extend(more);
            words.sort_by_key(|word| word.0);
            words.dedup();
        }
    }
}

impl JsEvaluator<'_> {
    fn call_index(&mut self) -> Rc<JsCallIndex> {
        if let Some(sites) = &self.call_index {
            return Rc::clone(sites);
        }
        let syntax = self.syntax;
        let mut sites = JsCallIndex::new(syntax);
        for new in &syntax.constructor_calls {
            if let JsNode::New(callee, _) = syntax.node(*new)
                && matches!(syntax.node(*callee), JsNode::Name(..) | JsNode::Member(..))
            {
                match self.evaluate(*callee, &None) {
                    Ok(JsValue::Class(class, _)) => sites.constructor_calls.entry(class).or_default().push(*new),
                    Err(JsEvaluationError::Unbound(..)) => sites.has_dynamic_new = true,
                    _ => {}
                }
            }
        }
        let sites = Rc::new(sites);
        self.call_index = Some(Rc::clone(&sites));
        sites
    }

    /// Returns the `new` expressions that create instances of a class.
    pub(super) fn constructor_calls(&mut self, class: JsClassId) -> Vec<JsNodeId> {
        self.call_index().constructor_calls.get(&class).cloned().unwrap_or_default()
    }

    /// Returns whether instances of the class may exist.
    pub fn is_instantiated(&mut self, class: JsClassId) -> bool {
        let sites = self.call_index();
        sites.has_dynamic_new || sites.constructor_calls.contains_key(&class)
    }

    /// Returns the calls to a function, in source order.
    pub(super) fn call_sites(&mut self, function: JsFunctionId) -> Vec<JsNodeId> {
        let syntax = self.syntax;
        if let Some(id) = syntax.function(function).and_then(|known| known.class)
            && syntax.class(id).is_some_and(|class| class.constructor == Some(function))
        {
            return self.constructor_calls(id);
        }
        let sites = self.call_index();
        let mut found = Vec::new();
        for word in sites.function_names.get(&function).map(Vec::as_slice).unwrap_or_default() {
            let same_name_count = sites.method_counts.get(word).copied().unwrap_or_default();
            for call in sites.calls_by_name.get(word).map(Vec::as_slice).unwrap_or_default() {
                if self.is_call_of(*call, function, same_name_count) {
                    found.push(*call);
                }
            }
        }
        found.sort_by_key(|node| node.0);
        found.dedup();
        found
    }

    /// Returns whether a function has a name and all of its names occur only in declarations.
    pub(super) fn is_function_unused(&mut self, function: JsFunctionId) -> bool {
        let sites = self.call_index();
        let words = sites.function_names.get(&function).map(Vec::as_slice).unwrap_or_default();
        !words.is_empty() && words.iter().all(|word| self.unused_names.contains(word))
    }

    fn is_call_of(&mut self, call: JsNodeId, function: JsFunctionId, same_name_count: usize) -> bool {
        let JsNode::Call(callee, _) = self.syntax.node(call) else { return false };
        match (self.syntax.node(*callee), self.evaluate(*callee, &None)) {
            (_, Ok(JsValue::Function(other, _))) => other == function,
            (JsNode::Member(..), _) => {
                let is_method = self.syntax.function(function).is_some_and(|known| known.method_name.is_some());
                is_method && same_name_count <= MAX_SAME_NAME_METHODS
            }
            _ => false,
        }
    }
}
