//! Expressions that are no literals.

use tree_sitter::Node as Tree;

use super::Lowering;
use crate::javascript::syntax::{Node, NodeId, Use};

/// How many calls lie around the parts of a path, as in `new URL(join("a", "b.js"), here)`.
const DEEPEST_PATH: usize = 3;

impl Lowering<'_> {
    pub(super) fn expression(&mut self, kind: &str, tree: Tree<'_>) -> NodeId {
        match kind {
            "string" => self.string(tree),
            "template_string" => self.template(tree),
            "number" => self.number(tree),
            "true" => self.add(Node::Truth(true)),
            "false" => self.add(Node::Truth(false)),
            "null" | "undefined" => self.add(Node::Nothing),
            "identifier" | "shorthand_property_identifier" | "import" => {
                let word = self.word(tree);
                self.add(Node::Name(word, self.scope))
            }
            "this" => self.add(Node::This(self.scope)),
            "super" => self.add(Node::Super),
            "array" => self.list(tree),
            "object" => self.object(tree),
            "spread_element" => {
                let inner = self.last_child(tree);
                self.add(Node::Spread(inner))
            }
            "arrow_function" | "function_expression" | "generator_function" => self.function(tree, None).0,
            "member_expression" => self.member(tree),
            "subscript_expression" => self.subscript(tree),
            "call_expression" => self.call(tree),
            "new_expression" => self.new_instance(tree),
            "assignment_expression" => self.assignment(tree),
            "binary_expression" => self.binary(tree),
            "unary_expression" => self.unary(tree),
            "ternary_expression" => {
                let test = self.field(tree, "condition");
                let first = self.guarded(test, true, |reading| reading.field(tree, "consequence"));
                let second = self.guarded(test, false, |reading| reading.field(tree, "alternative"));
                self.add(Node::Choice(test, first, second))
            }
            "as_expression" | "satisfies_expression" | "non_null_expression" => match tree.named_child(0) {
                Some(inner) => self.visit(inner),
                None => self.add(Node::Opaque),
            },
            "parenthesized_expression"
            | "sequence_expression"
            | "await_expression"
            | "type_assertion"
            | "expression_statement" => self.last_child(tree),
            _ => {
                self.children(tree);
                self.add(Node::Opaque)
            }
        }
    }

    fn member(&mut self, tree: Tree<'_>) -> NodeId {
        let object = self.field(tree, "object");
        match tree.child_by_field_name("property") {
            Some(property) => {
                let word = self.word(property);
                self.add(Node::Member(object, word))
            }
            None => self.add(Node::Opaque),
        }
    }

    fn subscript(&mut self, tree: Tree<'_>) -> NodeId {
        let object = self.field(tree, "object");
        let index = self.field(tree, "index");
        if let Node::Text(key) = self.syntax.node(index) {
            let key = key.clone();
            let word = self.syntax.word(&key);
            return self.add(Node::Member(object, word));
        }
        self.add(Node::Index(object, index))
    }

    fn call(&mut self, tree: Tree<'_>) -> NodeId {
        let callee = self.field(tree, "function");
        let Some(arguments) = tree.child_by_field_name("arguments") else {
            return self.add(Node::Opaque);
        };
        // A tag such as `dedent` gives its text with other spaces.
        if arguments.kind() == "template_string" {
            return self.visit(arguments);
        }
        let items = self.items(arguments);
        if let Some(module) = self.required(callee, &items) {
            return module;
        }
        let call = self.add(Node::Call(callee, items.clone()));
        self.mark(callee, Use::Called(call));
        for item in &items {
            self.mark(*item, Use::Argument(call));
        }
        if self.aside == 0 {
            self.syntax.calls.push(call);
        }
        self.keep_place(call);
        self.note_call(callee, call, items);
        call
    }

    /// `require("…")` and `import("…")`.
    fn required(&mut self, callee: NodeId, items: &[NodeId]) -> Option<NodeId> {
        let Node::Name(word, _) = self.syntax.node(callee) else { return None };
        let Node::Text(specifier) = self.syntax.node(*items.first()?) else { return None };
        if !matches!(self.syntax.text(*word), "require" | "import") {
            return None;
        }
        let specifier = specifier.clone();
        self.note_import(&specifier);
        Some(self.add(Node::Module(self.file, specifier)))
    }

    fn mark(&mut self, node: NodeId, usage: Use) {
        if let Node::Function(function) = *self.syntax.node(node)
            && let Some(function) = self.syntax.functions.get_mut(function.0 as usize)
        {
            function.usage = usage;
        }
    }

    fn new_instance(&mut self, tree: Tree<'_>) -> NodeId {
        let callee = self.field(tree, "constructor");
        let items = tree.child_by_field_name("arguments").map(|arguments| self.items(arguments)).unwrap_or_default();
        self.note_worker(callee, &items);
        let node = self.add(Node::New(callee, items));
        self.syntax.news.push(node);
        self.keep_place(node);
        node
    }

    /// `new Worker("./a.js")`, also where the path is made of parts: a worker runs a file as an import does.
    fn note_worker(&mut self, callee: NodeId, items: &[NodeId]) {
        let (Node::Name(word, _) | Node::Member(_, word)) = self.syntax.node(callee) else { return };
        let Some(first) = items.first().filter(|_| self.syntax.text(*word) == "Worker") else { return };
        let mut parts = Vec::new();
        self.written(*first, 0, &mut parts);
        if !parts.is_empty() {
            self.note_import(&format!("./{}", parts.join("/")));
        }
    }

    /// The texts in an expression, as parts of a path.
    fn written(&self, node: NodeId, depth: usize, parts: &mut Vec<String>) {
        match self.syntax.node(node) {
            Node::Text(text) => parts.push(text.trim_matches('/').to_owned()),
            Node::Call(_, items) | Node::New(_, items) | Node::Joined(items) if depth < DEEPEST_PATH => {
                items.iter().for_each(|item| self.written(*item, depth + 1, parts));
            }
            _ => {}
        }
    }

    fn assignment(&mut self, tree: Tree<'_>) -> NodeId {
        let left = self.field(tree, "left");
        let right = self.field(tree, "right");
        self.note_assignment(left, right);
        // In `exports.E = E = {}` the export is `E`, with what it gets later.
        match (self.syntax.node(left), self.syntax.node(right)) {
            (Node::Name(..), Node::Object(entries)) if entries.is_empty() => left,
            _ => right,
        }
    }

    fn binary(&mut self, tree: Tree<'_>) -> NodeId {
        let left = self.field(tree, "left");
        let operator = tree.child_by_field_name("operator").map(|operator| operator.kind());
        let right = match operator {
            Some("&&") => self.guarded(left, true, |reading| reading.field(tree, "right")),
            _ => self.field(tree, "right"),
        };
        match operator {
            Some("||" | "??") => self.add(Node::Either(left, right)),
            Some("&&") => self.add(Node::Both(left, right)),
            Some("==" | "===") => self.add(Node::Same(left, right, true)),
            Some("!=" | "!==") => self.add(Node::Same(left, right, false)),
            Some("+") => {
                let mut pieces = match self.syntax.node(left) {
                    Node::Joined(pieces) => pieces.to_vec(),
                    _ => vec![left],
                };
                pieces.push(right);
                self.add(Node::Joined(pieces.into()))
            }
            _ => self.add(Node::Opaque),
        }
    }

    /// `!0` and `void 0` of minified code, and negative numbers.
    fn unary(&mut self, tree: Tree<'_>) -> NodeId {
        let argument = self.field(tree, "argument");
        let operator = tree.child_by_field_name("operator").map(|operator| operator.kind());
        let node = match (operator, self.syntax.node(argument)) {
            (Some("!"), Node::Number(number)) => Node::Truth(*number == 0.0),
            (Some("void"), _) => Node::Nothing,
            (Some("-"), Node::Number(number)) => Node::Number(-number),
            (Some("!"), _) => Node::Not(argument),
            _ => Node::Opaque,
        };
        self.add(node)
    }
}
