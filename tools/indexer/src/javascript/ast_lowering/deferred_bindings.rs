//! Collects assignments to names and additions to collections, and attributes them to bindings once the whole file has
//! been read.

use super::JsLowering;
use crate::javascript::syntax::{
    JsAppendTarget, JsBindingId, JsBindingSource, JsFunctionUse, JsIdentifierId, JsNode, JsNodeId, JsObjectEntry,
    JsScopeId,
};

#[derive(Default)]
pub(super) struct DeferredBindings {
    /// Assignments of the form `name = value`.
    assignments: Vec<(JsIdentifierId, JsScopeId, JsNodeId)>,
    /// Assignments of the form `name.key = value` or `name[key] = value`. The key is stored as a node, because it may
    /// be an expression.
    member_assignments: Vec<(JsIdentifierId, JsScopeId, JsNodeId, JsNodeId)>,
    /// Calls that add elements to a collection, such as `name.push(…)`.
    additions: Vec<(JsIdentifierId, JsScopeId, JsNodeId)>,
}

/// Methods that add elements to a list or a map.
const ADDING_METHODS: [&str; 4] = ["push", "unshift", "set", "add"];

impl JsLowering<'_> {
    pub(super) fn record_assignment(&mut self, left: JsNodeId, right: JsNodeId) {
        match *self.syntax.node(left) {
            JsNode::Name(word, scope) => self.deferred.assignments.push((word, scope, right)),
            JsNode::Member(object, key) => self.record_member_assignment(object, key, right),
            JsNode::Index(object, index) => {
                if let JsNode::Name(word, scope) = *self.syntax.node(object) {
                    self.deferred.member_assignments.push((word, scope, index, right));
                }
            }
            _ => {}
        }
    }

    fn record_member_assignment(&mut self, object: JsNodeId, key: JsIdentifierId, value: JsNodeId) {
        match *self.syntax.node(object) {
            JsNode::This(_) => {
                if let Some(class) = self.class.and_then(|class| self.syntax.classes.get_mut(class.0 as usize)) {
                    class.this_assignments.push((key, value));
                }
            }
            JsNode::Name(word, scope) => match (self.syntax.symbol_text(word), self.syntax.symbol_text(key)) {
                ("module", "exports") => {
                    if let Some(file) = self.syntax.files.get_mut(self.file.0 as usize) {
                        file.module_exports = Some(value);
                    }
                }
                // `exports.a = exports.b = void 0` only announces names.
                ("exports", _) if matches!(self.syntax.node(value), JsNode::Nullish) => {}
                ("exports", _) => self.export_node(key, value),
                _ => {
                    let text = self.syntax.symbol_text(key).into();
                    let key = self.add_node(JsNode::Text(text));
                    self.deferred.member_assignments.push((word, scope, key, value));
                }
            },
            JsNode::Member(inner, exports) if self.syntax.symbol_text(exports) == "exports" => {
                if let JsNode::Name(module, _) = self.syntax.node(inner)
                    && self.syntax.symbol_text(*module) == "module"
                {
                    self.export_node(key, value);
                }
            }
            _ => {}
        }
    }

    /// Records a call that the evaluation needs to know about: one that adds elements to a collection, one that defines
    /// getters, or a call to `super`.
    pub(super) fn record_call(&mut self, callee: JsNodeId, call: JsNodeId, items: Box<[JsNodeId]>) {
        match *self.syntax.node(callee) {
            JsNode::Member(object, method) if ADDING_METHODS.contains(&self.syntax.symbol_text(method)) => {
                match *self.syntax.node(object) {
                    JsNode::Name(word, scope) => self.deferred.additions.push((word, scope, call)),
                    JsNode::Member(_, key) => {
                        self.syntax.additions.entry(JsAppendTarget::Member(key)).or_default().push(call);
                    }
                    _ => {}
                }
            }
            JsNode::Name(..) => self.record_getters(&items),
            JsNode::Super => self.record_super_call(items),
            _ => {}
        }
    }

    /// Records the getters in a call such as `export_all(names, { a: () => a })`, which bundlers emit, as if they were
    /// assignments `names.a = a`.
    fn record_getters(&mut self, items: &[JsNodeId]) {
        let [target, object] = items else { return };
        let (JsNode::Name(word, scope), JsNode::Object(entries)) =
            (self.syntax.node(*target), self.syntax.node(*object))
        else {
            return;
        };
        let getters: Vec<_> = entries.iter().filter_map(|entry| self.find_getter(entry)).collect();
        if getters.len() != entries.len() {
            return;
        }
        let (word, scope) = (*word, *scope);
        for (key, value) in getters {
            let text = self.syntax.symbol_text(key).into();
            let key = self.add_node(JsNode::Text(text));
            self.deferred.member_assignments.push((word, scope, key, value));
        }
    }

    fn find_getter(&self, entry: &JsObjectEntry) -> Option<(JsIdentifierId, JsNodeId)> {
        let JsObjectEntry::Pair(key, value) = entry else { return None };
        let JsNode::Function(function) = self.syntax.node(*value) else { return None };
        let result = self.syntax.function(*function)?.result?;
        matches!(self.syntax.node(result), JsNode::Name(..)).then_some((*key, result))
    }

    fn record_super_call(&mut self, items: Box<[JsNodeId]>) {
        if let Some(class) = self.class.and_then(|class| self.syntax.classes.get_mut(class.0 as usize)) {
            class.super_arguments = Some(items);
        }
    }

    /// Resolves the names in the collected assignments and additions, and stores each of them with its binding.
    pub(super) fn resolve_deferred(&mut self) {
        let late = std::mem::take(&mut self.deferred);
        for (word, scope, value) in late.assignments {
            if let Some(id) = self.syntax.find_binding(word, scope)
                && let Some(binding) = self.syntax.bindings.get_mut(id.0 as usize)
            {
                if matches!(binding.source, JsBindingSource::Unset) {
                    binding.source = JsBindingSource::Node(value);
                } else {
                    binding.is_reassigned = true;
                }
            }
        }
        for (word, scope, key, value) in late.member_assignments {
            if let Some(id) = self.find_target_binding(word, scope)
                && let Some(binding) = self.syntax.bindings.get_mut(id.0 as usize)
            {
                binding.assigned_members.push((key, value));
            }
        }
        for (word, scope, call) in late.additions {
            if let Some(id) = self.syntax.find_binding(word, scope) {
                self.syntax.additions.entry(JsAppendTarget::Binding(id)).or_default().push(call);
            }
        }
    }

    /// Returns the binding that an assignment changes. In a compiled enumeration such as `(function (E) { E.a = 1 })(E
    /// || (E = {}))`, this is the outer `E`.
    fn find_target_binding(&self, word: JsIdentifierId, scope: JsScopeId) -> Option<JsBindingId> {
        let id = self.syntax.find_binding(word, scope)?;
        let JsBindingSource::Parameter(function, index) = self.syntax.binding(id)?.source else { return Some(id) };
        let JsFunctionUse::Called(call) = self.syntax.function(function)?.usage else { return Some(id) };
        let JsNode::Call(_, items) = self.syntax.node(call) else { return Some(id) };
        let argument = match self.syntax.node(*items.get(index)?) {
            JsNode::Or(first, _) => *first,
            _ => *items.get(index)?,
        };
        match self.syntax.node(argument) {
            JsNode::Name(word, scope) => self.syntax.find_binding(*word, *scope),
            _ => Some(id),
        }
    }
}
