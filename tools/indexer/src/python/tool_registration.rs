//! Recognizes the forms in which tools are registered.

mod deferred_registration;
mod mcp_server_detection;

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::{Map, Value as Json};

use super::PyAnalyzer;
use super::docstring::clean_docstring;
use super::registration_reachability::RegistrationCallChains;
use super::scope::PyScopeId;
use super::static_value::{PyArguments, PyFunction, PyValue};
use super::syntax::{PyCall, PyExpr};
use gatelodge_catalogue::ExtractedTool;
use mcp_server_detection::{is_mcp_path, is_tool_decorator, last_segment};

/// Maximum length of a tool name. Longer names are cut to this length. The result is still too long for an index, so
/// the name is counted as invalid.
const MAX_NAME_CHARS: usize = 300;

/// Maximum number of definitions per package. More than this many are assumed to be generated.
const MAX_TOOL_DEFINITIONS: usize = 5_000;

/// A tool and the server that it is registered with, if that is known.
#[derive(Debug)]
pub struct ToolRegistration {
    pub tool: ExtractedTool,
    pub server: Option<usize>,
    /// The function that implements the tool.
    pub function_id: Option<usize>,
    /// Paths by which the registration is reached.
    pub paths: RegistrationCallChains,
}

/// All registrations, without duplicates. The same code may define a tool differently for different callers. A
/// definition is dropped if another one contains all of its information.
#[derive(Debug, Default)]
pub struct ToolRegistrations {
    by_key: BTreeMap<ToolRegistrationKey, (Vec<ExtractedTool>, RegistrationCallChains)>,
    count: usize,
    /// Whether the maximum number of definitions was exceeded.
    pub is_truncated: bool,
}

/// Identifies a registration: the tool's name, its server and its function.
type ToolRegistrationKey = (String, Option<usize>, Option<usize>);

impl ToolRegistrations {
    pub fn push(&mut self, found: ToolRegistration) {
        let ToolRegistration { tool, server, function_id: def, paths: ways } = found;
        if self.count >= MAX_TOOL_DEFINITIONS {
            self.is_truncated = true;
            return;
        }
        let (known, all) = self.by_key.entry((tool.name.clone(), server, def)).or_default();
        all.extend(ways);
        if !known.iter().any(|known| known.covers(&tool)) {
            let before = known.len();
            known.retain(|known| !tool.covers(known));
            known.push(tool);
            self.count = self.count + known.len() - before;
        }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    pub fn paths(&self) -> impl Iterator<Item = &RegistrationCallChains> {
        self.by_key.values().map(|(_, ways)| ways)
    }

    pub fn iter(&self) -> impl Iterator<Item = ToolRegistration> {
        self.by_key.iter().flat_map(|((_, server, def), (tools, ways))| {
            let of = |tool: &ExtractedTool| ToolRegistration {
                tool: tool.clone(),
                server: *server,
                function_id: *def,
                paths: ways.clone(),
            };
            tools.iter().map(of)
        })
    }
}

impl PyAnalyzer<'_> {
    /// Registers a function as a tool if it has a decorator that registers tools.
    pub fn register_decorated(&mut self, function: &Rc<PyFunction>, scope: PyScopeId) {
        for decorator in &function.def.decorators {
            self.walk_expression(decorator, scope);
            match self.evaluate(decorator, scope) {
                PyValue::ToolDecorator(registrar) => {
                    let target = self.unwrap_function(function);
                    self.register_function(&registrar.callee, &target, &registrar.arguments);
                }
                callee if is_tool_decorator(&callee) && self.is_server_decorator(&callee) => {
                    let target = self.unwrap_function(function);
                    self.register_function(&callee, &target, &PyArguments::default());
                }
                // A decorator of the package itself: walk it with the function as its argument.
                PyValue::Function(maker) if self.follows_calls && maker.def.can_register_tools => {
                    let positional = vec![PyValue::Function(function.clone())];
                    self.walk_function(&maker, &PyArguments { positional, ..PyArguments::default() });
                }
                _ => {}
            }
            self.defer_decorated(decorator, function, scope);
        }
    }

