//! From text to statements. Errors in the text are stepped over.

mod expression;
mod literal;

use std::ops::ControlFlow;
use std::rc::Rc;

use tree_sitter::{Node, ParseOptions, Parser};

use super::remark::without_long_rows;
use super::syntax::{Class, Def, Expr, Import, Parameter, Rest, Stmt};
use expression::expression;

/// How deep statements and expressions may nest; nobody writes more by hand.
const DEEPEST: usize = 120;
/// How often the parser may ask whether to go on. It counts steps, not time, so that every machine reads alike.
const STEPS: usize = 400_000;

/// A text while it is read.
#[derive(Clone, Copy)]
struct Source<'t> {
    text: &'t str,
    depth: usize,
    /// Inside a function that does not speak of tools: only what it binds and returns counts.
    is_lean: bool,
}

/// The statements of a text; none if it takes too long.
pub fn statements(text: &str) -> Option<Vec<Stmt>> {
    let text = &*without_long_rows(text);
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_python::LANGUAGE.into()).ok()?;
    let mut steps = 0;
    let mut go_on = |_: &_| {
        steps += 1;
        if steps > STEPS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut go_on);
    let bytes = text.as_bytes();
    let mut from = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut from, None, Some(options))?;
    let mut out = Vec::new();
    block(tree.root_node(), Source { text, depth: 0, is_lean: false }, &mut out);
    Some(out)
}

impl<'t> Source<'t> {
    fn of(self, node: Node<'_>) -> &'t str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn name(self, node: Node<'_>) -> Rc<str> {
        self.of(node).into()
    }

    /// One level deeper, unless that is too deep.
    fn deeper(self) -> Option<Self> {
        (self.depth < DEEPEST).then_some(Self { depth: self.depth + 1, ..self })
    }
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).filter(|child| child.kind() != "comment").collect()
}

fn fields<'t>(node: Node<'t>, name: &str) -> Vec<Node<'t>> {
    let mut cursor = node.walk();
    node.children_by_field_name(name, &mut cursor).filter(Node::is_named).collect()
}

fn block(node: Node<'_>, source: Source<'_>, out: &mut Vec<Stmt>) {
    let Some(source) = source.deeper() else { return };
    for child in children(node) {
        statement(child, source, out);
    }
}

fn inside(node: Node<'_>, source: Source<'_>) -> Vec<Stmt> {
    let mut out = Vec::new();
    block(node, source, &mut out);
    out
}

fn statement(node: Node<'_>, source: Source<'_>, out: &mut Vec<Stmt>) {
    if source.is_lean && matches!(node.kind(), "for_statement" | "while_statement" | "match_statement") {
        return;
    }
    match node.kind() {
        "function_definition" => out.extend(def(node, Vec::new(), source).map(|def| Stmt::Def(Rc::new(def)))),
        "class_definition" => out.extend(class(node, source).map(|class| Stmt::Class(Rc::new(class)))),
        "decorated_definition" => decorated(node, source, out),
        "expression_statement" => children(node).into_iter().for_each(|child| simple(child, source, out)),
        "return_statement" => {
            let value = children(node).first().map(|value| expression(*value, source));
            out.push(Stmt::Return(value.unwrap_or_else(|| Rc::new(Expr::None))));
        }
        "import_statement" | "import_from_statement" => out.push(Stmt::Import(imports(node, source))),
        "for_statement" => out.extend(for_each(node, source)),
        "except_clause" | "except_group_clause" => out.push(Stmt::Fallback(inside(node, source))),
        "type_alias_statement" => {
            if let [target, value] = children(node).as_slice() {
                let (target, value) = (expression(*target, source), Some(expression(*value, source)));
                out.push(Stmt::Assign { target, annotation: None, value });
            }
        }
        "if_statement" => out.extend(condition(node, source)),
        "else_clause" | "try_statement" | "finally_clause" | "with_statement" | "with_clause" | "with_item"
        | "while_statement" | "block" | "match_statement" | "case_clause" | "ERROR" => {
            out.push(Stmt::Block(inside(node, source)));
        }
        "continue_statement" => out.push(Stmt::Continue),
        "comment" | "pass_statement" | "case_pattern" => {}
        _ if source.is_lean => {}
        _ => out.push(Stmt::Expr(expression(node, source))),
    }
}

fn simple(node: Node<'_>, source: Source<'_>, out: &mut Vec<Stmt>) {
    let field = |name: &str| node.child_by_field_name(name).map(|child| expression(child, source));
    match node.kind() {
        "assignment" => {
            let Some(target) = field("left") else { return };
            out.push(Stmt::Assign { target, annotation: field("type"), value: field("right") });
        }
        // `tools += [...]` binds nothing new; what is added is looked at.
        "augmented_assignment" => out.extend(field("right").map(Stmt::Expr)),
        _ if source.is_lean && node.kind() != "string" => {}
        _ => out.push(Stmt::Expr(expression(node, source))),
    }
}

fn condition(node: Node<'_>, source: Source<'_>) -> Option<Stmt> {
    let mut otherwise = Vec::new();
    // The last alternative is the innermost.
    for alternative in fields(node, "alternative").into_iter().rev() {
        otherwise = match alternative.kind() {
            "elif_clause" => {
                let condition = expression(alternative.child_by_field_name("condition")?, source);
                let body = inside(alternative.child_by_field_name("consequence")?, source);
                vec![Stmt::If { condition, body, otherwise }]
            }
            _ => alternative.child_by_field_name("body").map(|body| inside(body, source)).unwrap_or_default(),
        };
    }
    let condition = expression(node.child_by_field_name("condition")?, source);
    Some(Stmt::If { condition, body: inside(node.child_by_field_name("consequence")?, source), otherwise })
}

