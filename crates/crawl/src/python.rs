//! Tools in Python sources.
//!
//! The sources are parsed, never run. Names are followed to what they stand for, also through imports, loops over
//! known lists, and functions that register on behalf of others; what cannot be known is left out.

mod evaluate;
mod files;
mod lower;
mod register;
mod schema;
mod scope;
mod syntax;
mod text;
mod value;
mod walk;
mod which;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::rc::Rc;

use crate::found::{FoundTool, SourceFile};
use evaluate::Looking;
use files::Files;
use register::Registered;
use scope::{Scope, ScopeId};
use syntax::Stmt;
use value::Value;

/// How much is looked at in one package. It is counted, not timed, so that every machine finds the same.
const STEPS: usize = 10_000_000;

/// The tools that these files of one package define, by name.
pub fn python_tools(files: &[SourceFile<'_>]) -> Vec<FoundTool> {
    let chosen = which::chosen(files);
    let imports_mcp = chosen.iter().any(|file| which::imports_mcp(file.text));
    let mut reader = Reader::new(Files::of(&chosen), imports_mcp);
    for (at, file) in chosen.iter().enumerate() {
        if which::can_have_tools(file.text) {
            reader.walk_file(at);
        }
    }
    reader.tools()
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
    modules: HashMap<usize, (ScopeId, Rc<Vec<Stmt>>)>,
    scopes: Vec<Scope>,
    /// Scopes of modules and classes.
    lasting: HashSet<ScopeId>,
    /// What their names came to.
    known: HashMap<(ScopeId, Rc<str>), Value>,
    /// Scopes of classes, by class.
    classes: HashMap<usize, ScopeId>,
    looking: Looking,
    /// Functions whose returns are looked at, and those whose bodies are walked.
    running: Vec<usize>,
    walking: Vec<usize>,
    depth_of_classes: usize,
    steps: usize,
    found: Vec<Registered>,
    /// Functions that were registered, and tools of functions that were only put aside.
    registered: HashSet<usize>,
    collected: Vec<Registered>,
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
            lasting: HashSet::new(),
            known: HashMap::new(),
            classes: HashMap::new(),
            looking: Looking::default(),
            running: Vec::new(),
            walking: Vec::new(),
            depth_of_classes: 0,
            steps: 0,
            found: Vec::new(),
            registered: HashSet::new(),
            collected: Vec::new(),
            mounted: HashMap::new(),
        }
    }

    /// Counts a step; false when there have been enough.
    fn step(&mut self) -> bool {
        self.steps += 1;
        self.steps <= STEPS
    }

    fn open(&mut self, scope: Scope) -> ScopeId {
        self.scopes.push(scope);
        self.scopes.len() - 1
    }

    /// The scope of a file, which is read when it is first asked for.
    fn module(&mut self, file: usize) -> ScopeId {
        if let Some((scope, _)) = self.modules.get(&file) {
            return *scope;
        }
        let statements = self.files.get(file).and_then(|file| lower::statements(file.text)).unwrap_or_default();
        let mut scope = Scope { file, ..Scope::default() };
        scope.bind(&statements);
        let scope = self.open(scope);
        self.lasting.insert(scope);
        self.modules.insert(file, (scope, Rc::new(statements)));
        scope
    }

    fn statements(&self, file: usize) -> Option<Rc<Vec<Stmt>>> {
        self.modules.get(&file).map(|(_, statements)| statements.clone())
    }

    /// What was found, once for each name: the one that says most.
    fn tools(self) -> Vec<FoundTool> {
        let mut by_name: BTreeMap<String, FoundTool> = BTreeMap::new();
        let is_registered = |tool: &&Registered| tool.def.is_some_and(|def| self.registered.contains(&def));
        let collected = self.collected.iter().filter(|tool| !is_registered(tool));
        // A function that is registered at a known server is not also one of an unknown server.
        let placed: HashSet<_> = self.found.iter().filter(|tool| tool.server.is_some()).map(|tool| tool.def).collect();
        let found =
            self.found.iter().filter(|tool| tool.server.is_some() || tool.def.is_none() || !placed.contains(&tool.def));
        for Registered { tool, server, .. } in found.chain(collected) {
            let name = self.mounted_name(&tool.name, *server);
            let tool = FoundTool { name: name.clone(), ..tool.clone() };
            match by_name.get(&name) {
                Some(known) if says(known) >= says(&tool) => {}
                _ => {
                    by_name.insert(name, tool);
                }
            }
        }
        by_name.into_values().collect()
    }
}

fn says(tool: &FoundTool) -> (bool, bool, usize) {
    let parameters = tool.input_schema.get("properties").and_then(|all| all.as_object()).map_or(0, |all| all.len());
    (!tool.annotations.is_empty(), tool.description.is_some(), parameters)
}