    /// Returns the function named in `wraps(other)`, or an unknown value.
    fn unwrap_function(&mut self, function: &Rc<PyFunction>) -> PyValue {
        for decorator in &function.def.decorators {
            if let PyExpr::Call(call) = &**decorator
                && let PyExpr::Name(name) | PyExpr::Attribute(_, name) = &*call.callee
                && &**name == "wraps"
                && let Some(other) = call.positional.first()
            {
                return self.evaluate(other, function.scope);
            }
        }
        PyValue::Function(function.clone())
    }

    /// Registers the tools that a call defines.
    pub fn register_call(&mut self, call: &Rc<PyCall>, callee: &PyValue, scope: PyScopeId) {
        match callee {
            PyValue::External(path) if is_mcp_path(path) => self.register_sdk_call(call, path, scope),
            PyValue::Class(class) => {
                let (_, others) = self.lineage(class);
                let is_tool = |base: &Rc<str>| is_mcp_path(base) && last_segment(base) == "Tool";
                if others.iter().any(is_tool) {
                    let arguments = self.evaluate_arguments(call, scope);
                    self.register_described(&arguments, None);
                }
            }
            PyValue::Member(server, name) => self.register_server_call(call, server, name, scope),
            PyValue::ToolDecorator(registrar) => {
                let function = self.evaluate_arguments(call, scope).positional.first().cloned();
                if let Some(function) = self.registered_function(call.positional.first(), function.as_ref()) {
                    self.register_function(&registrar.callee, &function, &registrar.arguments);
                }
            }
            _ => {}
        }
    }

    /// Registers the tools that a call to the SDK defines.
    fn register_sdk_call(&mut self, call: &Rc<PyCall>, path: &str, scope: PyScopeId) {
        let arguments = self.evaluate_arguments(call, scope);
        match last_segment(path) {
            "Tool" => self.register_described(&arguments, Some((call, scope))),
            "from_function" => {
                if let Some(function) = arguments.get("fn", Some(0)).cloned() {
                    let rest = without_first(&arguments);
                    self.register_function(&PyValue::unknown(), &function, &rest);
                }
            }
            _ => {
                if let Some(PyValue::List(tools)) = arguments.get("tools", None) {
                    for tool in tools.iter().filter(|tool| matches!(tool, PyValue::Function(_))) {
                        self.register_function(&PyValue::unknown(), tool, &PyArguments::default());
                    }
                }
            }
        }
    }

    /// Registers the tools that a call to a server method adds: `mcp.tool(f)`, `mcp.add_tool(f)`, `mcp.mount(other)`.
    fn register_server_call(&mut self, call: &Rc<PyCall>, server: &PyValue, name: &str, scope: PyScopeId) {
        match name {
            "tool" | "add_tool" => {
                let callee = PyValue::Member(Rc::new(server.clone()), name.into());
                let arguments = self.evaluate_arguments(call, scope);
                let function = arguments.get("fn", Some(0)).or_else(|| arguments.get("name_or_fn", None)).cloned();
                let named = self.registered_function(call.positional.first(), function.as_ref());
                if let (true, Some(function)) = (self.is_server_decorator(&callee), named) {
                    self.register_function(&callee, &function, &without_first(&arguments));
                }
            }
            "mount" | "import_server" => {
                let arguments = self.evaluate_arguments(call, scope);
                self.record_mount(&arguments);
            }
            _ => {}
        }
    }

    /// Returns the function that an argument refers to: one of the package's own, or an external one that has a name.
    fn registered_function(&mut self, argument: Option<&Rc<PyExpr>>, value: Option<&PyValue>) -> Option<PyValue> {
        match value? {
            PyValue::Function(function) => Some(PyValue::Function(function.clone())),
            PyValue::External(path) => Some(PyValue::External(path.clone())),
            PyValue::Member(_, name) if matches!(argument.map(|argument| &**argument), Some(PyExpr::Attribute(..))) => {
                Some(PyValue::External(name.clone()))
            }
            _ => None,
        }
    }

