//! Finds the files that a program loads: those that it imports or mentions in a string.

use std::collections::HashSet;

use super::PyAnalyzer;
use super::dynamic_import::{DynamicImport, dynamic_imports, has_only_named_imports};
use super::entry_points;
use super::module_files::{FileReferenceForms, PyModuleFiles};
use super::registration_reachability::{PyCodeBlock, import_statements};
use gatelodge_catalogue::SourceFile;

/// Limits on the number of files, bytes searched and programs. If any limit is exceeded, every file counts as loaded.
const MAX_FOLLOWED_FILES: usize = 400;
const MAX_SEARCHED_BYTES: usize = 1 << 31;
const MAX_FOLLOWED_PROGRAMS: usize = 20;
/// Maximum length of a module name that is searched for.
const MAX_MODULE_NAME_BYTES: usize = 256;

impl PyAnalyzer<'_> {
    /// Marks the files that the package's program does not load. If there are several programs, the first one with
    /// tools is used. If none has tools, or an earlier one has imports that cannot be followed, every file counts as
    /// loaded.
    pub fn mark_unloaded_files(&mut self, files: &[SourceFile<'_>]) {
        let all = self.files.all();
        let named = entry_points::program_modules(files);
        let has_tools = self.registered_tools.count() + self.deferred_tools.count() > 0;
        if named.is_empty() || !has_tools || named.len() > MAX_FOLLOWED_PROGRAMS || all.len() > MAX_FOLLOWED_FILES {
            return;
        }
        let references: Vec<FileReferenceForms> = (0..all.len()).map(|file| self.files.file_references(file)).collect();
        let mut searched = 0;
        for module in named {
            let Some(begin) = self.files.find_absolute_module(&module) else { return };
            let Some(loaded) = find_loaded_files(&self.files, begin, &references, &mut searched) else { return };
            if self.registered_tools.paths().chain(self.deferred_tools.paths()).any(|ways| ways.has_start_in(&loaded)) {
                let outside = (0..all.len()).filter(|file| !loaded.contains(file));
                self.reachability.unloaded_files = outside.map(PyCodeBlock::File).collect();
                return;
            }
        }
    }
}

/// Returns the files that a program loads, or `None` if that is unknown.
fn find_loaded_files(
    files: &PyModuleFiles<'_>,
    begin: usize,
    references: &[FileReferenceForms],
    searched: &mut usize,
) -> Option<HashSet<usize>> {
    let (mut known, mut next) = (HashSet::from([begin]), vec![begin]);
    let names: usize = references.iter().map(|forms| forms.quoted_forms.len() + 2).sum();
    while let Some(at) = next.pop() {
        let text = files.get(at)?.text;
        *searched += text.len().saturating_mul(names);
        if *searched > MAX_SEARCHED_BYTES || !has_only_named_imports(text) {
            return None;
        }
        let mut found = imported_files(files, at, text);
        let others = references.iter().enumerate().filter(|(other, _)| !known.contains(other));
        found.extend(others.filter(|(_, forms)| mentions_file(text, forms)).map(|(other, _)| other));
        next.extend(found.into_iter().filter(|file| known.insert(*file)));
    }
    Some(known)
}

/// Returns the files that Python loads because of a file: its imports, and the `__init__.py` of each package that
/// contains it.
fn imported_files(files: &PyModuleFiles<'_>, at: usize, text: &str) -> Vec<usize> {
    let below = |up, module: &str| {
        let folder: Vec<&str> = module.split('.').filter(|part| !part.is_empty()).collect();
        files.files_in_folder(at, up, &folder)
    };
    // If `sys.path` is changed, a name may refer to a file in any folder.
    let is_anywhere = text.contains("sys.path");
    let mut found = files.enclosing_packages(at);
    for DynamicImport { up, module, is_folder } in dynamic_imports(text) {
        found.extend(if is_folder {
            below(up, module)
        } else {
            files.find_module(at, up, module).into_iter().collect()
        });
    }
    for (up, module, item) in import_statements(text).into_iter().flatten() {
        let is_meant = |target: &usize| up > 0 || is_anywhere || files.is_outermost(*target, module);
        found.extend(files.import_targets(at, up, module, item).filter(is_meant));
        // `__all__` may name files.
        if item == Some("*") {
            found.extend(below(up, module).into_iter().filter(is_meant));
        }
    }
    found
}

/// Returns whether source code mentions a file.
fn mentions_file(text: &str, forms: &FileReferenceForms) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let has_name = |name: &String| {
        // Matches `"shelf:app"` but no sentence.
        let goes_on = |at: usize| text.get(at + name.len()..).is_some_and(|after| after.starts_with(is_part));
        let is_whole = |at: usize| !text.get(..at).is_some_and(|before| before.ends_with(is_part));
        let mut all = text.match_indices(name.as_str());
        all.any(|(at, _)| (!name.ends_with(':') || goes_on(at)) && (name.starts_with(['"', '\'']) || is_whole(at)))
    };
    let before = |at: usize| {
        let near = text.get(text.floor_char_boundary(at.saturating_sub(MAX_MODULE_NAME_BYTES))..at).unwrap_or_default();
        near.trim_end_matches(|letter| is_part(letter) || letter == '.')
    };
    let has_module = |name: &String| text.match_indices(name.as_str()).any(|(at, _)| before(at).ends_with("-m "));
    // A sentence that ends with the word does not count.
    let has_folder = |name: &String| {
        let is_quoted = |text: &str| text.starts_with(['"', '\'']);
        let mut all = text.match_indices(name.as_str());
        all.any(|(at, _)| before(at).ends_with(['"', '\'']) && text.get(at + name.len()..).is_some_and(is_quoted))
    };
    forms.quoted_forms.iter().any(has_name)
        || forms.module.iter().any(has_module)
        || forms.folder.iter().any(has_folder)
}
