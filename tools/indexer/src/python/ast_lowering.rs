//! Parses Python source code and lowers it to statements. Syntax errors are skipped.

mod expression_lowering;
mod literal_lowering;

use std::ops::ControlFlow;
use std::rc::Rc;

use tree_sitter::{Node, ParseOptions, Parser};

use super::comment_runs::shorten_comment_runs;
use super::syntax::{PyClassDef, PyExpr, PyFunctionDef, PyImport, PyParameter, PyParameterKind, PyStmt};
use expression_lowering::lower_expression;

/// Maximum nesting of statements and expressions. Hand-written code does not reach it.
const MAX_NESTING: usize = 120;
/// Step limit for the parser. Counting steps rather than time gives the same result on every machine.
const MAX_PARSER_STEPS: usize = 400_000;

/// The source code that is being lowered, and the current nesting in it.
#[derive(Clone, Copy)]
struct PyLoweringContext<'t> {
    text: &'t str,
    depth: usize,
    /// Whether only bindings and `return` statements are kept, because the current function does not mention tools.
    bindings_only: bool,
}

/// Parses source code into statements. Returns `None` if the step limit is reached.
pub fn parse_statements(text: &str) -> Option<Vec<PyStmt>> {
    let text = &*shorten_comment_runs(text);
    let mut parser = Parser::new();
    parser.set_language(&tree_sitter_python::LANGUAGE.into()).ok()?;
    let mut steps = 0;
    let mut go_on = |_: &_| {
        steps += 1;
        if steps > MAX_PARSER_STEPS { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let options = ParseOptions::new().progress_callback(&mut go_on);
    let bytes = text.as_bytes();
    let mut from = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut from, None, Some(options))?;
    let mut out = Vec::new();
    lower_block(tree.root_node(), PyLoweringContext { text, depth: 0, bindings_only: false }, &mut out);
    Some(out)
}

impl<'t> PyLoweringContext<'t> {
    fn text_of(self, node: Node<'_>) -> &'t str {
        self.text.get(node.byte_range()).unwrap_or_default()
    }

    fn name_of(self, node: Node<'_>) -> Rc<str> {
        self.text_of(node).into()
    }

    /// Returns the context one level deeper, or `None` at the nesting limit.
    fn descend(self) -> Option<Self> {
        (self.depth < MAX_NESTING).then_some(Self { depth: self.depth + 1, ..self })
    }
}

fn children(node: Node<'_>) -> Vec<Node<'_>> {
    let mut cursor = node.walk();
    node.named_children(&mut cursor).filter(|child| child.kind() != "comment").collect()
}

fn field_nodes<'t>(node: Node<'t>, name: &str) -> Vec<Node<'t>> {
    let mut cursor = node.walk();
    node.children_by_field_name(name, &mut cursor).filter(Node::is_named).collect()
}

fn lower_block(node: Node<'_>, source: PyLoweringContext<'_>, out: &mut Vec<PyStmt>) {
    let Some(source) = source.descend() else { return };
    for child in children(node) {
        lower_statement(child, source, out);
    }
}

fn lower_body(node: Node<'_>, source: PyLoweringContext<'_>) -> Vec<PyStmt> {
    let mut out = Vec::new();
    lower_block(node, source, &mut out);
    out
}

fn lower_statement(node: Node<'_>, source: PyLoweringContext<'_>, out: &mut Vec<PyStmt>) {
    if source.bindings_only && matches!(node.kind(), "for_statement" | "while_statement" | "match_statement") {
        return;
    }
    match node.kind() {
        "function_definition" => out.extend(lower_def(node, Vec::new(), source).map(|def| PyStmt::Def(Rc::new(def)))),
        "class_definition" => out.extend(lower_class(node, source).map(|class| PyStmt::Class(Rc::new(class)))),
        "decorated_definition" => lower_decorated(node, source, out),
        "expression_statement" => {
            children(node).into_iter().for_each(|child| lower_simple_statement(child, source, out))
        }
        "return_statement" => {
            let value = children(node).first().map(|value| lower_expression(*value, source));
            out.push(PyStmt::Return(value.unwrap_or_else(|| Rc::new(PyExpr::None))));
        }
        "import_statement" | "import_from_statement" => out.push(PyStmt::Import(lower_imports(node, source))),
        "for_statement" => out.extend(lower_for(node, source)),
        "except_clause" | "except_group_clause" => out.push(PyStmt::Fallback(lower_body(node, source))),
        "type_alias_statement" => {
            if let [target, value] = children(node).as_slice() {
                let (target, value) = (lower_expression(*target, source), Some(lower_expression(*value, source)));
                out.push(PyStmt::Assign { target, annotation: None, value });
            }
        }
        "if_statement" => out.extend(lower_if(node, source)),
        "else_clause" | "try_statement" | "finally_clause" | "with_statement" | "with_clause" | "with_item"
        | "while_statement" | "block" | "match_statement" | "case_clause" | "ERROR" => {
            out.push(PyStmt::Block(lower_body(node, source)));
        }
        "continue_statement" => out.push(PyStmt::Continue),
        "comment" | "pass_statement" | "case_pattern" => {}
        _ if source.bindings_only => {}
        _ => out.push(PyStmt::Expr(lower_expression(node, source))),
    }
}

fn lower_simple_statement(node: Node<'_>, source: PyLoweringContext<'_>, out: &mut Vec<PyStmt>) {
    let field = |name: &str| node.child_by_field_name(name).map(|child| lower_expression(child, source));
    match node.kind() {
        "assignment" => {
            let Some(target) = field("left") else { return };
            out.push(PyStmt::Assign { target, annotation: field("type"), value: field("right") });
        }
        // `tools += [...]` binds no name; the added expression is still walked.
        "augmented_assignment" => out.extend(field("right").map(PyStmt::Expr)),
        _ if source.bindings_only && node.kind() != "string" => {}
        _ => out.push(PyStmt::Expr(lower_expression(node, source))),
    }
}

fn lower_if(node: Node<'_>, source: PyLoweringContext<'_>) -> Option<PyStmt> {
    let mut otherwise = Vec::new();
    // The last alternative is the innermost.
    for alternative in field_nodes(node, "alternative").into_iter().rev() {
        otherwise = match alternative.kind() {
            "elif_clause" => {
                let condition = lower_expression(alternative.child_by_field_name("condition")?, source);
                let body = lower_body(alternative.child_by_field_name("consequence")?, source);
                vec![PyStmt::If { condition, body, otherwise }]
            }
            _ => alternative.child_by_field_name("body").map(|body| lower_body(body, source)).unwrap_or_default(),
        };
    }
    let condition = lower_expression(node.child_by_field_name("condition")?, source);
    Some(PyStmt::If { condition, body: lower_body(node.child_by_field_name("consequence")?, source), otherwise })
}

fn lower_for(node: Node<'_>, source: PyLoweringContext<'_>) -> Option<PyStmt> {
    let target = lower_expression(node.child_by_field_name("left")?, source);
    let iterated = lower_expression(node.child_by_field_name("right")?, source);
    Some(PyStmt::For { target, iterated, body: lower_body(node.child_by_field_name("body")?, source) })
}

fn lower_decorated(node: Node<'_>, source: PyLoweringContext<'_>, out: &mut Vec<PyStmt>) {
    let Some(definition) = node.child_by_field_name("definition") else { return };
    if definition.kind() != "function_definition" {
        return lower_statement(definition, source, out);
    }
    let decorators = children(node).into_iter().filter(|child| child.kind() == "decorator");
    let decorators = decorators.filter_map(|decorator| children(decorator).first().copied());
    let decorators = decorators.map(|decorator| lower_expression(decorator, source)).collect();
    out.extend(lower_def(definition, decorators, source).map(|def| PyStmt::Def(Rc::new(def))));
}

fn lower_def(node: Node<'_>, decorators: Vec<Rc<PyExpr>>, source: PyLoweringContext<'_>) -> Option<PyFunctionDef> {
    let name = source.name_of(node.child_by_field_name("name")?);
    let parameters = node.child_by_field_name("parameters").map(children).unwrap_or_default();
    let parameters = parameters.into_iter().filter_map(|parameter| lower_parameter(parameter, source)).collect();
    let text = source.text_of(node);
    let may_register = can_register_tools(text);
    // A function that only calls registering functions may not mention tools itself.
    let speaks_of_tools = mentions_tools(text) || text.contains("register");
    // An `__init__` may pass names on.
    let within = PyLoweringContext { bindings_only: !speaks_of_tools && &*name != "__init__", ..source };
    let body = node.child_by_field_name("body").map(|body| lower_body(body, within)).unwrap_or_default();
    Some(PyFunctionDef {
        name,
        decorators,
        parameters,
        docstring: find_docstring(&body),
        body,
        mentions_tools: speaks_of_tools,
        can_register_tools: may_register,
    })
}

/// Returns whether source code contains `tool`, ignoring case.
pub fn mentions_tools(text: &str) -> bool {
    text.as_bytes().windows(4).any(|word| word.eq_ignore_ascii_case(b"tool")) || text.contains("inputSchema")
}

/// Returns whether source code may register tools when it runs.
fn can_register_tools(text: &str) -> bool {
    let calls_tool = || text.as_bytes().windows(5).any(|word| word.eq_ignore_ascii_case(b"tool("));
    ["inputSchema", ".tool", "register", "mount("].iter().any(|word| text.contains(word)) || calls_tool()
}

fn lower_class(node: Node<'_>, source: PyLoweringContext<'_>) -> Option<PyClassDef> {
    let name = source.name_of(node.child_by_field_name("name")?);
    let bases = node.child_by_field_name("superclasses").map(children).unwrap_or_default();
    let bases = bases.into_iter().filter(|base| base.kind() != "keyword_argument");
    let bases = bases.map(|base| lower_expression(base, source)).collect();
    let body = node.child_by_field_name("body").map(|body| lower_body(body, source)).unwrap_or_default();
    Some(PyClassDef { name, bases, docstring: find_docstring(&body), body })
}

fn find_docstring(body: &[PyStmt]) -> Option<Rc<str>> {
    let Some(PyStmt::Expr(first)) = body.first() else { return None };
    if let PyExpr::Str(text) = &**first { Some(text.clone()) } else { None }
}

fn lower_parameter(node: Node<'_>, source: PyLoweringContext<'_>) -> Option<PyParameter> {
    let field = |name: &str| node.child_by_field_name(name).map(|child| lower_expression(child, source));
    let of = |name: Rc<str>, rest: PyParameterKind| PyParameter {
        name,
        annotation: field("type"),
        default: field("value"),
        kind: rest,
    };
    let rest = |pattern: Node<'_>| match pattern.kind() {
        "list_splat_pattern" => PyParameterKind::VarPositional,
        _ => PyParameterKind::VarKeyword,
    };
    match node.kind() {
        "identifier" => Some(of(source.name_of(node), PyParameterKind::Single)),
        "default_parameter" | "typed_default_parameter" => {
            Some(of(source.name_of(node.child_by_field_name("name")?), PyParameterKind::Single))
        }
        "typed_parameter" => {
            let name = *children(node).first()?;
            match name.kind() {
                "identifier" => Some(of(source.name_of(name), PyParameterKind::Single)),
                _ => Some(of(source.name_of(*children(name).first()?), rest(name))),
            }
        }
        "list_splat_pattern" | "dictionary_splat_pattern" => {
            Some(of(source.name_of(*children(node).first()?), rest(node)))
        }
        _ => None,
    }
}

