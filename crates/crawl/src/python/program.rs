//! The programs of a package, and the modules they begin in.

use serde_json::Value as Json;

use crate::found::SourceFile;

/// Words in names of programs that set something up, or are another way in.
const HELPERS: [&str; 10] = ["setup", "install", "auth", "login", "init", "test", "client", "http", "sse", "config"];

/// The file of a built package that names its programs, and the one of its sources.
pub const BUILT: &str = "entry_points.txt";
pub const SOURCES: &str = "pyproject.toml";

/// A program: its name and its module.
type Program = (String, String);

/// The modules in which programs of a package begin, the one first that is most likely its server.
pub fn modules(files: &[SourceFile<'_>]) -> Vec<String> {
    let outermost = |name: &str| {
        let own = files.iter().filter(|file| file.path.rsplit('/').next() == Some(name));
        own.min_by_key(|file| file.path.split('/').count())
    };
    let (package, mut programs) = match (outermost(BUILT), outermost(SOURCES)) {
        (Some(built), _) => (distribution(built.path), built_programs(built.text)),
        (None, Some(sources)) => source_programs(sources.text),
        (None, None) => return Vec::new(),
    };
    let package = plain(&package);
    programs.sort_by_cached_key(|(name, _)| likeliness(&plain(name), &package));
    programs.into_iter().map(|(_, module)| module).collect()
}

/// Of several programs the one that speaks MCP is most likely named for it, then for the package.
fn likeliness(name: &str, package: &str) -> (bool, bool, bool, String) {
    let is_helper = name != package && HELPERS.iter().any(|word| name.contains(word));
    (is_helper, !name.contains("mcp"), name != package, name.to_owned())
}

/// A name as indexes compare it.
fn plain(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// The package that a folder beside its sources is about: `books_mcp-1.0.dist-info`, `books_mcp.egg-info`.
fn distribution(path: &str) -> String {
    let folder = path.rsplit('/').nth(1).unwrap_or_default();
    let named = folder.strip_suffix(".dist-info").and_then(|told| told.split('-').next());
    named.or_else(|| folder.strip_suffix(".egg-info")).unwrap_or_default().to_owned()
}

/// `[console_scripts]`, then lines of `name = module:function`.
fn built_programs(text: &str) -> Vec<Program> {
    let mut is_inside = false;
    let mut programs = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_inside = line == "[console_scripts]";
        } else if let Some((name, place)) = line.split_once('=').filter(|_| is_inside) {
            programs.push((name.trim().to_owned(), module(place)));
        }
    }
    programs
}

/// The package's name, and the programs of `[project.scripts]` or `[tool.poetry.scripts]`.
fn source_programs(text: &str) -> (String, Vec<Program>) {
    let manifest: Json = toml::from_str(text).unwrap_or_default();
    let parts = ["/project", "/tool/poetry"].map(|part| manifest.pointer(part).unwrap_or(&Json::Null));
    let name = parts.iter().find_map(|part| part.get("name")?.as_str()).unwrap_or_default();
    let scripts = parts.iter().filter_map(|part| part.get("scripts")?.as_object()).flatten();
    let programs = scripts.filter_map(|(name, place)| {
        let place = place.as_str().or_else(|| place.get("reference")?.as_str())?;
        Some((name.clone(), module(place)))
    });
    (name.to_owned(), programs.collect())
}

/// The module of a place: `books.server:main [extra]`.
fn module(place: &str) -> String {
    let end = place.find([':', '[']).unwrap_or(place.len());
    place.get(..end).unwrap_or_default().trim().to_owned()
}
