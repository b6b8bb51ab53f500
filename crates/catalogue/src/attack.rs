//! Attack patterns, and which tools serve them.

use gatelodge_policy::Category;
use serde::{Deserialize, Serialize};

use crate::classifier_data::ClassifierData;
use crate::data_flow::DataFlow;
use crate::risk_signals::{RiskSignal, RiskSignalKind};

/// A pattern of attack.
#[derive(Debug, Clone, Serialize)]
pub struct Pattern {
    /// Its name for programs.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// What it is.
    pub what: String,
    /// How it works.
    pub how: String,
    /// What it can be seen by.
    pub signs: String,
    /// What links it to a tool; any line suffices.
    pub when: Vec<String>,
    /// What of ours limits the damage.
    pub bounds: Vec<String>,
    /// Ids of the OWASP lists.
    pub owasp: Vec<String>,
    /// A policy that bounds it, as an example.
    pub policy: String,
    #[serde(skip)]
    rules: Vec<Vec<Clause>>,
}

/// One condition of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Clause {
    Category(Category),
    Signal(RiskSignalKind),
    Flow(DataFlow),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    pattern: Vec<Written>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    slug: String,
    name: String,
    what: String,
    how: String,
    signs: String,
    when: Vec<String>,
    bounds: Vec<String>,
    owasp: Vec<String>,
    policy: String,
}

/// All patterns.
pub fn patterns() -> &'static [Pattern] {
    &ClassifierData::built_in().patterns
}

/// Reads `data/attacks.toml`. A line that cannot be understood links to nothing; a test sees to it that there is none.
pub(crate) fn read(text: &str) -> Result<Vec<Pattern>, toml::de::Error> {
    let file: File = toml::from_str(text)?;
    let patterns = file.pattern.into_iter().map(|written| {
        let rules = written.when.iter().filter_map(|line| line.split(" + ").map(clause).collect()).collect();
        let Written { slug, name, what, how, signs, when, bounds, owasp, policy } = written;
        Pattern { slug, name, what, how, signs, when, bounds, owasp, policy, rules }
    });
    Ok(patterns.collect())
}

fn clause(text: &str) -> Option<Clause> {
    match text.split_once(':')? {
        ("category", word) => Category::from_word(word).map(Clause::Category),
        ("signal", word) => RiskSignalKind::from_word(word).map(Clause::Signal),
        ("flow", word) => DataFlow::from_word(word).map(Clause::Flow),
        _ => None,
    }
}

/// The patterns that a tool serves.
pub(crate) fn of_tool<'b>(
    book: &'b ClassifierData,
    category: Category,
    signals: &[RiskSignal],
    flow: &[DataFlow],
) -> Vec<&'b Pattern> {
    let holds = |clause: &Clause| match clause {
        Clause::Category(own) => *own == category,
        Clause::Signal(kind) => signals.iter().any(|signal| signal.kind == *kind),
        Clause::Flow(own) => flow.contains(own),
    };
    book.patterns.iter().filter(|pattern| pattern.rules.iter().any(|line| line.iter().all(holds))).collect()
}

#[cfg(test)]
mod tests {
    use super::patterns;

    #[test]
    fn every_line_that_links_a_pattern_is_understood_and_its_policy_loads() {
        for pattern in patterns() {
            assert_eq!(pattern.rules.len(), pattern.when.len(), "{}", pattern.slug);
            let policy = gatelodge_policy::parse(pattern.policy.as_bytes(), gatelodge_policy::DocumentFormat::Json);
            assert!(policy.is_ok(), "{}: {:?}", pattern.slug, policy.err());
            assert!(!pattern.rules.is_empty() && !pattern.bounds.is_empty() && !pattern.owasp.is_empty());
        }
    }
}
