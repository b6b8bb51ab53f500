//! Lowers functions, variables and destructuring patterns.

use tree_sitter::Node as Tree;

use super::JsLowering;
use crate::javascript::syntax::{
    JsBinding, JsBindingSource, JsFunctionId, JsIdentifierId, JsLoopId, JsNode, JsNodeId, JsPatternStep, JsScopeId,
};

impl JsLowering<'_> {
    /// Lowers a function of any kind; `method` is its key in a class or an object.
    pub(super) fn lower_function(
        &mut self,
        tree: Tree<'_>,
        method: Option<JsIdentifierId>,
    ) -> (JsNodeId, JsFunctionId) {
        let id = self.syntax.add_function(method, self.class, self.function);
        let outer = self.scope;
        let outer_function = self.function.replace(id);
        let outer_guards = std::mem::replace(&mut self.outer_guard_count, self.guards.len());
        self.scope = self.syntax.add_scope(Some(outer), self.class, true);
        let outer_returns = std::mem::take(&mut self.returns);
        let list = tree.child_by_field_name("parameters").or_else(|| tree.child_by_field_name("parameter"));
        if let Some(list) = list {
            self.lower_parameters(list, id);
        }
        if let Some(body) = tree.child_by_field_name("body") {
            if body.kind() == "statement_block" {
                self.lower_children(body);
            } else {
                let value = self.lower_node(body);
                self.add_return(value);
            }
        }
        let result = self.merge_returns();
        if let Some(function) = self.syntax.functions.get_mut(id.0 as usize) {
            function.result = result;
        }
        self.returns = outer_returns;
        (self.function, self.outer_guard_count) = (outer_function, outer_guards);
        self.scope = outer;
        (self.add_node(JsNode::Function(id)), id)
    }

    fn merge_returns(&mut self) -> Option<JsNodeId> {
        let mut result = None;
        while let Some((value, guards)) = self.returns.pop() {
            result = Some(match (result, guards.as_slice()) {
                (None, _) => value,
                (Some(later), [(test, true)]) => self.syntax.add_node(JsNode::Conditional(*test, value, later)),
                (Some(later), [(test, false)]) => self.syntax.add_node(JsNode::Conditional(*test, later, value)),
                (Some(later), _) => {
                    let test = self.syntax.add_node(JsNode::Opaque);
                    self.syntax.add_node(JsNode::Conditional(test, value, later))
                }
            });
        }
        result
    }

    fn lower_parameters(&mut self, list: Tree<'_>, function: JsFunctionId) {
        if list.kind() != "formal_parameters" {
            return self
                .bind_pattern(list, JsPatternTarget::from_source(JsBindingSource::Parameter(function, 0), self.scope));
        }
        let mut cursor = list.walk();
        let parameters = list.named_children(&mut cursor).filter(|child| child.kind() != "comment");
        for (index, parameter) in parameters.enumerate() {
            let mut bound = JsPatternTarget::from_source(JsBindingSource::Parameter(function, index), self.scope);
            let pattern = parameter.child_by_field_name("pattern").unwrap_or(parameter);
            if let Some(value) = parameter.child_by_field_name("value") {
                bound.default = Some(self.lower_node(value));
            }
            self.bind_pattern(pattern, bound);
            if parameter.kind().ends_with("_parameter") && self.is_parameter_property(parameter) {
                self.add_parameter_property(pattern);
            }
        }
    }

    /// Adds the field that `constructor(private name: string)` declares.
    fn add_parameter_property(&mut self, pattern: Tree<'_>) {
        let word = self.intern(pattern);
        let value = self.add_node(JsNode::Name(word, self.scope));
        if let Some(class) = self.class.and_then(|class| self.syntax.classes.get_mut(class.0 as usize)) {
            class.this_assignments.push((word, value));
        }
    }

    fn is_parameter_property(&self, parameter: Tree<'_>) -> bool {
        self.has_token(parameter, "accessibility_modifier") || self.has_token(parameter, "readonly")
    }

    pub(super) fn lower_function_declaration(&mut self, tree: Tree<'_>) -> JsNodeId {
        let (node, _) = self.lower_function(tree, None);
        if let Some(name) = tree.child_by_field_name("name") {
            self.bind_pattern(name, JsPatternTarget::from_source(JsBindingSource::Node(node), self.scope));
        }
        node
    }

    pub(super) fn lower_variables(&mut self, tree: Tree<'_>) -> JsNodeId {
        let scope = if tree.kind() == "variable_declaration" { self.var_scope() } else { self.scope };
        let mut cursor = tree.walk();
        for declarator in tree.named_children(&mut cursor) {
            if declarator.kind() != "variable_declarator" {
                continue;
            }
            let value = declarator.child_by_field_name("value").map(|value| self.lower_node(value));
            let source = value.map_or(JsBindingSource::Unset, JsBindingSource::Node);
            if let Some(name) = declarator.child_by_field_name("name") {
                self.bind_pattern(name, JsPatternTarget::from_source(source, scope));
            }
        }
        self.add_node(JsNode::Opaque)
    }

    pub(super) fn lower_for_of(&mut self, tree: Tree<'_>) -> JsNodeId {
        let over = self.lower_field(tree, "right");
        let id = JsLoopId(self.syntax.loops.len() as u32);
        self.syntax.loops.push(over);
        let outer = self.scope;
        self.scope = self.syntax.add_scope(Some(outer), self.class, false);
        if let Some(left) = tree.child_by_field_name("left") {
            self.bind_pattern(left, JsPatternTarget::from_source(JsBindingSource::Loop(id), self.scope));
        }
        self.lower_field(tree, "body");
        self.scope = outer;
        self.add_node(JsNode::Opaque)
    }

    /// Declares every name in a pattern.
    pub(super) fn bind_pattern(&mut self, pattern: Tree<'_>, bound: JsPatternTarget) {
        match pattern.kind() {
            "identifier" | "shorthand_property_identifier_pattern" | "type_identifier" => {
                let word = self.intern(pattern);
                let JsPatternTarget { source, scope, path, default } = bound;
                self.syntax.declare(
                    word,
                    JsBinding { scope, source, path, default, assigned_members: Vec::new(), is_reassigned: false },
                );
            }
            "assignment_pattern" | "object_assignment_pattern" => {
                let default = self.lower_field(pattern, "right");
                let Some(left) = pattern.child_by_field_name("left") else { return };
                let bound = if pattern.kind() == "object_assignment_pattern" {
                    let key = self.intern(left);
                    bound.with_step(JsPatternStep::Key(key))
                } else {
                    bound
                };
                self.bind_pattern(left, JsPatternTarget { default: Some(default), ..bound });
            }
            "object_pattern" => self.bind_object_pattern(pattern, &bound),
            "array_pattern" => self.bind_array_pattern(pattern, &bound),
            "rest_pattern" => {
                if let Some(inner) = pattern.named_child(0) {
                    let start = match bound.source {
                        JsBindingSource::Parameter(function, index) if bound.path.is_empty() => {
                            return self
                                .bind_pattern(inner, JsPatternTarget::rest_parameter(function, index, bound.scope));
                        }
                        _ => bound,
                    };
                    self.bind_pattern(inner, start);
                }
            }
            _ => {}
        }
    }

    fn bind_object_pattern(&mut self, pattern: Tree<'_>, bound: &JsPatternTarget) {
        let mut cursor = pattern.walk();
        for child in pattern.named_children(&mut cursor) {
            match child.kind() {
                "shorthand_property_identifier_pattern" => {
                    let key = self.intern(child);
                    self.bind_pattern(child, bound.clone().with_step(JsPatternStep::Key(key)));
                }
                "pair_pattern" => {
                    let key = child.child_by_field_name("key").and_then(|key| self.intern_key(key));
                    if let (Some(key), Some(value)) = (key, child.child_by_field_name("value")) {
                        self.bind_pattern(value, bound.clone().with_step(JsPatternStep::Key(key)));
                    }
                }
                _ => self.bind_pattern(child, bound.clone()),
            }
        }
    }

    fn bind_array_pattern(&mut self, pattern: Tree<'_>, bound: &JsPatternTarget) {
        let mut place = 0;
        let mut cursor = pattern.walk();
        for child in pattern.children(&mut cursor) {
            match child.kind() {
                "," => place += 1,
                "rest_pattern" => self.bind_pattern(child, bound.clone().with_step(JsPatternStep::RestFrom(place))),
                _ => self.bind_pattern(child, bound.clone().with_step(JsPatternStep::Index(place))),
            }
        }
    }
}

/// The value that a destructuring pattern is applied to, and the scope in which its names are declared.
#[derive(Clone)]
pub(super) struct JsPatternTarget {
    source: JsBindingSource,
    scope: JsScopeId,
    path: Vec<JsPatternStep>,
    default: Option<JsNodeId>,
}

impl JsPatternTarget {
    pub(super) fn from_source(source: JsBindingSource, scope: JsScopeId) -> Self {
        Self { source, scope, path: Vec::new(), default: None }
    }

    /// Returns the target for a `...rest` parameter, which receives all arguments from `index` on.
    fn rest_parameter(function: JsFunctionId, index: usize, scope: JsScopeId) -> Self {
        Self {
            source: JsBindingSource::Arguments(function),
            scope,
            path: vec![JsPatternStep::RestFrom(index)],
            default: None,
        }
    }

    fn with_step(mut self, step: JsPatternStep) -> Self {
        self.path.push(step);
        Self { default: None, ..self }
    }
}
