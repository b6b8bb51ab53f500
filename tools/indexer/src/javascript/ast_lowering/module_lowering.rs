//! Lowers imports and exports.

use tree_sitter::Node as Tree;

use super::{JsLowering, function_lowering::JsPatternTarget};
use crate::javascript::syntax::{JsBindingSource, JsIdentifierId, JsNode, JsNodeId};

impl JsLowering<'_> {
    pub(super) fn lower_import(&mut self, tree: Tree<'_>) -> JsNodeId {
        let node = self.add_node(JsNode::Opaque);
        let Some(specifier) = self.find_specifier(tree) else { return node };
        self.record_import(&specifier);
        let mut cursor = tree.walk();
        for clause in tree.named_children(&mut cursor).filter(|child| child.kind() == "import_clause") {
            let mut inner = clause.walk();
            for child in clause.named_children(&mut inner) {
                self.lower_import_names(child, &specifier);
            }
        }
        node
    }

    fn lower_import_names(&mut self, tree: Tree<'_>, specifier: &str) {
        match tree.kind() {
            "identifier" => {
                let default = self.syntax.intern("default");
                self.bind_import(tree, specifier, Some(default));
            }
            "namespace_import" => {
                if let Some(name) = tree.named_child(0) {
                    self.bind_import(name, specifier, None);
                }
            }
            _ => {
                let mut cursor = tree.walk();
                for item in tree.named_children(&mut cursor) {
                    let Some(name) = item.child_by_field_name("name") else { continue };
                    if let Some(key) = self.intern_key(name) {
                        let local = item.child_by_field_name("alias").unwrap_or(name);
                        self.bind_import(local, specifier, Some(key));
                    }
                }
            }
        }
    }

    pub(super) fn record_import(&mut self, specifier: &str) {
        self.syntax.imports.push((self.file, specifier.into()));
    }

    fn bind_import(&mut self, local: Tree<'_>, specifier: &str, name: Option<JsIdentifierId>) {
        let source = JsBindingSource::Import(self.file, specifier.into(), name);
        self.bind_pattern(local, JsPatternTarget::from_source(source, self.scope));
    }

    pub(super) fn lower_export(&mut self, tree: Tree<'_>) -> JsNodeId {
        let specifier = self.find_specifier(tree);
        if let Some(specifier) = &specifier {
            self.record_import(specifier);
        }
        let is_default = self.has_token(tree, "default");
        let given = tree.child_by_field_name("declaration").or_else(|| tree.child_by_field_name("value"));
        if let Some(given) = given {
            let node = self.lower_node(given);
            if is_default {
                let word = self.syntax.intern("default");
                self.export_node(word, node);
            } else {
                self.export_declaration(given);
            }
            return node;
        }
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            match (child.kind(), &specifier) {
                ("export_clause", _) => self.lower_export_clause(child, specifier.as_deref()),
                ("namespace_export", Some(specifier)) => {
                    let module = self.syntax.add_node(JsNode::Module(self.file, specifier.as_str().into()));
                    if let Some(word) = child.named_child(0).and_then(|name| self.intern_key(name)) {
                        self.export_node(word, module);
                    }
                }
                _ => {}
            }
        }
        if let Some(specifier) = specifier
            && self.has_token(tree, "*")
            && let Some(file) = self.syntax.files.get_mut(self.file.0 as usize)
        {
            file.star_exports.push(specifier.into());
        }
        self.add_node(JsNode::Opaque)
    }

    fn lower_export_clause(&mut self, tree: Tree<'_>, specifier: Option<&str>) {
        let mut cursor = tree.walk();
        for item in tree.named_children(&mut cursor) {
            let Some(name) = item.child_by_field_name("name") else { continue };
            let shown = item.child_by_field_name("alias").unwrap_or(name);
            let (Some(name), Some(shown)) = (self.intern_key(name), self.intern_key(shown)) else { continue };
            let node = match specifier {
                Some(specifier) => {
                    let module = self.syntax.add_node(JsNode::Module(self.file, specifier.into()));
                    JsNode::Member(module, name)
                }
                None => JsNode::Name(name, self.scope),
            };
            let node = self.syntax.add_node(node);
            self.export_node(shown, node);
        }
    }

    /// Exports the names that a declaration introduces.
    fn export_declaration(&mut self, tree: Tree<'_>) {
        let mut names = Vec::new();
        names.extend(tree.child_by_field_name("name"));
        let mut cursor = tree.walk();
        for declarator in tree.named_children(&mut cursor) {
            if declarator.kind() == "variable_declarator" {
                names.extend(declarator.child_by_field_name("name"));
            }
        }
        for name in names {
            let word = self.intern(name);
            let node = self.syntax.add_node(JsNode::Name(word, self.scope));
            self.export_node(word, node);
        }
    }

    pub(super) fn export_node(&mut self, word: JsIdentifierId, node: JsNodeId) {
        if let Some(file) = self.syntax.files.get_mut(self.file.0 as usize) {
            file.exports.entry(word).or_insert(node);
        }
    }

    fn find_specifier(&mut self, tree: Tree<'_>) -> Option<String> {
        let source = tree.child_by_field_name("source")?;
        Some(self.source_text(source).trim_matches(['"', '\'']).to_owned())
    }
}
