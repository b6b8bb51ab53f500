//! Records the conditions under which code runs.

use tree_sitter::Node as Tree;

use super::JsLowering;
use crate::javascript::syntax::{JsNode, JsNodeId};

impl JsLowering<'_> {
    /// Lowers a branch that runs only if a condition holds, or only if the condition does not hold.
    pub(super) fn with_guard<T>(&mut self, test: JsNodeId, holds: bool, read: impl FnOnce(&mut Self) -> T) -> T {
        self.guards.push((test, holds));
        let done = read(self);
        self.guards.pop();
        done
    }

    /// Lowers `if (test) … else …`. Statements after an `if` with an early exit run only if its condition does not
    /// hold.
    pub(super) fn lower_if(&mut self, tree: Tree<'_>) -> JsNodeId {
        let test = self.lower_field(tree, "condition");
        let then = tree.child_by_field_name("consequence");
        let otherwise = tree.child_by_field_name("alternative");
        if let Some(then) = then {
            self.with_guard(test, true, |reading| reading.lower_node(then));
        }
        if let Some(otherwise) = otherwise {
            self.with_guard(test, false, |reading| reading.lower_node(otherwise));
        } else if then.is_some_and(is_early_exit) {
            self.guards.push((test, false));
        }
        self.add_node(JsNode::Opaque)
    }

    /// Records the conditions under which a call or an object is evaluated, and the function that contains it.
    pub(super) fn record_context(&mut self, node: JsNodeId) {
        if !self.guards.is_empty() {
            self.syntax.guards.insert(node, self.guards.as_slice().into());
        }
        if let Some(function) = self.function {
            self.syntax.enclosing_functions.insert(node, function);
        }
    }

    pub(super) fn add_return(&mut self, value: JsNodeId) {
        let guards = self.guards.get(self.outer_guard_count..).unwrap_or_default().to_vec();
        self.returns.push((value, guards));
    }
}

/// Returns whether a branch ends with `return` or `continue`.
fn is_early_exit(tree: Tree<'_>) -> bool {
    match tree.kind() {
        "return_statement" | "continue_statement" => true,
        "statement_block" => {
            let last = tree.named_child_count().checked_sub(1).and_then(|last| tree.named_child(last as _));
            last.is_some_and(is_early_exit)
        }
        _ => false,
    }
}
