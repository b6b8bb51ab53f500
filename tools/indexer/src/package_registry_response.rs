//! Parses the pages of package registries: lists of packages, and lists of a package's release files.

mod html_links;

use gatelodge_catalogue::normalized_name;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::HashMap;

use crate::pep440_version::Pep440Version;
use gatelodge_catalogue::ArchiveFormat;

/// A release file of a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReleaseFile {
    /// The version of the package.
    pub version: String,
    /// The file's URL as the registry lists it: absolute, or relative to the page.
    pub address: String,
    /// The file's archive format.
    pub format: ArchiveFormat,
    /// SHA-256 in hexadecimal, if the registry lists it.
    pub sha256: Option<String>,
    /// SHA-512 in base64, if the registry lists it.
    pub sha512: Option<String>,
    /// Publication date, if the registry lists it.
    pub date: Option<String>,
}

/// A file of a Python package, as listed on a JSON or HTML page.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "kebab-case", default)]
struct PypiFile {
    filename: String,
    url: String,
    hashes: HashMap<String, String>,
    upload_time: Option<String>,
    yanked: serde_json::Value,
}

impl PypiFile {
    fn is_yanked(&self) -> bool {
        !matches!(self.yanked, serde_json::Value::Null | serde_json::Value::Bool(false))
    }
}

/// Returns the names in a registry's list of packages for which `wanted` returns true.
pub fn package_names(page: &str, wanted: impl Fn(&str) -> bool) -> Vec<String> {
    #[derive(Deserialize)]
    struct PypiProjectListEntry {
        name: String,
    }
    #[derive(Deserialize)]
    struct PypiProjectList {
        projects: Vec<PypiProjectListEntry>,
    }
    let mut names: Vec<String> = match serde_json::from_str::<PypiProjectList>(page) {
        Ok(page) => page.projects.into_iter().map(|project| project.name).filter(|name| wanted(name)).collect(),
        Err(_) => html_links::links(page).map(|anchor| anchor.text).filter(|name| wanted(name)).collect(),
    };
    names.sort_unstable();
    names.dedup();
    names
}

/// Returns the newest file of a Python package, or a file of the requested version. Yanked files and pre-releases are
/// used only if there are no others.
pub fn find_pypi_file(page: &str, package: &str, wanted: Option<&str>) -> Option<ReleaseFile> {
    #[derive(Deserialize)]
    struct PypiPage {
        files: Vec<PypiFile>,
    }
    let files = match serde_json::from_str::<PypiPage>(page) {
        Ok(page) => page.files,
        Err(_) => html_links::links(page).map(html_links::HtmlLink::into_pypi_file).collect(),
    };
    let files = files.into_iter().filter_map(|file| {
        let (version, form) = (version_in_file_name(&file.filename, package)?, ArchiveFormat::of(&file.filename)?);
        let order = Pep440Version::of(&version)?;
        Some((file, version, order, form))
    });
    let files = files.filter(|(_, version, ..)| wanted.is_none_or(|wanted| wanted == version));
    let best = files.max_by_key(|(file, _, order, _)| {
        (!file.is_yanked(), !order.is_pre_release(), order.clone(), file_preference(&file.filename))
    });
    let (file, version, _, form) = best?;
    let date = file.upload_time.as_deref().and_then(date_part);
    let sha256 = file.hashes.get("sha256").filter(|hash| is_sha256(hash)).cloned();
    Some(ReleaseFile { version, address: file.url, format: form, sha256, sha512: None, date })
}

/// Ranks a file by preference. Pure Python wheels are the smallest; source archives are better than platform wheels,
/// which may contain compiled code.
fn file_preference(name: &str) -> u8 {
    if name.ends_with("-none-any.whl") {
        3
    } else if !name.ends_with(".whl") {
        2
    } else {
        u8::from(name.contains("linux") && name.contains("x86_64"))
    }
}

/// Maximum length of a file name.
const MAX_FILE_NAME_BYTES: usize = 512;

/// Returns the version in a file name: `my_package-1.0-py3-none-any.whl`, `my.package-1.0.tar.gz`.
fn version_in_file_name(file: &str, package: &str) -> Option<String> {
    if file.len() > MAX_FILE_NAME_BYTES {
        return None;
    }
    let wanted = normalized_name(package);
    let is_wheel = file.ends_with(".whl");
    let stem = [".whl", ".tar.gz", ".tgz", ".zip"].iter().find_map(|end| file.strip_suffix(end))?;
    let cut =
        stem.match_indices('-').find(|(at, _)| stem.get(..*at).is_some_and(|name| normalized_name(name) == wanted))?.0;
    let rest = stem.get(cut + 1..)?;
    let version = if is_wheel { rest.split('-').next()? } else { rest };
    Some(version.to_owned())
}

/// Returns the newest tarball of an npm package, or that of the requested version.
pub fn find_npm_file(page: &str, wanted: Option<&str>) -> Option<ReleaseFile> {
    #[derive(Deserialize)]
    struct NpmPage<'p> {
        #[serde(rename = "dist-tags", default)]
        tags: HashMap<String, String>,
        #[serde(borrow)]
        versions: HashMap<String, &'p RawValue>,
        #[serde(default)]
        time: HashMap<String, serde_json::Value>,
    }
    #[derive(Deserialize)]
    struct NpmRelease {
        dist: NpmDist,
    }
    #[derive(Deserialize)]
    struct NpmDist {
        tarball: String,
        #[serde(default)]
        integrity: String,
    }
    let page: NpmPage<'_> = serde_json::from_str(page).ok()?;
    let version = wanted.or_else(|| page.tags.get("latest").map(String::as_str))?;
    let release: NpmRelease = serde_json::from_str(page.versions.get(version)?.get()).ok()?;
    let date = page.time.get(version).and_then(|time| time.as_str()).and_then(date_part);
    // There may be several hashes, separated by spaces.
    let sha512 = release.dist.integrity.split_whitespace().find_map(|hash| hash.strip_prefix("sha512-"));
    let sha512 = sha512.map(|hash| hash.split('?').next().unwrap_or_default().to_owned());
    let (version, address) = (version.to_owned(), release.dist.tarball);
    Some(ReleaseFile { version, address, format: ArchiveFormat::TarGz, sha256: None, sha512, date })
}

