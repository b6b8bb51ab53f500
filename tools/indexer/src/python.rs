//! Extracts tools from Python sources.
//!
//! The sources are parsed, never run. Names are resolved through imports, loops over known lists, and functions that
//! register tools on behalf of others. Values that cannot be determined are left out.

mod ast_lowering;
mod comment_runs;
mod default_conditions;
mod docstring;
mod dynamic_import;
mod entry_points;
mod expression_evaluation;
mod file_selection;
mod loaded_source_files;
mod module_files;
mod registration_reachability;
mod runtime_function_renames;
mod schema;
mod scope;
mod statement_walk;
mod static_value;
mod syntax;
mod tool_registration;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use expression_evaluation::PyEvaluationState;
use gatelodge_catalogue::{ExtractedTool, SourceFile};
use module_files::PyModuleFiles;
use registration_reachability::RegistrationReachability;
use runtime_function_renames::RuntimeFunctionRenames;
use scope::{PyBoundNames, PyScope, PyScopeId};
use static_value::PyValue;
use syntax::PyStmt;
use tool_registration::{ToolRegistration, ToolRegistrations};

/// Maximum number of steps per package. Steps are counted instead of time so that the same tools are found on every
/// machine.
const MAX_STEPS: usize = 20_000_000;

/// Maximum number of source bytes parsed per package. Statements take many times as much memory as their text.
const MAX_SOURCE_BYTES: usize = 10 << 20;
/// Maximum number of open scopes.
const MAX_SCOPES: usize = 200_000;

