//! Which files a program loads: those it imports, or names in a text.

use std::collections::HashSet;

use super::PyAnalyzer;
use super::files::{Files, Spoken};
use super::load::{Loaded, loads, names_what_it_loads};
use super::program;
use super::reach::{Place, imports};
use gatelodge_catalogue::SourceFile;

/// Files that are looked for in texts, letters that are searched for their names, and programs that are followed: where
/// there is more, every file counts.
const MOST_FILES: usize = 400;
const MOST_SEARCHED: usize = 1 << 31;
const MOST_PROGRAMS: usize = 20;
/// The longest name of a module that is looked for.
const LONGEST_MODULE: usize = 256;

impl PyAnalyzer<'_> {
    /// Finds the files that the package's program does not load. Of several programs the first counts that has tools. Where
    /// none has any, or one before it loads what cannot be followed, every file counts.
    pub fn note_program(&mut self, files: &[SourceFile<'_>]) {
        let all = self.files.all();
        let named = program::modules(files);
        let has_tools = self.registered_tools.count() + self.deferred_tools.count() > 0;
        if named.is_empty() || !has_tools || named.len() > MOST_PROGRAMS || all.len() > MOST_FILES {
            return;
        }
        let spoken: Vec<Spoken> = (0..all.len()).map(|file| self.files.spoken(file)).collect();
        let mut searched = 0;
        for module in named {
            let Some(begin) = self.files.named(&module) else { return };
            let Some(loaded) = loaded(&self.files, begin, &spoken, &mut searched) else { return };
            if self.registered_tools.paths().chain(self.deferred_tools.paths()).any(|ways| ways.begin_in(&loaded)) {
                let outside = (0..all.len()).filter(|file| !loaded.contains(file));
                self.reachability.outside = outside.map(Place::File).collect();
                return;
            }
        }
    }
}

/// The files that are loaded if one is. None where that cannot be said.
fn loaded(files: &Files<'_>, begin: usize, spoken: &[Spoken], searched: &mut usize) -> Option<HashSet<usize>> {
    let (mut known, mut next) = (HashSet::from([begin]), vec![begin]);
    let names: usize = spoken.iter().map(|spoken| spoken.names.len() + 2).sum();
    while let Some(at) = next.pop() {
        let text = files.get(at)?.text;
        *searched += text.len().saturating_mul(names);
        if *searched > MOST_SEARCHED || !names_what_it_loads(text) {
            return None;
        }
        let mut found = imported(files, at, text);
        let others = spoken.iter().enumerate().filter(|(other, _)| !known.contains(other));
        found.extend(others.filter(|(_, spoken)| speaks_of(text, spoken)).map(|(other, _)| other));
        next.extend(found.into_iter().filter(|file| known.insert(*file)));
    }
    Some(known)
}

/// The files that a file imports, and those of the packages around it.
fn imported(files: &Files<'_>, at: usize, text: &str) -> Vec<usize> {
    let below = |up, module: &str| {
        let folder: Vec<&str> = module.split('.').filter(|part| !part.is_empty()).collect();
        files.below(at, up, &folder)
    };
    // Where places are added to look for modules in, a name may mean any of them.
    let is_anywhere = text.contains("sys.path");
    let mut found = files.around(at);
    for Loaded { up, module, is_folder } in loads(text) {
        found.extend(if is_folder { below(up, module) } else { files.module(at, up, module).into_iter().collect() });
    }
    for (up, module, item) in imports(text).into_iter().flatten() {
        let is_meant = |target: &usize| up > 0 || is_anywhere || files.is_outermost(*target, module);
        found.extend(files.targets(at, up, module, item).filter(is_meant));
        // `__all__` may name files.
        if item == Some("*") {
            found.extend(below(up, module).into_iter().filter(is_meant));
        }
    }
    found
}

/// Whether a text names a file.
fn speaks_of(text: &str, spoken: &Spoken) -> bool {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let has_name = |name: &String| {
        // `"shelf:app"`, and no sentence.
        let goes_on = |at: usize| text.get(at + name.len()..).is_some_and(|after| after.starts_with(is_part));
        let is_whole = |at: usize| !text.get(..at).is_some_and(|before| before.ends_with(is_part));
        let mut all = text.match_indices(name.as_str());
        all.any(|(at, _)| (!name.ends_with(':') || goes_on(at)) && (name.starts_with(['"', '\'']) || is_whole(at)))
    };
    let before = |at: usize| {
        let near = text.get(text.floor_char_boundary(at.saturating_sub(LONGEST_MODULE))..at).unwrap_or_default();
        near.trim_end_matches(|letter| is_part(letter) || letter == '.')
    };
    let has_module = |name: &String| text.match_indices(name.as_str()).any(|(at, _)| before(at).ends_with("-m "));
    // In a sentence that ends with the word, it is none.
    let has_folder = |name: &String| {
        let is_quoted = |text: &str| text.starts_with(['"', '\'']);
        let mut all = text.match_indices(name.as_str());
        all.any(|(at, _)| before(at).ends_with(['"', '\'']) && text.get(at + name.len()..).is_some_and(is_quoted))
    };
    spoken.names.iter().any(has_name) || spoken.module.iter().any(has_module) || spoken.folder.iter().any(has_folder)
}