    /// Registers a function as a tool.
    fn register_function(&mut self, callee: &PyValue, function: &PyValue, arguments: &PyArguments) {
        let Some(tool) = self.tool_from_function(function, arguments) else { return };
        let def =
            if let PyValue::Function(function) = function { Some(Rc::as_ptr(&function.def) as usize) } else { None };
        self.registered_functions.extend(def);
        let server = if let PyValue::Member(server, _) = callee { server_id(server) } else { None };
        let ways = self.current_path();
        self.registered_tools.push(ToolRegistration { tool, server, function_id: def, paths: ways });
    }

    /// Builds a tool from a function. The arguments of the registration take precedence over the function's own name
    /// and docstring.
    fn tool_from_function(&mut self, function: &PyValue, arguments: &PyArguments) -> Option<ExtractedTool> {
        if arguments.get("enabled", None).is_some_and(|enabled| enabled.truthiness() == Some(false)) {
            return None;
        }
        let given = arguments.get("name", None).or(arguments.positional.first());
        let given = given.filter(|given| match given {
            PyValue::None | PyValue::Function(_) => false,
            // An empty name does not count.
            PyValue::Str(name) => !name.is_empty(),
            _ => true,
        });
        let name = match (given, function) {
            (Some(given), _) => given.as_str().cloned()?,
            (None, PyValue::Function(function)) => self.find_function_name(function)?,
            (None, PyValue::External(path)) => last_segment(path).into(),
            (None, _) => return None,
        };
        let said = arguments.get("description", None).and_then(PyValue::as_str).cloned();
        let (mut description, mut input_schema) = (said.map(|said| clean_docstring(&said)), empty_schema());
        if let PyValue::Function(function) = function {
            description = description.or_else(|| function.def.docstring.as_deref().map(clean_docstring));
            input_schema = self.signature_schema(function, arguments.get("exclude_args", None));
        }
        let annotations = parse_annotations(arguments.get("annotations", None));
        Some(ExtractedTool { name: bounded_name(&name)?, description, input_schema, annotations, optional: false })
    }

    /// Registers a complete definition: `Tool(name=…, inputSchema=…)`.
    fn register_described(&mut self, arguments: &PyArguments, at: Option<(&Rc<PyCall>, PyScopeId)>) {
        if let Some(tool) = self.tool_from_arguments(arguments, at) {
            let ways = self.current_path();
            self.registered_tools.push(ToolRegistration { tool, server: None, function_id: None, paths: ways });
        }
    }

    fn tool_from_arguments(
        &mut self,
        arguments: &PyArguments,
        at: Option<(&Rc<PyCall>, PyScopeId)>,
    ) -> Option<ExtractedTool> {
        let name = arguments.get("name", None)?.as_str()?;
        let said = arguments.get("description", None).and_then(PyValue::as_str).map(|said| clean_docstring(said));
        let loosely = |reader: &mut Self| {
            let (call, scope) = at?;
            let description = call.keywords.iter().find(|(name, _)| name.as_deref() == Some("description"))?;
            reader.find_partial_text(&description.1, scope)
        };
        let description = said.or_else(|| loosely(self));
        let schema = ["inputSchema", "input_schema", "parameters", "schema"];
        let schema = schema.iter().find_map(|name| arguments.get(name, None)).and_then(PyValue::to_json);
        let input_schema = schema.filter(Json::is_object).unwrap_or_else(empty_schema);
        let annotations = parse_annotations(arguments.get("annotations", None));
        Some(ExtractedTool { name: bounded_name(name)?, description, input_schema, annotations, optional: false })
    }

    /// Returns a string with `…` in place of each unknown placeholder.
    fn find_partial_text(&mut self, expr: &Rc<PyExpr>, scope: PyScopeId) -> Option<String> {
        let PyExpr::JoinedStr(parts) = &**expr else { return None };
        let mut text = String::new();
        for part in parts {
            match self.evaluate(part, scope) {
                PyValue::Str(known) => text.push_str(&known),
                _ => text.push('…'),
            }
        }
        Some(clean_docstring(&text))
    }