/// Extracts the tools that the files of one package define, sorted by name.
pub fn extract_python_tools(files: &[SourceFile<'_>]) -> crate::tool_extraction::ToolExtraction {
    let chosen = file_selection::select_files(files);
    let imports_mcp = chosen.iter().any(|file| file_selection::imports_mcp(file.text));
    let mut reader = PyAnalyzer::new(PyModuleFiles::of(&chosen), imports_mcp);
    let able: Vec<usize> = (0..chosen.len())
        .filter(|at| chosen.get(*at).is_some_and(|file| file_selection::can_have_tools(file.text)))
        .collect();
    reader.record_reassignments(&chosen);
    // The first pass collects direct registrations. Only the second one follows calls, as far as the step limit
    // allows.
    for follows_calls in [false, true] {
        reader.begin_pass(follows_calls);
        able.iter().for_each(|at| reader.walk_file(*at));
    }
    let passed_over = reader.unread_parts();
    if passed_over > 0 {
        return crate::tool_extraction::ToolExtraction::incomplete(passed_over);
    }
    reader.mark_unloaded_files(files);
    reader.mark_unreachable();
    crate::tool_extraction::ToolExtraction::from_definitions(reader.into_tools(), ExtractedTool::says)
}

/// Returns whether the file at this path is read.
pub fn is_python_input(path: &str) -> bool {
    entry_points::is_python_input(path)
}

/// Returns whether any of these files uses an MCP SDK.
pub fn uses_mcp(files: &[SourceFile<'_>]) -> bool {
    files.iter().any(|file| file_selection::imports_mcp(file.text))
}

/// State of the analysis of a package.
struct PyAnalyzer<'f> {
    files: PyModuleFiles<'f>,
    /// Whether any file imports an MCP SDK. If none does, unknown objects are not assumed to be servers.
    imports_mcp: bool,
    modules: HashMap<usize, (PyScopeId, Rc<Vec<PyStmt>>)>,
    scopes: Vec<PyScope>,
    /// Scopes with ids below this are kept until the analysis ends.
    retained_scope_count: usize,
    /// The names that statements bind, keyed by the address of the statements.
    bound_names: HashMap<usize, Rc<PyBoundNames>>,
    /// Scopes of modules and classes.
    permanent_scopes: HashSet<PyScopeId>,
    /// Cached values of names in permanent scopes.
    resolved_names: HashMap<(PyScopeId, Rc<str>, bool), PyValue>,
    /// Scopes of classes, keyed by the address of the class.
    class_scopes: HashMap<usize, PyScopeId>,
    evaluation: PyEvaluationState,
    /// Functions whose return values are being evaluated.
    return_stack: Vec<usize>,
    /// Functions whose bodies are being walked.
    walk_stack: Vec<usize>,
    class_schema_depth: usize,
    steps: usize,
    /// Whether a limit was reached.
    is_truncated: bool,
    /// Number of source bytes parsed.
    parsed_bytes: usize,
    /// Number of files that were not parsed.
    unparsed_files: usize,
    follows_calls: bool,
    registered_tools: ToolRegistrations,
    /// Functions that have been registered as tools.
    registered_functions: HashSet<usize>,
    /// Tools that the package collects, without a known registration.
    deferred_tools: ToolRegistrations,
    /// For each function with one of the package's own decorators, the server that it belongs to, if known.
    server_by_function: HashMap<usize, usize>,
    /// Whether a condition is being evaluated. If so, uncertain values are treated as unknown.
    is_strict: bool,
    /// Number of enclosing conditions that are false by default.
    disabled_depth: usize,
    reachability: RegistrationReachability,
    /// Functions that are renamed at run time, keyed by file.
    function_renames: HashMap<usize, RuntimeFunctionRenames>,
    /// For each function, the calls that were followed into its body with their arguments.
    entered_calls: HashMap<usize, HashSet<usize>>,
    /// Default values of command-line flags. The value is `None` if it is unknown or if a flag is defined more than
    /// once with different defaults.
    flag_defaults: HashMap<String, Option<PyValue>>,
    /// Name prefixes of servers that are mounted on other servers, keyed by the mounted server.
    mount_prefixes: HashMap<usize, Rc<str>>,
}

impl<'f> PyAnalyzer<'f> {
    fn new(files: PyModuleFiles<'f>, imports_mcp: bool) -> Self {
        Self {
            files,
            imports_mcp,
            modules: HashMap::new(),
            scopes: Vec::new(),
            retained_scope_count: 0,
            bound_names: HashMap::new(),
            permanent_scopes: HashSet::new(),
            resolved_names: HashMap::new(),
            class_scopes: HashMap::new(),
            evaluation: PyEvaluationState::default(),
            return_stack: Vec::new(),
            walk_stack: Vec::new(),
            class_schema_depth: 0,
            steps: 0,
            is_truncated: false,
            parsed_bytes: 0,
            unparsed_files: 0,
            follows_calls: false,
            registered_tools: ToolRegistrations::default(),
            registered_functions: HashSet::new(),
            deferred_tools: ToolRegistrations::default(),
            server_by_function: HashMap::new(),
            is_strict: false,
            disabled_depth: 0,
            reachability: RegistrationReachability::default(),
            function_renames: HashMap::new(),
            entered_calls: HashMap::new(),
            flag_defaults: HashMap::new(),
            mount_prefixes: HashMap::new(),
        }
    }

    fn begin_pass(&mut self, follows_calls: bool) {
        self.follows_calls = follows_calls;
        self.steps = 0;
    }

    /// Counts one step. Returns false once a limit has been reached.
    fn take_step(&mut self) -> bool {
        self.steps += 1;
        let goes_on = self.steps <= MAX_STEPS && self.scopes.len() <= MAX_SCOPES;
        self.is_truncated |= !goes_on;
        goes_on
    }

    /// Returns the number of unread parts: the unread files, plus one if a limit was reached.
    fn unread_parts(&self) -> usize {
        self.unparsed_files
            + usize::from(
                self.is_truncated
                    || self.files.is_truncated()
                    || self.registered_tools.is_truncated
                    || self.deferred_tools.is_truncated,
            )
    }

    /// Returns the names that statements bind. They are computed only once.
    fn bound_names(&mut self, statements: &[PyStmt]) -> Rc<PyBoundNames> {
        let key = statements.as_ptr() as usize;
        self.bound_names.entry(key).or_insert_with(|| Rc::new(PyBoundNames::of(statements))).clone()
    }

    fn push_scope(&mut self, scope: PyScope) -> PyScopeId {
        self.scopes.push(scope);
        self.scopes.len() - 1
    }

    /// Closes the scopes opened since `mark`, unless they are still needed.
    fn pop_scopes(&mut self, mark: usize, are_needed: bool) {
        if !are_needed && self.retained_scope_count <= mark {
            self.scopes.truncate(mark);
        }
    }

    /// Keeps a scope and all earlier ones until the analysis ends.
    fn retain_scope(&mut self, scope: PyScopeId) {
        self.permanent_scopes.insert(scope);
        self.retained_scope_count = self.scopes.len();
    }

    /// Returns the scope of a file. The file is parsed on first use.
    fn module_scope(&mut self, file: usize) -> PyScopeId {
        if let Some((scope, _)) = self.modules.get(&file) {
            return *scope;
        }
        let text = self.files.get(file).map_or("", |file| file.text);
        let fits = self.parsed_bytes + text.len() <= MAX_SOURCE_BYTES;
        self.parsed_bytes += if fits { text.len() } else { 0 };
        let statements = if fits { ast_lowering::parse_statements(text) } else { None };
        self.unparsed_files += usize::from(statements.is_none());
        let statements = statements.unwrap_or_default();
        let scope = PyScope::of_file(file).with_names(Rc::new(PyBoundNames::of(&statements)));
        let scope = self.push_scope(scope);
        self.retain_scope(scope);
        self.modules.insert(file, (scope, Rc::new(statements)));
        scope
    }

    fn module_statements(&self, file: usize) -> Option<Rc<Vec<PyStmt>>> {
        self.modules.get(&file).map(|(_, statements)| statements.clone())
    }

    /// Returns the tools that were found, sorted by name.
    fn into_tools(self) -> Vec<ExtractedTool> {
        let mut definitions = Vec::new();
        let is_registered =
            |tool: &ToolRegistration| tool.function_id.is_some_and(|def| self.registered_functions.contains(&def));
        let collected = self.deferred_tools.iter().filter(|tool| !is_registered(tool));
        // A function that is registered at a known server is not also one of an unknown server. Registrations that
        // only other programs load do not count here.
        let is_placed = |tool: &ToolRegistration| tool.server.is_some() && !self.reachability.is_unloaded(&tool.paths);
        let placed: HashSet<_> = self.registered_tools.iter().filter(is_placed).map(|tool| tool.function_id).collect();
        let found = self
            .registered_tools
            .iter()
            .filter(|tool| tool.server.is_some() || tool.function_id.is_none() || !placed.contains(&tool.function_id));
        for ToolRegistration { tool, server, paths: ways, function_id: def } in found.chain(collected) {
            let server = server.or_else(|| def.and_then(|def| self.server_by_function.get(&def).copied()));
            let name = self.mounted_name(&tool.name, server);
            definitions.push(ExtractedTool { name, optional: !self.is_reachable(&ways), ..tool });
        }
        // The order of addresses must not decide which definition of a name comes first.
        definitions.sort_by_cached_key(|tool| (tool.name.clone(), serde_json::to_string(tool).unwrap_or_default()));
        definitions
    }
}