/// Returns the date part of a timestamp such as `2026-11-16T14:20:00Z`.
fn date_part(time: &str) -> Option<String> {
    let day = time.get(..10)?;
    let is_day = day.bytes().enumerate().all(|(at, byte)| match at {
        4 | 7 => byte == b'-',
        _ => byte.is_ascii_digit(),
    });
    is_day.then(|| day.to_owned())
}

fn is_sha256(hash: &str) -> bool {
    hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = r#"<html><body><h1>Links</h1>
<a href="https://files.example.org/a/Book_Mcp-1.9.tar.gz#sha256=00">book_mcp-1.9.tar.gz</a><br/>
<a href="../files/book_mcp-1.10-py3-none-any.whl#sha256=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa" data-requires-python="&gt;=3.10" data-upload-time="2026-01-02T03:04:05Z">book_mcp-1.10-py3-none-any.whl</a>
<a href="b/book-mcp-1.10.tar.gz?x=1&amp;y=2">book-mcp-1.10.tar.gz</a>
<a href="c/book_mcp-2.0rc1-py3-none-any.whl">book_mcp-2.0rc1-py3-none-any.whl</a>
<a href="d/book_mcp-3.0-py3-none-any.whl" data-yanked="broken">book_mcp-3.0-py3-none-any.whl</a>
<a href="e/book_mcp-4.0.exe">book_mcp-4.0.exe</a></body></html>"#;

    #[test]
    fn newest_release_that_is_not_yanked_is_selected() {
        let listed = find_pypi_file(PAGE, "book.mcp", None).expect("found");
        assert_eq!(listed.version, "1.10");
        assert_eq!(listed.address, "../files/book_mcp-1.10-py3-none-any.whl");
        assert_eq!(listed.date.as_deref(), Some("2026-01-02"));
        assert_eq!(listed.sha256, Some("a".repeat(64)));
        assert_eq!(listed.format, ArchiveFormat::Zip);
        assert_eq!(find_pypi_file(PAGE, "book-mcp", Some("1.9")).expect("found").format, ArchiveFormat::TarGz);
        assert_eq!(find_pypi_file(PAGE, "book", None), None);
    }

    #[test]
    fn pre_release_or_yanked_file_is_selected_if_there_is_no_other() {
        let only = |line: usize| PAGE.lines().nth(line).expect("a line").to_owned();
        assert_eq!(find_pypi_file(&only(4), "book-mcp", None).expect("found").version, "2.0rc1");
        assert_eq!(find_pypi_file(&only(5), "book-mcp", None).expect("found").version, "3.0");
        assert_eq!(find_pypi_file(&only(6), "book-mcp", None), None);
        let endless = format!("<a href='x'>book_mcp-1.{}.tar.gz</a>", "0".repeat(600));
        assert_eq!(find_pypi_file(&endless, "book-mcp", None), None);
    }

    #[test]
    fn json_and_html_pages_give_the_same_result() {
        let json = r#"{"files": [{"filename": "book_mcp-1.10-py3-none-any.whl", "url": "../x.whl", "yanked": false,
            "hashes": {"sha256": "short"}, "upload-time": "2026-01-02T03:04:05Z"}]}"#;
        let listed = find_pypi_file(json, "book-mcp", None).expect("found");
        assert_eq!(
            (listed.version.as_str(), listed.sha256, listed.date.as_deref()),
            ("1.10", None, Some("2026-01-02"))
        );
        let html = "<a href='b/'>b-mcp</a><a href=\"a/\">a-mcp</a><a href=\"c/\">other</a>";
        let wanted = |name: &str| name.contains("mcp");
        assert_eq!(package_names(html, wanted), ["a-mcp", "b-mcp"]);
        let json = r#"{"projects": [{"name": "b-mcp"}, {"name": "other"}, {"name": "a-mcp"}]}"#;
        assert_eq!(package_names(json, wanted), ["a-mcp", "b-mcp"]);
    }

    #[test]
    fn latest_npm_tarball_is_selected() {
        let page = r#"{"dist-tags": {"latest": "1.2.0"}, "time": {"1.2.0": "2026-03-04T00:00:00Z", "unpublished": {}},
            "versions": {"1.2.0": {"dist": {"tarball": "x/-/x-1.2.0.tgz", "integrity": "sha1-aa sha512-bb==?x"}}, "2.0.0-rc.1": {"dist": {"tarball": "y"}}}}"#;
        let listed = find_npm_file(page, None).expect("found");
        assert_eq!((listed.version.as_str(), listed.address.as_str()), ("1.2.0", "x/-/x-1.2.0.tgz"));
        assert_eq!((listed.date.as_deref(), listed.sha512.as_deref()), (Some("2026-03-04"), Some("bb==")));
        assert_eq!(find_npm_file(page, Some("9")), None);
        assert_eq!(find_npm_file("{}", None), None);
    }
}
