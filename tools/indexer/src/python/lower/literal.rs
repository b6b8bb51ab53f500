//! Strings and numbers.

use std::rc::Rc;

use serde_json::Number;
use tree_sitter::Node;

use super::expression::expression;
use super::{Source, children};
use crate::python::syntax::Expr;

/// A string, or one with holes.
pub fn string(node: Node<'_>, source: Source<'_>) -> Expr {
    let all = children(node);
    let start = all.iter().find(|child| child.kind() == "string_start").map(|start| source.of(*start));
    let is_raw = start.is_some_and(|start| start.contains(['r', 'R']));
    let is_bytes = start.is_some_and(|start| start.contains(['b', 'B']));
    let (mut parts, mut text) = (Vec::new(), String::new());
    for child in all {
        match child.kind() {
            "string_content" => text.push_str(&content(child, source, is_raw)),
            "interpolation" => {
                if !text.is_empty() {
                    parts.push(Rc::new(Expr::Str(std::mem::take(&mut text).into())));
                }
                let inner = child.child_by_field_name("expression").map(|inner| expression(inner, source));
                // `{x!r}` and `{x:>8}` say something else than `x`.
                let is_plain = children(child).len() == 1;
                parts.push(inner.filter(|_| is_plain).unwrap_or_else(|| Rc::new(Expr::Other(Vec::new()))));
            }
            _ => {}
        }
    }
    if is_bytes {
        return Expr::Other(Vec::new());
    }
    if parts.is_empty() {
        return Expr::Str(text.into());
    }
    if !text.is_empty() {
        parts.push(Rc::new(Expr::Str(text.into())));
    }
    Expr::Joined(parts)
}

fn content(node: Node<'_>, source: Source<'_>, is_raw: bool) -> String {
    let whole = source.of(node);
    if is_raw {
        return whole.to_owned();
    }
    let (mut out, mut at) = (String::new(), node.start_byte());
    for escape in children(node) {
        out.push_str(source.text.get(at..escape.start_byte()).unwrap_or_default());
        match escape.kind() {
            "escape_sequence" => out.push_str(&unescaped(source.of(escape))),
            // `{{` in a string with holes.
            "escape_interpolation" => out.push_str(source.of(escape).get(..1).unwrap_or_default()),
            _ => out.push_str(source.of(escape)),
        }
        at = escape.end_byte();
    }
    out.push_str(source.text.get(at..node.end_byte()).unwrap_or_default());
    out
}

fn unescaped(escape: &str) -> String {
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

/// A number as JSON has it.
pub fn number(text: &str) -> Option<Number> {
    let plain = text.replace('_', "");
    if let Ok(whole) = plain.parse::<i64>() {
        return Some(whole.into());
    }
    Number::from_f64(plain.parse::<f64>().ok()?)
}

impl Expr {
    /// Strings that stand beside one another, as one where none has a hole.
    pub fn flat(self) -> Self {
        let Self::Joined(parts) = &self else { return self };
        let mut text = String::new();
        for part in parts {
            let Self::Str(part) = &**part else { return self };
            text.push_str(part);
        }
        Self::Str(text.into())
    }
}
