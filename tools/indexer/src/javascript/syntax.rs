//! The syntax of a package's sources, reduced to what the evaluation needs.
//!
//! All files of a package share one [`JsSyntax`], so that a node's id identifies it regardless of its file.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Id of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct JsNodeId(pub u32);
/// Id of an interned identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct JsIdentifierId(pub u32);
/// Id of a scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct JsScopeId(pub u32);
/// Id of a declared name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct JsBindingId(pub u32);
/// Id of a function, method or arrow function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct JsFunctionId(pub u32);
/// Id of a class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct JsClassId(pub u32);
/// Id of a `for (… of …)` loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct JsLoopId(pub u32);
/// Id of a file in the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct JsFileId(pub u32);

/// An expression.
#[derive(Debug)]
pub(super) enum JsNode {
    Text(Box<str>),
    Number(f64),
    Bool(bool),
    Nullish,
    /// Concatenated parts: a template string, or operands of `+`.
    Concat(Box<[JsNodeId]>),
    Name(JsIdentifierId, JsScopeId),
    This(JsScopeId),
    Super,
    Member(JsNodeId, JsIdentifierId),
    Index(JsNodeId, JsNodeId),
    Call(JsNodeId, Box<[JsNodeId]>),
    New(JsNodeId, Box<[JsNodeId]>),
    List(Box<[JsNodeId]>),
    Object(Box<[JsObjectEntry]>),
    Spread(JsNodeId),
    Function(JsFunctionId),
    Class(JsClassId),
    /// Logical or: `a || b`.
    Or(JsNodeId, JsNodeId),
    /// Logical and: `a && b`.
    And(JsNodeId, JsNodeId),
    /// A conditional expression `test ? a : b`, or the alternative return values of a function.
    Conditional(JsNodeId, JsNodeId, JsNodeId),
    /// A comparison: `a === b`, or `a !== b` if the third field is `false`.
    Equal(JsNodeId, JsNodeId, bool),
    /// A module loaded with `require("…")` or `import("…")`.
    Module(JsFileId, Box<str>),
    /// Logical negation: `!a`.
    Not(JsNodeId),
    Opaque,
}

/// A condition, and the result that it must have for the code to run.
pub(super) type JsBranchCondition = (JsNodeId, bool);

/// An entry in an object literal.
#[derive(Debug)]
pub(super) enum JsObjectEntry {
    Pair(JsIdentifierId, JsNodeId),
    Computed(JsNodeId, JsNodeId),
    Spread(JsNodeId),
}

/// The origin of a name's value.
#[derive(Debug, Clone)]
pub(super) enum JsBindingSource {
    /// The name is declared without a value.
    Unset,
    Node(JsNodeId),
    Parameter(JsFunctionId, usize),
    /// All arguments of a function, as a list.
    Arguments(JsFunctionId),
    Loop(JsLoopId),
    /// An export of another module, or the whole module if the last field is `None`.
    Import(JsFileId, Box<str>, Option<JsIdentifierId>),
}

/// A destructuring step, as in `const { a: [b] } = …`.
#[derive(Debug, Clone, Copy)]
pub(super) enum JsPatternStep {
    Key(JsIdentifierId),
    Index(usize),
    RestFrom(usize),
}

/// A declared name.
#[derive(Debug)]
pub(super) struct JsBinding {
    pub scope: JsScopeId,
    pub source: JsBindingSource,
    pub path: Vec<JsPatternStep>,
    pub default: Option<JsNodeId>,
    /// Assignments of the form `name.key = value`, anywhere in the file.
    pub assigned_members: Vec<(JsNodeId, JsNodeId)>,
    /// Whether the name is assigned again later.
    pub is_reassigned: bool,
}

#[derive(Debug)]
pub(super) struct JsScope {
    pub parent: Option<JsScopeId>,
    pub class: Option<JsClassId>,
    /// Whether `var` declarations inside this scope belong to it.
    pub holds_vars: bool,
}

/// How a function is used at the place where it is defined.
#[derive(Debug, Clone, Copy)]
pub(super) enum JsFunctionUse {
    /// The function is used by its name, or not at all.
    Named,
    /// The function is an argument of this call.
    Argument(JsNodeId),
    /// The function is called immediately.
    Called(JsNodeId),
}

