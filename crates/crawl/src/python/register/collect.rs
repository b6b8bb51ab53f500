//! Decorators of the package's own that only put a function aside, to be registered later.

use std::rc::Rc;

use super::Registered;
use crate::python::Reader;
use crate::python::scope::ScopeId;
use crate::python::syntax::{Def, Expr};
use crate::python::value::{Arguments, Function, Value};

impl Reader<'_> {
    /// Takes note of a function under a decorator that speaks of tools by its name, `@tool` or `@tools.register`. It
    /// counts as a tool if nothing else registers it, in a package that uses MCP.
    pub fn collects(&mut self, decorator: &Rc<Expr>, function: &Rc<Function>, scope: ScopeId) {
        let (callee, arguments) = match &**decorator {
            Expr::Call(call) => (&call.callee, self.arguments(call, scope)),
            _ => (decorator, Arguments::default()),
        };
        if !self.imports_mcp || !speaks(callee) {
            return;
        }
        let Value::Function(own) = self.evaluate(callee, scope) else { return };
        let arguments = named(&own, arguments);
        if let Some(tool) = self.tool_of(&Value::Function(function.clone()), &arguments) {
            let def = Some(Rc::as_ptr(&function.def) as usize);
            self.collected.push(Registered { tool, server: None, def });
        }
    }
}

/// Whether a decorator's name says that it collects tools.
fn speaks(callee: &Expr) -> bool {
    let (owner, name) = match callee {
        Expr::Name(name) => (None, name),
        Expr::Attribute(owner, name) => (Some(owner), name),
        _ => return false,
    };
    let name = name.trim_matches('_').to_ascii_lowercase();
    let by_owner = owner.is_some_and(|owner| match &**owner {
        Expr::Name(owner) | Expr::Attribute(_, owner) => owner.to_ascii_lowercase().contains("tool"),
        _ => false,
    });
    match name.as_str() {
        "tool" | "mcp_tool" | "mcptool" | "register_tool" | "registertool" | "define_tool" | "add_tool" => true,
        "register" | "add" => by_owner,
        _ => name.starts_with("mcp_") && name.ends_with("_tool"),
    }
}

/// The arguments by the names of the decorator's own parameters: its first need not be the tool's name.
fn named(decorator: &Function, arguments: Arguments) -> Arguments {
    let Def { parameters, .. } = &*decorator.def;
    let own = parameters.iter().skip(usize::from(decorator.own.is_some()));
    let mut keywords = arguments.keywords;
    for (parameter, value) in own.zip(arguments.positional) {
        keywords.push((parameter.name.clone(), value));
    }
    for (name, value) in keywords.clone() {
        if &*name == "tool_name" {
            keywords.push(("name".into(), value));
        }
    }
    Arguments { keywords, positional: Vec::new(), is_partly_known: false }
}
