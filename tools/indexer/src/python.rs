//! Tools in Python sources.
//!
//! The sources are parsed, never run. Names are followed to what they stand for, also through imports, loops over
//! known lists, and functions that register on behalf of others; what cannot be known is left out.

mod decide;
mod evaluate;
mod files;
mod follow;
mod load;
mod lower;
mod program;
mod reach;
mod register;
mod remark;
mod rename;
mod schema;
mod scope;
mod syntax;
mod text;
mod value;
mod walk;
mod which;

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use evaluate::Looking;
use files::Files;
use gatelodge_catalogue::{ExtractedTool, SourceFile};
use reach::Reach;
use register::{Found, Registered};
use rename::Renames;
use scope::{PyBoundNames, PyScope, PyScopeId};
use syntax::PyStmt;
use value::PyValue;

/// How much is looked at in one package. It is counted, not timed, so that every machine finds the same.
const STEPS: usize = 20_000_000;

/// How many bytes of sources are parsed in one package; statements take many times the memory of their text.
const SOURCES: usize = 10 << 20;
/// How many scopes may be open at once.
const SCOPES: usize = 200_000;

/// The tools that these files of one package define, by name.
pub fn extract_python_tools(files: &[SourceFile<'_>]) -> crate::tool_extraction::ToolExtraction {
    let chosen = which::chosen(files);
    let imports_mcp = chosen.iter().any(|file| which::imports_mcp(file.text));
    let mut reader = Reader::new(Files::of(&chosen), imports_mcp);
    let able: Vec<usize> =
        (0..chosen.len()).filter(|at| chosen.get(*at).is_some_and(|file| which::can_have_tools(file.text))).collect();
    reader.note_changes(&chosen);
    // What stands in the open comes first; only then calls are followed, as far as they go.
    for follows_calls in [false, true] {
        reader.begin(follows_calls);
        able.iter().for_each(|at| reader.walk_file(*at));
    }
    let passed_over = reader.passed_over();
    if passed_over > 0 {
        return crate::tool_extraction::ToolExtraction::incomplete(passed_over);
    }
    reader.note_program(files);
    reader.settle();
    crate::tool_extraction::ToolExtraction::from_definitions(reader.definitions(), ExtractedTool::says)
}

/// Whether a file of a package is read, by its path.
pub fn is_python_input(path: &str) -> bool {
    program::is_read(path)
}

/// Whether any of these files uses an SDK of MCP.
pub fn uses_mcp(files: &[SourceFile<'_>]) -> bool {
    files.iter().any(|file| which::imports_mcp(file.text))
}

/// A package while it is read.
struct Reader<'f> {
    files: Files<'f>,
    /// Whether any file imports an SDK; without one, nothing unknown is a server.
    imports_mcp: bool,
    modules: HashMap<usize, (PyScopeId, Rc<Vec<PyStmt>>)>,
    scopes: Vec<PyScope>,
    /// Scopes below this one are kept.
    floor: usize,
    /// What statements bind, by where they are.
    names: HashMap<usize, Rc<PyBoundNames>>,
    /// Scopes of modules and classes.
    lasting: HashSet<PyScopeId>,
    /// What their names came to.
    known: HashMap<(PyScopeId, Rc<str>, bool), PyValue>,
    /// Scopes of classes, by class.
    classes: HashMap<usize, PyScopeId>,
    looking: Looking,
    /// Functions whose returns are looked at, and those whose bodies are walked.
    running: Vec<usize>,
    walking: Vec<usize>,
    depth_of_classes: usize,
    steps: usize,
    /// Whether there would have been more to look at.
    is_cut: bool,
    /// Bytes of sources that were parsed, and files that were not.
    read: usize,
    not_read: usize,
    follows_calls: bool,
    found: Found,
    /// Functions that were registered, and tools of functions that were only put aside.
    registered: HashSet<usize>,
    collected: Found,
    /// Servers of functions under decorators of the package's own.
    server_of: HashMap<usize, usize>,
    /// Whether a condition is looked at: then only what is sure counts.
    is_deciding: bool,
    /// How many conditions that are off surround this place.
    off: usize,
    reach: Reach,
    /// Functions that get another name, by file.
    renames: HashMap<usize, Renames>,
    /// Functions that were walked with the arguments of a call.
    entered: HashMap<usize, HashSet<usize>>,
    /// What flags of the command line are if they are left out; none if that is not one thing.
    flags: HashMap<String, Option<PyValue>>,
    /// Prefixes of servers that are mounted on others.
    mounted: HashMap<usize, Rc<str>>,
}

impl<'f> Reader<'f> {
    fn new(files: Files<'f>, imports_mcp: bool) -> Self {
        Self {
            files,
            imports_mcp,
            modules: HashMap::new(),
            scopes: Vec::new(),
            floor: 0,
            names: HashMap::new(),
            lasting: HashSet::new(),
            known: HashMap::new(),
            classes: HashMap::new(),
            looking: Looking::default(),
            running: Vec::new(),
            walking: Vec::new(),
            depth_of_classes: 0,
            steps: 0,
            is_cut: false,
            read: 0,
            not_read: 0,
            follows_calls: false,
            found: Found::default(),
            registered: HashSet::new(),
            collected: Found::default(),
            server_of: HashMap::new(),
            is_deciding: false,
            off: 0,
            reach: Reach::default(),
            renames: HashMap::new(),
            entered: HashMap::new(),
            flags: HashMap::new(),
            mounted: HashMap::new(),
        }
    }

    fn begin(&mut self, follows_calls: bool) {
        self.follows_calls = follows_calls;
        self.steps = 0;
    }

    /// Counts a step; false when there have been enough.
    fn step(&mut self) -> bool {
        self.steps += 1;
        let goes_on = self.steps <= STEPS && self.scopes.len() <= SCOPES;
        self.is_cut |= !goes_on;
        goes_on
    }

    /// How much of the package was not looked at: files, and what is left of the others.
    fn passed_over(&self) -> usize {
        self.not_read + usize::from(self.is_cut || self.files.is_cut() || self.found.is_cut || self.collected.is_cut)
    }

    /// What statements bind; it is looked up once.
    fn names(&mut self, statements: &[PyStmt]) -> Rc<PyBoundNames> {
        let key = statements.as_ptr() as usize;
        self.names.entry(key).or_insert_with(|| Rc::new(PyBoundNames::of(statements))).clone()
    }

    fn open(&mut self, scope: PyScope) -> PyScopeId {
        self.scopes.push(scope);
        self.scopes.len() - 1
    }

    /// Closes the scopes that were opened since, unless something still needs them.
    fn close(&mut self, mark: usize, are_needed: bool) {
        if !are_needed && self.floor <= mark {
            self.scopes.truncate(mark);
        }
    }

    /// Keeps a scope, and those before it, to the end.
    fn last(&mut self, scope: PyScopeId) {
        self.lasting.insert(scope);
        self.floor = self.scopes.len();
    }

    /// The scope of a file, which is read when it is first asked for.
    fn module(&mut self, file: usize) -> PyScopeId {
        if let Some((scope, _)) = self.modules.get(&file) {
            return *scope;
        }
        let text = self.files.get(file).map_or("", |file| file.text);
        let fits = self.read + text.len() <= SOURCES;
        self.read += if fits { text.len() } else { 0 };
        let statements = if fits { lower::parse_statements(text) } else { None };
        self.not_read += usize::from(statements.is_none());
        let statements = statements.unwrap_or_default();
        let scope = PyScope::of_file(file).with_names(Rc::new(PyBoundNames::of(&statements)));
        let scope = self.open(scope);
        self.last(scope);
        self.modules.insert(file, (scope, Rc::new(statements)));
        scope
    }

    fn statements(&self, file: usize) -> Option<Rc<Vec<PyStmt>>> {
        self.modules.get(&file).map(|(_, statements)| statements.clone())
    }

    /// What was found, by name.
    fn definitions(self) -> Vec<ExtractedTool> {
        let mut definitions = Vec::new();
        let is_registered = |tool: &Registered| tool.def.is_some_and(|def| self.registered.contains(&def));
        let collected = self.collected.iter().filter(|tool| !is_registered(tool));
        // A function that is registered at a known server is not also one of an unknown server.
        // What only other programs do says nothing of this one.
        let is_placed = |tool: &Registered| tool.server.is_some() && !self.reach.is_outside(&tool.ways);
        let placed: HashSet<_> = self.found.iter().filter(is_placed).map(|tool| tool.def).collect();
        let found =
            self.found.iter().filter(|tool| tool.server.is_some() || tool.def.is_none() || !placed.contains(&tool.def));
        for Registered { tool, server, ways, def } in found.chain(collected) {
            let server = server.or_else(|| def.and_then(|def| self.server_of.get(&def).copied()));
            let name = self.mounted_name(&tool.name, server);
            definitions.push(ExtractedTool { name, optional: !self.is_open(&ways), ..tool });
        }
        // Where they lay in memory must not tell which one of a name comes first.
        definitions.sort_by_cached_key(|tool| (tool.name.clone(), serde_json::to_string(tool).unwrap_or_default()));
        definitions
    }
}