#[derive(Debug)]
pub(super) struct JsFunction {
    /// The expression that is returned. If there are several `return` statements, it combines them as alternatives.
    pub result: Option<JsNodeId>,
    /// The enclosing function.
    pub enclosing: Option<JsFunctionId>,
    pub usage: JsFunctionUse,
    /// The function's key, if it is a method.
    pub method_name: Option<JsIdentifierId>,
    pub class: Option<JsClassId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum JsMemberKind {
    Field,
    Getter,
    Method,
}

#[derive(Debug)]
pub(super) struct JsClassMember {
    pub key: JsIdentifierId,
    pub kind: JsMemberKind,
    pub is_static: bool,
    pub value: JsNodeId,
}

#[derive(Debug, Default)]
pub(super) struct JsClass {
    pub parent: Option<JsNodeId>,
    pub members: Vec<JsClassMember>,
    pub constructor: Option<JsFunctionId>,
    /// Assignments of the form `this.key = value`, anywhere in the class.
    pub this_assignments: Vec<(JsIdentifierId, JsNodeId)>,
    /// Arguments of `super(…)`.
    pub super_arguments: Option<Box<[JsNodeId]>>,
}

/// A file and its exports.
#[derive(Debug, Default)]
pub(super) struct JsFile {
    pub path: String,
    /// The first node of the file. The nodes of a file are contiguous.
    pub first_node: u32,
    pub exports: HashMap<JsIdentifierId, JsNodeId>,
    /// Modules that are re-exported with `export * from "…"`.
    pub star_exports: Vec<Box<str>>,
    /// The value assigned in `module.exports = …`.
    pub module_exports: Option<JsNodeId>,
}

/// A collection to which elements are added with a method such as `push`, `set` or `add`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum JsAppendTarget {
    Binding(JsBindingId),
    Member(JsIdentifierId),
}

/// The syntax of all files in a package.
#[derive(Debug, Default)]
pub(super) struct JsSyntax {
    nodes: Vec<JsNode>,
    symbols: Vec<Rc<str>>,
    symbol_ids: HashMap<Rc<str>, JsIdentifierId>,
    pub scopes: Vec<JsScope>,
    pub bindings: Vec<JsBinding>,
    pub bindings_by_name: HashMap<(JsScopeId, JsIdentifierId), JsBindingId>,
    pub functions: Vec<JsFunction>,
    pub classes: Vec<JsClass>,
    /// For each loop, the expression that it iterates over.
    pub loops: Vec<JsNodeId>,
    pub files: Vec<JsFile>,
    /// Calls in source order.
    pub calls: Vec<JsNodeId>,
    /// `new` expressions in source order.
    pub constructor_calls: Vec<JsNodeId>,
    /// Object literals that have a `name`.
    pub named_objects: Vec<JsNodeId>,
    pub additions: HashMap<JsAppendTarget, Vec<JsNodeId>>,
    /// The conditions under which each call or object is evaluated. Unconditional ones have no entry.
    pub guards: HashMap<JsNodeId, Rc<[JsBranchCondition]>>,
    /// The function that encloses each call or object, if there is one.
    pub enclosing_functions: HashMap<JsNodeId, JsFunctionId>,
    /// Imports, each with the importing file and the module specifier.
    pub imports: Vec<(JsFileId, Box<str>)>,
}

impl JsSyntax {
    pub fn node(&self, id: JsNodeId) -> &JsNode {
        self.nodes.get(id.0 as usize).unwrap_or(&JsNode::Opaque)
    }

    pub fn add_node(&mut self, node: JsNode) -> JsNodeId {
        let id = JsNodeId(self.nodes.len() as u32);
        self.nodes.push(node);
        id
    }

