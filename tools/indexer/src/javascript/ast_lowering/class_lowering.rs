//! Lowers classes and enumerations.

use tree_sitter::Node as Tree;

use super::{JsLowering, function_lowering::JsPatternTarget};
use crate::javascript::syntax::{
    JsBindingSource, JsClass, JsClassId, JsClassMember, JsMemberKind, JsNode, JsNodeId, JsObjectEntry,
};

impl JsLowering<'_> {
    pub(super) fn lower_class(&mut self, tree: Tree<'_>) -> JsNodeId {
        let mut cursor = tree.walk();
        for decorator in tree.children(&mut cursor).filter(|child| child.kind() == "decorator") {
            self.lower_node(decorator);
        }
        let parent = self.lower_heritage(tree);
        let id = JsClassId(self.syntax.classes.len() as u32);
        self.syntax.classes.push(JsClass { parent, ..JsClass::default() });
        let node = self.add_node(JsNode::Class(id));
        if let Some(name) = tree.child_by_field_name("name") {
            self.bind_pattern(name, JsPatternTarget::from_source(JsBindingSource::Node(node), self.scope));
        }
        let (outer_class, outer_scope) = (self.class, self.scope);
        self.class = Some(id);
        self.scope = self.syntax.add_scope(Some(outer_scope), Some(id), true);
        if let Some(body) = tree.child_by_field_name("body") {
            let mut cursor = body.walk();
            for child in body.named_children(&mut cursor) {
                self.lower_class_member(child, id);
            }
        }
        (self.class, self.scope) = (outer_class, outer_scope);
        node
    }

    fn lower_heritage(&mut self, tree: Tree<'_>) -> Option<JsNodeId> {
        let mut cursor = tree.walk();
        let heritage = tree.named_children(&mut cursor).find(|child| child.kind() == "class_heritage")?;
        let mut inner = heritage.named_child(0)?;
        if inner.kind() == "extends_clause" {
            inner = inner.child_by_field_name("value")?;
        }
        Some(self.lower_node(inner))
    }

    fn lower_class_member(&mut self, tree: Tree<'_>, class: JsClassId) {
        let name = tree.child_by_field_name("name").or_else(|| tree.child_by_field_name("property"));
        let Some(key) = name.and_then(|name| self.intern_key(name)) else {
            self.lower_node(tree);
            return;
        };
        let mut cursor = tree.walk();
        for decorator in tree.children(&mut cursor).filter(|child| child.kind() == "decorator") {
            self.lower_node(decorator);
        }
        let is_static = self.has_token(tree, "static");
        let (kind, value, constructor) = if tree.kind() == "method_definition" {
            let is_getter = self.has_token(tree, "get");
            let (node, function) = self.lower_function(tree, Some(key));
            let constructor = (self.syntax.symbol_text(key) == "constructor").then_some(function);
            let result = self.syntax.function(function).and_then(|function| function.result);
            match result.filter(|_| is_getter) {
                Some(result) => (JsMemberKind::Getter, result, None),
                None => (JsMemberKind::Method, node, constructor),
            }
        } else {
            (JsMemberKind::Field, self.lower_field(tree, "value"), None)
        };
        if let Some(class) = self.syntax.classes.get_mut(class.0 as usize) {
            class.constructor = class.constructor.or(constructor);
            class.members.push(JsClassMember { key, kind, is_static, value });
        }
    }

    /// Lowers an enumeration to an object that contains its values.
    pub(super) fn lower_enum(&mut self, tree: Tree<'_>) -> JsNodeId {
        let mut entries = Vec::new();
        if let Some(body) = tree.child_by_field_name("body") {
            let mut cursor = body.walk();
            for child in body.named_children(&mut cursor) {
                let name = child.child_by_field_name("name").and_then(|name| self.intern_key(name));
                if let Some(key) = name {
                    entries.push(JsObjectEntry::Pair(key, self.lower_field(child, "value")));
                }
            }
        }
        let node = self.add_node(JsNode::Object(entries.into()));
        if let Some(name) = tree.child_by_field_name("name") {
            self.bind_pattern(name, JsPatternTarget::from_source(JsBindingSource::Node(node), self.scope));
        }
        node
    }
}
