//! Counts the comments in a YAML document, because the YAML parser drops them.

use std::ops::Range;

use crate::syntax::syntax_tree::{SyntaxNode, SyntaxNodeValue};

/// Returns the number of comments in a YAML document. `root` is the root of its syntax tree.
pub(crate) fn count_yaml_comments(text: &[u8], root: &SyntaxNode) -> usize {
    let mut scalars = Vec::new();
    collect_scalar_spans(root, text, &mut scalars);
    scalars.sort_by_key(|span| span.start);
    let is_in_scalar = |at: usize| {
        let before = scalars.partition_point(|span| span.start <= at);
        before.checked_sub(1).and_then(|last| scalars.get(last)).is_some_and(|span| span.contains(&at))
    };
    let mut line_start = 0;
    let mut comments = 0;
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        let starts_comment = |(at, byte): (usize, &u8)| {
            let is_behind_space = at == 0 || line.get(at - 1).is_some_and(u8::is_ascii_whitespace);
            *byte == b'#' && is_behind_space && !is_in_scalar(line_start + at)
        };
        comments += usize::from(line.iter().enumerate().any(starts_comment));
        line_start += line.len();
    }
    comments
}

/// Collects the spans of scalars and keys: a `#` inside them is not a comment.
fn collect_scalar_spans(node: &SyntaxNode, text: &[u8], scalars: &mut Vec<Range<usize>>) {
    match &node.value {
        SyntaxNodeValue::List(items) => items.iter().for_each(|item| collect_scalar_spans(item, text, scalars)),
        SyntaxNodeValue::Map(entries) => {
            for entry in entries {
                scalars.push(entry.key_span.clone());
                collect_scalar_spans(&entry.value, text, scalars);
            }
        }
        _ => scalars.push(scalar_content_span(&node.span, text)),
    }
}

/// Returns the span of the scalar itself. The parser's span for a quoted scalar includes a comment that follows it.
fn scalar_content_span(span: &Range<usize>, text: &[u8]) -> Range<usize> {
    let written = text.get(span.clone()).unwrap_or_default();
    let (quote, escape) = match written.first() {
        Some(b'"') => (b'"', b'\\'),
        // A single quote is escaped by doubling it.
        Some(b'\'') => (b'\'', b'\''),
        _ => return span.clone(),
    };
    let mut at = 1;
    while let Some(byte) = written.get(at) {
        let next = written.get(at + 1);
        let is_escape = *byte == escape && (escape != quote || next == Some(&quote));
        if is_escape {
            at += 2;
        } else if *byte == quote {
            break;
        } else {
            at += 1;
        }
    }
    span.start..(span.start + at + 1).min(span.end)
}
