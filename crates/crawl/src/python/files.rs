//! Which file an import means.

use std::collections::HashMap;

use crate::found::SourceFile;

/// The files of a package, by module.
pub struct Files<'f> {
    files: &'f [SourceFile<'f>],
    /// Places of files by the last part of their module's name.
    by_last: HashMap<&'f str, Vec<usize>>,
}

impl<'f> Files<'f> {
    pub fn of(files: &'f [SourceFile<'f>]) -> Self {
        let mut by_last: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, file) in files.iter().enumerate() {
            if let Some(last) = parts(file.path).last() {
                by_last.entry(last).or_default().push(at);
            }
        }
        Self { files, by_last }
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
        let last = whole.last()?;
        self.by_last
            .get(last)?
            .iter()
            .copied()
            .find(|at| self.files.get(*at).is_some_and(|file| parts(file.path) == whole))
    }

    /// The files that lie right in a folder, as seen from a file.
    pub fn below(&self, from: usize, up: usize, folder: &[&str]) -> Vec<usize> {
        let above = if up == 0 { Some(Vec::new()) } else { self.above(from, up) };
        let Some(whole) = above.map(|above| [above.as_slice(), folder].concat()) else { return Vec::new() };
        let is_inside = |path: &str| match parts(path).split_last() {
            Some((_, own)) => {
                if up == 0 {
                    own.ends_with(&whole)
                } else {
                    own == whole
                }
            }
            None => false,
        };
        (0..self.files.len()).filter(|at| self.files.get(*at).is_some_and(|file| is_inside(file.path))).collect()
    }

    /// The parts of the folder so many dots above a file.
    fn above(&self, from: usize, up: usize) -> Option<Vec<&'f str>> {
        let path = self.files.get(from)?.path;
        let mut whole = parts(path);
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

    /// How a file is named in a text that has it started or loaded: `books.shelf"`, `shelf.py"`, `books.{name}`.
    pub fn quoted(&self, at: usize) -> Vec<String> {
        let path = self.files.get(at).map_or("", |file| file.path);
        let name = path.rsplit('/').next().filter(|name| !name.starts_with("__"));
        let mut names: Vec<String> =
            name.map(|name| ["\"", "'"].map(|end| format!("{name}{end}"))).into_iter().flatten().collect();
        if let [.., folder, own] = parts(path).as_slice() {
            names.extend(["\"", "'", ":"].map(|end| format!("{folder}.{own}{end}")));
            names.extend(["{", "\"", "'"].map(|end| format!("{folder}.{end}")));
        }
        names
    }

    /// An archive may have folders above the module; of several candidates, the one that shares most with the file
    /// that asks, then the one with the shortest path.
    fn absolute(&self, from: usize, wanted: &[&str]) -> Option<usize> {
        let here = self.files.get(from).map(|file| parts(file.path)).unwrap_or_default();
        let shared = |path: &[&str]| path.iter().zip(&here).take_while(|(one, other)| one == other).count();
        let candidates = self.by_last.get(wanted.last()?)?.iter().copied();
        let fits = |at: &usize| self.files.get(*at).is_some_and(|file| parts(file.path).ends_with(wanted));
        candidates.filter(fits).min_by_key(|at| {
            let path = self.files.get(*at).map(|file| parts(file.path)).unwrap_or_default();
            (usize::MAX - shared(&path), path.len())
        })
    }
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
