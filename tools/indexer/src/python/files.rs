//! Which file an import means.

use std::cell::Cell;
use std::collections::HashMap;

use gatelodge_catalogue::SourceFile;

/// How many files are held against the names of modules in one package. Many may have one name.
const MOST_COMPARED: usize = 20_000_000;

/// The files of a package, by module.
pub struct Files<'f> {
    files: &'f [SourceFile<'f>],
    /// The parts of their modules' names.
    parts: Vec<Vec<&'f str>>,
    /// How many were compared.
    compared: Cell<usize>,
    /// Places of files by the last part of their module's name.
    by_last: HashMap<&'f str, Vec<usize>>,
}

impl<'f> Files<'f> {
    pub fn of(files: &'f [SourceFile<'f>]) -> Self {
        let mut by_last: HashMap<&str, Vec<usize>> = HashMap::new();
        let parts: Vec<_> = files.iter().map(|file| parts(file.path)).collect();
        for (at, parts) in parts.iter().enumerate() {
            if let Some(last) = parts.last() {
                by_last.entry(last).or_default().push(at);
            }
        }
        Self { files, parts, compared: Cell::new(0), by_last }
    }

    /// Whether more would have been to compare than is.
    pub fn is_cut(&self) -> bool {
        self.compared.get() > MOST_COMPARED
    }

    fn compares(&self, count: usize) -> bool {
        self.compared.set(self.compared.get().saturating_add(count));
        !self.is_cut()
    }

    fn parts(&self, at: usize) -> &[&'f str] {
        self.parts.get(at).map(Vec::as_slice).unwrap_or_default()
    }

    /// The files whose modules end in a name.
    fn candidates(&self, last: &str) -> &[usize] {
        let all = self.by_last.get(last).map(Vec::as_slice).unwrap_or_default();
        if self.compares(all.len()) { all } else { &[] }
    }

    pub fn all(&self) -> &'f [SourceFile<'f>] {
        self.files
    }

    pub fn get(&self, at: usize) -> Option<&SourceFile<'f>> {
        self.files.get(at)
    }

    /// The file of a module, as seen from a file. `up` dots are so many folders less one.
    pub fn module(&self, from: usize, up: usize, module: &str) -> Option<usize> {
        let wanted: Vec<&str> = module.split('.').filter(|part| !part.is_empty()).collect();
        if up == 0 {
            return self.absolute(from, &wanted);
        }
        let mut whole = self.above(from, up)?;
        whole.extend(wanted);
        self.candidates(whole.last()?).iter().copied().find(|at| self.parts(*at) == whole)
    }

    /// The files that lie right in a folder, as seen from a file.
    pub fn below(&self, from: usize, up: usize, folder: &[&str]) -> Vec<usize> {
        let above = if up == 0 { Some(Vec::new()) } else { self.above(from, up) };
        let Some(whole) = above.map(|above| [above.as_slice(), folder].concat()) else { return Vec::new() };
        let is_inside = |at: &usize| match self.parts(*at).split_last() {
            Some((_, own)) => own == whole || (up == 0 && own.ends_with(&whole)),
            None => false,
        };
        let count = if self.compares(self.files.len()) { self.files.len() } else { 0 };
        (0..count).filter(is_inside).collect()
    }

    /// The parts of the folder so many dots above a file.
    fn above(&self, from: usize, up: usize) -> Option<Vec<&'f str>> {
        let path = self.files.get(from)?.path;
        let mut whole = self.parts(from).to_vec();
        // `.` in a package's own file is the package itself.
        let less = if path.ends_with("__init__.py") { up - 1 } else { up };
        whole.truncate(whole.len().checked_sub(less)?);
        Some(whole)
    }

    /// The file of a module that is named from outside.
    pub fn named(&self, module: &str) -> Option<usize> {
        self.absolute(usize::MAX, &module.split('.').collect::<Vec<_>>())
    }

    /// The files that an import asks for: the module, and the item if that is one, too.
    pub fn targets(
        &self,
        from: usize,
        up: usize,
        module: &str,
        item: Option<&str>,
    ) -> impl Iterator<Item = usize> + use<> {
        let whole = self.module(from, up, module);
        let below = item.map(|item| if module.is_empty() { item.to_owned() } else { format!("{module}.{item}") });
        let inner = below.and_then(|below| self.module(from, up, &below)).filter(|inner| Some(*inner) != whole);
        whole.into_iter().chain(inner).filter(move |file| *file != from)
    }

    /// The packages that a file is in; they are loaded before it.
    pub fn around(&self, at: usize) -> Vec<usize> {
        let path = self.files.get(at).map_or("", |file| file.path);
        let folders = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
        let owns = |folder: &str| {
            let own = |at: &&usize| {
                self.files.get(**at).is_some_and(|file| file.path.strip_prefix(folder) == Some("/__init__.py"))
            };
            self.by_last.get(folder.rsplit('/').next()?)?.iter().find(own).copied()
        };
        folders.filter_map(owns).filter(|own| *own != at).collect()
    }

    /// How a file is named in a text that has it started or loaded.
    pub fn spoken(&self, at: usize) -> Spoken {
        let path = self.files.get(at).map_or("", |file| file.path);
        let name = path.rsplit('/').next().filter(|name| !name.starts_with("__"));
        let mut names: Vec<String> = Vec::new();
        names.extend(name.iter().flat_map(|name| ["\"", "'", ":"].map(|end| format!("{name}{end}"))));
        if let [.., own] = self.parts(at) {
            names.extend(["\"", "'"].map(|quote| format!("{quote}{own}:")));
        }
        let [.., folder, own] = self.parts(at) else {
            return Spoken { names, module: None, folder: None };
        };
        names.extend(["\"", "'", ":"].map(|end| format!("{folder}.{own}{end}")));
        names.extend(["{", "%"].map(|end| format!("{folder}.{end}")));
        Spoken { names, module: Some(format!("{folder}.{own}")), folder: Some(format!("{folder}.")) }
    }

    /// An archive may have folders above the module; of several candidates, the one that shares most with the file
    /// that asks, then the one with the shortest path.
    fn absolute(&self, from: usize, wanted: &[&str]) -> Option<usize> {
        let here = self.parts(from);
        let shared = |path: &[&str]| path.iter().zip(here).take_while(|(one, other)| one == other).count();
        let candidates = self.candidates(wanted.last()?).iter().copied();
        candidates.filter(|at| self.parts(*at).ends_with(wanted)).min_by_key(|at| {
            let path = self.parts(*at);
            (usize::MAX - shared(path), path.len())
        })
    }

    /// Whether the package that a name begins with is in no other: `mcp.server` is not `books/mcp/server.py`.
    pub fn is_outermost(&self, at: usize, module: &str) -> bool {
        let (path, first) = (self.parts(at), module.split('.').next().unwrap_or_default());
        let above = path.iter().rposition(|part| *part == first).and_then(|above| path.get(..above));
        let Some((above, last)) = above.and_then(|above| Some((above, above.last()?))) else { return true };
        let is_package = |at: &usize| {
            self.parts(*at) == above && self.files.get(*at).is_some_and(|file| file.path.ends_with("/__init__.py"))
        };
        !self.candidates(last).iter().any(is_package)
    }
}

/// How a file is named in texts.
pub struct Spoken {
    /// With what ends it: `books.shelf"`, `shelf.py"`, `"shelf:`, `books.{`.
    pub names: Vec<String>,
    /// The end of its module's name, as `-m` has it.
    pub module: Option<String>,
    /// The name of its folder in a text that goes on elsewhere: `"books."`.
    pub folder: Option<String>,
}

/// The last part of the name of a file's module.
pub fn last(path: &str) -> Option<&str> {
    parts(path).last().copied()
}

/// The dotted parts of a file's module: `src/books/shelf.py` is `src`, `books`, `shelf`.
fn parts(path: &str) -> Vec<&str> {
    let path = path.strip_suffix(".py").unwrap_or(path);
    let path = path.strip_suffix("/__init__").unwrap_or(path);
    path.split('/').filter(|part| !part.is_empty()).collect()
}
