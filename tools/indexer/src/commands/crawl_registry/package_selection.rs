//! Selects the packages to read.

use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{PackageRegistry, normalized_name};
use http::Uri;

use super::registry_client::RegistryClient;
use super::registry_url;
use crate::exit::{IndexerUsageError, RegistryUnreachableError};
use crate::file_io;

/// `Accept` header for the list of all packages, which may be JSON or HTML.
const PACKAGE_LIST_ACCEPT: &str = "application/vnd.pypi.simple.v1+json, text/html;q=0.5";
/// Maximum size of the list of all packages.
const MAX_LIST_BYTES: usize = 160 << 20;
/// Maximum length of a package name.
const MAX_PACKAGE_NAME_BYTES: usize = 214;

/// A package and the requested version, or `None` for the newest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PackageSelectionEntry {
    pub name: String,
    pub version: Option<String>,
}

/// The packages to read.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct PackageSelection {
    pub packages: Vec<PackageSelectionEntry>,
    /// Lines of the names file that are not package names.
    pub invalid_lines: Vec<String>,
}

/// Returns the packages listed in a file, or all packages in the registry whose names contain `mcp`.
pub async fn select_packages(
    source: PackageRegistry,
    fetcher: &RegistryClient,
    index: &Uri,
    file: Option<&Path>,
    only: &[String],
) -> Result<PackageSelection> {
    let is_wanted = |name: &str| {
        let name = name.to_ascii_lowercase();
        only.iter().all(|part| name.contains(&part.to_ascii_lowercase()))
    };
    let mut selection = match file {
        Some(path) => read_names_file(source, path)?,
        None => {
            let list = registry_url::package_list_url(index)
                .ok_or_else(|| IndexerUsageError("the index URL is not valid".to_owned()))?;
            let page = fetcher.fetch_text(&list, PACKAGE_LIST_ACCEPT, MAX_LIST_BYTES).await;
            let page = page.map_err(|error| {
                RegistryUnreachableError(format!("cannot get the list of packages from the index: {error}"))
            })?;
            let named =
                gatelodge_indexer::package_names(&page, |name| contains_mcp(name) && is_package_name(source, name));
            if named.is_empty() {
                let what = "the index lists no package whose name contains `mcp`; check that the URL is that of a package index";
                return Err(RegistryUnreachableError(what.to_owned()).into());
            }
            let packages = named
                .iter()
                .map(|name| PackageSelectionEntry { name: canonical_name(source, name), version: None })
                .collect();
            PackageSelection { packages, invalid_lines: Vec::new() }
        }
    };
    selection.packages.retain(|wanted| is_wanted(&wanted.name));
    selection.packages.sort();
    selection.packages.dedup_by(|one, other| one.name == other.name);
    selection.invalid_lines.sort();
    selection.invalid_lines.dedup();
    Ok(selection)
}

fn contains_mcp(name: &str) -> bool {
    name.to_ascii_lowercase().contains("mcp")
}

fn read_names_file(source: PackageRegistry, path: &Path) -> Result<PackageSelection> {
    let text = String::from_utf8(file_io::read(path)?)
        .map_err(|_| IndexerUsageError(format!("`{}` is not text", path.display())))?;
    // Some editors start a text with a byte order mark.
    Ok(parse_names(source, text.trim_start_matches('\u{feff}')))
}

fn parse_names(source: PackageRegistry, text: &str) -> PackageSelection {
    let mut selection = PackageSelection::default();
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for line in lines {
        match parse_name_line(source, line) {
            Some(wanted) => selection.packages.extend(wanted),
            None => selection.invalid_lines.push(line.chars().take(MAX_PACKAGE_NAME_BYTES).collect()),
        }
    }
    selection
}

