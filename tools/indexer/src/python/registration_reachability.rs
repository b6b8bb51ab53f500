//! Determines whether a tool's registration is reached by default.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use super::PyAnalyzer;
use super::runtime_function_renames::function_renames;
use super::scope::PyScopeId;
use super::static_value::PyFunction;
use super::syntax::{PyCall, PyImport};
use gatelodge_catalogue::SourceFile;

/// Maximum number of paths to a tool's registration. A tool with this many paths is assumed to be registered by
/// default.
const MAX_PATHS_PER_TOOL: usize = 12;
/// Maximum number of source bytes that are searched for names.
const MAX_SEARCHED_BYTES: usize = 1 << 30;
/// Maximum length of an import statement.
const MAX_IMPORT_CHARS: usize = 20_000;
/// Maximum number of passes for propagating unreachability.
const MAX_ROUNDS: usize = 10;

/// The starting point of a walk through statements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PyCodeBlock {
    /// The statements of a file.
    File(usize),
    /// A function, either on its own or called on an object.
    Function(usize),
}

/// One path to a registration, given by the origins of its walks. It is enabled unless a condition on it is false by
/// default.
#[derive(Debug, Clone, PartialEq, Eq)]
struct RegistrationCallChain {
    origins: Vec<PyCodeBlock>,
    is_enabled: bool,
}

/// All paths to a tool's registration.
#[derive(Debug, Clone, Default)]
pub struct RegistrationCallChains(Vec<RegistrationCallChain>);

impl RegistrationCallChains {
    /// Returns whether any path to the tool starts in one of the given files.
    pub fn has_start_in(&self, files: &HashSet<usize>) -> bool {
        self.0.iter().any(|way| matches!(way.origins.first(), Some(PyCodeBlock::File(file)) if files.contains(file)))
    }

    pub fn extend(&mut self, more: Self) {
        for way in more.0 {
            if self.0.len() < MAX_PATHS_PER_TOOL && !self.0.contains(&way) {
                self.0.push(way);
            }
        }
    }
}

/// Recorded calls and imports, with the conditions around them.
#[derive(Debug, Default)]
pub struct RegistrationReachability {
    /// Origins of the current walk, outermost first.
    origins: Vec<PyCodeBlock>,
    /// Calls, keyed by the called function.
    calls: HashMap<usize, PyFunctionCallSites>,
    /// For each file, the statements that import it, keyed by importing file and statement. The value is false if the
    /// statement runs only under conditions that are false by default.
    imports: HashMap<usize, HashMap<(usize, usize), bool>>,
    /// Module-level names that functions reassign.
    reassigned_names: HashSet<(usize, Rc<str>)>,
    /// Files that the package's entry point does not load.
    pub unloaded_files: HashSet<PyCodeBlock>,
    /// Origins that are not reached by default.
    unreachable: HashSet<PyCodeBlock>,
}

/// The calls to a function, and whether the function is used in other ways.
#[derive(Debug)]
struct PyFunctionCallSites {
    name: Rc<str>,
    /// Calls with their origins. The flag is false if a condition around the call is false by default.
    sites: HashSet<(usize, PyCodeBlock, bool)>,
    /// Whether the name is also used in places where no call was recorded.
    is_used_elsewhere: bool,
}

impl RegistrationReachability {
    pub fn is_reassigned(&self, file: usize, name: &Rc<str>) -> bool {
        self.reassigned_names.contains(&(file, name.clone()))
    }

    /// Returns whether all paths to a tool start in files that the package's entry point does not load.
    pub fn is_unloaded(&self, ways: &RegistrationCallChains) -> bool {
        ways.0.iter().all(|way| way.origins.iter().any(|place| self.unloaded_files.contains(place)))
    }

    fn is_function_unreachable(&self, calls: &PyFunctionCallSites) -> bool {
        let is_closed = |(_, from, is_on): &(usize, PyCodeBlock, bool)| !is_on || self.unreachable.contains(from);
        !calls.is_used_elsewhere && calls.sites.iter().all(is_closed)
    }

