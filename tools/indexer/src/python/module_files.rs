//! Resolves imports to files.

use std::cell::Cell;
use std::collections::HashMap;

use gatelodge_catalogue::SourceFile;

/// Maximum number of files that are compared with module names, per package. A limit is needed because many files may
/// have the same name.
const MAX_COMPARISONS: usize = 20_000_000;

/// A package's files, indexed by module name.
pub struct PyModuleFiles<'f> {
    files: &'f [SourceFile<'f>],
    /// For each file, the parts of its module name.
    module_parts: Vec<Vec<&'f str>>,
    /// Number of comparisons so far.
    comparisons: Cell<usize>,
    /// Indexes of the files, by the last part of their module name.
    by_last_part: HashMap<&'f str, Vec<usize>>,
}

impl<'f> PyModuleFiles<'f> {
    pub fn of(files: &'f [SourceFile<'f>]) -> Self {
        let mut by_last_part: HashMap<&str, Vec<usize>> = HashMap::new();
        let module_parts: Vec<_> = files.iter().map(|file| split_module_parts(file.path)).collect();
        for (at, parts) in module_parts.iter().enumerate() {
            if let Some(last) = parts.last() {
                by_last_part.entry(last).or_default().push(at);
            }
        }
        Self { files, module_parts, comparisons: Cell::new(0), by_last_part }
    }

    /// Returns whether the limit on comparisons was exceeded.
    pub fn is_truncated(&self) -> bool {
        self.comparisons.get() > MAX_COMPARISONS
    }

    fn count_comparisons(&self, count: usize) -> bool {
        self.comparisons.set(self.comparisons.get().saturating_add(count));
        !self.is_truncated()
    }

    fn module_parts(&self, at: usize) -> &[&'f str] {
        self.module_parts.get(at).map(Vec::as_slice).unwrap_or_default()
    }

    /// Returns the files whose module name has `last` as its last part.
    fn candidates(&self, last: &str) -> &[usize] {
        let all = self.by_last_part.get(last).map(Vec::as_slice).unwrap_or_default();
        if self.count_comparisons(all.len()) { all } else { &[] }
    }

    pub fn all(&self) -> &'f [SourceFile<'f>] {
        self.files
    }

    pub fn get(&self, at: usize) -> Option<&SourceFile<'f>> {
        self.files.get(at)
    }

    /// Resolves an import to the file of the imported module. `up` is the number of leading dots of a relative import.
    pub fn find_module(&self, from: usize, up: usize, module: &str) -> Option<usize> {
        let wanted: Vec<&str> = module.split('.').filter(|part| !part.is_empty()).collect();
        if up == 0 {
            return self.find_absolute(from, &wanted);
        }
        let mut whole = self.find_parent_parts(from, up)?;
        whole.extend(wanted);
        self.candidates(whole.last()?).iter().copied().find(|at| self.module_parts(*at) == whole)
    }

    /// Returns the files directly in a folder. The folder is given relative to a file.
    pub fn files_in_folder(&self, from: usize, up: usize, folder: &[&str]) -> Vec<usize> {
        let above = if up == 0 { Some(Vec::new()) } else { self.find_parent_parts(from, up) };
        let Some(whole) = above.map(|above| [above.as_slice(), folder].concat()) else { return Vec::new() };
        let is_inside = |at: &usize| match self.module_parts(*at).split_last() {
            Some((_, own)) => own == whole || (up == 0 && own.ends_with(&whole)),
            None => false,
        };
        let count = if self.count_comparisons(self.files.len()) { self.files.len() } else { 0 };
        (0..count).filter(is_inside).collect()
    }

    /// Returns the path parts of the folder that `up` leading dots refer to.
    fn find_parent_parts(&self, from: usize, up: usize) -> Option<Vec<&'f str>> {
        let path = self.files.get(from)?.path;
        let mut whole = self.module_parts(from).to_vec();
        // `.` in `__init__.py` is the package itself.
        let less = if path.ends_with("__init__.py") { up - 1 } else { up };
        whole.truncate(whole.len().checked_sub(less)?);
        Some(whole)
    }

    /// Finds the file of a module, given the module's absolute name.
    pub fn find_absolute_module(&self, module: &str) -> Option<usize> {
        self.find_absolute(usize::MAX, &module.split('.').collect::<Vec<_>>())
    }

    /// Returns the files that an import refers to: the module, and also the imported item if it is itself a module.
    pub fn import_targets(
        &self,
        from: usize,
        up: usize,
        module: &str,
        item: Option<&str>,
    ) -> impl Iterator<Item = usize> + use<> {
        let whole = self.find_module(from, up, module);
        let below = item.map(|item| if module.is_empty() { item.to_owned() } else { format!("{module}.{item}") });
        let inner = below.and_then(|below| self.find_module(from, up, &below)).filter(|inner| Some(*inner) != whole);
        whole.into_iter().chain(inner).filter(move |file| *file != from)
    }

    /// Returns the packages that contain a file. Python loads them before the file.
    pub fn enclosing_packages(&self, at: usize) -> Vec<usize> {
        let path = self.files.get(at).map_or("", |file| file.path);
        let folders = path.match_indices('/').filter_map(|(end, _)| path.get(..end));
        let owns = |folder: &str| {
            let own = |at: &&usize| {
                self.files.get(**at).is_some_and(|file| file.path.strip_prefix(folder) == Some("/__init__.py"))
            };
            self.by_last_part.get(folder.rsplit('/').next()?)?.iter().find(own).copied()
        };
        folders.filter_map(owns).filter(|own| *own != at).collect()
    }

    /// Returns the forms in which source code may refer to a file.
    pub fn file_references(&self, at: usize) -> FileReferenceForms {
        let path = self.files.get(at).map_or("", |file| file.path);
        let name = path.rsplit('/').next().filter(|name| !name.starts_with("__"));
        let mut names: Vec<String> = Vec::new();
        names.extend(name.iter().flat_map(|name| ["\"", "'", ":"].map(|end| format!("{name}{end}"))));
        if let [.., own] = self.module_parts(at) {
            names.extend(["\"", "'"].map(|quote| format!("{quote}{own}:")));
        }
        let [.., folder, own] = self.module_parts(at) else {
            return FileReferenceForms { quoted_forms: names, module: None, folder: None };
        };
        names.extend(["\"", "'", ":"].map(|end| format!("{folder}.{own}{end}")));
        names.extend(["{", "%"].map(|end| format!("{folder}.{end}")));
        FileReferenceForms {
            quoted_forms: names,
            module: Some(format!("{folder}.{own}")),
            folder: Some(format!("{folder}.")),
        }
    }

    /// Finds a module by its absolute name. Several files may match, because an archive may have folders above the
    /// module. The best match is the file whose path has the longest prefix in common with the importing file, then the
    /// one with the shortest path.
    fn find_absolute(&self, from: usize, wanted: &[&str]) -> Option<usize> {
        let here = self.module_parts(from);
        let shared = |path: &[&str]| path.iter().zip(here).take_while(|(one, other)| one == other).count();
        let candidates = self.candidates(wanted.last()?).iter().copied();
        candidates.filter(|at| self.module_parts(*at).ends_with(wanted)).min_by_key(|at| {
            let path = self.module_parts(*at);
            (usize::MAX - shared(path), path.len())
        })
    }

    /// Returns whether the first package in a module name is a top-level package. For example, `mcp.server` does not
    /// refer to `books/mcp/server.py` if `books` is a package.
    pub fn is_outermost(&self, at: usize, module: &str) -> bool {
        let (path, first) = (self.module_parts(at), module.split('.').next().unwrap_or_default());
        let above = path.iter().rposition(|part| *part == first).and_then(|above| path.get(..above));
        let Some((above, last)) = above.and_then(|above| Some((above, above.last()?))) else { return true };
        let is_package = |at: &usize| {
            self.module_parts(*at) == above
                && self.files.get(*at).is_some_and(|file| file.path.ends_with("/__init__.py"))
        };
        !self.candidates(last).iter().any(is_package)
    }
}

/// The forms in which source code may refer to a file.
pub struct FileReferenceForms {
    /// Strings that refer to the file, each with a delimiter so that longer names do not match: `books.shelf"`,
    /// `shelf.py"`, `"shelf:`, `books.{`.
    pub quoted_forms: Vec<String>,
    /// The last parts of the file's module name, which may appear after `-m`.
    pub module: Option<String>,
    /// The name of the file's folder followed by a dot, as in `"books." + name`.
    pub folder: Option<String>,
}

/// Returns the last part of a file's module name.
pub fn last_module_part(path: &str) -> Option<&str> {
    split_module_parts(path).last().copied()
}

/// Splits a file's module name into parts: `src/books/shelf.py` becomes `src`, `books`, `shelf`.
fn split_module_parts(path: &str) -> Vec<&str> {
    let path = path.strip_suffix(".py").unwrap_or(path);
    let path = path.strip_suffix("/__init__").unwrap_or(path);
    path.split('/').filter(|part| !part.is_empty()).collect()
}
