//! Writes the rationale for a classification: the facts it is based on, and why neighboring categories do not fit.

mod evidence_facts;
mod other_category_rationale;
mod sibling_tool_evidence;

use gatelodge_policy::Category;

use crate::categorize::CategoryDecision;
use crate::classifier_data::ClassifierData;
use crate::classifier_model::MODEL_CATEGORIES;
use crate::classify::{RiskLevel, category_name};
use crate::server_context::ServerContext;
use crate::tool_features::{ClassifierFeature, ParsedTool};
use crate::tool_spec::ToolSpec;
pub(crate) use evidence_facts::is_about_name;
use evidence_facts::{EvidenceFact, evidence_facts};
use other_category_rationale::explain_other_categories;
use sibling_tool_evidence::explain_siblings;

/// Maximum number of facts listed as evidence.
const MAX_EVIDENCE_FACTS: usize = 6;
/// Maximum number of facts in the rationale.
const MAX_RATIONALE_FACTS: usize = 2;
/// Probability above which another category is mentioned as an alternative.
const DOUBT_PROBABILITY: f64 = 0.25;

/// A tool and everything known about it.
struct RationaleContext<'c, 't> {
    tool: &'c ToolSpec<'t>,
    parsed: &'c ParsedTool<'c>,
    features: &'c [ClassifierFeature<'c>],
    decision: &'c CategoryDecision,
    server: &'c ServerContext,
    data: &'c ClassifierData,
}

/// The explanation for a classification.
pub(crate) struct ClassificationReasons {
    /// Why this category and not a neighboring one.
    pub rationale: String,
    /// The facts that the classification is based on, strongest first.
    pub evidence: Vec<String>,
}

/// Explains why a tool has its category.
pub(crate) fn explain_category(
    tool: &ToolSpec<'_>,
    found: &ParsedTool<'_>,
    features: &[ClassifierFeature<'_>],
    decision: &CategoryDecision,
    server: &ServerContext,
    data: &ClassifierData,
) -> ClassificationReasons {
    let case = RationaleContext { tool, parsed: found, features, decision, server, data };
    let (facts, siblings) = (evidence_facts(&case), explain_siblings(&case));
    let rationale = rationale_text(&case, &facts, siblings.as_deref());
    ClassificationReasons { rationale, evidence: evidence_texts(tool, facts, siblings) }
}

fn evidence_texts(tool: &ToolSpec<'_>, facts: Vec<EvidenceFact>, siblings: Option<String>) -> Vec<String> {
    let mut evidence: Vec<String> = facts.into_iter().take(MAX_EVIDENCE_FACTS).map(|fact| fact.text).collect();
    evidence.extend(siblings);
    let claims = tool.annotations;
    let claim = |name: &str, value: Option<bool>| value.map(|value| format!("the server claims `{name}: {value}`"));
    evidence.extend(claim("readOnlyHint", claims.read_only));
    evidence.extend(claim("destructiveHint", claims.destructive));
    if tool.description.is_none() {
        evidence.push("it has no description".to_owned());
    }
    evidence
}

fn rationale_text(case: &RationaleContext<'_, '_>, facts: &[EvidenceFact], siblings: Option<&str>) -> String {
    let strong = facts.iter().filter(|fact| !fact.is_weak);
    // If there are only weak facts, the strongest of them.
    let last = facts.first().filter(|_| facts.iter().all(|fact| fact.is_weak));
    let strong = strong.chain(last).map(|fact| fact.text.clone());
    let claim = raising_claim(case);
    let because: Vec<String> = claim.into_iter().chain(strong).take(MAX_RATIONALE_FACTS).collect();
    let mut sentences = vec![category_sentence(case.decision.category, &because.join(", and "))];
    if let Some(siblings) = siblings {
        sentences.push(format!("{}.", capitalize(siblings)));
    }
    sentences.push(explain_other_categories(case));
    sentences.extend(doubt_sentences(case.tool, case.decision));
    sentences.join(" ")
}

/// Returns a description of the annotation that led to a riskier category, if one did.
fn raising_claim(case: &RationaleContext<'_, '_>) -> Option<String> {
    let destroys = case.tool.annotations.destructive == Some(true);
    let claim = if destroys { "destructiveHint: true" } else { "readOnlyHint: false" };
    case.decision.raised_by_claim.then(|| format!("the server claims `{claim}`"))
}

fn category_sentence(category: Category, because: &str) -> String {
    let what = match category {
        Category::Read => "It returns data and changes nothing",
        Category::Write => "It adds or changes something that can be changed back",
        Category::Execute => "It runs something, and its arguments decide what happens",
        Category::Destructive => "What it removes or overwrites cannot be restored",
        Category::Financial => "It commits money",
        Category::Unknown => "Its definition does not say clearly what it does",
    };
    if because.is_empty() { format!("{what}.") } else { format!("{what}: {because}.") }
}

fn doubt_sentences(tool: &ToolSpec<'_>, decision: &CategoryDecision) -> Vec<String> {
    let mut doubts = Vec::new();
    if decision.raised_by_claim {
        doubts.push(
            "The server's own annotation makes it riskier than its words do; the riskier reading counts.".to_owned(),
        );
    }
    if tool.annotations.read_only == Some(true) && decision.category != Category::Read {
        doubts.push("The server claims that it only reads; an annotation never lowers the risk.".to_owned());
    }
    if tool.description.is_none() {
        doubts.push("There is no description, so this is less certain.".to_owned());
    }
    let is_doubt =
        |other: &Category| *other != decision.category && decision.probabilities.get(*other) > DOUBT_PROBABILITY;
    for other in MODEL_CATEGORIES.into_iter().filter(is_doubt) {
        let other_word = category_name(other);
        doubts.push(if RiskLevel::of(other) < RiskLevel::of(decision.category) {
            format!("It could also be {other_word}; of two readings the riskier one counts.")
        } else {
            format!("It could also be {other_word}; nothing says so clearly, so this is less certain.")
        });
    }
    doubts
}

fn capitalize(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}