    /// Returns whether every import of a file is disabled or in an unreachable file.
    fn is_file_unreachable(&self, seen: &HashMap<(usize, usize), bool>, importers: &[usize]) -> bool {
        let counts = |file: &usize| !self.unreachable.contains(&PyCodeBlock::File(*file));
        let off = seen.iter().filter(|((file, _), is_on)| !**is_on && counts(file)).count();
        off > 0 && importers.iter().filter(|file| counts(file)).count() <= off
    }
}

impl<'f> PyAnalyzer<'f> {
    /// Runs `work` as a walk that starts at a new origin.
    pub fn walk_from<T>(&mut self, place: PyCodeBlock, work: impl FnOnce(&mut Self) -> T) -> T {
        self.reachability.origins.push(place);
        let done = work(self);
        self.reachability.origins.pop();
        done
    }

    /// Runs `work` for code that depends on a condition. `is_on` is false if that condition is false by default.
    pub fn with_condition<T>(&mut self, is_on: bool, work: impl FnOnce(&mut Self) -> T) -> T {
        self.disabled_depth += usize::from(!is_on);
        let done = work(self);
        self.disabled_depth -= usize::from(!is_on);
        done
    }

    /// Returns the path to the current position.
    pub fn current_path(&self) -> RegistrationCallChains {
        RegistrationCallChains(vec![RegistrationCallChain {
            origins: self.reachability.origins.clone(),
            is_enabled: self.disabled_depth == 0,
        }])
    }

    /// Records a call to one of the package's functions.
    pub fn record_call(&mut self, call: &Rc<PyCall>, function: &PyFunction) {
        let def = Rc::as_ptr(&function.def) as usize;
        let here =
            self.walk_stack.last().map(|def| PyCodeBlock::Function(*def)).or(self.reachability.origins.last().copied());
        let is_on = self.disabled_depth == 0;
        if let Some(here) = here.filter(|here| *here != PyCodeBlock::Function(def)) {
            let name = function.def.name.clone();
            let new = || PyFunctionCallSites { name, sites: HashSet::new(), is_used_elsewhere: false };
            self.reachability.calls.entry(def).or_insert_with(new).sites.insert((
                Rc::as_ptr(call) as usize,
                here,
                is_on,
            ));
        }
    }

    /// Records imports of the package's own files.
    pub fn record_imports(&mut self, imports: &[PyImport], scope: PyScopeId) {
        let from = self.scopes.get(scope).map_or(0, |scope| scope.file);
        let (statement, is_on) = (imports.as_ptr() as usize, self.disabled_depth == 0);
        for import in imports {
            for file in self.files.import_targets(from, import.up, &import.module, import.item.as_deref()) {
                let seen = self.reachability.imports.entry(file).or_default().entry((from, statement)).or_default();
                *seen |= is_on;
            }
        }
    }

    /// Marks the origins that are not reached by default.
    pub fn mark_unreachable(&mut self) {
        self.mark_untracked_uses();
        let importers = self.collect_importers();
        for _ in 0..MAX_ROUNDS {
            let reach = &self.reachability;
            let files = reach.imports.iter().filter(|(file, seen)| {
                reach.is_file_unreachable(seen, importers.get(file).map(Vec::as_slice).unwrap_or_default())
            });
            let defs = reach.calls.iter().filter(|(_, calls)| reach.is_function_unreachable(calls));
            let files = files.map(|(file, _)| PyCodeBlock::File(*file)).chain(reach.unloaded_files.iter().copied());
            let closed: HashSet<_> = files.chain(defs.map(|(def, _)| PyCodeBlock::Function(*def))).collect();
            let is_same = closed == reach.unreachable;
            self.reachability.unreachable = closed;
            if is_same {
                break;
            }
        }
    }

    /// Returns the files that import each file, once per import statement. This is computed only if some imports are
    /// disabled.
    fn collect_importers(&mut self) -> HashMap<usize, Vec<usize>> {
        let mut importers: HashMap<usize, Vec<usize>> = HashMap::new();
        if self.reachability.imports.values().all(|seen| seen.values().all(|is_on| *is_on)) {
            self.reachability.imports.clear();
            return importers;
        }
        for (at, file) in self.files.all().iter().enumerate() {
            for statement in import_statements(file.text) {
                let targets =
                    statement.iter().flat_map(|(up, module, item)| self.files.import_targets(at, *up, module, *item));
                for target in targets.collect::<HashSet<_>>() {
                    importers.entry(target).or_default().push(at);
                }
            }
        }
        importers
    }

