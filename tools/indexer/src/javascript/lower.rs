//! The grammar's tree of a file to our [`JsSyntax`].
//!
//! Names are found later, when all of the package is here: what is used may be declared below.

mod class;
mod expression;
mod function;
mod guard;
mod late;
mod literal;
mod module;

use tree_sitter::Node as Tree;

use super::syntax::{
    JsClassId, JsFile, JsFileId, JsFunctionId, JsGuard, JsNode, JsNodeId, JsScopeId, JsSymbol, JsSyntax,
};

/// How deep expressions may nest. What lies deeper is not looked at.
const DEEPEST: usize = 1_500;

/// Kinds of the grammar that hold no values.
const TYPES: [&str; 8] = [
    "comment",
    "type_annotation",
    "type_alias_declaration",
    "interface_declaration",
    "type_arguments",
    "type_parameters",
    "ambient_declaration",
    "function_signature",
];

/// A file on its way into the syntax.
struct Lowering<'a> {
    syntax: &'a mut JsSyntax,
    text: &'a str,
    file: JsFileId,
    scope: JsScopeId,
    class: Option<JsClassId>,
    /// The returns of the function that is being read, with the conditions around each.
    returns: Vec<(JsNodeId, Vec<JsGuard>)>,
    /// The conditions around this place, and how many of them are around the function.
    guards: Vec<JsGuard>,
    outer_guards: usize,
    function: Option<JsFunctionId>,
    depth: usize,
    /// How many examples, and definitions for other interfaces, surround this place.
    aside: usize,
    late: late::Late,
}

/// Adds a file.
pub(super) fn lower(syntax: &mut JsSyntax, path: &str, text: &str, root: Tree<'_>) {
    let file = JsFileId(syntax.files.len() as u32);
    syntax.files.push(JsFile { path: path.to_owned(), first_node: syntax.node_count(), ..JsFile::default() });
    let scope = syntax.add_scope(None, None, true);
    let late = late::Late::default();
    let mut lowering = Lowering {
        syntax,
        text,
        file,
        scope,
        class: None,
        returns: Vec::new(),
        guards: Vec::new(),
        outer_guards: 0,
        function: None,
        depth: 0,
        aside: 0,
        late,
    };
    lowering.children(root);
    lowering.settle();
}

impl Lowering<'_> {
    /// Reads a statement or an expression.
    fn visit(&mut self, tree: Tree<'_>) -> JsNodeId {
        // A package with more nodes is not read; the rest of the file need not be.
        if self.depth >= DEEPEST || self.syntax.node_count() as usize >= super::MAX_NODES {
            return self.add(JsNode::Opaque);
        }
        self.depth += 1;
        let node = self.visit_kind(tree);
        self.depth -= 1;
        node
    }

    fn visit_kind(&mut self, tree: Tree<'_>) -> JsNodeId {
        match tree.kind() {
            "variable_declaration" | "lexical_declaration" => self.variables(tree),
            "function_declaration" | "generator_function_declaration" => self.function_declaration(tree),
            "class_declaration" | "abstract_class_declaration" | "class" => self.class(tree),
            "enum_declaration" => self.enumeration(tree),
            "import_statement" => self.import(tree),
            "export_statement" => self.export(tree),
            "for_in_statement" => self.for_of(tree),
            "return_statement" => {
                let value = self.last_child(tree);
                self.add_return(value);
                value
            }
            "if_statement" => self.condition(tree),
            "statement_block" | "for_statement" | "switch_body" | "catch_clause" => self.block(tree),
            kind if TYPES.contains(&kind) => self.add(JsNode::Opaque),
            kind => self.expression(kind, tree),
        }
    }

    fn add(&mut self, node: JsNode) -> JsNodeId {
        self.syntax.add_node(node)
    }

    fn slice(&self, tree: Tree<'_>) -> &str {
        self.text.get(tree.byte_range()).unwrap_or_default()
    }

    fn word(&mut self, tree: Tree<'_>) -> JsSymbol {
        let text = self.text.get(tree.byte_range()).unwrap_or_default();
        self.syntax.intern(text)
    }

    /// Reads what is inside, for what it declares and calls.
    fn children(&mut self, tree: Tree<'_>) {
        let around = self.guards.len();
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            self.visit(child);
        }
        self.guards.truncate(around);
    }

    /// Reads all that is inside and gives the last: parentheses, sequences, `await`, `return`.
    fn last_child(&mut self, tree: Tree<'_>) -> JsNodeId {
        let mut last = None;
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            if !TYPES.contains(&child.kind()) {
                last = Some(self.visit(child));
            }
        }
        last.unwrap_or_else(|| self.add(JsNode::Nullish))
    }

    /// Reads the child of that field; what is missing is opaque.
    fn field(&mut self, tree: Tree<'_>, name: &str) -> JsNodeId {
        match tree.child_by_field_name(name) {
            Some(child) => self.visit(child),
            None => self.add(JsNode::Opaque),
        }
    }

    fn block(&mut self, tree: Tree<'_>) -> JsNodeId {
        let outer = self.scope;
        self.scope = self.syntax.add_scope(Some(outer), self.class, false);
        self.children(tree);
        self.scope = outer;
        self.add(JsNode::Opaque)
    }

    /// The scope a `var` declared here belongs to.
    fn var_scope(&self) -> JsScopeId {
        let mut at = self.scope;
        while let Some(scope) = self.syntax.scopes.get(at.0 as usize) {
            match scope.parent {
                Some(parent) if !scope.holds_vars => at = parent,
                _ => break,
            }
        }
        at
    }
}
