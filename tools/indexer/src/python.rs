//! Tools in Python sources.
//!
//! The sources are parsed, never run. Names are followed to what they stand for, also through imports, loops over
//! known lists, and functions that register on behalf of others; what cannot be known is left out.

mod comment_runs;
mod default_conditions;
mod docstring;
mod dynamic_import;
mod entry_points;
mod evaluate;
mod file_selection;
mod function_renames;
mod loaded_files;
mod lower;
mod module_files;
mod reachability;
mod registration;
mod schema;
mod scope;
mod statement_walk;
mod syntax;
mod value;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use evaluate::PyEvaluationState;
use function_renames::FunctionRenames;
use gatelodge_catalogue::{ExtractedTool, SourceFile};
use module_files::PyModuleFiles;
use reachability::Reachability;
use registration::{ToolRegistration, ToolRegistrations};
use scope::{PyBoundNames, PyScope, PyScopeId};
use syntax::PyStmt;
use value::PyValue;

/// How much is looked at in one package. It is counted, not timed, so that every machine finds the same.
const MAX_STEPS: usize = 20_000_000;

/// How many bytes of sources are parsed in one package; statements take many times the memory of their text.
const MAX_SOURCE_BYTES: usize = 10 << 20;
/// How many scopes may be open at once.
const MAX_SCOPES: usize = 200_000;

/// The tools that these files of one package define, by name.
pub fn extract_python_tools(files: &[SourceFile<'_>]) -> crate::tool_extraction::ToolExtraction {
    let chosen = file_selection::select_files(files);
    let imports_mcp = chosen.iter().any(|file| file_selection::imports_mcp(file.text));
    let mut reader = PyAnalyzer::new(PyModuleFiles::of(&chosen), imports_mcp);
    let able: Vec<usize> = (0..chosen.len())
        .filter(|at| chosen.get(*at).is_some_and(|file| file_selection::can_have_tools(file.text)))
        .collect();
    reader.record_reassignments(&chosen);
    // What stands in the open comes first; only then calls are followed, as far as they go.
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

/// Whether a file of a package is read, by its path.
pub fn is_python_input(path: &str) -> bool {
    entry_points::is_python_input(path)
}

/// Whether any of these files uses an SDK of MCP.
pub fn uses_mcp(files: &[SourceFile<'_>]) -> bool {
    files.iter().any(|file| file_selection::imports_mcp(file.text))
}

/// A package while it is read.
struct PyAnalyzer<'f> {
    files: PyModuleFiles<'f>,
    /// Whether any file imports an SDK; without one, nothing unknown is a server.
    imports_mcp: bool,
    modules: HashMap<usize, (PyScopeId, Rc<Vec<PyStmt>>)>,
    scopes: Vec<PyScope>,
    /// Scopes below this one are kept.
    retained_scope_count: usize,
    /// What statements bind, by where they are.
    bound_names: HashMap<usize, Rc<PyBoundNames>>,
    /// Scopes of modules and classes.
    permanent_scopes: HashSet<PyScopeId>,
    /// What their names came to.
    resolved_names: HashMap<(PyScopeId, Rc<str>, bool), PyValue>,
    /// Scopes of classes, by class.
    class_scopes: HashMap<usize, PyScopeId>,
    evaluation: PyEvaluationState,
    /// Functions whose returns are looked at, and those whose bodies are walked.
    return_stack: Vec<usize>,
    walk_stack: Vec<usize>,
    class_schema_depth: usize,
    steps: usize,
    /// Whether there would have been more to look at.
    is_truncated: bool,
    /// Bytes of sources that were parsed, and files that were not.
    parsed_bytes: usize,
    unparsed_files: usize,
    follows_calls: bool,
    registered_tools: ToolRegistrations,
    /// Functions that were registered, and tools of functions that were only put aside.
    registered_functions: HashSet<usize>,
    deferred_tools: ToolRegistrations,
    /// Servers of functions under decorators of the package's own.
    server_by_function: HashMap<usize, usize>,
    /// Whether a condition is looked at: then only what is sure counts.
    is_strict: bool,
    /// How many conditions that are off surround this place.
    disabled_depth: usize,
    reachability: Reachability,
    /// Functions that get another name, by file.
    function_renames: HashMap<usize, FunctionRenames>,
    /// Functions that were walked with the arguments of a call.
    entered_calls: HashMap<usize, HashSet<usize>>,
    /// What flags of the command line are if they are left out; none if that is not one thing.
    flag_defaults: HashMap<String, Option<PyValue>>,
    /// Prefixes of servers that are mounted on others.
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
            reachability: Reachability::default(),
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

    /// Counts a step; false when there have been enough.
    fn take_step(&mut self) -> bool {
        self.steps += 1;
        let goes_on = self.steps <= MAX_STEPS && self.scopes.len() <= MAX_SCOPES;
        self.is_truncated |= !goes_on;
        goes_on
    }

    /// How much of the package was not looked at: files, and what is left of the others.
    fn unread_parts(&self) -> usize {
        self.unparsed_files
            + usize::from(
                self.is_truncated
                    || self.files.is_truncated()
                    || self.registered_tools.is_truncated
                    || self.deferred_tools.is_truncated,
            )
    }

    /// What statements bind; it is looked up once.
    fn bound_names(&mut self, statements: &[PyStmt]) -> Rc<PyBoundNames> {
        let key = statements.as_ptr() as usize;
        self.bound_names.entry(key).or_insert_with(|| Rc::new(PyBoundNames::of(statements))).clone()
    }

    fn push_scope(&mut self, scope: PyScope) -> PyScopeId {
        self.scopes.push(scope);
        self.scopes.len() - 1
    }

    /// Closes the scopes that were opened since, unless something still needs them.
    fn pop_scopes(&mut self, mark: usize, are_needed: bool) {
        if !are_needed && self.retained_scope_count <= mark {
            self.scopes.truncate(mark);
        }
    }

    /// Keeps a scope, and those before it, to the end.
    fn retain_scope(&mut self, scope: PyScopeId) {
        self.permanent_scopes.insert(scope);
        self.retained_scope_count = self.scopes.len();
    }

    /// The scope of a file, which is read when it is first asked for.
    fn module_scope(&mut self, file: usize) -> PyScopeId {
        if let Some((scope, _)) = self.modules.get(&file) {
            return *scope;
        }
        let text = self.files.get(file).map_or("", |file| file.text);
        let fits = self.parsed_bytes + text.len() <= MAX_SOURCE_BYTES;
        self.parsed_bytes += if fits { text.len() } else { 0 };
        let statements = if fits { lower::parse_statements(text) } else { None };
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

    /// What was found, by name.
    fn into_tools(self) -> Vec<ExtractedTool> {
        let mut definitions = Vec::new();
        let is_registered =
            |tool: &ToolRegistration| tool.function_id.is_some_and(|def| self.registered_functions.contains(&def));
        let collected = self.deferred_tools.iter().filter(|tool| !is_registered(tool));
        // A function that is registered at a known server is not also one of an unknown server.
        // What only other programs do says nothing of this one.
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
        // Where they lay in memory must not tell which one of a name comes first.
        definitions.sort_by_cached_key(|tool| (tool.name.clone(), serde_json::to_string(tool).unwrap_or_default()));
        definitions
    }
}
