//! The programs of a package, as its manifest names them.

use serde_json::Value as Json;

use super::evaluate::Evaluator;
use super::syntax::FileId;
use crate::found::SourceFile;

/// The files in which programs of a package begin.
#[derive(Debug, Default)]
pub(super) struct Entries {
    /// Of the one that is started if one starts the package.
    pub main: Vec<FileId>,
    /// Of all.
    pub all: Vec<FileId>,
}

/// The programs that `package.json` names.
pub(super) fn entries(evaluator: &Evaluator<'_>, files: &[SourceFile<'_>]) -> Entries {
    let manifest = files.iter().filter(|file| is_manifest(file.path)).min_by_key(|file| file.path.len());
    let Some((path, Ok(manifest))) = manifest.map(|file| (file.path, serde_json::from_str::<Json>(file.text))) else {
        return Entries::default();
    };
    let root = path.rsplit_once('/').map_or("", |(root, _)| root);
    let file = |named: &Json| evaluator.beside(root, named.as_str()?);
    let package = manifest.get("name").and_then(Json::as_str).unwrap_or_default();
    let package = package.rsplit('/').next().unwrap_or(package);
    let mut programs: Vec<(&str, FileId)> = match manifest.get("bin") {
        Some(Json::Object(programs)) => {
            programs.iter().filter_map(|(name, path)| Some((name.as_str(), file(path)?))).collect()
        }
        Some(path) => file(path).into_iter().map(|file| (package, file)).collect(),
        None => Vec::new(),
    };
    programs.sort_by_key(|(name, _)| (!name.contains("mcp"), *name != package));
    let library = ["main", "module"].iter().filter_map(|key| file(manifest.get(key)?));
    let library: Vec<FileId> = library.collect();
    let first = programs.first().map(|(_, file)| *file);
    let main = first.map_or_else(|| library.clone(), |first| vec![first]);
    Entries { main, all: programs.into_iter().map(|(_, file)| file).chain(library).collect() }
}

fn is_manifest(path: &str) -> bool {
    path.rsplit('/').next() == Some("package.json") && !path.contains("node_modules/")
}
