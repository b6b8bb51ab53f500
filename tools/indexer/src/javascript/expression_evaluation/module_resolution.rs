//! Resolves imports to files and exports.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
};

use super::JsEvaluator;
use crate::javascript::static_value::{JsValue, JsValueResult};
use crate::javascript::syntax::{
    JsAppendTarget, JsBindingId, JsBindingSource, JsFileId, JsIdentifierId, JsNode, JsNodeId, JsSyntax,
};

/// Maximum length of a chain of re-exports.
const MAX_REEXPORT_DEPTH: usize = 12;
const SOURCE_EXTENSIONS: [&str; 8] = [".js", ".mjs", ".cjs", ".ts", ".mts", ".cts", ".tsx", ".jsx"];

/// Indexes the files by their actual paths. An import of a compiled file, such as `./a.js` for `a.ts`, is handled in
/// `find_file`.
pub(super) fn files_by_path(syntax: &JsSyntax) -> HashMap<&str, JsFileId> {
    let paths = syntax.files.iter().map(|file| file.path.as_str());
    paths.enumerate().map(|(index, path)| (path, JsFileId(index as u32))).collect()
}

impl JsEvaluator<'_> {
    /// Returns the files that each file imports.
    pub fn import_graph(&self) -> HashMap<JsFileId, Vec<JsFileId>> {
        let mut all: HashMap<JsFileId, Vec<JsFileId>> = HashMap::new();
        for (from, specifier) in &self.syntax.imports {
            all.entry(*from).or_default().extend(self.resolve_import(*from, specifier));
        }
        all
    }

    /// Finds a file by its path relative to a folder.
    pub fn find_file_from(&self, folder: &str, path: &str) -> Option<JsFileId> {
        let path = path.trim_start_matches("./");
        self.find_file(&if folder.is_empty() { path.to_owned() } else { format!("{folder}/{path}") })
    }

    /// Returns the files that other files import.
    pub fn imported_files(&self) -> HashSet<JsFileId> {
        let imports = self.syntax.imports.iter();
        imports
            .filter_map(|(from, specifier)| self.resolve_import(*from, specifier).filter(|file| file != from))
            .collect()
    }

    /// Returns the files that are imported as whole module objects, so that any of their exports may be used.
    pub fn wholly_imported_files(&self) -> HashSet<JsFileId> {
        let bindings = self.syntax.bindings.iter().filter_map(|binding| match &binding.source {
            JsBindingSource::Import(from, specifier, None) => self.resolve_import(*from, specifier),
            _ => None,
        });
        let files = self.syntax.files.iter().enumerate();
        let stars = files.flat_map(|(at, file)| file.star_exports.iter().map(move |star| (JsFileId(at as u32), star)));
        let stars = stars.filter_map(|(from, star)| self.resolve_import(from, star));
        let required = self.syntax.whole_module_requires();
        let required = required.into_iter().filter_map(|(from, specifier)| self.resolve_import(from, specifier));
        bindings.chain(stars).chain(required).collect()
    }

    /// Returns the calls that add elements to an imported collection, keyed by the collection's original declaration.
    pub(super) fn collect_cross_file_additions(&self) -> HashMap<JsAppendTarget, Vec<JsNodeId>> {
        let mut found: HashMap<JsAppendTarget, Vec<JsNodeId>> = HashMap::new();
        for (collection, calls) in &self.syntax.additions {
            if let JsAppendTarget::Binding(id) = collection
                && let Some(origin) = self.find_original_binding(*id).filter(|origin| origin != id)
            {
                found.entry(JsAppendTarget::Binding(origin)).or_default().extend(calls);
            }
        }
        // The iteration order of the map is random.
        found.values_mut().for_each(|calls| calls.sort_by_key(|call| call.0));
        found
    }

    fn find_original_binding(&self, binding: JsBindingId) -> Option<JsBindingId> {
        let mut at = binding;
        for _ in 0..MAX_REEXPORT_DEPTH {
            let JsBindingSource::Import(from, specifier, Some(word)) = &self.syntax.binding(at)?.source else { break };
            let file = self.syntax.file(self.resolve_import(*from, specifier)?)?;
            let JsNode::Name(word, scope) = self.syntax.node(*file.exports.get(word)?) else { return None };
            at = self.syntax.find_binding(*word, *scope)?;
        }
        Some(at)
    }

    pub(super) fn resolve_import(&self, from: JsFileId, specifier: &str) -> Option<JsFileId> {
        let from = &self.syntax.file(from)?.path;
        if !specifier.starts_with('.') {
            let paths = self.package_paths.aliases.paths(specifier);
            return paths.iter().find_map(|path| self.find_file_from(&self.package_paths.root, path));
        }
        let mut parts: Vec<&str> = from.split('/').collect();
        parts.pop();
        for part in specifier.split('/') {
            match part {
                "." | "" => {}
                ".." => {
                    parts.pop();
                }
                part => parts.push(part),
            }
        }
        self.find_file(&parts.join("/"))
    }

    fn find_file(&self, path: &str) -> Option<JsFileId> {
        let find = |path: String| self.files_by_path.get(path.as_str()).copied();
        let ended = |path: &str| SOURCE_EXTENSIONS.iter().find_map(|ending| find(format!("{path}{ending}")));
        let direct = find(path.to_owned()).or_else(|| ended(path)).or_else(|| ended(&format!("{path}/index")));
        direct.or_else(|| {
            let (stem, ending) = path.rsplit_once('.')?;
            match ending {
                "js" => find(format!("{stem}.ts")).or_else(|| find(format!("{stem}.tsx"))),
                "jsx" => find(format!("{stem}.tsx")),
                "mjs" => find(format!("{stem}.mts")),
                "cjs" => find(format!("{stem}.cts")),
                _ => None,
            }
        })
    }

    pub(super) fn evaluate_import(
        &mut self,
        from: JsFileId,
        specifier: &str,
        word: Option<JsIdentifierId>,
    ) -> JsValueResult {
        match (self.resolve_import(from, specifier), word) {
            (None, _) => Ok(JsValue::Opaque(None)),
            (Some(file), None) => Ok(JsValue::Module(file)),
            (Some(file), Some(word)) => self.evaluate_export(file, &self.syntax.shared_symbol_text(word), 0),
        }
    }

    pub(super) fn evaluate_export(&mut self, file: JsFileId, key: &Rc<str>, depth: usize) -> JsValueResult {
        let syntax = self.syntax;
        let Some(known) = syntax.file(file).filter(|_| depth < MAX_REEXPORT_DEPTH) else {
            return Ok(JsValue::Opaque(None));
        };
        if let Some(node) = syntax.find_symbol(key).and_then(|word| known.exports.get(&word)) {
            return self.evaluate(*node, &None);
        }
        for specifier in &known.star_exports {
            if let Some(next) = self.resolve_import(file, specifier) {
                let value = self.evaluate_export(next, key, depth + 1)?;
                if !matches!(value, JsValue::Opaque(None)) {
                    return Ok(value);
                }
            }
        }
        match known.module_exports {
            Some(whole) if key.as_ref() == "default" => self.evaluate(whole, &None),
            Some(whole) => {
                let whole = self.evaluate(whole, &None)?;
                self.evaluate_member(&whole, key)
            }
            // A compiled module may serve as its own default export.
            None if key.as_ref() == "default" => Ok(JsValue::Module(file)),
            None => Ok(JsValue::Opaque(None)),
        }
    }

    /// Returns all exports of a module by name.
    pub(super) fn all_exports(&mut self, file: JsFileId, depth: usize) -> Vec<(Rc<str>, JsValue)> {
        let syntax = self.syntax;
        let Some(known) = syntax.file(file).filter(|_| depth < MAX_REEXPORT_DEPTH) else { return Vec::new() };
        let mut all: Vec<_> = known
            .exports
            .iter()
            .map(|(word, node)| (syntax.shared_symbol_text(*word), JsValue::Lazy(*node, None)))
            .collect();
        // The iteration order of the map is random.
        all.sort_by(|left, right| left.0.cmp(&right.0));
        for specifier in &known.star_exports {
            if let Some(next) = self.resolve_import(file, specifier) {
                all.extend(self.all_exports(next, depth + 1));
            }
        }
        if let Some(whole) = known.module_exports
            && let Ok(JsValue::Object(pairs)) = self.evaluate(whole, &None)
        {
            all.extend(pairs.iter().cloned());
        }
        all
    }
}
