//! Attack patterns, and the conditions under which a tool makes them possible.

use gatelodge_policy::Category;
use serde::{Deserialize, Serialize};

use crate::classifier_data::ClassifierData;
use crate::data_flow_label::DataFlowLabel;
use crate::risk_signals::{RiskSignal, RiskSignalKind};

/// An attack pattern.
#[derive(Debug, Clone, Serialize)]
pub struct AttackPattern {
    /// Identifier.
    pub slug: String,
    /// Display name.
    pub name: String,
    /// What the attack is.
    #[serde(rename = "what")]
    pub summary: String,
    /// How the attack works.
    #[serde(rename = "how")]
    pub mechanism: String,
    /// How to recognize the attack.
    pub signs: String,
    /// Conditions under which a tool makes the attack possible. Any one of them suffices.
    #[serde(rename = "when")]
    pub conditions: Vec<String>,
    /// Gatelodge features that limit the damage.
    #[serde(rename = "bounds")]
    pub mitigations: Vec<String>,
    /// Identifiers of related entries in the OWASP lists.
    pub owasp: Vec<String>,
    /// Example policy that mitigates the attack.
    pub policy: String,
    #[serde(skip)]
    compiled_conditions: Vec<Vec<AttackClause>>,
}

/// One clause of a condition. A condition holds if all its clauses hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttackClause {
    Category(Category),
    Signal(RiskSignalKind),
    Flow(DataFlowLabel),
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttackPatternFile {
    pattern: Vec<AttackPatternEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct AttackPatternEntry {
    slug: String,
    name: String,
    #[serde(rename = "what")]
    summary: String,
    #[serde(rename = "how")]
    mechanism: String,
    signs: String,
    #[serde(rename = "when")]
    conditions: Vec<String>,
    #[serde(rename = "bounds")]
    mitigations: Vec<String>,
    owasp: Vec<String>,
    policy: String,
}

/// Returns all attack patterns.
///
/// # Examples
/// ```
/// use gatelodge_catalogue::attack_patterns;
///
/// assert!(attack_patterns().iter().all(|pattern| !pattern.policy.is_empty()));
/// ```
pub fn attack_patterns() -> &'static [AttackPattern] {
    &ClassifierData::built_in().patterns
}

/// Reads `data/attacks.toml`. Conditions that cannot be parsed are ignored; a test checks that there are none.
pub(crate) fn read_attack_patterns(text: &str) -> Result<Vec<AttackPattern>, toml::de::Error> {
    let file: AttackPatternFile = toml::from_str(text)?;
    let patterns = file.pattern.into_iter().map(|written| {
        let rules =
            written.conditions.iter().filter_map(|line| line.split(" + ").map(parse_clause).collect()).collect();
        let AttackPatternEntry {
            slug,
            name,
            summary: what,
            mechanism: how,
            signs,
            conditions: when,
            mitigations: bounds,
            owasp,
            policy,
        } = written;
        AttackPattern {
            slug,
            name,
            summary: what,
            mechanism: how,
            signs,
            conditions: when,
            mitigations: bounds,
            owasp,
            policy,
            compiled_conditions: rules,
        }
    });
    Ok(patterns.collect())
}

fn parse_clause(text: &str) -> Option<AttackClause> {
    match text.split_once(':')? {
        ("category", word) => Category::from_word(word).map(AttackClause::Category),
        ("signal", word) => RiskSignalKind::from_word(word).map(AttackClause::Signal),
        ("flow", word) => DataFlowLabel::from_word(word).map(AttackClause::Flow),
        _ => None,
    }
}

/// Returns the attack patterns that a tool makes possible.
pub(crate) fn patterns_for_tool<'b>(
    data: &'b ClassifierData,
    category: Category,
    signals: &[RiskSignal],
    flow: &[DataFlowLabel],
) -> Vec<&'b AttackPattern> {
    let holds = |clause: &AttackClause| match clause {
        AttackClause::Category(own) => *own == category,
        AttackClause::Signal(kind) => signals.iter().any(|signal| signal.kind == *kind),
        AttackClause::Flow(own) => flow.contains(own),
    };
    data.patterns
        .iter()
        .filter(|pattern| pattern.compiled_conditions.iter().any(|line| line.iter().all(holds)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::attack_patterns;

    #[test]
    fn every_condition_of_a_pattern_compiles_and_its_policy_loads() {
        for pattern in attack_patterns() {
            assert_eq!(pattern.compiled_conditions.len(), pattern.conditions.len(), "{}", pattern.slug);
            let policy = gatelodge_policy::parse(pattern.policy.as_bytes(), gatelodge_policy::DocumentFormat::Json);
            assert!(policy.is_ok(), "{}: {:?}", pattern.slug, policy.err());
            assert!(
                !pattern.compiled_conditions.is_empty() && !pattern.mitigations.is_empty() && !pattern.owasp.is_empty()
            );
        }
    }
}
