//! Classifies a tool from the facts about it in the index. The rationale uses only what the index stores.

use std::borrow::Cow;

use crate::attack_pattern;
use crate::categorize::{CategoryDecision, categorize};
use crate::classification_rationale::{ClassificationReasons, explain_category};
use crate::classifier_data::ClassifierData;
use crate::classifier_model::CategoryProbabilities;
use crate::classify::{Classification, RiskLevel, with_features};
use crate::package_index::ToolFacts;
use crate::recommendation::recommended_policy;
use crate::risk_signals::{RiskSignal, RiskSignalKind};
use crate::server_context::ServerContext;
use crate::tool_spec::ToolSpec;

/// Listed as evidence if neither the name nor the parameters explain the category.
const DESCRIPTION_NOT_STORED_NOTE: &str = "decided by its description, which the index does not store";

/// Classifies a tool from the facts about it. `tool` is the part of its definition that the index stores.
pub(crate) fn classify_from_facts(tool: &ToolSpec<'_>, server: &ServerContext, facts: &ToolFacts) -> Classification {
    let data = ClassifierData::built_in();
    let had_description = !facts.signals.contains(&RiskSignalKind::NoDescription);
    // Stands for a description that exists but is not stored, so nothing is said about its content.
    let tool = &ToolSpec { description: had_description.then_some(Cow::Borrowed("")), ..tool.clone() };
    with_features(tool, server, data, |found, features| {
        let decided = categorize(found, features, tool.annotations, data);
        let is_shown = decided.category == facts.category;
        // The probabilities for the name alone say little if there was a description.
        let shares = if had_description { CategoryProbabilities::default() } else { decided.probabilities };
        let decision = CategoryDecision {
            category: facts.category,
            raised_by_claim: decided.raised_by_claim && is_shown,
            probabilities: shares,
            ..decided
        };
        let ClassificationReasons { mut rationale, mut evidence } =
            explain_category(tool, found, features, &decision, server, data);
        if !is_shown && had_description {
            rationale.push_str(
                " Name and parameters alone would say less; it was decided by its description, which the index does not store.",
            );
            evidence.push(DESCRIPTION_NOT_STORED_NOTE.to_owned());
        }
        let signals = signals_from_facts(facts, found.signals);
        let patterns = attack_pattern::patterns_for_tool(data, facts.category, &signals, &facts.flow);
        let mut owasp: Vec<&str> = patterns.iter().flat_map(|own| own.owasp.iter().map(String::as_str)).collect();
        owasp.sort_unstable();
        owasp.dedup();
        Classification {
            category: facts.category,
            level: RiskLevel::of(facts.category),
            confidence: facts.confidence,
            rationale,
            evidence,
            attacks: patterns.iter().map(|pattern| pattern.slug.as_str()).collect(),
            owasp,
            recommended: recommended_policy(&tool.name, facts.category),
            flow: facts.flow.clone(),
            optional: facts.optional,
            signals,
        }
    })
}

/// Returns the risk signals stored in the index. The index does not store which parameter causes a signal, so it is
/// taken from `seen` if the signal is also found there.
fn signals_from_facts(facts: &ToolFacts, seen: &[RiskSignal]) -> Vec<RiskSignal> {
    let mut signals = Vec::new();
    for kind in &facts.signals {
        let before = signals.len();
        signals.extend(seen.iter().filter(|own| own.kind == *kind).cloned());
        if signals.len() == before {
            signals.push(RiskSignal { kind: *kind, parameter: None });
        }
    }
    signals
}
