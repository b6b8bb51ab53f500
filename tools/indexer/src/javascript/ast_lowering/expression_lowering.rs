//! Lowers expressions other than literals.

use tree_sitter::Node as Tree;

use super::JsLowering;
use crate::javascript::syntax::{JsFunctionUse, JsNode, JsNodeId};

/// Maximum nesting of calls that build a path, as in `new URL(join("a", "b.js"), here)`.
const MAX_PATH_CALL_DEPTH: usize = 3;

impl JsLowering<'_> {
    pub(super) fn lower_expression(&mut self, kind: &str, tree: Tree<'_>) -> JsNodeId {
        match kind {
            "string" => self.lower_string(tree),
            "template_string" => self.lower_template(tree),
            "number" => self.lower_number(tree),
            "true" => self.add_node(JsNode::Bool(true)),
            "false" => self.add_node(JsNode::Bool(false)),
            "null" | "undefined" => self.add_node(JsNode::Nullish),
            "identifier" | "shorthand_property_identifier" | "import" => {
                let word = self.intern(tree);
                self.add_node(JsNode::Name(word, self.scope))
            }
            "this" => self.add_node(JsNode::This(self.scope)),
            "super" => self.add_node(JsNode::Super),
            "array" => self.lower_array(tree),
            "object" => self.lower_object(tree),
            "spread_element" => {
                let inner = self.lower_last_child(tree);
                self.add_node(JsNode::Spread(inner))
            }
            "arrow_function" | "function_expression" | "generator_function" => self.lower_function(tree, None).0,
            "member_expression" => self.lower_member(tree),
            "subscript_expression" => self.lower_subscript(tree),
            "call_expression" => self.lower_call(tree),
            "new_expression" => self.lower_new(tree),
            "assignment_expression" => self.lower_assignment(tree),
            "binary_expression" => self.lower_binary(tree),
            "unary_expression" => self.lower_unary(tree),
            "ternary_expression" => {
                let test = self.lower_field(tree, "condition");
                let first = self.with_guard(test, true, |reading| reading.lower_field(tree, "consequence"));
                let second = self.with_guard(test, false, |reading| reading.lower_field(tree, "alternative"));
                self.add_node(JsNode::Conditional(test, first, second))
            }
            "as_expression" | "satisfies_expression" | "non_null_expression" => match tree.named_child(0) {
                Some(inner) => self.lower_node(inner),
                None => self.add_node(JsNode::Opaque),
            },
            "parenthesized_expression"
            | "sequence_expression"
            | "await_expression"
            | "type_assertion"
            | "expression_statement" => self.lower_last_child(tree),
            _ => {
                self.lower_children(tree);
                self.add_node(JsNode::Opaque)
            }
        }
    }

    fn lower_member(&mut self, tree: Tree<'_>) -> JsNodeId {
        let object = self.lower_field(tree, "object");
        match tree.child_by_field_name("property") {
            Some(property) => {
                let word = self.intern(property);
                self.add_node(JsNode::Member(object, word))
            }
            None => self.add_node(JsNode::Opaque),
        }
    }

    fn lower_subscript(&mut self, tree: Tree<'_>) -> JsNodeId {
        let object = self.lower_field(tree, "object");
        let index = self.lower_field(tree, "index");
        if let JsNode::Text(key) = self.syntax.node(index) {
            let key = key.clone();
            let word = self.syntax.intern(&key);
            return self.add_node(JsNode::Member(object, word));
        }
        self.add_node(JsNode::Index(object, index))
    }

    fn lower_call(&mut self, tree: Tree<'_>) -> JsNodeId {
        let callee = self.lower_field(tree, "function");
        let Some(arguments) = tree.child_by_field_name("arguments") else {
            return self.add_node(JsNode::Opaque);
        };
        // A template tag such as `dedent` only changes white space.
        if arguments.kind() == "template_string" {
            return self.lower_node(arguments);
        }
        let items = self.lower_items(arguments);
        if let Some(module) = self.lower_require(callee, &items) {
            return module;
        }
        let call = self.add_node(JsNode::Call(callee, items.clone()));
        self.set_function_use(callee, JsFunctionUse::Called(call));
        for item in &items {
            self.set_function_use(*item, JsFunctionUse::Argument(call));
        }
        if self.ignored_depth == 0 {
            self.syntax.calls.push(call);
        }
        self.record_context(call);
        self.record_call(callee, call, items);
        call
    }

    /// Lowers `require("…")` and `import("…")`.
    fn lower_require(&mut self, callee: JsNodeId, items: &[JsNodeId]) -> Option<JsNodeId> {
        let JsNode::Name(word, _) = self.syntax.node(callee) else { return None };
        let JsNode::Text(specifier) = self.syntax.node(*items.first()?) else { return None };
        if !matches!(self.syntax.symbol_text(*word), "require" | "import") {
            return None;
        }
        let specifier = specifier.clone();
        self.record_import(&specifier);
        Some(self.add_node(JsNode::Module(self.file, specifier)))
    }

    fn set_function_use(&mut self, node: JsNodeId, usage: JsFunctionUse) {
        if let JsNode::Function(function) = *self.syntax.node(node)
            && let Some(function) = self.syntax.functions.get_mut(function.0 as usize)
        {
            function.usage = usage;
        }
    }

    fn lower_new(&mut self, tree: Tree<'_>) -> JsNodeId {
        let callee = self.lower_field(tree, "constructor");
        let items =
            tree.child_by_field_name("arguments").map(|arguments| self.lower_items(arguments)).unwrap_or_default();
        self.record_worker(callee, &items);
        let node = self.add_node(JsNode::New(callee, items));
        self.syntax.constructor_calls.push(node);
        self.record_context(node);
        node
    }

    /// Records `new Worker("./a.js")` as an import, even if the path is put together from several parts.
    fn record_worker(&mut self, callee: JsNodeId, items: &[JsNodeId]) {
        let (JsNode::Name(word, _) | JsNode::Member(_, word)) = self.syntax.node(callee) else { return };
        let Some(first) = items.first().filter(|_| self.syntax.symbol_text(*word) == "Worker") else { return };
        let mut parts = Vec::new();
        self.collect_path_parts(*first, 0, &mut parts);
        if !parts.is_empty() {
            self.record_import(&format!("./{}", parts.join("/")));
        }
    }

    /// Collects the string literals in an expression as path segments.
    fn collect_path_parts(&self, node: JsNodeId, depth: usize, parts: &mut Vec<String>) {
        match self.syntax.node(node) {
            JsNode::Text(text) => parts.push(text.trim_matches('/').to_owned()),
            JsNode::Call(_, items) | JsNode::New(_, items) | JsNode::Concat(items) if depth < MAX_PATH_CALL_DEPTH => {
                items.iter().for_each(|item| self.collect_path_parts(*item, depth + 1, parts));
            }
            _ => {}
        }
    }

    fn lower_assignment(&mut self, tree: Tree<'_>) -> JsNodeId {
        let left = self.lower_field(tree, "left");
        let right = self.lower_field(tree, "right");
        self.record_assignment(left, right);
        // In `exports.E = E = {}` the export is `E`, with the members it gets later.
        match (self.syntax.node(left), self.syntax.node(right)) {
            (JsNode::Name(..), JsNode::Object(entries)) if entries.is_empty() => left,
            _ => right,
        }
    }

    fn lower_binary(&mut self, tree: Tree<'_>) -> JsNodeId {
        let left = self.lower_field(tree, "left");
        let operator = tree.child_by_field_name("operator").map(|operator| operator.kind());
        let right = match operator {
            Some("&&") => self.with_guard(left, true, |reading| reading.lower_field(tree, "right")),
            _ => self.lower_field(tree, "right"),
        };
        match operator {
            Some("||" | "??") => self.add_node(JsNode::Or(left, right)),
            Some("&&") => self.add_node(JsNode::And(left, right)),
            Some("==" | "===") => self.add_node(JsNode::Equal(left, right, true)),
            Some("!=" | "!==") => self.add_node(JsNode::Equal(left, right, false)),
            Some("+") => {
                let mut pieces = match self.syntax.node(left) {
                    JsNode::Concat(pieces) => pieces.to_vec(),
                    _ => vec![left],
                };
                pieces.push(right);
                self.add_node(JsNode::Concat(pieces.into()))
            }
            _ => self.add_node(JsNode::Opaque),
        }
    }

    /// Lowers `!0` and `void 0`, which occur in minified code, and negative numbers.
    fn lower_unary(&mut self, tree: Tree<'_>) -> JsNodeId {
        let argument = self.lower_field(tree, "argument");
        let operator = tree.child_by_field_name("operator").map(|operator| operator.kind());
        let node = match (operator, self.syntax.node(argument)) {
            (Some("!"), JsNode::Number(number)) => JsNode::Bool(*number == 0.0),
            (Some("void"), _) => JsNode::Nullish,
            (Some("-"), JsNode::Number(number)) => JsNode::Number(-number),
            (Some("!"), _) => JsNode::Not(argument),
            _ => JsNode::Opaque,
        };
        self.add_node(node)
    }
}