fn for_each(node: Node<'_>, source: Source<'_>) -> Option<Stmt> {
    let target = expression(node.child_by_field_name("left")?, source);
    let iterated = expression(node.child_by_field_name("right")?, source);
    Some(Stmt::For { target, iterated, body: inside(node.child_by_field_name("body")?, source) })
}

fn decorated(node: Node<'_>, source: Source<'_>, out: &mut Vec<Stmt>) {
    let Some(definition) = node.child_by_field_name("definition") else { return };
    if definition.kind() != "function_definition" {
        return statement(definition, source, out);
    }
    let decorators = children(node).into_iter().filter(|child| child.kind() == "decorator");
    let decorators = decorators.filter_map(|decorator| children(decorator).first().copied());
    let decorators = decorators.map(|decorator| expression(decorator, source)).collect();
    out.extend(def(definition, decorators, source).map(|def| Stmt::Def(Rc::new(def))));
}

fn def(node: Node<'_>, decorators: Vec<Rc<Expr>>, source: Source<'_>) -> Option<Def> {
    let name = source.name(node.child_by_field_name("name")?);
    let parameters = node.child_by_field_name("parameters").map(children).unwrap_or_default();
    let parameters = parameters.into_iter().filter_map(|parameter| self::parameter(parameter, source)).collect();
    let text = source.of(node);
    let may_register = may_register(text);
    // What hands on to functions that register need not say the word itself.
    let speaks_of_tools = speaks_of_tools(text) || text.contains("register");
    // An `__init__` may hand names on.
    let within = Source { is_lean: !speaks_of_tools && &*name != "__init__", ..source };
    let body = node.child_by_field_name("body").map(|body| inside(body, within)).unwrap_or_default();
    Some(Def { name, decorators, parameters, docstring: docstring(&body), body, speaks_of_tools, may_register })
}

/// Whether a text has the word anywhere, in any case.
pub fn speaks_of_tools(text: &str) -> bool {
    text.as_bytes().windows(4).any(|word| word.eq_ignore_ascii_case(b"tool")) || text.contains("inputSchema")
}

/// Whether a text may register tools when it runs.
fn may_register(text: &str) -> bool {
    let calls_tool = || text.as_bytes().windows(5).any(|word| word.eq_ignore_ascii_case(b"tool("));
    ["inputSchema", ".tool", "register", "mount("].iter().any(|word| text.contains(word)) || calls_tool()
}

fn class(node: Node<'_>, source: Source<'_>) -> Option<Class> {
    let name = source.name(node.child_by_field_name("name")?);
    let bases = node.child_by_field_name("superclasses").map(children).unwrap_or_default();
    let bases = bases.into_iter().filter(|base| base.kind() != "keyword_argument");
    let bases = bases.map(|base| expression(base, source)).collect();
    let body = node.child_by_field_name("body").map(|body| inside(body, source)).unwrap_or_default();
    Some(Class { name, bases, docstring: docstring(&body), body })
}

fn docstring(body: &[Stmt]) -> Option<Rc<str>> {
    let Some(Stmt::Expr(first)) = body.first() else { return None };
    if let Expr::Str(text) = &**first { Some(text.clone()) } else { None }
}

fn parameter(node: Node<'_>, source: Source<'_>) -> Option<Parameter> {
    let field = |name: &str| node.child_by_field_name(name).map(|child| expression(child, source));
    let of = |name: Rc<str>, rest: Rest| Parameter { name, annotation: field("type"), default: field("value"), rest };
    let rest = |pattern: Node<'_>| match pattern.kind() {
        "list_splat_pattern" => Rest::Positional,
        _ => Rest::Keywords,
    };
    match node.kind() {
        "identifier" => Some(of(source.name(node), Rest::No)),
        "default_parameter" | "typed_default_parameter" => {
            Some(of(source.name(node.child_by_field_name("name")?), Rest::No))
        }
        "typed_parameter" => {
            let name = *children(node).first()?;
            match name.kind() {
                "identifier" => Some(of(source.name(name), Rest::No)),
                _ => Some(of(source.name(*children(name).first()?), rest(name))),
            }
        }
        "list_splat_pattern" | "dictionary_splat_pattern" => {
            Some(of(source.name(*children(node).first()?), rest(node)))
        }
        _ => None,
    }
}

fn imports(node: Node<'_>, source: Source<'_>) -> Vec<Import> {
    let (mut up, mut module) = (0, "");
    let from = node.child_by_field_name("module_name");
    if let Some(from) = from {
        let text = source.of(from);
        module = text.trim_start_matches(['.', ' ']);
        up = text.len() - text.trim_start_matches('.').len();
    }
    let mut out = Vec::new();
    let any = children(node).into_iter().any(|child| child.kind() == "wildcard_import");
    if any && from.is_some() {
        out.push(Import { up, module: module.into(), item: Some("*".into()), bound: "*".into() });
    }
    for name in fields(node, "name") {
        let (item, alias) = match name.kind() {
            "aliased_import" => (name.child_by_field_name("name"), name.child_by_field_name("alias")),
            _ => (Some(name), None),
        };
        let Some(item) = item.map(|item| source.of(item)) else { continue };
        let alias = alias.map(|alias| source.of(alias));
        if from.is_some() {
            let bound = alias.unwrap_or(item).into();
            out.push(Import { up, module: module.into(), item: Some(item.into()), bound });
        } else {
            // `import a.b` binds `a`; `import a.b as c` binds the whole to `c`.
            let first = item.split('.').next().unwrap_or(item);
            let (module, bound) = alias.map_or((first, first), |alias| (item, alias));
            out.push(Import { up, module: module.into(), item: None, bound: bound.into() });
        }
    }
    out
}
