//! What is kept of a package's sources: small trees without the grammar's detail.
//!
//! All files of a package share one [`Syntax`], so that a place in any of them is one number.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A place in the trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct NodeId(pub u32);
/// A word that occurs in the sources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Word(pub u32);
/// A region in which names mean the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ScopeId(pub u32);
/// A name that is declared somewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct BindingId(pub u32);
/// A function, method or arrow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FunctionId(pub u32);
/// A class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ClassId(pub u32);
/// A `for (… of …)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct LoopId(pub u32);
/// A file of the package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct FileId(pub u32);

/// An expression.
#[derive(Debug)]
pub(super) enum Node {
    Text(Box<str>),
    Number(f64),
    Truth(bool),
    Nothing,
    /// Pieces that are joined: a template string, or texts with `+` between them.
    Joined(Box<[NodeId]>),
    Name(Word, ScopeId),
    This(ScopeId),
    Super,
    Member(NodeId, Word),
    Index(NodeId, NodeId),
    Call(NodeId, Box<[NodeId]>),
    New(NodeId, Box<[NodeId]>),
    List(Box<[NodeId]>),
    Object(Box<[Entry]>),
    Spread(NodeId),
    Function(FunctionId),
    Class(ClassId),
    /// `a || b`.
    Either(NodeId, NodeId),
    /// `a && b`.
    Both(NodeId, NodeId),
    /// `test ? a : b`, or the several returns of a function.
    Choice(NodeId, NodeId, NodeId),
    /// `a === b`, or with `false`, `a !== b`.
    Same(NodeId, NodeId, bool),
    /// `require("…")` and `import("…")`.
    Module(FileId, Box<str>),
    /// `!a`.
    Not(NodeId),
    Opaque,
}

/// A condition, and whether it must hold.
pub(super) type Guard = (NodeId, bool);

/// A part of an object literal.
#[derive(Debug)]
pub(super) enum Entry {
    Pair(Word, NodeId),
    Computed(NodeId, NodeId),
    Spread(NodeId),
}

/// Where the value of a name comes from.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// Declared without a value.
    Unset,
    Node(NodeId),
    Parameter(FunctionId, usize),
    /// All arguments of a function, as a list.
    Arguments(FunctionId),
    Loop(LoopId),
    /// An export of another module; `None` is the module itself.
    Import(FileId, Box<str>, Option<Word>),
}

/// A step from a value into its parts, as in `const { a: [b] } = …`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Key(Word),
    At(usize),
    From(usize),
}

/// What a name stands for.
#[derive(Debug)]
pub(super) struct Binding {
    pub scope: ScopeId,
    pub source: Source,
    pub path: Vec<Step>,
    pub default: Option<NodeId>,
    /// `name.key = value`, wherever it is written.
    pub members: Vec<(NodeId, NodeId)>,
    /// Whether it gets another value later.
    pub changes: bool,
}

#[derive(Debug)]
pub(super) struct Scope {
    pub parent: Option<ScopeId>,
    pub class: Option<ClassId>,
    /// Whether a `var` stops here.
    pub holds_vars: bool,
}

/// How a function is given to others.
#[derive(Debug, Clone, Copy)]
pub(super) enum Use {
    /// By its name, or not at all.
    Named,
    /// An argument of this call.
    Argument(NodeId),
    /// Called where it is written.
    Called(NodeId),
}

#[derive(Debug)]
pub(super) struct Function {
    /// What it gives back; several returns are alternatives.
    pub result: Option<NodeId>,
    /// The function it stands in.
    pub within: Option<FunctionId>,
    pub usage: Use,
    /// The key under which it is a method.
    pub method: Option<Word>,
    pub class: Option<ClassId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MemberKind {
    Field,
    Getter,
    Method,
}

#[derive(Debug)]
pub(super) struct ClassMember {
    pub key: Word,
    pub kind: MemberKind,
    pub is_static: bool,
    pub value: NodeId,
}

#[derive(Debug, Default)]
pub(super) struct Class {
    pub parent: Option<NodeId>,
    pub members: Vec<ClassMember>,
    pub constructor: Option<FunctionId>,
    /// `this.key = value` anywhere in the class.
    pub assigned: Vec<(Word, NodeId)>,
    /// The arguments of `super(…)`.
    pub super_arguments: Option<Box<[NodeId]>>,
}

/// What a file gives to others.
#[derive(Debug, Default)]
pub(super) struct File {
    pub path: String,
    /// The first node of the file; all others up to the next file's follow it.
    pub start: u32,
    pub exports: HashMap<Word, NodeId>,
    /// `export * from "…"`.
    pub stars: Vec<Box<str>>,
    /// `module.exports = …`.
    pub whole: Option<NodeId>,
}

/// To what something is added with `push`, `set` or `add`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Collection {
    Binding(BindingId),
    Member(Word),
}

/// The trees of all files of a package.
#[derive(Debug, Default)]
pub(super) struct Syntax {
    nodes: Vec<Node>,
    words: Vec<Rc<str>>,
    word_ids: HashMap<Rc<str>, Word>,
    pub scopes: Vec<Scope>,
    pub bindings: Vec<Binding>,
    pub names: HashMap<(ScopeId, Word), BindingId>,
    pub functions: Vec<Function>,
    pub classes: Vec<Class>,
    /// What each loop runs over.
    pub loops: Vec<NodeId>,
    pub files: Vec<File>,
    /// Calls, in the order of the sources.
    pub calls: Vec<NodeId>,
    /// `new` expressions, likewise.
    pub news: Vec<NodeId>,
    /// Object literals with a `name`.
    pub named_objects: Vec<NodeId>,
    pub additions: HashMap<Collection, Vec<NodeId>>,
    /// The conditions around calls and objects, where there are any.
    pub guards: HashMap<NodeId, Rc<[Guard]>>,
    /// The functions in which calls and objects stand.
    pub within: HashMap<NodeId, FunctionId>,
    /// What each import asks for: from which file, and what.
    pub imports: Vec<(FileId, Box<str>)>,
}

