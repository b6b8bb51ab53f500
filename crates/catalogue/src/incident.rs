//! Public cases, dated, in our own words.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::package_index::{IndexedServer, PackageRegistry, is_same_package_name};
use crate::package_name::PackageName;

/// Something that happened, or was shown.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// Its name for programs.
    pub slug: String,
    /// The day or month it was made public: `2025-09-25`, `2025-07`.
    pub date: String,
    /// What it is called here.
    pub title: String,
    /// What happened.
    #[serde(rename = "what")]
    pub summary: String,
    /// What follows from it.
    pub lesson: String,
    /// Who told it.
    pub source: String,
    /// Slugs of the attack patterns that it shows.
    pub attacks: Vec<String>,
    /// The packages that it was about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<AffectedPackage>,
}

/// A package that a case was about, and in which versions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AffectedPackage {
    /// Where it is published.
    pub source: PackageRegistry,
    /// Its name there.
    pub name: String,
    /// The first version; none if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "from")]
    pub first_version: Option<String>,
    /// The version that mended it; none if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "mended")]
    pub fixed_version: Option<String>,
}

impl AffectedPackage {
    /// A version that can be compared. For npm, 1.2 is any version that begins so.
    fn comparable_version(&self, version: Option<&str>) -> Option<Vec<u64>> {
        let is_one = |version: &&str| self.source == PackageRegistry::Pypi || version.split('.').count() >= 3;
        version.filter(is_one).and_then(parse_version_numbers)
    }

    /// Whether a version is one of those. One that cannot be told is.
    fn includes_version(&self, version: Option<&[u64]>) -> bool {
        let Some(version) = version else { return true };
        let is_later = |other: &Option<String>| {
            other.as_deref().and_then(parse_version_numbers).map(|other| version >= other.as_slice())
        };
        is_later(&self.first_version).unwrap_or(true) && !is_later(&self.fixed_version).unwrap_or(false)
    }

    /// The versions, in words.
    pub(crate) fn versions_text(&self) -> String {
        match (&self.first_version, &self.fixed_version) {
            (None, None) => "all versions".to_owned(),
            (Some(from), None) => format!("version {from} and later ones"),
            (None, Some(mended)) => format!("versions before {mended}"),
            (Some(from), Some(mended)) => format!("versions from {from} up to before {mended}"),
        }
    }
}

/// A public case that a package was part of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentMatch {
    /// Whether the version that is meant is one of those, or may be.
    pub is_affected: bool,
    /// What is told of it.
    pub message: String,
}

impl PackageName {
    /// The public cases of the package, by the version that starts: the one that is named, else, of its source, the one
    /// that was read. Of what was installed, or is only a guess, nobody knows which that is. Where no source is named, a
    /// case of either is told: that the index has one of the name says nothing of the other.
    pub fn incidents(&self, read: Option<&IndexedServer<'_>>) -> Vec<IncidentMatch> {
        match_incidents(self.source, &self.name, |source| {
            let read = read.filter(|own| own.source() == source && !self.is_guess).map(IndexedServer::version);
            self.version.as_deref().or(read).filter(|_| !self.is_range)
        })
    }
}

/// The public cases of a package, by the version that starts; none where nobody knows which that is.
pub(crate) fn incidents_of_package(source: PackageRegistry, name: &str, version: Option<&str>) -> Vec<IncidentMatch> {
    match_incidents(Some(source), name, |_| version)
}

fn match_incidents<'v>(
    source: Option<PackageRegistry>,
    name: &str,
    version: impl Fn(PackageRegistry) -> Option<&'v str>,
) -> Vec<IncidentMatch> {
    let mut all = Vec::new();
    for incident in incidents() {
        let is_it = |own: &&AffectedPackage| {
            source.is_none_or(|source| source == own.source) && is_same_package_name(Some(own.source), &own.name, name)
        };
        let Some(own) = incident.packages.iter().find(is_it) else { continue };
        let compared = own.comparable_version(version(own.source));
        let is_affected = own.includes_version(compared.as_deref());
        let (title, date, slug) = (&incident.title, &incident.date, &incident.slug);
        let which = match (is_affected, compared) {
            (true, Some(_)) => "this version is one of them",
            (true, None) => "whether the one that is meant is among them cannot be told",
            (false, _) => "the one that is meant is not among them",
        };
        let called = match source {
            Some(_) => "it".to_owned(),
            None => format!("`{}:{}`", own.source.as_str(), own.name),
        };
        let says = format!(
            "{called} is the package of a public case of {date}, \"{title}\" (`{slug}`): {}; {which}",
            own.versions_text()
        );
        all.push(IncidentMatch { is_affected, message: says });
    }
    all
}