    /// Marks the functions that are used in places where no call was recorded.
    fn mark_untracked_uses(&mut self) {
        let (files, entered) = (self.files.all(), &self.entered_calls);
        // If some files are not loaded, only calls in the loaded ones count.
        let is_whole = self.reachability.unloaded_files.is_empty();
        let matters = |def: &usize, calls: &PyFunctionCallSites| {
            !is_whole || entered.contains_key(def) || calls.sites.iter().any(|(.., on)| !on)
        };
        let mut asked: Vec<_> = self.reachability.calls.iter_mut().filter(|(def, calls)| matters(def, calls)).collect();
        let text: usize = files.iter().map(|file| file.text.len()).sum();
        let is_too_much = text.saturating_mul(asked.len()) > MAX_SEARCHED_BYTES;
        for (_, calls) in &mut asked {
            let seen: HashSet<_> = calls.sites.iter().map(|(call, ..)| call).collect();
            let used = || files.iter().map(|file| count_uses(file.text, &calls.name)).sum::<usize>();
            calls.is_used_elsewhere = is_too_much || used() > seen.len();
        }
    }

    /// Returns whether a tool is registered by default. If each call to a function was followed with its arguments, the
    /// walk of the function without arguments is ignored.
    pub fn is_reachable(&self, ways: &RegistrationCallChains) -> bool {
        let is_by_itself = |way: &RegistrationCallChain| matches!(way.origins.last(), Some(PyCodeBlock::Function(def)) if self.has_all_calls_entered(*def));
        let is_open = |way: &RegistrationCallChain| {
            way.is_enabled && !way.origins.iter().any(|place| self.reachability.unreachable.contains(place))
        };
        let mut called = ways.0.iter().filter(|way| !is_by_itself(way)).peekable();
        ways.0.len() >= MAX_PATHS_PER_TOOL
            || if called.peek().is_some() { called.any(is_open) } else { ways.0.iter().any(is_open) }
    }

    /// Returns whether each call to a function was followed with its arguments.
    fn has_all_calls_entered(&self, def: usize) -> bool {
        let (Some(calls), Some(entered)) = (self.reachability.calls.get(&def), self.entered_calls.get(&def)) else {
            return false;
        };
        !calls.is_used_elsewhere && calls.sites.iter().all(|(call, ..)| entered.contains(call))
    }