impl Syntax {
    pub fn node(&self, id: NodeId) -> &Node {
        self.nodes.get(id.0 as usize).unwrap_or(&Node::Opaque)
    }

    pub fn add(&mut self, node: Node) -> NodeId {
        let id = NodeId(self.nodes.len() as u32);
        self.nodes.push(node);
        id
    }

    pub fn len(&self) -> u32 {
        self.nodes.len() as u32
    }

    /// What is required as a whole, from where: not by one of its parts, as `require("…").a` and `const { a } = …` do, nor
    /// under a name of which only parts are used.
    pub fn required_whole(&self) -> Vec<(FileId, &str)> {
        let parts =
            self.nodes.iter().filter_map(|node| if let Node::Member(whole, _) = node { Some(*whole) } else { None });
        let mut parts: HashSet<NodeId> = parts.collect();
        let mut bound: HashMap<BindingId, NodeId> = HashMap::new();
        for (at, binding) in self.bindings.iter().enumerate() {
            if let Source::Node(node) = binding.source
                && matches!(self.node(node), Node::Module(..))
            {
                parts.insert(node);
                if binding.path.is_empty() {
                    bound.insert(BindingId(at as u32), node);
                }
            }
        }
        let words = self.names.iter().filter(|(_, binding)| bound.contains_key(binding));
        let words: HashSet<Word> = words.map(|((_, word), _)| *word).collect();
        let whole = self.nodes.iter().enumerate().filter(|(at, _)| !parts.contains(&NodeId(*at as u32)));
        let module = |(at, node): (usize, &Node)| match node {
            Node::Module(..) => Some(NodeId(at as u32)),
            Node::Name(word, scope) if words.contains(word) => bound.get(&self.find_binding(*word, *scope)?).copied(),
            _ => None,
        };
        let modules = whole.filter_map(module).filter_map(|module| match self.node(module) {
            Node::Module(from, specifier) => Some((*from, specifier.as_ref())),
            _ => None,
        });
        modules.collect()
    }

    /// The file in which a node stands.
    pub fn file_of(&self, node: NodeId) -> FileId {
        let after = self.files.partition_point(|file| file.start <= node.0);
        FileId(after.saturating_sub(1) as u32)
    }

    pub fn imports_from(&self, package: &str) -> bool {
        self.imports.iter().any(|(_, specifier)| specifier.as_ref() == package)
    }

    pub fn word(&mut self, text: &str) -> Word {
        if let Some(known) = self.word_ids.get(text) {
            return *known;
        }
        let word = Word(self.words.len() as u32);
        let text: Rc<str> = text.into();
        self.words.push(Rc::clone(&text));
        self.word_ids.insert(text, word);
        word
    }

    /// The word, if it occurs anywhere.
    pub fn find_word(&self, text: &str) -> Option<Word> {
        self.word_ids.get(text).copied()
    }

    pub fn text(&self, word: Word) -> &str {
        self.words.get(word.0 as usize).map_or("", |text| text)
    }

    pub fn shared_text(&self, word: Word) -> Rc<str> {
        self.words.get(word.0 as usize).cloned().unwrap_or_default()
    }

    pub fn add_scope(&mut self, parent: Option<ScopeId>, class: Option<ClassId>, holds_vars: bool) -> ScopeId {
        let id = ScopeId(self.scopes.len() as u32);
        self.scopes.push(Scope { parent, class, holds_vars });
        id
    }

    pub fn add_function(
        &mut self,
        method: Option<Word>,
        class: Option<ClassId>,
        within: Option<FunctionId>,
    ) -> FunctionId {
        let id = FunctionId(self.functions.len() as u32);
        self.functions.push(Function { result: None, within, usage: Use::Named, method, class });
        id
    }

    pub fn function(&self, id: FunctionId) -> Option<&Function> {
        self.functions.get(id.0 as usize)
    }

    pub fn class(&self, id: ClassId) -> Option<&Class> {
        self.classes.get(id.0 as usize)
    }

    pub fn binding(&self, id: BindingId) -> Option<&Binding> {
        self.bindings.get(id.0 as usize)
    }

    pub fn file(&self, id: FileId) -> Option<&File> {
        self.files.get(id.0 as usize)
    }

    /// What the word means here.
    pub fn find_binding(&self, word: Word, scope: ScopeId) -> Option<BindingId> {
        let mut at = Some(scope);
        while let Some(scope) = at {
            if let Some(found) = self.names.get(&(scope, word)) {
                return Some(*found);
            }
            at = self.scopes.get(scope.0 as usize)?.parent;
        }
        None
    }

    /// Declares a name; the first value of a name counts.
    pub fn declare(&mut self, word: Word, binding: Binding) -> BindingId {
        let id = BindingId(self.bindings.len() as u32);
        if let Some(known) = self.names.get(&(binding.scope, word)).copied()
            && let Some(old) = self.bindings.get_mut(known.0 as usize)
        {
            old.changes = true;
            if matches!(old.source, Source::Unset) {
                *old = Binding { members: std::mem::take(&mut old.members), changes: true, ..binding };
            }
            return known;
        }
        self.names.insert((binding.scope, word), id);
        self.bindings.push(binding);
        id
    }
}
