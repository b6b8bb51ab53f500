//! Checks the names, types and predefined values of fields, and reports errors in them.

use std::sync::Arc;

use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, DiagnosticSink, MAX_SEARCHED_DIAGNOSTICS};
use crate::syntax::syntax_tree::{SyntaxMapEntry, SyntaxNode, SyntaxNodeValue};

/// Returns the JSON Pointer of a member, given the pointer of its parent.
pub(crate) fn json_pointer(parent: &str, key: &str) -> Arc<str> {
    format!("{parent}/{}", key.replace('~', "~0").replace('/', "~1")).into()
}

pub(crate) fn read_entries<'n>(
    node: &'n SyntaxNode,
    what: &str,
    diagnostics: &mut dyn DiagnosticSink,
) -> &'n [SyntaxMapEntry] {
    match &node.value {
        SyntaxNodeValue::Map(entries) => entries,
        _ => {
            report_wrong_type(node, what, "an object", diagnostics);
            &[]
        }
    }
}

pub(crate) fn read_list<'n>(
    node: &'n SyntaxNode,
    name: &str,
    diagnostics: &mut dyn DiagnosticSink,
) -> &'n [SyntaxNode] {
    match &node.value {
        SyntaxNodeValue::List(items) => items,
        _ => {
            report_wrong_type(node, &format!("`{name}`"), "a list", diagnostics);
            &[]
        }
    }
}

pub(crate) fn read_text<'n>(node: &'n SyntaxNode, what: &str, diagnostics: &mut dyn DiagnosticSink) -> Option<&'n str> {
    match &node.value {
        SyntaxNodeValue::Text(text) => Some(text),
        _ => {
            let what = if what.contains(' ') { what.to_owned() } else { format!("`{what}`") };
            report_wrong_type(node, &what, "a string", diagnostics);
            None
        }
    }
}

pub(crate) fn report_wrong_type(node: &SyntaxNode, what: &str, wanted: &str, diagnostics: &mut dyn DiagnosticSink) {
    let message = format!("{what} must be {wanted}, not {}", node.kind().with_article());
    // For a container only the bracket; otherwise half of the document would be underlined.
    let end = match node.value {
        SyntaxNodeValue::List(_) | SyntaxNodeValue::Map(_) => (node.span.start + 1).min(node.span.end),
        _ => node.span.end,
    };
    diagnostics.report(Diagnostic::error(DiagnosticCode::WrongType, node.span.start..end, message));
}

/// Reads one of a fixed set of words.
pub(crate) fn read_word<T>(
    node: &SyntaxNode,
    what: &str,
    words: &[&str],
    find: fn(&str) -> Option<T>,
    diagnostics: &mut dyn DiagnosticSink,
) -> Option<T> {
    let text = read_text(node, what, diagnostics)?;
    let found = find(text);
    if found.is_none() {
        let diagnostic = Diagnostic::error(
            DiagnosticCode::UnknownWord,
            node.span.clone(),
            format!("`{text}` is not a valid value for {what}"),
        );
        diagnostics.report(diagnostic.with_help(suggest_word(text, words)));
    }
    found
}

/// Reports unknown fields and suggests the nearest known one.
pub(crate) fn check_field_names(
    entries: &[SyntaxMapEntry],
    known: &[&str],
    what: &str,
    diagnostics: &mut dyn DiagnosticSink,
) {
    for entry in entries.iter().filter(|entry| !known.contains(&entry.key.as_str())).take(MAX_SEARCHED_DIAGNOSTICS) {
        let message = format!("`{}` is not a field of {what}", entry.key);
        let diagnostic = Diagnostic::error(DiagnosticCode::UnknownField, entry.key_span.clone(), message);
        diagnostics.report(diagnostic.with_help(suggest_word(&entry.key, known)));
    }
}

/// Returns help that suggests the nearest known word, or lists all of them.
pub(crate) fn suggest_word(word: &str, known: &[&str]) -> String {
    // Longer words are not treated as misspellings; comparing them would be slow.
    let short: String = word.chars().take(64).collect();
    let distance = |known: &&&str| strsim::damerau_levenshtein(&short, known);
    // The allowed distance depends on the length; otherwise `level` would count as a misspelled `server`.
    let most = |nearest: &str| 1 + nearest.len().min(short.len()) / 3;
    let nearest = known.iter().min_by_key(distance).filter(|nearest| distance(nearest) <= most(nearest));
    match nearest {
        Some(nearest) => format!("did you mean `{nearest}`?"),
        None => {
            let all: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
            format!("one of {}", all.join(", "))
        }
    }
}