    /// Registers a dictionary that has the format of a tool in `tools/list`.
    pub fn register_dict_expr(&mut self, expr: &Rc<PyExpr>, scope: PyScopeId) {
        if has_key(expr, "inputSchema") && has_key(expr, "name") {
            let value = self.evaluate(expr, scope);
            self.register_dict(&value, None);
        }
    }

    /// Registers a tool that is defined by `tools[name] = {…}`.
    pub fn register_keyed_assignment(&mut self, target: &PyExpr, value: &Rc<PyExpr>, scope: PyScopeId) {
        if let PyExpr::Index(_, keys) = target
            && let [key] = keys.as_slice()
        {
            self.register_keyed_pair(key, value, scope);
        }
    }

    /// Registers a tool from `{name: {"description": …, "inputSchema": …}}`, where the key is the tool's name.
    pub fn register_keyed_pair(&mut self, key: &Rc<PyExpr>, value: &Rc<PyExpr>, scope: PyScopeId) {
        if has_key(value, "inputSchema") && has_key(value, "description") && !has_key(value, "name") {
            let (name, value) = (self.evaluate(key, scope), self.evaluate(value, scope));
            self.register_dict(&value, Some(name));
        }
    }

    fn register_dict(&mut self, value: &PyValue, name: Option<PyValue>) {
        let PyValue::Dict(pairs) = value else { return };
        let keywords = pairs.iter().filter_map(|(key, value)| Some((key.as_str()?.clone(), value.clone())));
        let name = name.map(|name| (Rc::from("name"), name));
        let keywords = name.into_iter().chain(keywords).collect();
        self.register_described(&PyArguments { keywords, ..PyArguments::default() }, None);
    }
}

/// Cuts a tool's name to the maximum length. Invalid names are counted later, when facts are derived.
fn bounded_name(name: &str) -> Option<String> {
    name.contains(char::is_alphanumeric).then(|| name.chars().take(MAX_NAME_CHARS).collect())
}

fn has_key(expr: &PyExpr, wanted: &str) -> bool {
    let PyExpr::Dict(pairs) = expr else { return false };
    pairs.iter().any(|(key, _)| matches!(key.as_deref(), Some(PyExpr::Str(key)) if &**key == wanted))
}

fn without_first(arguments: &PyArguments) -> PyArguments {
    let positional = arguments.positional.iter().skip(1).cloned().collect();
    PyArguments { positional, ..arguments.clone() }
}

fn empty_schema() -> Json {
    Json::Object(Map::from_iter([
        ("type".to_owned(), Json::from("object")),
        ("properties".to_owned(), Json::Object(Map::new())),
    ]))
}

/// Identifies a server by the call that created it.
fn server_id(server: &PyValue) -> Option<usize> {
    match server {
        PyValue::ExternalObject(server) => Some(server.id),
        PyValue::Instance(server) => server.id,
        _ => None,
    }
}

/// Reads annotations from a dictionary or from a constructor call.
fn parse_annotations(value: Option<&PyValue>) -> Map<String, Json> {
    let pairs: Vec<(String, &PyValue)> = match value {
        Some(PyValue::Dict(pairs)) => {
            pairs.iter().filter_map(|(key, value)| Some((key.as_str()?.to_string(), value))).collect()
        }
        Some(PyValue::ExternalObject(made)) => {
            made.arguments.keywords.iter().map(|(name, value)| (name.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let known = pairs.into_iter().filter_map(|(name, value)| {
        let name = match name.as_str() {
            "read_only_hint" => "readOnlyHint".to_owned(),
            "destructive_hint" => "destructiveHint".to_owned(),
            "idempotent_hint" => "idempotentHint".to_owned(),
            "open_world_hint" => "openWorldHint".to_owned(),
            _ => name,
        };
        Some((name, value.to_json()?))
    });
    known.filter(|(_, value)| !value.is_null()).collect()
}
