//! A package's entry points (programs and exports) according to its `package.json`.

use serde_json::Value as Json;

use super::expression_evaluation::JsEvaluator;
use super::file_selection::is_package_file;
use super::import_aliases::ImportAliases;
use super::syntax::JsFileId;
use gatelodge_catalogue::SourceFile;

/// Maximum nesting of `exports`, in which paths map to conditions, and conditions to further conditions.
const MAX_EXPORTS_DEPTH: usize = 4;

/// Paths named in `package.json`, relative to its folder.
#[derive(Debug, Default)]
pub(super) struct PackageJsonPaths {
    pub root: String,
    /// The package's aliases for its own files.
    pub aliases: ImportAliases,
    /// The package's programs. The first is the one that runs when the package is started.
    programs: Vec<String>,
    /// Modules that are imported by the package name.
    library: Vec<String>,
    /// Modules that are imported by the package name followed by a path.
    exports: Vec<String>,
}

/// The files in which execution of a package starts.
#[derive(Debug, Default)]
pub(super) struct JsEntryPoints {
    /// The file of the program that runs when the package is started, or the package's library files if it has no
    /// program.
    pub main: Vec<JsFileId>,
    /// All entry points.
    pub all: Vec<JsFileId>,
    /// Whether every program named in `package.json` is among the sources.
    pub has_all_programs: bool,
}

impl PackageJsonPaths {
    /// Reads the outermost `package.json`.
    pub fn of(files: &[SourceFile<'_>]) -> Self {
        let manifest =
            files.iter().filter(|file| is_package_file(file.path, "package.json")).min_by_key(|file| file.path.len());
        let Some((path, Ok(manifest))) = manifest.map(|file| (file.path, serde_json::from_str::<Json>(file.text)))
        else {
            return Self::default();
        };
        let package = manifest.get("name").and_then(Json::as_str).unwrap_or_default();
        let package = package.rsplit('/').next().unwrap_or(package);
        let mut programs: Vec<(&str, &str)> = match manifest.get("bin") {
            Some(Json::Object(programs)) => {
                programs.iter().filter_map(|(name, path)| Some((name.as_str(), path.as_str()?))).collect()
            }
            Some(path) => path.as_str().into_iter().map(|path| (package, path)).collect(),
            None => Vec::new(),
        };
        programs.sort_by_key(|(name, _)| (*name != package, !name.contains("mcp")));
        let library = ["main", "module"].iter().filter_map(|key| manifest.get(key)?.as_str());
        let is_by_default = ["main", "exports"].iter().all(|key| manifest.get(key).is_none());
        let mut exports = Vec::new();
        manifest.get("exports").iter().for_each(|own| collect_paths(own, 0, &mut exports));
        Self {
            root: path.rsplit_once('/').map_or("", |(root, _)| root).to_owned(),
            aliases: ImportAliases::of(&manifest),
            programs: programs.into_iter().map(|(_, path)| path.to_owned()).collect(),
            library: library.chain(is_by_default.then_some("index.js")).map(str::to_owned).collect(),
            exports,
        }
    }

    /// Returns whether the file at a path is an entry point.
    pub fn contains(&self, path: &str) -> bool {
        let inside = path.strip_prefix(&self.root).unwrap_or(path).trim_start_matches('/');
        let mut all = self.programs.iter().chain(&self.library).chain(&self.exports);
        all.any(|named| named.trim_start_matches("./") == inside)
    }

    /// Finds the files that the paths in `package.json` refer to.
    pub fn resolve(&self, evaluator: &JsEvaluator<'_>) -> JsEntryPoints {
        let files = |named: &[String]| -> Vec<JsFileId> {
            named.iter().filter_map(|path| evaluator.find_file_from(&self.root, path)).collect()
        };
        let (programs, library, exports) = (files(&self.programs), files(&self.library), files(&self.exports));
        let main = self.programs.get(..1).map_or_else(|| library.clone(), files);
        let has_all_programs = programs.len() == self.programs.len();
        JsEntryPoints { main, all: [programs, library, exports].concat(), has_all_programs }
    }
}

/// Collects the paths in `exports` or `imports`, in any of the forms that `package.json` allows.
pub(super) fn collect_paths(exports: &Json, depth: usize, found: &mut Vec<String>) {
    match exports {
        Json::String(path) => found.push(path.clone()),
        Json::Object(inner) if depth < MAX_EXPORTS_DEPTH => {
            inner.values().for_each(|own| collect_paths(own, depth + 1, found))
        }
        Json::Array(inner) if depth < MAX_EXPORTS_DEPTH => {
            inner.iter().for_each(|own| collect_paths(own, depth + 1, found))
        }
        _ => {}
    }
}
