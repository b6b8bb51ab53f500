//! Distinguishes MCP servers from similar objects in other frameworks.

use std::rc::Rc;

use super::server_id;
use crate::python::PyAnalyzer;
use crate::python::static_value::{PyArguments, PyValue};

/// Packages whose tools are not offered to MCP clients, although some have `mcp` in their names.
const NON_MCP_FRAMEWORKS: [&str; 16] = [
    "agents",
    "agno",
    "arcade_tdk",
    "autogen",
    "autogen_core",
    "autogen_ext",
    "crewai",
    "google",
    "haystack",
    "langchain_mcp_adapters",
    "llama_index",
    "mcpadapt",
    "pydantic_ai",
    "semantic_kernel",
    "smolagents",
    "strands",
];

/// Returns whether an external name belongs to MCP.
pub fn is_mcp_path(path: &str) -> bool {
    let root = path.split('.').next().unwrap_or(path);
    path.as_bytes().windows(3).any(|word| word.eq_ignore_ascii_case(b"mcp")) && !NON_MCP_FRAMEWORKS.contains(&root)
}

/// Returns the last part of a dotted name.
pub fn last_segment(path: &str) -> &str {
    path.rsplit('.').next().unwrap_or(path)
}

/// Returns whether a value is a decorator that registers tools, in any framework.
pub fn is_tool_decorator(value: &PyValue) -> bool {
    match value {
        PyValue::Member(_, name) => &**name == "tool",
        PyValue::External(path) => is_mcp_path(path) && matches!(last_segment(path), "tool" | "mcp_tool"),
        _ => false,
    }
}

impl PyAnalyzer<'_> {
    /// Returns whether a call creates a decorator: `mcp.tool(name=…)`, but not `mcp.tool(f)`.
    pub fn is_decorator_call(&mut self, callee: &PyValue, arguments: &PyArguments) -> bool {
        let takes = |value: Option<&PyValue>| matches!(value, Some(PyValue::Function(_)));
        let registers = takes(arguments.positional.first()) || takes(arguments.get("fn", None));
        is_tool_decorator(callee) && !registers && self.is_server_decorator(callee)
    }

    /// Returns whether a decorator that registers tools belongs to an MCP server.
    pub fn is_server_decorator(&mut self, decorator: &PyValue) -> bool {
        match decorator {
            PyValue::Member(server, _) => self.is_mcp_server(server),
            PyValue::External(path) => is_mcp_path(path),
            _ => false,
        }
    }

    fn is_mcp_server(&mut self, value: &PyValue) -> bool {
        match value {
            PyValue::ExternalObject(made) => is_mcp_path(&made.path),
            PyValue::External(path) => is_mcp_path(path),
            PyValue::Instance(instance) => {
                let (_, others) = self.lineage(&instance.class);
                others.iter().any(|base| is_mcp_path(base))
            }
            // A parameter with an external type, or an attribute of something.
            PyValue::Member(owner, name) => match &**owner {
                PyValue::External(path) => is_mcp_path(path),
                PyValue::ExternalObject(made) => is_mcp_path(&made.path),
                _ => self.imports_mcp && can_be_server(name),
            },
            PyValue::Unknown(Some(name)) => self.imports_mcp && can_be_server(name),
            PyValue::Unknown(None) => self.imports_mcp,
            _ => false,
        }
    }

    /// Records `main.mount(other, prefix=…)`, which adds a prefix to the other server's tools.
    pub fn record_mount(&mut self, arguments: &PyArguments) {
        let all = arguments.positional.iter().chain(arguments.keywords.iter().map(|(_, value)| value));
        let server = all.clone().find_map(server_id);
        let named =
            ["prefix", "namespace"].into_iter().find_map(|name| arguments.get(name, None).and_then(PyValue::as_str));
        let prefix = named.or_else(|| arguments.positional.iter().find_map(PyValue::as_str)).cloned();
        if let (Some(server), Some(prefix)) = (server, prefix) {
            self.mount_prefixes.insert(server, prefix);
        }
    }

    /// Returns a tool's name in the form in which the main server lists it.
    pub fn mounted_name(&self, name: &str, server: Option<usize>) -> String {
        match server.and_then(|server| self.mount_prefixes.get(&server)) {
            Some(prefix) if !prefix.is_empty() => format!("{}_{name}", prefix.trim_matches('/')),
            _ => name.to_owned(),
        }
    }
}

/// Returns whether an unknown object may be a server, judging by its name. Agents are not servers.
fn can_be_server(name: &Rc<str>) -> bool {
    let name = name.to_lowercase();
    !(name.contains("agent") || name.contains("llm") || name.contains("crew") || name == "self" || name == "cls")
}
