//! Handles decorators that are defined in the package itself and only collect functions, to be registered as tools
//! later.

use std::rc::Rc;

use super::{ToolRegistration, server_id};
use crate::python::PyAnalyzer;
use crate::python::expression_evaluation::{annotated_fields, find_init};
use crate::python::scope::PyScopeId;
use crate::python::static_value::{PyArguments, PyClassValue, PyFunction, PyValue};
use crate::python::syntax::{PyCall, PyExpr, PyFunctionDef};

impl PyAnalyzer<'_> {
    /// Records a function that has a decorator whose name mentions tools, such as `@tool` or `@tools.register`. In a
    /// package that uses MCP, the function counts as a tool if nothing else registers it.
    pub fn defer_decorated(&mut self, decorator: &Rc<PyExpr>, function: &Rc<PyFunction>, scope: PyScopeId) {
        let (callee, arguments) = match &**decorator {
            PyExpr::Call(call) => (&call.callee, self.evaluate_arguments(call, scope)),
            _ => (decorator, PyArguments::default()),
        };
        if !self.imports_mcp || !is_collecting_decorator(callee) {
            return;
        }
        let def = Rc::as_ptr(&function.def) as usize;
        let arguments = match self.evaluate(callee, scope) {
            PyValue::Function(own) => {
                // A method of the package's own server class.
                if let Some(server) = own.receiver.as_ref().and_then(server_id) {
                    self.server_by_function.insert(def, server);
                }
                arguments_by_parameter(&own, arguments)
            }
            // `@tools.append`.
            PyValue::Member(list, name) if matches!(*list, PyValue::List(_)) && &*name == "append" => {
                PyArguments::default()
            }
            _ => return,
        };
        if let Some(tool) = self.tool_from_function(&PyValue::Function(function.clone()), &arguments) {
            let ways = self.current_path();
            self.deferred_tools.push(ToolRegistration { tool, server: None, function_id: Some(def), paths: ways });
        }
    }
}

impl PyAnalyzer<'_> {
    /// Records a complete definition that is passed to one of the package's own functions or classes, as in
    /// `register_tool(name=…, description=…, handler=…)` or `ToolSpec(…)`. It counts as a tool in a package that uses
    /// MCP.
    pub fn defer_described(&mut self, call: &Rc<PyCall>, callee: &PyValue, scope: PyScopeId) {
        let (PyExpr::Name(name) | PyExpr::Attribute(_, name)) = &*call.callee else { return };
        let name = name.trim_matches('_').to_ascii_lowercase();
        let arguments = match callee {
            PyValue::Function(own) if matches!(name.as_str(), "register_tool" | "add_tool" | "register") => {
                let arguments = self.evaluate_arguments(call, scope);
                arguments_by_parameter(own, arguments)
            }
            PyValue::Class(class)
                if matches!(&*name, "tool" | "toolspec" | "tooldef" | "tooldefinition" | "mcptool") =>
            {
                let arguments = self.evaluate_arguments(call, scope);
                self.arguments_by_field(class, arguments)
            }
            _ => return,
        };
        let is_text = |name: &str| arguments.get(name, None).and_then(PyValue::as_str).is_some();
        let runs = ["handler", "func", "fn", "callback", "input_schema", "inputSchema", "schema", "parameters"];
        let is_whole =
            is_text("name") && is_text("description") && runs.iter().any(|name| arguments.get(name, None).is_some());
        if self.imports_mcp
            && is_whole
            && let Some(tool) = self.tool_from_arguments(&arguments, None)
        {
            let ways = self.current_path();
            self.deferred_tools.push(ToolRegistration { tool, server: None, function_id: None, paths: ways });
        }
    }

    /// Maps arguments to the fields of a class.
    fn arguments_by_field(&mut self, class: &PyClassValue, arguments: PyArguments) -> PyArguments {
        let lineage = self.lineage(class).0;
        if let Some(init) = lineage.iter().find_map(|class| find_init(&class.class)) {
            let own = Some(PyValue::None);
            return arguments_by_parameter(
                &PyFunction { def: init.clone(), scope: class.scope, receiver: own },
                arguments,
            );
        }
        let names = lineage.iter().rev().flat_map(|class| annotated_fields(&class.class)).map(|(name, ..)| name);
        let placed: Vec<_> = names.zip(arguments.positional).collect();
        PyArguments { keywords: arguments.keywords.into_iter().chain(placed).collect(), ..PyArguments::default() }
    }
}

/// Returns whether a decorator's name suggests that it collects tools.
fn is_collecting_decorator(callee: &PyExpr) -> bool {
    let (owner, name) = match callee {
        PyExpr::Name(name) => (None, name),
        PyExpr::Attribute(owner, name) => (Some(owner), name),
        _ => return false,
    };
    let name = name.trim_matches('_').to_ascii_lowercase();
    let by_owner = owner.is_some_and(|owner| match &**owner {
        PyExpr::Name(owner) | PyExpr::Attribute(_, owner) => owner.to_ascii_lowercase().contains("tool"),
        _ => false,
    });
    match name.as_str() {
        "register" | "add" | "append" => by_owner,
        _ => name.ends_with("tool"),
    }
}

/// Maps arguments to the decorator's own parameters, because the first one is not necessarily the tool's name.
fn arguments_by_parameter(decorator: &PyFunction, arguments: PyArguments) -> PyArguments {
    let PyFunctionDef { parameters, .. } = &*decorator.def;
    let own = parameters.iter().skip(usize::from(decorator.receiver.is_some()));
    let mut keywords = arguments.keywords;
    for (parameter, value) in own.zip(arguments.positional) {
        keywords.push((parameter.name.clone(), value));
    }
    for (name, value) in keywords.clone() {
        if &*name == "tool_name" {
            keywords.push(("name".into(), value));
        }
    }
    PyArguments { keywords, ..PyArguments::default() }
}