/// A version that is plain numbers, as far as versions are compared here. What comes before a release is not plain.
fn parse_version_numbers(version: &str) -> Option<Vec<u64>> {
    let version = version.strip_prefix('v').unwrap_or(version);
    let mut all: Vec<u64> = version.split('.').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    while all.last() == Some(&0) {
        all.pop();
    }
    Some(all)
}

#[derive(Debug, Deserialize)]
struct IncidentFile {
    incident: Vec<Incident>,
}

/// All cases, the latest first.
pub fn incidents() -> &'static [Incident] {
    static ALL_INCIDENTS: OnceLock<Vec<Incident>> = OnceLock::new();
    ALL_INCIDENTS.get_or_init(|| {
        // A test sees to it that the file can be read.
        let file: Option<IncidentFile> = toml::from_str(include_str!("../data/incidents.toml")).ok();
        let mut all = file.map(|file| file.incident).unwrap_or_default();
        all.sort_by(|one, other| other.date.cmp(&one.date));
        all
    })
}

#[cfg(test)]
mod tests {
    use super::{incidents, incidents_of_package};
    use crate::attack_pattern::attack_patterns;
    use crate::package_index::PackageRegistry;

    #[test]
    fn a_version_of_a_case_is_affected_and_one_that_nobody_can_tell_is_too() {
        let is_affected = |name: &str, version: Option<&str>| {
            incidents_of_package(PackageRegistry::Npm, name, version).first().map(|own| own.is_affected)
        };
        for (version, expected) in [
            (Some("0.0.4"), false),
            (Some("0.0.5"), true),
            (Some("v0.1.9"), true),
            (Some("0.1.15"), true),
            (Some("0.1.16"), false),
            (Some("1.0.0"), false),
            // For npm these are whole lines of versions.
            (Some("1.0"), true),
            (Some("0.0"), true),
            (Some("v0"), true),
            (Some("0.1.16-beta.1"), true),
            (Some("next"), true),
            (None, true),
        ] {
            assert_eq!(is_affected("mcp-remote", version), Some(expected), "{version:?}");
        }
        assert_eq!(is_affected("postmark-mcp", Some("1.0.15")), Some(false));
        assert_eq!(is_affected("postmark-mcp", Some("1.0.16")), Some(true));
        assert_eq!(is_affected("postmark-mcp", Some("1.0.0")), Some(false));
        for version in ["1", "1.0"] {
            assert_eq!(is_affected("postmark-mcp", Some(version)), Some(true), "{version}");
            let says = incidents_of_package(PackageRegistry::Npm, "postmark-mcp", Some(version)).remove(0).message;
            assert!(says.ends_with("cannot be told"), "{says}");
        }
        assert_eq!(is_affected("mcp-remote-other", None), None);
        assert!(incidents_of_package(PackageRegistry::Pypi, "mcp-remote", None).is_empty());
        assert_eq!(super::match_incidents(None, "MCP-Remote", |_| None).len(), 1);
    }

    #[test]
    fn every_case_is_dated_and_shows_known_patterns() {
        assert!(incidents().len() >= 10);
        for incident in incidents() {
            assert!(incident.date.starts_with("20") && matches!(incident.date.len(), 7 | 10), "{}", incident.slug);
            assert!(!incident.source.is_empty() && !incident.attacks.is_empty());
            for slug in &incident.attacks {
                assert!(attack_patterns().iter().any(|pattern| pattern.slug == *slug), "{slug}");
            }
        }
    }
}
