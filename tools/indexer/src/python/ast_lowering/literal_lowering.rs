//! Lowers strings and numbers.

use std::rc::Rc;

use serde_json::Number;
use tree_sitter::Node;

use super::expression_lowering::lower_expression;
use super::{PyLoweringContext, children};
use crate::python::syntax::PyExpr;

/// Lowers a string or an f-string.
pub fn lower_string(node: Node<'_>, source: PyLoweringContext<'_>) -> PyExpr {
    let all = children(node);
    let start = all.iter().find(|child| child.kind() == "string_start").map(|start| source.text_of(*start));
    let is_raw = start.is_some_and(|start| start.contains(['r', 'R']));
    let is_bytes = start.is_some_and(|start| start.contains(['b', 'B']));
    let (mut parts, mut text) = (Vec::new(), String::new());
    for child in all {
        match child.kind() {
            "string_content" => text.push_str(&string_content(child, source, is_raw)),
            "interpolation" => {
                if !text.is_empty() {
                    parts.push(Rc::new(PyExpr::Str(std::mem::take(&mut text).into())));
                }
                let inner = child.child_by_field_name("expression").map(|inner| lower_expression(inner, source));
                // `{x!r}` and `{x:>8}` differ from the value of `x`.
                let is_plain = children(child).len() == 1;
                parts.push(inner.filter(|_| is_plain).unwrap_or_else(|| Rc::new(PyExpr::Other(Vec::new()))));
            }
            _ => {}
        }
    }
    if is_bytes {
        return PyExpr::Other(Vec::new());
    }
    if parts.is_empty() {
        return PyExpr::Str(text.into());
    }
    if !text.is_empty() {
        parts.push(Rc::new(PyExpr::Str(text.into())));
    }
    PyExpr::JoinedStr(parts)
}

fn string_content(node: Node<'_>, source: PyLoweringContext<'_>, is_raw: bool) -> String {
    let whole = source.text_of(node);
    if is_raw {
        return whole.to_owned();
    }
    let (mut out, mut at) = (String::new(), node.start_byte());
    for escape in children(node) {
        out.push_str(source.text.get(at..escape.start_byte()).unwrap_or_default());
        match escape.kind() {
            "escape_sequence" => out.push_str(&unescape(source.text_of(escape))),
            // `{{` in an f-string.
            "escape_interpolation" => out.push_str(source.text_of(escape).get(..1).unwrap_or_default()),
            _ => out.push_str(source.text_of(escape)),
        }
        at = escape.end_byte();
    }
    out.push_str(source.text.get(at..node.end_byte()).unwrap_or_default());
    out
}

fn unescape(escape: &str) -> String {
    let rest = escape.get(1..).unwrap_or_default();
    let one = |letter: char| letter.to_string();
    match rest.chars().next() {
        Some('n') => one('\n'),
        Some('t') => one('\t'),
        Some('r') => one('\r'),
        Some('\n' | '\r') => String::new(),
        Some(letter @ ('\\' | '\'' | '"')) => one(letter),
        Some('x' | 'u' | 'U') => {
            let code = u32::from_str_radix(rest.get(1..).unwrap_or_default(), 16).ok();
            code.and_then(char::from_u32).map(one).unwrap_or_default()
        }
        _ => escape.to_owned(),
    }
}

/// Parses a number that JSON can represent.
pub fn parse_number(text: &str) -> Option<Number> {
    let plain = text.replace('_', "");
    if let Ok(whole) = plain.parse::<i64>() {
        return Some(whole.into());
    }
    Number::from_f64(plain.parse::<f64>().ok()?)
}

impl PyExpr {
    /// Joins adjacent strings into one if none of them has a placeholder.
    pub fn flatten_joined(self) -> Self {
        let Self::JoinedStr(parts) = &self else { return self };
        let mut text = String::new();
        for part in parts {
            let Self::Str(part) = &**part else { return self };
            text.push_str(part);
        }
        Self::Str(text.into())
    }
}
