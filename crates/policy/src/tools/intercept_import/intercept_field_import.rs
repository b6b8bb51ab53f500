//! Reads fields as Intercept does: any scalar is accepted as text, and null means absent.

use super::InterceptImporter;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, MAX_SEARCHED_DIAGNOSTICS};
use crate::syntax::field_reader::suggest_word;
use crate::syntax::syntax_tree::{SyntaxMapEntry, SyntaxNode, SyntaxNodeValue};

impl InterceptImporter {
    pub(super) fn is_null(&self, node: &SyntaxNode) -> bool {
        matches!(node.value, SyntaxNodeValue::Null)
    }

    pub(super) fn read_entries<'n>(&mut self, node: &'n SyntaxNode, what: &str) -> &'n [SyntaxMapEntry] {
        match &node.value {
            SyntaxNodeValue::Map(entries) => entries,
            SyntaxNodeValue::Null => &[],
            _ => {
                self.report_wrong_type(node, what, "an object");
                &[]
            }
        }
    }

    pub(super) fn read_list<'n>(&mut self, node: &'n SyntaxNode, name: &str) -> &'n [SyntaxNode] {
        match &node.value {
            SyntaxNodeValue::List(items) => items,
            SyntaxNodeValue::Null => &[],
            _ => {
                self.report_wrong_type(node, &format!("`{name}`"), "a list");
                &[]
            }
        }
    }

    /// Returns a scalar as a string.
    pub(super) fn read_scalar(&mut self, node: &SyntaxNode, what: &str) -> Option<String> {
        match &node.value {
            SyntaxNodeValue::Text(text) | SyntaxNodeValue::Number(text) => Some(text.clone()),
            SyntaxNodeValue::Bool(value) => Some(value.to_string()),
            SyntaxNodeValue::Null => None,
            SyntaxNodeValue::List(_) | SyntaxNodeValue::Map(_) => {
                self.report_wrong_type(node, what, "a string");
                None
            }
        }
    }

    /// Returns the value of a field as a string. `None` if it is empty or absent; Intercept does not distinguish the
    /// two.
    pub(super) fn read_text(&mut self, node: &SyntaxNode, name: &str) -> Option<String> {
        let value = node.get(name)?;
        self.read_scalar(value, &format!("`{name}`")).filter(|text| !text.is_empty())
    }

    pub(super) fn read_word<T>(
        &mut self,
        node: &SyntaxNode,
        word: &str,
        what: &str,
        words: &[&str],
        find: fn(&str) -> Option<T>,
    ) -> Option<T> {
        let found = find(word);
        if found.is_none() {
            let message = format!("`{word}` is not a valid value for `{what}`");
            self.report(
                Diagnostic::error(DiagnosticCode::UnknownWord, node.span.clone(), message)
                    .with_help(suggest_word(word, words)),
            );
        }
        found
    }

    pub(super) fn check_field_names(&mut self, entries: &[SyntaxMapEntry], known: &[&str], what: &str) {
        for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())).take(MAX_SEARCHED_DIAGNOSTICS)
        {
            let message = format!("`{}` is not a field of {what}; Intercept ignores it", entry.key);
            let diagnostic = Diagnostic::error(DiagnosticCode::UnknownField, entry.key_span.clone(), message);
            self.report(diagnostic.with_help(format!("remove it, or correct it: {}", suggest_word(&entry.key, known))));
        }
    }

    pub(super) fn report_missing(&mut self, node: &SyntaxNode, name: &str, help: &str) {
        let span = node.span.start..(node.span.start + 1).min(node.span.end);
        self.report(
            Diagnostic::error(DiagnosticCode::MissingField, span, format!("`{name}` is missing")).with_help(help),
        );
    }

    pub(super) fn report_wrong_type(&mut self, node: &SyntaxNode, what: &str, wanted: &str) {
        let message = format!("{what} must be {wanted}, not {}", node.kind().with_article());
        let diagnostic = Diagnostic::error(DiagnosticCode::WrongType, node.span.clone(), message);
        self.report(diagnostic.with_help(format!("write {wanted}; Intercept would not load it either")));
    }
}
