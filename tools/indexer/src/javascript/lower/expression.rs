//! Expressions that are no literals.

use tree_sitter::Node as Tree;

use super::Lowering;
use crate::javascript::syntax::{JsFunctionUse, JsNode, JsNodeId};

/// How many calls lie around the parts of a path, as in `new URL(join("a", "b.js"), here)`.
const DEEPEST_PATH: usize = 3;

impl Lowering<'_> {
    pub(super) fn expression(&mut self, kind: &str, tree: Tree<'_>) -> JsNodeId {
        match kind {
            "string" => self.string(tree),
            "template_string" => self.template(tree),
            "number" => self.number(tree),
            "true" => self.add(JsNode::Bool(true)),
            "false" => self.add(JsNode::Bool(false)),
            "null" | "undefined" => self.add(JsNode::Nullish),
            "identifier" | "shorthand_property_identifier" | "import" => {
                let word = self.word(tree);
                self.add(JsNode::Name(word, self.scope))
            }
            "this" => self.add(JsNode::This(self.scope)),
            "super" => self.add(JsNode::Super),
            "array" => self.list(tree),
            "object" => self.object(tree),
            "spread_element" => {
                let inner = self.last_child(tree);
                self.add(JsNode::Spread(inner))
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
                self.add(JsNode::Conditional(test, first, second))
            }
            "as_expression" | "satisfies_expression" | "non_null_expression" => match tree.named_child(0) {
                Some(inner) => self.visit(inner),
                None => self.add(JsNode::Opaque),
            },
            "parenthesized_expression"
            | "sequence_expression"
            | "await_expression"
            | "type_assertion"
            | "expression_statement" => self.last_child(tree),
            _ => {
                self.children(tree);
                self.add(JsNode::Opaque)
            }
        }
    }

    fn member(&mut self, tree: Tree<'_>) -> JsNodeId {
        let object = self.field(tree, "object");
        match tree.child_by_field_name("property") {
            Some(property) => {
                let word = self.word(property);
                self.add(JsNode::Member(object, word))
            }
            None => self.add(JsNode::Opaque),
        }
    }

    fn subscript(&mut self, tree: Tree<'_>) -> JsNodeId {
        let object = self.field(tree, "object");
        let index = self.field(tree, "index");
        if let JsNode::Text(key) = self.syntax.node(index) {
            let key = key.clone();
            let word = self.syntax.intern(&key);
            return self.add(JsNode::Member(object, word));
        }
        self.add(JsNode::Index(object, index))
    }

    fn call(&mut self, tree: Tree<'_>) -> JsNodeId {
        let callee = self.field(tree, "function");
        let Some(arguments) = tree.child_by_field_name("arguments") else {
            return self.add(JsNode::Opaque);
        };
        // A tag such as `dedent` gives its text with other spaces.
        if arguments.kind() == "template_string" {
            return self.visit(arguments);
        }
        let items = self.items(arguments);
        if let Some(module) = self.required(callee, &items) {
            return module;
        }
        let call = self.add(JsNode::Call(callee, items.clone()));
        self.mark(callee, JsFunctionUse::Called(call));
        for item in &items {
            self.mark(*item, JsFunctionUse::Argument(call));
        }
        if self.aside == 0 {
            self.syntax.calls.push(call);
        }
        self.keep_place(call);
        self.note_call(callee, call, items);
        call
    }

    /// `require("…")` and `import("…")`.
    fn required(&mut self, callee: JsNodeId, items: &[JsNodeId]) -> Option<JsNodeId> {
        let JsNode::Name(word, _) = self.syntax.node(callee) else { return None };
        let JsNode::Text(specifier) = self.syntax.node(*items.first()?) else { return None };
        if !matches!(self.syntax.symbol_text(*word), "require" | "import") {
            return None;
        }
        let specifier = specifier.clone();
        self.note_import(&specifier);
        Some(self.add(JsNode::Module(self.file, specifier)))
    }

    fn mark(&mut self, node: JsNodeId, usage: JsFunctionUse) {
        if let JsNode::Function(function) = *self.syntax.node(node)
            && let Some(function) = self.syntax.functions.get_mut(function.0 as usize)
        {
            function.usage = usage;
        }
    }

    fn new_instance(&mut self, tree: Tree<'_>) -> JsNodeId {
        let callee = self.field(tree, "constructor");
        let items = tree.child_by_field_name("arguments").map(|arguments| self.items(arguments)).unwrap_or_default();
        self.note_worker(callee, &items);
        let node = self.add(JsNode::New(callee, items));
        self.syntax.constructor_calls.push(node);
        self.keep_place(node);
        node
    }

    /// `new Worker("./a.js")`, also where the path is made of parts: a worker runs a file as an import does.
    fn note_worker(&mut self, callee: JsNodeId, items: &[JsNodeId]) {
        let (JsNode::Name(word, _) | JsNode::Member(_, word)) = self.syntax.node(callee) else { return };
        let Some(first) = items.first().filter(|_| self.syntax.symbol_text(*word) == "Worker") else { return };
        let mut parts = Vec::new();
        self.written(*first, 0, &mut parts);
        if !parts.is_empty() {
            self.note_import(&format!("./{}", parts.join("/")));
        }
    }

    /// The texts in an expression, as parts of a path.
    fn written(&self, node: JsNodeId, depth: usize, parts: &mut Vec<String>) {
        match self.syntax.node(node) {
            JsNode::Text(text) => parts.push(text.trim_matches('/').to_owned()),
            JsNode::Call(_, items) | JsNode::New(_, items) | JsNode::Concat(items) if depth < DEEPEST_PATH => {
                items.iter().for_each(|item| self.written(*item, depth + 1, parts));
            }
            _ => {}
        }
    }

    fn assignment(&mut self, tree: Tree<'_>) -> JsNodeId {
        let left = self.field(tree, "left");
        let right = self.field(tree, "right");
        self.note_assignment(left, right);
        // In `exports.E = E = {}` the export is `E`, with what it gets later.
        match (self.syntax.node(left), self.syntax.node(right)) {
            (JsNode::Name(..), JsNode::Object(entries)) if entries.is_empty() => left,
            _ => right,
        }
    }

    fn binary(&mut self, tree: Tree<'_>) -> JsNodeId {
        let left = self.field(tree, "left");
        let operator = tree.child_by_field_name("operator").map(|operator| operator.kind());
        let right = match operator {
            Some("&&") => self.guarded(left, true, |reading| reading.field(tree, "right")),
            _ => self.field(tree, "right"),
        };
        match operator {
            Some("||" | "??") => self.add(JsNode::Or(left, right)),
            Some("&&") => self.add(JsNode::And(left, right)),
            Some("==" | "===") => self.add(JsNode::Equal(left, right, true)),
            Some("!=" | "!==") => self.add(JsNode::Equal(left, right, false)),
            Some("+") => {
                let mut pieces = match self.syntax.node(left) {
                    JsNode::Concat(pieces) => pieces.to_vec(),
                    _ => vec![left],
                };
                pieces.push(right);
                self.add(JsNode::Concat(pieces.into()))
            }
            _ => self.add(JsNode::Opaque),
        }
    }

    /// `!0` and `void 0` of minified code, and negative numbers.
    fn unary(&mut self, tree: Tree<'_>) -> JsNodeId {
        let argument = self.field(tree, "argument");
        let operator = tree.child_by_field_name("operator").map(|operator| operator.kind());
        let node = match (operator, self.syntax.node(argument)) {
            (Some("!"), JsNode::Number(number)) => JsNode::Bool(*number == 0.0),
            (Some("void"), _) => JsNode::Nullish,
            (Some("-"), JsNode::Number(number)) => JsNode::Number(-number),
            (Some("!"), _) => JsNode::Not(argument),
            _ => JsNode::Opaque,
        };
        self.add(node)
    }
}