fn lower_imports(node: Node<'_>, source: PyLoweringContext<'_>) -> Vec<PyImport> {
    let (mut up, mut module) = (0, "");
    let from = node.child_by_field_name("module_name");
    if let Some(from) = from {
        let text = source.text_of(from);
        module = text.trim_start_matches(['.', ' ']);
        up = text.len() - text.trim_start_matches('.').len();
    }
    let mut out = Vec::new();
    let any = children(node).into_iter().any(|child| child.kind() == "wildcard_import");
    if any && from.is_some() {
        out.push(PyImport { up, module: module.into(), item: Some("*".into()), bound_name: "*".into() });
    }
    for name in field_nodes(node, "name") {
        let (item, alias) = match name.kind() {
            "aliased_import" => (name.child_by_field_name("name"), name.child_by_field_name("alias")),
            _ => (Some(name), None),
        };
        let Some(item) = item.map(|item| source.text_of(item)) else { continue };
        let alias = alias.map(|alias| source.text_of(alias));
        if from.is_some() {
            let bound = alias.unwrap_or(item).into();
            out.push(PyImport { up, module: module.into(), item: Some(item.into()), bound_name: bound });
        } else {
            // `import a.b` binds `a`; `import a.b as c` binds the module `a.b` to `c`.
            let first = item.split('.').next().unwrap_or(item);
            let (module, bound) = alias.map_or((first, first), |alias| (item, alias));
            out.push(PyImport { up, module: module.into(), item: None, bound_name: bound.into() });
        }
    }
    out
}
