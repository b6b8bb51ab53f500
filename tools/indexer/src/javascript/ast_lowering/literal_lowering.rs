//! Lowers strings, numbers, lists and objects.

use tree_sitter::Node as Tree;

use super::JsLowering;
use crate::javascript::syntax::{JsIdentifierId, JsNode, JsNodeId, JsObjectEntry};

/// Object keys whose values are not searched for tools, because they are examples or definitions for APIs other than
/// MCP.
const IGNORED_KEYS: [&str; 3] = ["examples", "example", "function"];

impl JsLowering<'_> {
    pub(super) fn lower_string(&mut self, tree: Tree<'_>) -> JsNodeId {
        let raw = self.source_text(tree);
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        let text = unescape(inner);
        self.add_node(JsNode::Text(text.into()))
    }

    pub(super) fn lower_template(&mut self, tree: Tree<'_>) -> JsNodeId {
        let mut pieces = Vec::new();
        let mut at = tree.start_byte() + 1;
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            if child.kind() == "template_substitution" {
                pieces.push(self.add_text(at, child.start_byte()));
                pieces.push(self.lower_last_child(child));
                at = child.end_byte();
            }
        }
        pieces.push(self.add_text(at, tree.end_byte().saturating_sub(1)));
        match pieces.as_slice() {
            [only] => *only,
            _ => self.add_node(JsNode::Concat(pieces.into())),
        }
    }

    fn add_text(&mut self, from: usize, to: usize) -> JsNodeId {
        let text = unescape(self.text.get(from..to).unwrap_or_default());
        self.add_node(JsNode::Text(text.into()))
    }

    pub(super) fn lower_number(&mut self, tree: Tree<'_>) -> JsNodeId {
        let text: String = self.source_text(tree).chars().filter(|letter| *letter != '_').collect();
        let hexadecimal = text.strip_prefix("0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
        match text.parse::<f64>().ok().or(hexadecimal.map(|number| number as f64)) {
            Some(number) => self.add_node(JsNode::Number(number)),
            None => self.add_node(JsNode::Opaque),
        }
    }

    pub(super) fn lower_array(&mut self, tree: Tree<'_>) -> JsNodeId {
        let items = self.lower_items(tree);
        self.add_node(JsNode::List(items))
    }

    /// Lowers the values listed between brackets or parentheses.
    pub(super) fn lower_items(&mut self, tree: Tree<'_>) -> Box<[JsNodeId]> {
        let mut items = Vec::new();
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            if child.kind() != "comment" {
                items.push(self.lower_node(child));
            }
        }
        items.into()
    }

    pub(super) fn lower_object(&mut self, tree: Tree<'_>) -> JsNodeId {
        let mut entries = Vec::new();
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            if let Some(entry) = self.lower_object_entry(child) {
                entries.push(entry);
            }
        }
        let name = self.syntax.intern("name");
        let named = entries.iter().any(|entry| matches!(entry, JsObjectEntry::Pair(key, _) if *key == name));
        let recorded = named && entries.len() > 1 && self.ignored_depth == 0;
        let node = self.add_node(JsNode::Object(entries.into()));
        if recorded {
            self.syntax.named_objects.push(node);
            self.record_context(node);
        }
        node
    }

    fn lower_object_entry(&mut self, tree: Tree<'_>) -> Option<JsObjectEntry> {
        match tree.kind() {
            "pair" => {
                let key_tree = tree.child_by_field_name("key")?;
                let Some(key) = self.intern_key(key_tree) else {
                    return Some(JsObjectEntry::Computed(
                        self.lower_last_child(key_tree),
                        self.lower_field(tree, "value"),
                    ));
                };
                let aside = IGNORED_KEYS.contains(&self.syntax.symbol_text(key));
                self.ignored_depth += usize::from(aside);
                let value = self.lower_field(tree, "value");
                self.ignored_depth -= usize::from(aside);
                Some(JsObjectEntry::Pair(key, value))
            }
            "shorthand_property_identifier" => {
                let word = self.intern(tree);
                Some(JsObjectEntry::Pair(word, self.syntax.add_node(JsNode::Name(word, self.scope))))
            }
            "spread_element" => Some(JsObjectEntry::Spread(self.lower_last_child(tree))),
            "method_definition" => {
                let key = tree.child_by_field_name("name").and_then(|name| self.intern_key(name))?;
                let is_getter = self.has_token(tree, "get");
                let (node, function) = self.lower_function(tree, Some(key));
                let result = self.syntax.function(function).and_then(|function| function.result);
                Some(JsObjectEntry::Pair(key, result.filter(|_| is_getter).unwrap_or(node)))
            }
            _ => None,
        }
    }

    /// Interns an object key that is written literally: `a`, `"a"`, `1`, `["a"]`.
    pub(super) fn intern_key(&mut self, tree: Tree<'_>) -> Option<JsIdentifierId> {
        match tree.kind() {
            "string" => {
                let raw = self.source_text(tree);
                let text = unescape(raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default());
                Some(self.syntax.intern(&text))
            }
            "computed_property_name" => {
                let inner = tree.named_child(0)?;
                if inner.kind() == "string" { self.intern_key(inner) } else { None }
            }
            _ => Some(self.intern(tree)),
        }
    }

    pub(super) fn has_token(&self, tree: Tree<'_>, token: &str) -> bool {
        let mut cursor = tree.walk();
        tree.children(&mut cursor).any(|child| child.kind() == token)
    }
}

/// Resolves the escape sequences in a string literal.
fn unescape(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut letters = raw.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            text.push(letter);
            continue;
        }
        match letters.next() {
            Some('n') => text.push('\n'),
            Some('t') => text.push('\t'),
            Some('r' | '\n') | None => {}
            Some('x') => {
                let digits: String = letters.by_ref().take(2).collect();
                text.extend(char_from_hex(&digits));
            }
            Some('u') => {
                let digits: String = if letters.as_str().starts_with('{') {
                    letters.by_ref().skip(1).take_while(|letter| *letter != '}').collect()
                } else {
                    letters.by_ref().take(4).collect()
                };
                text.extend(char_from_hex(&digits));
            }
            Some(other) => text.push(other),
        }
    }
    text
}

fn char_from_hex(digits: &str) -> Option<char> {
    u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)
}
