//! Which files a program loads: those it imports, or names in a text.

use std::collections::HashSet;

use super::Reader;
use super::files::Files;
use super::load::{Loaded, loads, names_what_it_loads};
use super::program;
use super::reach::{Place, imports};
use crate::found::SourceFile;

/// Files that are looked for in texts, and letters that are searched for them: where there is more, nothing is followed.
const MOST_FILES: usize = 400;
const MOST_SEARCHED: usize = 1 << 29;

impl Reader<'_> {
    /// Finds the files that the package's program does not load. Of several programs the first counts that has tools. Where
    /// none has any, or loads what cannot be followed, every file counts.
    pub fn note_program(&mut self, files: &[SourceFile<'_>]) {
        let all = self.files.all();
        let named = program::modules(files);
        if named.is_empty() || all.len() > MOST_FILES {
            return;
        }
        let names: Vec<Vec<String>> = (0..all.len()).map(|file| self.files.quoted(file)).collect();
        for begin in named.iter().filter_map(|module| self.files.named(module)) {
            let Some(loaded) = loaded(&self.files, begin, &names) else { return };
            if self.found.iter().chain(self.collected.iter()).any(|tool| tool.ways.begin_in(&loaded)) {
                let outside = (0..all.len()).filter(|file| !loaded.contains(file));
                self.reach.outside = outside.map(Place::File).collect();
                return;
            }
        }
    }
}

/// The files that are loaded if one is. None where that cannot be said.
fn loaded(files: &Files<'_>, begin: usize, names: &[Vec<String>]) -> Option<HashSet<usize>> {
    let (mut known, mut next, mut searched) = (HashSet::from([begin]), vec![begin], 0);
    while let Some(at) = next.pop() {
        let text = files.get(at)?.text;
        searched += text.len().saturating_mul(names.len());
        if searched > MOST_SEARCHED || !names_what_it_loads(text) {
            return None;
        }
        let mut found = imported(files, at, text);
        let others = names.iter().enumerate().filter(|(other, _)| !known.contains(other));
        found.extend(others.filter(|(_, names)| names.iter().any(|name| has_word(text, name))).map(|(other, _)| other));
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
    let mut found = files.around(at);
    for Loaded { up, module, is_folder } in loads(text) {
        found.extend(if is_folder { below(up, module) } else { files.module(at, up, module).into_iter().collect() });
    }
    for (up, module, item) in imports(text).into_iter().flatten() {
        found.extend(files.targets(at, up, module, item));
        // `__all__` may name files.
        if item == Some("*") {
            found.extend(below(up, module));
        }
    }
    found
}

/// Whether a text has a name that is no end of a longer one.
fn has_word(text: &str, name: &str) -> bool {
    let is_whole = |at| {
        !text.get(..at).is_some_and(|before| before.ends_with(|letter: char| letter.is_alphanumeric() || letter == '_'))
    };
    text.match_indices(name).any(|(at, _)| is_whole(at))
}
