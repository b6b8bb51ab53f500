//! Expressions.

use std::rc::Rc;

use tree_sitter::Node;

use super::literal::{number, string};
use super::{Source, children};
use crate::python::syntax::{Call, Comparison, Comprehension, Expr};

/// What an expression says, as far as it is understood.
pub fn expression(node: Node<'_>, source: Source<'_>) -> Rc<Expr> {
    let Some(source) = source.deeper() else { return Rc::new(Expr::Other(Vec::new())) };
    Rc::new(understood(node, source).unwrap_or_else(|| Expr::Other(all(children(node), source))))
}

fn all(nodes: Vec<Node<'_>>, source: Source<'_>) -> Vec<Rc<Expr>> {
    nodes.into_iter().map(|node| expression(node, source)).collect()
}

fn understood(node: Node<'_>, source: Source<'_>) -> Option<Expr> {
    let field = |name: &str| node.child_by_field_name(name).map(|child| expression(child, source));
    Some(match node.kind() {
        "identifier" => Expr::Name(source.name(node)),
        "true" => Expr::Bool(true),
        "false" => Expr::Bool(false),
        "none" => Expr::None,
        "ellipsis" => Expr::Ellipsis,
        "integer" | "float" | "unary_operator" => Expr::Number(number(source.of(node))?),
        "string" => string(node, source),
        "concatenated_string" => Expr::Joined(all(children(node), source)).flat(),
        "attribute" => Expr::Attribute(field("object")?, source.name(node.child_by_field_name("attribute")?)),
        "member_type" => dotted(node, source)?,
        "call" => call(node, source)?,
        "list" | "tuple" | "set" | "expression_list" | "pattern_list" | "tuple_pattern" | "list_pattern" => {
            Expr::List(all(children(node), source))
        }
        "list_splat" | "dictionary_splat" => Expr::Spread(expression(*children(node).first()?, source)),
        "dictionary" => dictionary(node, source),
        "subscript" => {
            let mut parts = all(children(node), source).into_iter();
            Expr::Index(parts.next()?, parts.collect())
        }
        "generic_type" => generic(node, source)?,
        "union_type" => pair(node, source, Expr::Union)?,
        "binary_operator" => match source.of(node.child_by_field_name("operator")?) {
            "+" => Expr::Add(field("left")?, field("right")?),
            "|" => Expr::Union(field("left")?, field("right")?),
            _ => return None,
        },
        "boolean_operator" => match source.of(node.child_by_field_name("operator")?) {
            "or" => Expr::Or(field("left")?, field("right")?),
            _ => Expr::And(field("left")?, field("right")?),
        },
        "not_operator" => Expr::Not(field("argument")?),
        "comparison_operator" => comparison(node, source)?,
        "conditional_expression" => match <[_; 3]>::try_from(all(children(node), source)) {
            Ok([then, condition, otherwise]) => Expr::Choice { then, condition, otherwise },
            Err(_) => return None,
        },
        "parenthesized_expression" | "await" | "type" | "as_pattern" => return only(node, source),
        "list_comprehension" | "generator_expression" | "set_comprehension" | "dictionary_comprehension" => {
            Expr::Each(Rc::new(each(node, source)))
        }
        _ => return None,
    })
}

fn comparison(node: Node<'_>, source: Source<'_>) -> Option<Expr> {
    let sides = children(node);
    let [left, right] = sides.as_slice() else { return None };
    let between = source.text.get(left.end_byte()..right.start_byte())?;
    let how = match between.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["==" | "is"] => Comparison::Equal,
        ["!="] | ["is", "not"] => Comparison::Unequal,
        ["in"] => Comparison::In,
        ["not", "in"] => Comparison::NotIn,
        _ => return None,
    };
    Some(Expr::Compare(expression(*left, source), how, expression(*right, source)))
}

/// What stands in brackets is what it is.
fn only(node: Node<'_>, source: Source<'_>) -> Option<Expr> {
    understood(*children(node).first()?, source.deeper()?)
}

fn pair(node: Node<'_>, source: Source<'_>, make: fn(Rc<Expr>, Rc<Expr>) -> Expr) -> Option<Expr> {
    let mut parts = all(children(node), source).into_iter();
    Some(make(parts.next()?, parts.next()?))
}

fn dotted(node: Node<'_>, source: Source<'_>) -> Option<Expr> {
    let parts = children(node);
    let [object, name] = parts.as_slice() else { return None };
    Some(Expr::Attribute(expression(*object, source), source.name(*name)))
}

fn generic(node: Node<'_>, source: Source<'_>) -> Option<Expr> {
    let parts = children(node);
    let (head, rest) = parts.split_first()?;
    let inside = rest.iter().flat_map(|part| children(*part)).collect();
    Some(Expr::Index(expression(*head, source), all(inside, source)))
}

fn call(node: Node<'_>, source: Source<'_>) -> Option<Expr> {
    let callee = expression(node.child_by_field_name("function")?, source);
    let arguments = node.child_by_field_name("arguments")?;
    let (mut positional, mut keywords) = (Vec::new(), Vec::new());
    if arguments.kind() == "generator_expression" {
        positional.push(expression(arguments, source));
        return Some(Expr::Call(Rc::new(Call { callee, positional, keywords })));
    }
    for argument in children(arguments) {
        match argument.kind() {
            "keyword_argument" => {
                let name = argument.child_by_field_name("name").map(|name| source.name(name));
                let value = argument.child_by_field_name("value").map(|value| expression(value, source));
                if let (Some(name), Some(value)) = (name, value) {
                    keywords.push((Some(name), value));
                }
            }
            "dictionary_splat" => {
                if let Some(inner) = children(argument).first() {
                    keywords.push((None, expression(*inner, source)));
                }
            }
            _ => positional.push(expression(argument, source)),
        }
    }
    Some(Expr::Call(Rc::new(Call { callee, positional, keywords })))
}

fn dictionary(node: Node<'_>, source: Source<'_>) -> Expr {
    let mut pairs = Vec::new();
    for child in children(node) {
        if child.kind() == "dictionary_splat" {
            pairs.extend(children(child).first().map(|inner| (None, expression(*inner, source))));
        } else if let (Some(key), Some(value)) = (child.child_by_field_name("key"), child.child_by_field_name("value"))
        {
            pairs.push((Some(expression(key, source)), expression(value, source)));
        }
    }
    Expr::Dict(pairs)
}

fn each(node: Node<'_>, source: Source<'_>) -> Comprehension {
    let (mut body, mut clauses) = (Vec::new(), Vec::new());
    for child in children(node) {
        match child.kind() {
            "for_in_clause" => {
                let side = |name: &str| child.child_by_field_name(name).map(|side| expression(side, source));
                if let (Some(target), Some(iterated)) = (side("left"), side("right")) {
                    clauses.push((target, iterated));
                }
            }
            "if_clause" => {}
            "pair" => body.extend(all(children(child), source)),
            _ => body.push(expression(child, source)),
        }
    }
    Comprehension { body, clauses }
}
