//! A package's console scripts and the modules in which they start.

use std::collections::HashSet;

use serde_json::Value as Json;

use super::file_selection::is_auxiliary;
use gatelodge_catalogue::SourceFile;

/// Words in program names that indicate a helper program rather than the main server.
const HELPER_PROGRAM_WORDS: [&str; 10] =
    ["setup", "install", "auth", "login", "init", "test", "client", "http", "sse", "config"];

/// The name of a program and the module in which it starts.
type ConsoleScript = (String, String);

/// Returns the modules in which programs start, without duplicates, the most likely server first.
pub fn program_modules(files: &[SourceFile<'_>]) -> Vec<String> {
    let outermost = |is_wanted: fn(&str) -> bool| {
        let own = files.iter().filter(|file| is_wanted(file.path) && !is_auxiliary(file));
        own.min_by_key(|file| file.path.split('/').count())
    };
    let (package, mut programs) = match (outermost(is_entry_points_file), outermost(is_pyproject)) {
        (Some(built), _) => (distribution_name(built.path), parse_entry_points(built.text)),
        (None, Some(sources)) => parse_pyproject_scripts(sources.text),
        (None, None) => return Vec::new(),
    };
    let package = normalized_name(&package);
    programs.sort_by_cached_key(|(name, _)| program_rank(&normalized_name(name), &package));
    let mut known = HashSet::new();
    programs.into_iter().map(|(_, module)| module).filter(|module| known.insert(module.clone())).collect()
}

/// Returns whether a file lists the programs of a built package.
fn is_entry_points_file(path: &str) -> bool {
    let Some((folder, "entry_points.txt")) = path.rsplit_once('/') else { return false };
    folder.ends_with(".dist-info") || folder.ends_with(".egg-info")
}

fn is_pyproject(path: &str) -> bool {
    path.rsplit('/').next() == Some("pyproject.toml")
}

/// Returns whether a file is a Python source file or lists the package's programs. Other files are not read.
pub fn is_python_input(path: &str) -> bool {
    path.ends_with(".py") || is_entry_points_file(path) || is_pyproject(path)
}

/// Returns the sort key of a program: the one named like the package comes first, helper programs come last, and among
/// the others those whose names contain `mcp` come first.
fn program_rank(name: &str, package: &str) -> (bool, bool, bool, String) {
    let is_helper = name.split('-').any(|word| HELPER_PROGRAM_WORDS.contains(&word));
    (name != package, is_helper, !name.contains("mcp"), name.to_owned())
}

/// Returns the name in the form that registries use to compare names.
fn normalized_name(name: &str) -> String {
    name.to_ascii_lowercase().replace(['_', '.'], "-")
}

/// Returns the package that a metadata folder belongs to: `books_mcp-1.0.dist-info`, `books_mcp.egg-info`.
fn distribution_name(path: &str) -> String {
    let folder = path.rsplit('/').nth(1).unwrap_or_default();
    let named = folder.strip_suffix(".dist-info").and_then(|stem| stem.split('-').next());
    named.or_else(|| folder.strip_suffix(".egg-info")).unwrap_or_default().to_owned()
}

/// Parses the lines `name = module:function` below `[console_scripts]`.
fn parse_entry_points(text: &str) -> Vec<ConsoleScript> {
    let mut is_inside = false;
    let mut programs = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with('[') {
            is_inside = line == "[console_scripts]";
        } else if let Some((name, place)) = line.split_once('=').filter(|_| is_inside) {
            programs.push((name.trim().to_owned(), script_module(place)));
        }
    }
    programs
}

/// Returns the package name and the programs listed in `[project.scripts]` or `[tool.poetry.scripts]`.
fn parse_pyproject_scripts(text: &str) -> (String, Vec<ConsoleScript>) {
    let manifest: Json = toml::from_str(text).unwrap_or_default();
    let parts = ["/project", "/tool/poetry"].map(|part| manifest.pointer(part).unwrap_or(&Json::Null));
    let name = parts.iter().find_map(|part| part.get("name")?.as_str()).unwrap_or_default();
    let scripts = parts.iter().filter_map(|part| part.get("scripts")?.as_object()).flatten();
    let programs = scripts.filter_map(|(name, place)| {
        let place = place.as_str().or_else(|| place.get("reference")?.as_str())?;
        Some((name.clone(), script_module(place)))
    });
    (name.to_owned(), programs.collect())
}

/// Returns the module named in an entry point such as `books.server:main [extra]`.
fn script_module(place: &str) -> String {
    let end = place.find([':', '[']).unwrap_or(place.len());
    place.get(..end).unwrap_or_default().trim().to_owned()
}
