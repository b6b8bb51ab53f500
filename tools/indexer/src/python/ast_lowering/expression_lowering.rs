//! Lowers expressions.

use std::rc::Rc;

use tree_sitter::Node;

use super::literal_lowering::{lower_string, parse_number};
use super::{PyLoweringContext, children};
use crate::python::syntax::{PyCall, PyComparison, PyComprehension, PyExpr};

/// Lowers an expression. Unsupported syntax becomes `PyExpr::Other`.
pub fn lower_expression(node: Node<'_>, source: PyLoweringContext<'_>) -> Rc<PyExpr> {
    let Some(source) = source.descend() else { return Rc::new(PyExpr::Other(Vec::new())) };
    Rc::new(try_lower(node, source).unwrap_or_else(|| PyExpr::Other(lower_all(children(node), source))))
}

fn lower_all(nodes: Vec<Node<'_>>, source: PyLoweringContext<'_>) -> Vec<Rc<PyExpr>> {
    nodes.into_iter().map(|node| lower_expression(node, source)).collect()
}

fn try_lower(node: Node<'_>, source: PyLoweringContext<'_>) -> Option<PyExpr> {
    let field = |name: &str| node.child_by_field_name(name).map(|child| lower_expression(child, source));
    Some(match node.kind() {
        "identifier" => PyExpr::Name(source.name_of(node)),
        "true" => PyExpr::Bool(true),
        "false" => PyExpr::Bool(false),
        "none" => PyExpr::None,
        "ellipsis" => PyExpr::Ellipsis,
        "integer" | "float" | "unary_operator" => PyExpr::Number(parse_number(source.text_of(node))?),
        "string" => lower_string(node, source),
        "concatenated_string" => PyExpr::JoinedStr(lower_all(children(node), source)).flatten_joined(),
        "attribute" => PyExpr::Attribute(field("object")?, source.name_of(node.child_by_field_name("attribute")?)),
        "member_type" => lower_dotted(node, source)?,
        "call" => lower_call(node, source)?,
        "list" | "tuple" | "set" | "expression_list" | "pattern_list" | "tuple_pattern" | "list_pattern" => {
            PyExpr::List(lower_all(children(node), source))
        }
        "list_splat" | "dictionary_splat" => PyExpr::Spread(lower_expression(*children(node).first()?, source)),
        "dictionary" => lower_dict(node, source),
        "subscript" => {
            let mut parts = lower_all(children(node), source).into_iter();
            PyExpr::Index(parts.next()?, parts.collect())
        }
        "generic_type" => lower_generic(node, source)?,
        "union_type" => lower_pair(node, source, PyExpr::Union)?,
        "binary_operator" => match source.text_of(node.child_by_field_name("operator")?) {
            "+" => PyExpr::Add(field("left")?, field("right")?),
            "|" => PyExpr::Union(field("left")?, field("right")?),
            _ => return None,
        },
        "boolean_operator" => match source.text_of(node.child_by_field_name("operator")?) {
            "or" => PyExpr::Or(field("left")?, field("right")?),
            _ => PyExpr::And(field("left")?, field("right")?),
        },
        "not_operator" => PyExpr::Not(field("argument")?),
        "comparison_operator" => lower_comparison(node, source)?,
        "conditional_expression" => match <[_; 3]>::try_from(lower_all(children(node), source)) {
            Ok([then, condition, otherwise]) => PyExpr::Conditional { then, condition, otherwise },
            Err(_) => return None,
        },
        "parenthesized_expression" | "await" | "type" | "as_pattern" => return lower_only_child(node, source),
        "list_comprehension" | "generator_expression" | "set_comprehension" | "dictionary_comprehension" => {
            PyExpr::Comprehension(Rc::new(lower_comprehension(node, source)))
        }
        _ => return None,
    })
}

