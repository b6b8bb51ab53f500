//! Lowers the parser's syntax tree to [`JsSyntax`].
//!
//! Names are resolved later, when the whole package has been read, because a name may be used before its declaration.

mod branch_conditions;
mod class_lowering;
mod deferred_bindings;
mod expression_lowering;
mod function_lowering;
mod literal_lowering;
mod module_lowering;

use tree_sitter::Node as Tree;

use super::syntax::{
    JsBranchCondition, JsClassId, JsFile, JsFileId, JsFunctionId, JsIdentifierId, JsNode, JsNodeId, JsScopeId, JsSyntax,
};

/// Maximum nesting of expressions. Expressions that are nested more deeply are treated as opaque.
const MAX_NESTING: usize = 1_500;

/// Kinds of syntax nodes that have no value at run time.
const TYPE_NODE_KINDS: [&str; 8] = [
    "comment",
    "type_annotation",
    "type_alias_declaration",
    "interface_declaration",
    "type_arguments",
    "type_parameters",
    "ambient_declaration",
    "function_signature",
];

/// A file that is being lowered.
struct JsLowering<'a> {
    syntax: &'a mut JsSyntax,
    text: &'a str,
    file: JsFileId,
    scope: JsScopeId,
    class: Option<JsClassId>,
    /// Return values of the current function, each with the conditions under which it is returned.
    returns: Vec<(JsNodeId, Vec<JsBranchCondition>)>,
    /// Conditions under which the current position is reached.
    guards: Vec<JsBranchCondition>,
    /// Number of conditions in `guards` that come from outside the current function.
    outer_guard_count: usize,
    function: Option<JsFunctionId>,
    depth: usize,
    /// Number of enclosing values that are ignored, because they are examples or definitions for APIs other than MCP.
    ignored_depth: usize,
    deferred: deferred_bindings::DeferredBindings,
}

/// Lowers a file and adds it to the package's syntax.
pub(super) fn lower_file(syntax: &mut JsSyntax, path: &str, text: &str, root: Tree<'_>) {
    let file = JsFileId(syntax.files.len() as u32);
    syntax.files.push(JsFile { path: path.to_owned(), first_node: syntax.node_count(), ..JsFile::default() });
    let scope = syntax.add_scope(None, None, true);
    let late = deferred_bindings::DeferredBindings::default();
    let mut lowering = JsLowering {
        syntax,
        text,
        file,
        scope,
        class: None,
        returns: Vec::new(),
        guards: Vec::new(),
        outer_guard_count: 0,
        function: None,
        depth: 0,
        ignored_depth: 0,
        deferred: late,
    };
    lowering.lower_children(root);
    lowering.resolve_deferred();
}

impl JsLowering<'_> {
    /// Lowers a statement or an expression.
    fn lower_node(&mut self, tree: Tree<'_>) -> JsNodeId {
        // A package with more nodes is not read at all, so the rest of the file is not needed.
        if self.depth >= MAX_NESTING || self.syntax.node_count() as usize >= super::MAX_NODES {
            return self.add_node(JsNode::Opaque);
        }
        self.depth += 1;
        let node = self.lower_node_kind(tree);
        self.depth -= 1;
        node
    }

    fn lower_node_kind(&mut self, tree: Tree<'_>) -> JsNodeId {
        match tree.kind() {
            "variable_declaration" | "lexical_declaration" => self.lower_variables(tree),
            "function_declaration" | "generator_function_declaration" => self.lower_function_declaration(tree),
            "class_declaration" | "abstract_class_declaration" | "class" => self.lower_class(tree),
            "enum_declaration" => self.lower_enum(tree),
            "import_statement" => self.lower_import(tree),
            "export_statement" => self.lower_export(tree),
            "for_in_statement" => self.lower_for_of(tree),
            "return_statement" => {
                let value = self.lower_last_child(tree);
                self.add_return(value);
                value
            }
            "if_statement" => self.lower_if(tree),
            "statement_block" | "for_statement" | "switch_body" | "catch_clause" => self.lower_block(tree),
            kind if TYPE_NODE_KINDS.contains(&kind) => self.add_node(JsNode::Opaque),
            kind => self.lower_expression(kind, tree),
        }
    }

    fn add_node(&mut self, node: JsNode) -> JsNodeId {
        self.syntax.add_node(node)
    }

    fn source_text(&self, tree: Tree<'_>) -> &str {
        self.text.get(tree.byte_range()).unwrap_or_default()
    }

    fn intern(&mut self, tree: Tree<'_>) -> JsIdentifierId {
        let text = self.text.get(tree.byte_range()).unwrap_or_default();
        self.syntax.intern(text)
    }

    /// Lowers all children to record their declarations and calls. The resulting nodes are not used.
    fn lower_children(&mut self, tree: Tree<'_>) {
        let around = self.guards.len();
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            self.lower_node(child);
        }
        self.guards.truncate(around);
    }

    /// Lowers all children and returns the last one. Used for parentheses, sequences, `await` and `return`.
    fn lower_last_child(&mut self, tree: Tree<'_>) -> JsNodeId {
        let mut last = None;
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            if !TYPE_NODE_KINDS.contains(&child.kind()) {
                last = Some(self.lower_node(child));
            }
        }
        last.unwrap_or_else(|| self.add_node(JsNode::Nullish))
    }

    /// Lowers the child in the named field. A missing child becomes an opaque node.
    fn lower_field(&mut self, tree: Tree<'_>, name: &str) -> JsNodeId {
        match tree.child_by_field_name(name) {
            Some(child) => self.lower_node(child),
            None => self.add_node(JsNode::Opaque),
        }
    }

    fn lower_block(&mut self, tree: Tree<'_>) -> JsNodeId {
        let outer = self.scope;
        self.scope = self.syntax.add_scope(Some(outer), self.class, false);
        self.lower_children(tree);
        self.scope = outer;
        self.add_node(JsNode::Opaque)
    }

    /// Returns the scope that a `var` declared at the current position belongs to.
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
