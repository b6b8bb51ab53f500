//! Public cases, dated, in our own words.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

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
    pub what: String,
    /// What follows from it.
    pub lesson: String,
    /// Who told it.
    pub source: String,
    /// Slugs of the attack patterns that it shows.
    pub attacks: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct File {
    incident: Vec<Incident>,
}

/// All cases, the latest first.
pub fn incidents() -> &'static [Incident] {
    static ALL: OnceLock<Vec<Incident>> = OnceLock::new();
    ALL.get_or_init(|| {
        // A test sees to it that the file can be read.
        let file: Option<File> = toml::from_str(include_str!("../data/incidents.toml")).ok();
        let mut all = file.map(|file| file.incident).unwrap_or_default();
        all.sort_by(|one, other| other.date.cmp(&one.date));
        all
    })
}

#[cfg(test)]
mod tests {
    use super::incidents;
    use crate::attack::patterns;

    #[test]
    fn every_case_is_dated_and_shows_known_patterns() {
        assert!(incidents().len() >= 10);
        for incident in incidents() {
            assert!(incident.date.starts_with("20") && matches!(incident.date.len(), 7 | 10), "{}", incident.slug);
            assert!(!incident.source.is_empty() && !incident.attacks.is_empty());
            for slug in &incident.attacks {
                assert!(patterns().iter().any(|pattern| pattern.slug == *slug), "{slug}");
            }
        }
    }
}