    /// Records the names in these files that are reassigned later.
    pub fn record_reassignments(&mut self, files: &[SourceFile<'f>]) {
        for (at, file) in files.iter().enumerate() {
            for line in file.text.lines() {
                self.reachability
                    .reassigned_names
                    .extend(reassigned_names(line.trim_start()).map(|name| (at, Rc::from(name))));
            }
            self.function_renames.insert(at, function_renames(file));
        }
    }
}

/// Returns the names that a line changes or declares as `global`, as in `global a, b`, `a |= …` and `a.append(…)`.
fn reassigned_names(line: &str) -> impl Iterator<Item = &str> {
    const MUTATING_METHODS: [&str; 9] =
        ["append", "add", "update", "extend", "insert", "remove", "discard", "setdefault", "difference_update"];
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let global = line.strip_prefix("global ").into_iter().flat_map(|names| names.split(',').map(str::trim));
    let end = line.find(|letter| !is_word(letter)).unwrap_or(line.len());
    let (name, rest) = line.split_at(end);
    let calls = rest.strip_prefix('.').and_then(|rest| rest.split_once('(')).map(|(method, _)| method);
    let rest = rest.trim_start();
    let adds = ["+=", "|=", "-=", "&="].iter().any(|sign| rest.starts_with(sign));
    let is_changed = !name.is_empty() && (adds || calls.is_some_and(|method| MUTATING_METHODS.contains(&method)));
    global.chain(is_changed.then_some(name))
}

/// Counts the uses of a name in source code, not counting definitions, imports and quoted names.
fn count_uses(text: &str, name: &str) -> usize {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut times = 0;
    for (at, _) in text.match_indices(name) {
        let (before, after) = (text.get(..at).unwrap_or_default(), text.get(at + name.len()..).unwrap_or_default());
        let line = before.rsplit('\n').next().unwrap_or_default();
        let is_whole = !before.ends_with(is_word) && !after.starts_with(is_word);
        let is_named = line.ends_with("def ") || line.ends_with(['"', '\'', '`']) || line.contains("import ");
        times += usize::from(is_whole && !is_named);
    }
    times
}

/// Returns the imports in source code, grouped by statement. Each import has a number of leading dots, a module and an
/// item.
pub fn import_statements(text: &str) -> Vec<Vec<(usize, &str, Option<&str>)>> {
    let mut out = Vec::new();
    let (mut at, mut searched) = (0, 0);
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let has_bracket = line.split('#').next().is_some_and(|line| line.contains('('));
        // An import may follow `try:` or another statement on the same line.
        for part in line.split_inclusive([';', ':']) {
            let asked = part.trim_start();
            if !asked.starts_with("import ") && !asked.starts_with("from ") {
                continue;
            }
            let from_here = text.get(asked.as_ptr() as usize - text.as_ptr() as usize..).unwrap_or_default();
            // Imports inside an open bracket are parsed on their own: scanning unclosed brackets from each line would
            // take quadratic time.
            let is_open = start >= searched && has_bracket;
            let found = find_statement_text(from_here, is_open);
            // An unclosed bracket is not scanned again from each of its lines.
            searched = searched.max(if is_open { start + found.map_or(MAX_IMPORT_CHARS, str::len) } else { 0 });
            out.push(parse_import(found.unwrap_or_else(|| asked.trim_end())));
        }
    }
    out
}

/// Returns a statement up to its closing bracket or the end of its line, or `None` if it does not end within the limit.
fn find_statement_text(from_here: &str, is_open: bool) -> Option<&str> {
    let (mut is_comment, mut before) = (false, ' ');
    for (at, letter) in from_here.char_indices().take(MAX_IMPORT_CHARS) {
        is_comment = (is_comment || letter == '#') && letter != '\n';
        let ends = match letter {
            ')' => is_open && !is_comment,
            '\n' => !is_open && before != '\\',
            ';' | ':' => !is_open && !is_comment,
            _ => false,
        };
        if ends {
            return from_here.get(..at);
        }
        before = letter;
    }
    None
}

/// Parses one import statement.
fn parse_import(statement: &str) -> Vec<(usize, &str, Option<&str>)> {
    let words = |list| -> Vec<&str> {
        let lines = str::lines(list).map(|line| line.split('#').next().unwrap_or_default());
        lines.flat_map(|line| line.split([',', '(', '\\'])).filter_map(|item| item.split_whitespace().next()).collect()
    };
    if let Some(modules) = statement.strip_prefix("import ") {
        return words(modules).into_iter().map(|module| (0, module, None)).collect();
    }
    let asked = statement.strip_prefix("from ").and_then(|asked| asked.split_once(" import"));
    let Some((module, items)) = asked.filter(|(_, items)| items.starts_with([' ', '(', '\\', '\t'])) else {
        return Vec::new();
    };
    let module = module.trim();
    let name = module.trim_start_matches('.');
    let up = module.len() - name.len();
    words(items).into_iter().map(|item| (up, name, Some(item))).collect()
}

#[cfg(test)]
mod tests {
    use super::import_statements;

    #[test]
    fn runs_of_imports_give_no_more_than_is_written() {
        for (row, names) in [("from a import (b\n", 1), ("import a,b:", 2), ("from a import (b:", 1), ("import a;", 1)]
        {
            let asked: usize = import_statements(&(row.repeat(3_000) + "\n")).iter().map(Vec::len).sum();
            // An unclosed statement occasionally repeats the imports inside it.
            assert!((3_000..=3_000 * names + 20_000).contains(&asked), "{row:?}: {asked}");
        }
    }
}
