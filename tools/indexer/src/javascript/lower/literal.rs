//! Texts, numbers, lists and objects.

use tree_sitter::Node as Tree;

use super::Lowering;
use crate::javascript::syntax::{JsNode, JsNodeId, JsObjectEntry, JsSymbol};

/// Below these keys stand examples, and definitions for other interfaces than MCP.
const ASIDE: [&str; 3] = ["examples", "example", "function"];

impl Lowering<'_> {
    pub(super) fn string(&mut self, tree: Tree<'_>) -> JsNodeId {
        let raw = self.slice(tree);
        let inner = raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default();
        let text = unescape(inner);
        self.add(JsNode::Text(text.into()))
    }

    pub(super) fn template(&mut self, tree: Tree<'_>) -> JsNodeId {
        let mut pieces = Vec::new();
        let mut at = tree.start_byte() + 1;
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            if child.kind() == "template_substitution" {
                pieces.push(self.piece(at, child.start_byte()));
                pieces.push(self.last_child(child));
                at = child.end_byte();
            }
        }
        pieces.push(self.piece(at, tree.end_byte().saturating_sub(1)));
        match pieces.as_slice() {
            [only] => *only,
            _ => self.add(JsNode::Concat(pieces.into())),
        }
    }

    fn piece(&mut self, from: usize, to: usize) -> JsNodeId {
        let text = unescape(self.text.get(from..to).unwrap_or_default());
        self.add(JsNode::Text(text.into()))
    }

    pub(super) fn number(&mut self, tree: Tree<'_>) -> JsNodeId {
        let text: String = self.slice(tree).chars().filter(|letter| *letter != '_').collect();
        let hexadecimal = text.strip_prefix("0x").and_then(|digits| i64::from_str_radix(digits, 16).ok());
        match text.parse::<f64>().ok().or(hexadecimal.map(|number| number as f64)) {
            Some(number) => self.add(JsNode::Number(number)),
            None => self.add(JsNode::Opaque),
        }
    }

    pub(super) fn list(&mut self, tree: Tree<'_>) -> JsNodeId {
        let items = self.items(tree);
        self.add(JsNode::List(items))
    }

    /// The values between brackets or parentheses.
    pub(super) fn items(&mut self, tree: Tree<'_>) -> Box<[JsNodeId]> {
        let mut items = Vec::new();
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            if child.kind() != "comment" {
                items.push(self.visit(child));
            }
        }
        items.into()
    }

    pub(super) fn object(&mut self, tree: Tree<'_>) -> JsNodeId {
        let mut entries = Vec::new();
        let mut cursor = tree.walk();
        for child in tree.named_children(&mut cursor) {
            if let Some(entry) = self.entry(child) {
                entries.push(entry);
            }
        }
        let name = self.syntax.intern("name");
        let named = entries.iter().any(|entry| matches!(entry, JsObjectEntry::Pair(key, _) if *key == name));
        let recorded = named && entries.len() > 1 && self.aside == 0;
        let node = self.add(JsNode::Object(entries.into()));
        if recorded {
            self.syntax.named_objects.push(node);
            self.keep_place(node);
        }
        node
    }

    fn entry(&mut self, tree: Tree<'_>) -> Option<JsObjectEntry> {
        match tree.kind() {
            "pair" => {
                let key_tree = tree.child_by_field_name("key")?;
                let Some(key) = self.key(key_tree) else {
                    return Some(JsObjectEntry::Computed(self.last_child(key_tree), self.field(tree, "value")));
                };
                let aside = ASIDE.contains(&self.syntax.symbol_text(key));
                self.aside += usize::from(aside);
                let value = self.field(tree, "value");
                self.aside -= usize::from(aside);
                Some(JsObjectEntry::Pair(key, value))
            }
            "shorthand_property_identifier" => {
                let word = self.word(tree);
                Some(JsObjectEntry::Pair(word, self.syntax.add_node(JsNode::Name(word, self.scope))))
            }
            "spread_element" => Some(JsObjectEntry::Spread(self.last_child(tree))),
            "method_definition" => {
                let key = tree.child_by_field_name("name").and_then(|name| self.key(name))?;
                let is_getter = self.has_token(tree, "get");
                let (node, function) = self.function(tree, Some(key));
                let result = self.syntax.function(function).and_then(|function| function.result);
                Some(JsObjectEntry::Pair(key, result.filter(|_| is_getter).unwrap_or(node)))
            }
            _ => None,
        }
    }

    /// A key that is written out: `a`, `"a"`, `1`, `["a"]`.
    pub(super) fn key(&mut self, tree: Tree<'_>) -> Option<JsSymbol> {
        match tree.kind() {
            "string" => {
                let raw = self.slice(tree);
                let text = unescape(raw.get(1..raw.len().saturating_sub(1)).unwrap_or_default());
                Some(self.syntax.intern(&text))
            }
            "computed_property_name" => {
                let inner = tree.named_child(0)?;
                if inner.kind() == "string" { self.key(inner) } else { None }
            }
            _ => Some(self.word(tree)),
        }
    }

    pub(super) fn has_token(&self, tree: Tree<'_>, token: &str) -> bool {
        let mut cursor = tree.walk();
        tree.children(&mut cursor).any(|child| child.kind() == token)
    }
}

/// The text that a literal means.
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
                text.extend(from_code(&digits));
            }
            Some('u') => {
                let digits: String = if letters.as_str().starts_with('{') {
                    letters.by_ref().skip(1).take_while(|letter| *letter != '}').collect()
                } else {
                    letters.by_ref().take(4).collect()
                };
                text.extend(from_code(&digits));
            }
            Some(other) => text.push(other),
        }
    }
    text
}

fn from_code(digits: &str) -> Option<char> {
    u32::from_str_radix(digits, 16).ok().and_then(char::from_u32)
}
