//! What can only be said when the whole file is read: to which names assignments and additions
//! belong.

use super::Lowering;
use crate::javascript::syntax::{BindingId, Collection, Entry, Node, NodeId, ScopeId, Source, Use, Word};

#[derive(Default)]
pub(super) struct Late {
    /// `name = value`.
    values: Vec<(Word, ScopeId, NodeId)>,
    /// `name.key = value`, the key as a node.
    members: Vec<(Word, ScopeId, NodeId, NodeId)>,
    /// `name.push(…)`.
    additions: Vec<(Word, ScopeId, NodeId)>,
}

/// Calls that add to a list or a map.
const ADDING: [&str; 4] = ["push", "unshift", "set", "add"];

impl Lowering<'_> {
    pub(super) fn note_assignment(&mut self, left: NodeId, right: NodeId) {
        match *self.syntax.node(left) {
            Node::Name(word, scope) => self.late.values.push((word, scope, right)),
            Node::Member(object, key) => self.note_member(object, key, right),
            Node::Index(object, index) => {
                if let Node::Name(word, scope) = *self.syntax.node(object) {
                    self.late.members.push((word, scope, index, right));
                }
            }
            _ => {}
        }
    }

    fn note_member(&mut self, object: NodeId, key: Word, value: NodeId) {
        match *self.syntax.node(object) {
            Node::This(_) => {
                if let Some(class) = self.class.and_then(|class| self.syntax.classes.get_mut(class.0 as usize)) {
                    class.assigned.push((key, value));
                }
            }
            Node::Name(word, scope) => match (self.syntax.text(word), self.syntax.text(key)) {
                ("module", "exports") => {
                    if let Some(file) = self.syntax.files.get_mut(self.file.0 as usize) {
                        file.whole = Some(value);
                    }
                }
                // `exports.a = exports.b = void 0` announces names.
                ("exports", _) if matches!(self.syntax.node(value), Node::Nothing) => {}
                ("exports", _) => self.export_node(key, value),
                _ => {
                    let text = self.syntax.text(key).into();
                    let key = self.add(Node::Text(text));
                    self.late.members.push((word, scope, key, value));
                }
            },
            Node::Member(inner, exports) if self.syntax.text(exports) == "exports" => {
                if let Node::Name(module, _) = self.syntax.node(inner)
                    && self.syntax.text(*module) == "module"
                {
                    self.export_node(key, value);
                }
            }
            _ => {}
        }
    }

    /// Keeps what a call says beyond its value.
    pub(super) fn note_call(&mut self, callee: NodeId, call: NodeId, items: Box<[NodeId]>) {
        match *self.syntax.node(callee) {
            Node::Member(object, method) if ADDING.contains(&self.syntax.text(method)) => {
                match *self.syntax.node(object) {
                    Node::Name(word, scope) => self.late.additions.push((word, scope, call)),
                    Node::Member(_, key) => {
                        self.syntax.additions.entry(Collection::Member(key)).or_default().push(call);
                    }
                    _ => {}
                }
            }
            Node::Name(..) => self.note_getters(&items),
            Node::Super => self.note_super(items),
            _ => {}
        }
    }

    /// `export_all(names, { a: () => a })`, as bundlers write it.
    fn note_getters(&mut self, items: &[NodeId]) {
        let [target, object] = items else { return };
        let (Node::Name(word, scope), Node::Object(entries)) = (self.syntax.node(*target), self.syntax.node(*object))
        else {
            return;
        };
        let getters: Vec<_> = entries.iter().filter_map(|entry| self.getter(entry)).collect();
        if getters.len() != entries.len() {
            return;
        }
        let (word, scope) = (*word, *scope);
        for (key, value) in getters {
            let text = self.syntax.text(key).into();
            let key = self.add(Node::Text(text));
            self.late.members.push((word, scope, key, value));
        }
    }

    fn getter(&self, entry: &Entry) -> Option<(Word, NodeId)> {
        let Entry::Pair(key, value) = entry else { return None };
        let Node::Function(function) = self.syntax.node(*value) else { return None };
        let result = self.syntax.function(*function)?.result?;
        matches!(self.syntax.node(result), Node::Name(..)).then_some((*key, result))
    }

    fn note_super(&mut self, items: Box<[NodeId]>) {
        if let Some(class) = self.class.and_then(|class| self.syntax.classes.get_mut(class.0 as usize)) {
            class.super_arguments = Some(items);
        }
    }

    /// Gives assignments and additions to their names.
    pub(super) fn settle(&mut self) {
        let late = std::mem::take(&mut self.late);
        for (word, scope, value) in late.values {
            if let Some(id) = self.syntax.find_binding(word, scope)
                && let Some(binding) = self.syntax.bindings.get_mut(id.0 as usize)
            {
                if matches!(binding.source, Source::Unset) {
                    binding.source = Source::Node(value);
                } else {
                    binding.changes = true;
                }
            }
        }
        for (word, scope, key, value) in late.members {
            if let Some(id) = self.target(word, scope)
                && let Some(binding) = self.syntax.bindings.get_mut(id.0 as usize)
            {
                binding.members.push((key, value));
            }
        }
        for (word, scope, call) in late.additions {
            if let Some(id) = self.syntax.find_binding(word, scope) {
                self.syntax.additions.entry(Collection::Binding(id)).or_default().push(call);
            }
        }
    }

    /// The name that is meant. In `(function (E) { E.a = 1 })(E || (E = {}))`, which is how
    /// enumerations are compiled, it is the outer one.
    fn target(&self, word: Word, scope: ScopeId) -> Option<BindingId> {
        let id = self.syntax.find_binding(word, scope)?;
        let Source::Parameter(function, index) = self.syntax.binding(id)?.source else { return Some(id) };
        let Use::Called(call) = self.syntax.function(function)?.usage else { return Some(id) };
        let Node::Call(_, items) = self.syntax.node(call) else { return Some(id) };
        let argument = match self.syntax.node(*items.get(index)?) {
            Node::Either(first, _) => *first,
            _ => *items.get(index)?,
        };
        match self.syntax.node(argument) {
            Node::Name(word, scope) => self.syntax.find_binding(*word, *scope),
            _ => Some(id),
        }
    }
}
