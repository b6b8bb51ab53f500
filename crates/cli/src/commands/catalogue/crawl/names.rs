//! Which packages are read.

use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::Source;
use http::Uri;

use super::fetch::Fetcher;
use crate::exit::{Unreachable, Usage};
use crate::file;

/// The list of all packages, in the newer form or the older one.
const LIST: &str = "application/vnd.pypi.simple.v1+json, text/html;q=0.5";
/// The largest list.
const MOST_LISTED: usize = 160 << 20;
/// The longest name of a package.
const LONGEST: usize = 214;

/// A package, and which version if not the newest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    pub name: String,
    pub version: Option<String>,
}

/// The packages that are asked for: those of a file, or all of the index whose names carry `mcp`.
pub async fn wanted(
    source: Source,
    fetcher: &Fetcher,
    index: &Uri,
    file: Option<&Path>,
    only: &[String],
) -> Result<Vec<Wanted>> {
    let is_wanted = |name: &str| {
        let name = name.to_ascii_lowercase();
        only.iter().all(|part| name.contains(&part.to_ascii_lowercase()))
    };
    let mut wanted: Vec<Wanted> = match file {
        Some(path) => of_file(source, path)?.into_iter().filter(|wanted| is_wanted(&wanted.name)).collect(),
        None => {
            let list: Uri = format!("{index}/").parse()?;
            let page = fetcher.text(&list, LIST, MOST_LISTED).await;
            let page = page.map_err(|error| Unreachable(format!("the index does not list its packages: {error}")))?;
            let named = gatelodge_crawl::names(&page, |name| carries_mcp(name) && is_name(name) && is_wanted(name));
            named.into_iter().map(|name| Wanted { name, version: None }).collect()
        }
    };
    wanted.sort();
    wanted.dedup_by(|one, other| one.name == other.name);
    Ok(wanted)
}

fn carries_mcp(name: &str) -> bool {
    name.to_ascii_lowercase().contains("mcp")
}

fn of_file(source: Source, path: &Path) -> Result<Vec<Wanted>> {
    let read = file::try_read_reply(path).map_err(|error| Usage(format!("{}; {}", error.message, error.help)))?;
    let text = String::from_utf8(read.text).map_err(|_| Usage(format!("`{}` is not text", path.display())))?;
    let mut all = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let Some(wanted) = of_line(source, line) else {
            let number = at + 1;
            return Err(Usage(format!("line {number} of `{}` is not the name of a package", path.display())).into());
        };
        all.extend(wanted);
    }
    Ok(all)
}

/// A line: `name`, `name==1.0`, or for npm `name@1.0`. A source may stand before it, `npm:name`; lines of other
/// sources are passed over.
fn of_line(source: Source, line: &str) -> Option<Option<Wanted>> {
    let own = if source == Source::Pypi { "pypi" } else { "npm" };
    let rest = match line.split_once(':') {
        Some((word, _)) if word != own => return Some(None),
        Some((_, rest)) => rest,
        None => line,
    };
    let parts = rest.split_once("==").or_else(|| {
        // The first letter of a scope is an `@` too.
        let at = rest.rfind('@').filter(|at| *at > 0)?;
        Some((rest.get(..at)?, rest.get(at + 1..)?))
    });
    let (name, version) = parts.map_or((rest, None), |(name, version)| (name, Some(version.to_owned())));
    is_name(name).then(|| Some(Wanted { name: name.to_owned(), version }))
}

/// Whether it can stand in an address as it is.
fn is_name(name: &str) -> bool {
    let letters = |letter: char| letter.is_ascii_alphanumeric() || "-_.~@/".contains(letter);
    let is_path = name.split('/').any(|part| part.is_empty() || part == "." || part == "..");
    !name.is_empty() && name.len() <= LONGEST && name.chars().all(letters) && !is_path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_package_and_perhaps_a_version() {
        let of = |source, line| of_line(source, line).flatten().map(|wanted| (wanted.name, wanted.version));
        let named = |name: &str, version: Option<&str>| Some((name.to_owned(), version.map(str::to_owned)));
        assert_eq!(of(Source::Pypi, "book-mcp"), named("book-mcp", None));
        assert_eq!(of(Source::Pypi, "pypi:book-mcp==1.0"), named("book-mcp", Some("1.0")));
        assert_eq!(of(Source::Pypi, "npm:book-mcp"), None);
        assert_eq!(of(Source::Npm, "npm:@books/mcp@1.0"), named("@books/mcp", Some("1.0")));
        assert_eq!(of(Source::Npm, "@books/mcp"), named("@books/mcp", None));
        for line in ["../../etc", "a b", "a?b", "a//b", "", "ä"] {
            assert_eq!(of_line(Source::Npm, line), None, "{line}");
        }
    }
}
