//! Public security incidents, with dates and summaries.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::package_index::{IndexedServer, PackageRegistry, is_same_package_name};
use crate::package_reference::PackageReference;

/// A publicly reported incident, or a demonstration of an attack.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// Identifier.
    pub slug: String,
    /// Date of publication, to the day or the month: `2025-09-25`, `2025-07`.
    pub date: String,
    /// Title.
    pub title: String,
    /// What happened.
    #[serde(rename = "what")]
    pub summary: String,
    /// What to learn from the incident.
    pub lesson: String,
    /// Who reported the incident.
    pub source: String,
    /// Slugs of the attack patterns that the incident demonstrates.
    pub attacks: Vec<String>,
    /// Affected packages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packages: Vec<AffectedPackage>,
}

/// A package affected by an incident, with the affected versions.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AffectedPackage {
    /// Registry that the package is published in.
    pub source: PackageRegistry,
    /// Name in the registry.
    pub name: String,
    /// First affected version. `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "from")]
    pub first_version: Option<String>,
    /// First version with a fix. `None` if there is no fix.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[serde(rename = "mended")]
    pub fixed_version: Option<String>,
}

impl AffectedPackage {
    /// Parses a version for comparison. In npm, `1.2` is a range, so it cannot be compared.
    fn comparable_version(&self, version: Option<&str>) -> Option<Vec<u64>> {
        let is_one = |version: &&str| self.source == PackageRegistry::Pypi || version.split('.').count() >= 3;
        version.filter(is_one).and_then(parse_version_numbers)
    }

    /// Returns whether a version is affected. An unknown version counts as affected.
    fn includes_version(&self, version: Option<&[u64]>) -> bool {
        let Some(version) = version else { return true };
        let is_later = |other: &Option<String>| {
            other.as_deref().and_then(parse_version_numbers).map(|other| version >= other.as_slice())
        };
        is_later(&self.first_version).unwrap_or(true) && !is_later(&self.fixed_version).unwrap_or(false)
    }

    /// Describes the affected versions.
    pub(crate) fn versions_text(&self) -> String {
        match (&self.first_version, &self.fixed_version) {
            (None, None) => "all versions".to_owned(),
            (Some(from), None) => format!("version {from} and later"),
            (None, Some(mended)) => format!("versions before {mended}"),
            (Some(from), Some(mended)) => format!("versions from {from}, before {mended}"),
        }
    }
}

/// An incident that involves a package.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IncidentMatch {
    /// Whether the version in use is, or may be, affected.
    pub is_affected: bool,
    /// Message for display.
    pub message: String,
}

impl PackageReference {
    /// Returns the incidents that involve the package, and whether they affect the version that will run. This is the
    /// version in the reference. If the reference has none and is not a guess, the indexed version in the same registry
    /// is assumed. If the reference has no registry, incidents in all registries match, because the name may exist in
    /// more than one.
    pub fn incidents(&self, read: Option<&IndexedServer<'_>>) -> Vec<IncidentMatch> {
        match_incidents(self.source, &self.name, |source| {
            let read = read.filter(|own| own.source() == source && !self.is_guess).map(IndexedServer::version);
            self.version.as_deref().or(read).filter(|_| !self.is_range)
        })
    }
}

/// Returns the incidents that involve a package, and whether they affect this version. `None` means that the version is
/// unknown.
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
            (true, Some(_)) => "this version is affected",
            (true, None) => "it is unknown whether the version in question is affected",
            (false, _) => "the version in question is not affected",
        };
        let called = match source {
            Some(_) => "it".to_owned(),
            None => format!("`{}:{}`", own.source.as_str(), own.name),
        };
        let says = format!(
            "{called} is the package in a public incident of {date}, \"{title}\" (`{slug}`): {}; {which}",
            own.versions_text()
        );
        all.push(IncidentMatch { is_affected, message: says });
    }
    all
}

/// Parses a version that consists of plain numbers. Pre-releases cannot be compared.
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

/// Returns all incidents, latest first.
///
/// # Examples
/// ```
/// use gatelodge_catalogue::incidents;
///
/// let all = incidents();
/// assert!(all.is_sorted_by(|one, other| one.date >= other.date));
/// ```
pub fn incidents() -> &'static [Incident] {
    static ALL_INCIDENTS: OnceLock<Vec<Incident>> = OnceLock::new();
    ALL_INCIDENTS.get_or_init(|| {
        // A test checks that the file parses.
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
    fn affected_and_unknown_versions_match_an_incident() {
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
            // In npm these are version ranges.
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
            let message = incidents_of_package(PackageRegistry::Npm, "postmark-mcp", Some(version)).remove(0).message;
            assert!(message.ends_with("it is unknown whether the version in question is affected"), "{message}");
        }
        assert_eq!(is_affected("mcp-remote-other", None), None);
        assert!(incidents_of_package(PackageRegistry::Pypi, "mcp-remote", None).is_empty());
        assert_eq!(super::match_incidents(None, "MCP-Remote", |_| None).len(), 1);
    }

    #[test]
    fn every_incident_has_a_date_and_known_patterns() {
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
