//! A package's import aliases for its own files.

use serde_json::Value as Json;

use super::entry_points::collect_paths;

/// The `imports` of a `package.json`: each alias with the paths that it may refer to.
#[derive(Debug, Default)]
pub(super) struct ImportAliases(Vec<(String, Vec<String>)>);

impl ImportAliases {
    pub fn of(manifest: &Json) -> Self {
        let imports = manifest.get("imports").and_then(Json::as_object).into_iter().flatten();
        let named = imports.map(|(name, paths)| {
            let mut found = Vec::new();
            collect_paths(paths, 0, &mut found);
            (name.clone(), found)
        });
        Self(named.collect())
    }

    /// Returns the paths that an aliased import such as `#tools/x` may refer to, relative to the package folder,
    /// likeliest first.
    pub fn paths(&self, specifier: &str) -> Vec<String> {
        let said = self.0.iter().filter_map(|(name, paths)| Some((paths, find_alias_match(name, specifier)?)));
        let said = said.flat_map(|(paths, rest)| paths.iter().map(move |path| path.replace('*', rest)));
        let mut all: Vec<String> = said.collect();
        // Aliases such as `@/tools/x`, which are defined in build settings.
        if let Some(rest) = ["@/", "~/", "#"].iter().find_map(|mark| specifier.strip_prefix(mark)) {
            all.extend(["", "src/", "dist/", "build/", "lib/"].iter().map(|folder| format!("{folder}{rest}")));
        }
        all
    }
}

/// Returns the part of an import that the `*` in an alias matches. An alias without `*` matches only itself.
fn find_alias_match<'s>(name: &str, specifier: &'s str) -> Option<&'s str> {
    match name.split_once('*') {
        Some((start, end)) => specifier.strip_prefix(start)?.strip_suffix(end),
        None => (name == specifier).then_some(""),
    }
}