    pub fn node_count(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// Returns the modules that are required as a whole. This excludes modules of which only members are used, as in
    /// `const { a } = …`, `require("…").a`, or `b.a` after `const b = require("…")`.
    pub fn whole_module_requires(&self) -> Vec<(JsFileId, &str)> {
        let parts =
            self.nodes.iter().filter_map(|node| if let JsNode::Member(whole, _) = node { Some(*whole) } else { None });
        let mut parts: HashSet<JsNodeId> = parts.collect();
        let mut bound: HashMap<JsBindingId, JsNodeId> = HashMap::new();
        for (at, binding) in self.bindings.iter().enumerate() {
            if let JsBindingSource::Node(node) = binding.source
                && matches!(self.node(node), JsNode::Module(..))
            {
                parts.insert(node);
                if binding.path.is_empty() {
                    bound.insert(JsBindingId(at as u32), node);
                }
            }
        }
        let words = self.bindings_by_name.iter().filter(|(_, binding)| bound.contains_key(binding));
        let words: HashSet<JsIdentifierId> = words.map(|((_, word), _)| *word).collect();
        let whole = self.nodes.iter().enumerate().filter(|(at, _)| !parts.contains(&JsNodeId(*at as u32)));
        let module = |(at, node): (usize, &JsNode)| match node {
            JsNode::Module(..) => Some(JsNodeId(at as u32)),
            JsNode::Name(word, scope) if words.contains(word) => bound.get(&self.find_binding(*word, *scope)?).copied(),
            _ => None,
        };
        let modules = whole.filter_map(module).filter_map(|module| match self.node(module) {
            JsNode::Module(from, specifier) => Some((*from, specifier.as_ref())),
            _ => None,
        });
        modules.collect()
    }

    /// Returns the file that contains a node.
    pub fn file_of(&self, node: JsNodeId) -> JsFileId {
        let after = self.files.partition_point(|file| file.first_node <= node.0);
        JsFileId(after.saturating_sub(1) as u32)
    }

    pub fn has_import_of(&self, package: &str) -> bool {
        self.imports.iter().any(|(_, specifier)| specifier.as_ref() == package)
    }

    pub fn intern(&mut self, text: &str) -> JsIdentifierId {
        if let Some(known) = self.symbol_ids.get(text) {
            return *known;
        }
        let word = JsIdentifierId(self.symbols.len() as u32);
        let text: Rc<str> = text.into();
        self.symbols.push(Rc::clone(&text));
        self.symbol_ids.insert(text, word);
        word
    }

    /// Returns the id of a name, or `None` if the name does not occur in the package.
    pub fn find_symbol(&self, text: &str) -> Option<JsIdentifierId> {
        self.symbol_ids.get(text).copied()
    }

    pub fn symbol_text(&self, word: JsIdentifierId) -> &str {
        self.symbols.get(word.0 as usize).map_or("", |text| text)
    }

    pub fn shared_symbol_text(&self, word: JsIdentifierId) -> Rc<str> {
        self.symbols.get(word.0 as usize).cloned().unwrap_or_default()
    }

    pub fn add_scope(&mut self, parent: Option<JsScopeId>, class: Option<JsClassId>, holds_vars: bool) -> JsScopeId {
        let id = JsScopeId(self.scopes.len() as u32);
        self.scopes.push(JsScope { parent, class, holds_vars });
        id
    }

    pub fn add_function(
        &mut self,
        method: Option<JsIdentifierId>,
        class: Option<JsClassId>,
        within: Option<JsFunctionId>,
    ) -> JsFunctionId {
        let id = JsFunctionId(self.functions.len() as u32);
        self.functions.push(JsFunction {
            result: None,
            enclosing: within,
            usage: JsFunctionUse::Named,
            method_name: method,
            class,
        });
        id
    }

    pub fn function(&self, id: JsFunctionId) -> Option<&JsFunction> {
        self.functions.get(id.0 as usize)
    }

    pub fn class(&self, id: JsClassId) -> Option<&JsClass> {
        self.classes.get(id.0 as usize)
    }

    pub fn binding(&self, id: JsBindingId) -> Option<&JsBinding> {
        self.bindings.get(id.0 as usize)
    }

    pub fn file(&self, id: JsFileId) -> Option<&JsFile> {
        self.files.get(id.0 as usize)
    }

    /// Resolves a name in a scope.
    pub fn find_binding(&self, word: JsIdentifierId, scope: JsScopeId) -> Option<JsBindingId> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let Some(found) = self.bindings_by_name.get(&(scope, word)) {
                return Some(*found);
            }
            at = self.scopes.get(scope.0 as usize)?.parent;
        }
        None
    }

    /// Declares a name. If it is declared more than once, its first value applies.
    pub fn declare(&mut self, word: JsIdentifierId, binding: JsBinding) -> JsBindingId {
        let id = JsBindingId(self.bindings.len() as u32);
        if let Some(known) = self.bindings_by_name.get(&(binding.scope, word)).copied()
            && let Some(old) = self.bindings.get_mut(known.0 as usize)
        {
            old.is_reassigned = true;
            if matches!(old.source, JsBindingSource::Unset) {
                *old = JsBinding {
                    assigned_members: std::mem::take(&mut old.assigned_members),
                    is_reassigned: true,
                    ..binding
                };
            }
            return known;
        }
        self.bindings_by_name.insert((binding.scope, word), id);
        self.bindings.push(binding);
        id
    }
}