fn lower_comparison(node: Node<'_>, source: PyLoweringContext<'_>) -> Option<PyExpr> {
    let sides = children(node);
    let [left, right] = sides.as_slice() else { return None };
    let between = source.text.get(left.end_byte()..right.start_byte())?;
    let how = match between.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["==" | "is"] => PyComparison::Equal,
        ["!="] | ["is", "not"] => PyComparison::Unequal,
        ["in"] => PyComparison::In,
        ["not", "in"] => PyComparison::NotIn,
        _ => return None,
    };
    Some(PyExpr::Compare(lower_expression(*left, source), how, lower_expression(*right, source)))
}

/// Lowers the expression inside parentheses and similar wrappers.
fn lower_only_child(node: Node<'_>, source: PyLoweringContext<'_>) -> Option<PyExpr> {
    try_lower(*children(node).first()?, source.descend()?)
}

fn lower_pair(
    node: Node<'_>,
    source: PyLoweringContext<'_>,
    make: fn(Rc<PyExpr>, Rc<PyExpr>) -> PyExpr,
) -> Option<PyExpr> {
    let mut parts = lower_all(children(node), source).into_iter();
    Some(make(parts.next()?, parts.next()?))
}

fn lower_dotted(node: Node<'_>, source: PyLoweringContext<'_>) -> Option<PyExpr> {
    let parts = children(node);
    let [object, name] = parts.as_slice() else { return None };
    Some(PyExpr::Attribute(lower_expression(*object, source), source.name_of(*name)))
}

fn lower_generic(node: Node<'_>, source: PyLoweringContext<'_>) -> Option<PyExpr> {
    let parts = children(node);
    let (head, rest) = parts.split_first()?;
    let inside = rest.iter().flat_map(|part| children(*part)).collect();
    Some(PyExpr::Index(lower_expression(*head, source), lower_all(inside, source)))
}

fn lower_call(node: Node<'_>, source: PyLoweringContext<'_>) -> Option<PyExpr> {
    let callee = lower_expression(node.child_by_field_name("function")?, source);
    let arguments = node.child_by_field_name("arguments")?;
    let (mut positional, mut keywords) = (Vec::new(), Vec::new());
    if arguments.kind() == "generator_expression" {
        positional.push(lower_expression(arguments, source));
        return Some(PyExpr::Call(Rc::new(PyCall { callee, positional, keywords })));
    }
    for argument in children(arguments) {
        match argument.kind() {
            "keyword_argument" => {
                let name = argument.child_by_field_name("name").map(|name| source.name_of(name));
                let value = argument.child_by_field_name("value").map(|value| lower_expression(value, source));
                if let (Some(name), Some(value)) = (name, value) {
                    keywords.push((Some(name), value));
                }
            }
            "dictionary_splat" => {
                if let Some(inner) = children(argument).first() {
                    keywords.push((None, lower_expression(*inner, source)));
                }
            }
            _ => positional.push(lower_expression(argument, source)),
        }
    }
    Some(PyExpr::Call(Rc::new(PyCall { callee, positional, keywords })))
}

fn lower_dict(node: Node<'_>, source: PyLoweringContext<'_>) -> PyExpr {
    let mut pairs = Vec::new();
    for child in children(node) {
        if child.kind() == "dictionary_splat" {
            pairs.extend(children(child).first().map(|inner| (None, lower_expression(*inner, source))));
        } else if let (Some(key), Some(value)) = (child.child_by_field_name("key"), child.child_by_field_name("value"))
        {
            pairs.push((Some(lower_expression(key, source)), lower_expression(value, source)));
        }
    }
    PyExpr::Dict(pairs)
}

fn lower_comprehension(node: Node<'_>, source: PyLoweringContext<'_>) -> PyComprehension {
    let (mut body, mut clauses) = (Vec::new(), Vec::new());
    for child in children(node) {
        match child.kind() {
            "for_in_clause" => {
                let side = |name: &str| child.child_by_field_name(name).map(|side| lower_expression(side, source));
                if let (Some(target), Some(iterated)) = (side("left"), side("right")) {
                    clauses.push((target, iterated));
                }
            }
            "if_clause" => {}
            "pair" => body.extend(lower_all(children(child), source)),
            _ => body.push(lower_expression(child, source)),
        }
    }
    PyComprehension { body, clauses }
}
