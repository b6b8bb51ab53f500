//! URL of the package registry: the one given on the command line, or the one that the user's own `pip` or `npm` uses.
//! There is no built-in URL.

use std::process::{Command, Stdio};

use anyhow::Result;
use gatelodge_catalogue::PackageRegistry;
use http::Uri;

use crate::exit::IndexerUsageError;
use crate::process_environment;

/// Returns the registry's URL, without a trailing slash.
pub fn registry_url(source: PackageRegistry, given: Option<&str>) -> Result<Uri> {
    let address = match (given, source) {
        (Some(given), _) => Some(given.to_owned()),
        (None, PackageRegistry::Pypi) => find_pip_index_url(),
        (None, PackageRegistry::Npm) => find_program_output("npm", &["config", "get", "registry"]),
    };
    let program = if source == PackageRegistry::Pypi { "pip" } else { "npm" };
    let address = address.ok_or_else(|| {
        IndexerUsageError(format!("`{program}` does not say which index it uses; give its URL with `--index`"))
    })?;
    let uri: Option<Uri> = address.trim_end_matches('/').parse().ok();
    let is_web = |uri: &Uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.authority().is_some();
    uri.filter(is_web)
        .ok_or_else(|| IndexerUsageError("the index URL must start with `http://` or `https://`".to_owned()).into())
}

fn find_pip_index_url() -> Option<String> {
    /// Python script that prints the index URL that `pip` uses if nothing is configured.
    const PIP_DEFAULT_INDEX_SCRIPT: &str = "from pip._internal.models.index import PyPI; print(PyPI.simple_url)";
    let variable = process_environment::variable("PIP_INDEX_URL").filter(|address| !address.trim().is_empty());
    let variable = variable.map(|address| address.trim().to_owned());
    variable
        .or_else(|| find_program_output("pip", &["config", "get", "global.index-url"]))
        .or_else(|| find_program_output("python3", &["-c", PIP_DEFAULT_INDEX_SCRIPT]))
        .or_else(|| find_program_output("python", &["-c", PIP_DEFAULT_INDEX_SCRIPT]))
}

fn find_program_output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    let text = String::from_utf8(output.stdout).ok().filter(|_| output.status.success())?;
    let line = text.lines().rev().map(str::trim).find(|line| !line.is_empty())?;
    (line != "undefined").then(|| line.to_owned())
}

/// Resolves a URL reference against the URL of the page that contains it.
pub fn resolve_url(page: &Uri, address: &str) -> Option<Uri> {
    if address.starts_with("http://") || address.starts_with("https://") {
        return address.parse().ok();
    }
    let (scheme, authority) = (page.scheme_str()?, page.authority()?);
    if let Some(rest) = address.strip_prefix("//") {
        return format!("{scheme}://{rest}").parse().ok();
    }
    let cut = address.find(['?', '#']).unwrap_or(address.len());
    let (path, query) = address.split_at_checked(cut)?;
    let query = query.split('#').next().unwrap_or_default();
    let folder = if path.starts_with('/') { "" } else { page.path().rsplit_once('/').map_or("", |(folder, _)| folder) };
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    // The URL without the trailing slash is a different one.
    let is_folder = path.ends_with('/') || path.ends_with("/..") || matches!(path, "" | "." | "..");
    let slash = if is_folder && !parts.is_empty() { "/" } else { "" };
    format!("{scheme}://{authority}/{}{slash}{query}", parts.join("/")).parse().ok()
}

/// Returns the URL of the list of all packages.
pub fn package_list_url(index: &Uri) -> Option<Uri> {
    format!("{}/", index.to_string().trim_end_matches('/')).parse().ok()
}

/// Returns the URL of a package's page. The slash in a scoped name is escaped.
pub fn package_page_url(index: &Uri, source: PackageRegistry, name: &str) -> Option<Uri> {
    // `Uri` writes an empty path as a slash.
    let index = index.to_string();
    let index = index.trim_end_matches('/');
    match source {
        PackageRegistry::Pypi => format!("{index}/{name}/").parse().ok(),
        PackageRegistry::Npm => format!("{index}/{}", name.replace('/', "%2f")).parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_resolved_against_their_page() {
        let page: Uri = "https://index.example.org/simple/book/".parse().expect("an address");
        let from = |address: &str| resolve_url(&page, address).expect("an address").to_string();
        assert_eq!(from("https://files.example.org/a"), "https://files.example.org/a");
        assert_eq!(from("//files.example.org/a"), "https://files.example.org/a");
        assert_eq!(from("/a/b.whl"), "https://index.example.org/a/b.whl");
        assert_eq!(from("../../files/b.whl"), "https://index.example.org/files/b.whl");
        assert_eq!(from("b.whl"), "https://index.example.org/simple/book/b.whl");
        assert_eq!(from("../../../../b.whl"), "https://index.example.org/b.whl");
        assert_eq!(from("/simple/other-book/"), "https://index.example.org/simple/other-book/");
        assert_eq!(from("../other-book/?from=a//b#part"), "https://index.example.org/simple/other-book/?from=a//b");
        assert_eq!(from(".."), "https://index.example.org/simple/");
    }

    #[test]
    fn urls_other_than_http_are_refused() {
        for address in ["file:///etc/passwd", "index", "ftp://index.example.org"] {
            assert!(registry_url(PackageRegistry::Npm, Some(address)).is_err(), "{address}");
        }
        let given = registry_url(PackageRegistry::Npm, Some("http://127.0.0.1:8000/")).expect("an address");
        let page = package_page_url(&given, PackageRegistry::Npm, "@books/mcp").expect("an address");
        assert_eq!(page.to_string(), "http://127.0.0.1:8000/@books%2fmcp");
        assert_eq!(package_list_url(&given).expect("an address").path(), "/");
    }
}