/// Parses a line of the names file: `name`, `name==1.0`, or for npm `name@1.0`, with an optional prefix as in
/// `npm:name`. Returns `Some(None)` for a line that names another registry.
fn parse_name_line(source: PackageRegistry, line: &str) -> Option<Option<PackageSelectionEntry>> {
    let own = if source == PackageRegistry::Pypi { "pypi" } else { "npm" };
    let rest = match line.split_once(':') {
        Some((word, rest)) if word == own => rest,
        Some(("pypi" | "npm", _)) => return Some(None),
        _ => line,
    };
    let parts = rest.split_once("==").or_else(|| {
        // A scope starts with `@`, too.
        let at = rest.rfind('@').filter(|at| *at > 0)?;
        Some((rest.get(..at)?, rest.get(at + 1..)?))
    });
    let (name, version) = parts.map_or((rest, None), |(name, version)| (name, Some(version.to_owned())));
    let is_version = |version: &String| {
        !version.is_empty() && version.chars().all(|letter| letter.is_ascii_alphanumeric() || "-_.+!".contains(letter))
    };
    let fits = is_package_name(source, name) && version.as_ref().is_none_or(is_version);
    fits.then(|| Some(PackageSelectionEntry { name: canonical_name(source, name), version }))
}

/// Returns the name in the form that its registry uses to compare names.
pub fn canonical_name(source: PackageRegistry, name: &str) -> String {
    match source {
        PackageRegistry::Pypi => normalized_name(name),
        PackageRegistry::Npm => name.to_owned(),
    }
}

/// Returns whether `name` can be a package name and can appear in a URL without escaping. Upper case is accepted.
fn is_package_name(source: PackageRegistry, name: &str) -> bool {
    let is_part = |part: &str| {
        let letters = |letter: char| letter.is_ascii_alphanumeric() || "-_.~".contains(letter);
        !matches!(part, "" | "." | "..") && part.chars().all(letters)
    };
    let is_whole = match (source, name.strip_prefix('@')) {
        (PackageRegistry::Npm, Some(scoped)) => {
            scoped.split_once('/').is_some_and(|(scope, own)| is_part(scope) && is_part(own))
        }
        _ => is_part(name),
    };
    is_whole && name.len() <= MAX_PACKAGE_NAME_BYTES
}

#[cfg(test)]
#[allow(clippy::indexing_slicing, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn line_has_a_package_name_and_optionally_a_version() {
        let of = |source, line| parse_name_line(source, line).flatten().map(|wanted| (wanted.name, wanted.version));
        let named = |name: &str, version: Option<&str>| Some((name.to_owned(), version.map(str::to_owned)));
        assert_eq!(of(PackageRegistry::Pypi, "book-mcp"), named("book-mcp", None));
        assert_eq!(of(PackageRegistry::Pypi, "pypi:book-mcp==1.0"), named("book-mcp", Some("1.0")));
        assert_eq!(of(PackageRegistry::Pypi, "npm:book-mcp"), None);
        assert_eq!(of(PackageRegistry::Npm, "npm:@books/mcp@1.0"), named("@books/mcp", Some("1.0")));
        assert_eq!(of(PackageRegistry::Npm, "@books/mcp"), named("@books/mcp", None));
        assert_eq!(of(PackageRegistry::Npm, "@Books/McpServer"), named("@Books/McpServer", None));
        let not_names = [
            "../../etc",
            "a b",
            "a?b",
            "a//b",
            "",
            "ä",
            "actionkit-(slack)",
            "@scope",
            "@scope/name/tree/main",
            "owner/name",
            "tl;dv",
            "africa's",
            "zulip@21st-dev/magic",
            "..",
            "@scope/..",
            "a:b",
        ];
        for line in not_names {
            assert_eq!(parse_name_line(PackageRegistry::Npm, line), None, "{line}");
        }
    }

    #[test]
    fn spellings_of_a_python_name_are_one_package() {
        let selection = parse_names(PackageRegistry::Pypi, "Book_MCP\nbook.mcp==1.0\nbook--mcp\n");
        assert!(selection.packages.iter().all(|wanted| wanted.name == "book-mcp"), "{selection:?}");
        assert_eq!(parse_names(PackageRegistry::Npm, "Book_MCP").packages[0].name, "Book_MCP");
    }

    #[test]
    fn invalid_lines_are_collected_and_do_not_fail() {
        let selection = parse_names(
            PackageRegistry::Npm,
            "# names\nbook-mcp\nactionkit-(slack)\n\npypi:other\n@scope\n@Books/Mcp\n",
        );
        let names: Vec<&str> = selection.packages.iter().map(|wanted| wanted.name.as_str()).collect();
        assert_eq!(names, ["book-mcp", "@Books/Mcp"]);
        assert_eq!(selection.invalid_lines, ["actionkit-(slack)", "@scope"]);
    }
}
