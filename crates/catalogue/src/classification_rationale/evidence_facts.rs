//! Selects the features that determined the category, and describes them as facts for the rationale.

use gatelodge_policy::Category;

use super::RationaleContext;
use crate::classifier_data::ClassifierData;
use crate::classifier_model::MODEL_CATEGORIES;
use crate::classify::backtick_quoted;
use crate::lexicon::LexiconWord;
use crate::risk_signals::RiskSignalKind;
use crate::tool_features::{ClassifierFeature, FeatureId, IndicatorFeature, ParsedTool, PhraseKind, WordPosition};

/// Features with a lower weight are not mentioned in the rationale.
const MIN_EVIDENCE_WEIGHT: f64 = 0.15;
/// Maximum number of words to list from a tool's name.
const MAX_LISTED_WORDS: usize = 5;

/// Words without a meaning of their own. The model gives some of them a weight, but they are not shown.
const EMPTY_WORDS: &[&str] = &[
    "a", "an", "and", "any", "are", "as", "at", "be", "by", "can", "end", "for", "from", "has", "have", "if", "in",
    "into", "is", "it", "its", "no", "of", "on", "or", "other", "start", "that", "the", "their", "then", "these",
    "they", "this", "those", "to", "use", "used", "using", "via", "was", "when", "which", "will", "with", "you",
    "your",
];

const NAME_VERB_PREFIX: &str = "the verb of its name is ";
const NAME_WORD_PREFIX: &str = "its name has the word ";

/// Returns whether a fact is about a word in the tool's name.
pub(crate) fn is_about_name(fact: &str) -> bool {
    fact.starts_with(NAME_VERB_PREFIX) || fact.starts_with(NAME_WORD_PREFIX)
}

/// A fact about a tool that supports its category, worded for the rationale.
pub(super) struct EvidenceFact {
    pub text: String,
    /// Whether the fact carries weight in the model but would not convince someone who reads the rationale.
    pub is_weak: bool,
}

/// Returns the facts that a category is based on, strongest first.
pub(super) fn evidence_facts(case: &RationaleContext<'_, '_>) -> Vec<EvidenceFact> {
    let mut facts = Vec::new();
    for feature in deciding_features(case) {
        let is_weak = matches!(
            feature.key,
            FeatureId::Word(WordPosition::ParameterWord | WordPosition::ParameterName | WordPosition::LaterSentence, _)
                | FeatureId::WordPair(..)
        );
        push_fact(describe_feature(feature, case.parsed), is_weak, &mut facts);
    }
    let is_unknown = case.decision.category == Category::Unknown;
    let names_none = |facts: &[EvidenceFact]| !facts.iter().any(|fact| fact.text.contains('`'));
    if names_none(&facts) && !is_unknown {
        push_fact(find_verb_fact(case), false, &mut facts);
    }
    if names_none(&facts) || is_unknown {
        unrecognized_facts(case).into_iter().for_each(|fact| push_fact(Some(fact), false, &mut facts));
    }
    if case.decision.category != Category::Read {
        // Often this is the verb, which is already mentioned.
        let is_new = |why: &&String| why.split('`').nth(1).is_none_or(|word| !mentions_word(&facts, word));
        let why = case.decision.not_read_reason.as_ref().map(|reason| &reason.reason).filter(is_new).cloned();
        push_fact(why, false, &mut facts);
    }
    facts
}

/// Returns whether one of the facts mentions a word.
fn mentions_word(facts: &[EvidenceFact], word: &str) -> bool {
    let quoted = format!("`{word}`");
    facts.iter().any(|fact| fact.text.contains(&quoted))
}

fn push_fact(fact: Option<String>, is_weak: bool, facts: &mut Vec<EvidenceFact>) {
    let new = fact.filter(|text| !facts.iter().any(|fact| fact.text == *text));
    facts.extend(new.map(|text| EvidenceFact { text, is_weak }));
}

/// Returns the features that support the category, strongest first.
fn deciding_features<'c>(case: &RationaleContext<'c, '_>) -> Vec<&'c ClassifierFeature<'c>> {
    let weight = |feature: &ClassifierFeature<'_>| feature_weight(feature.key, case.decision.category, case.data);
    let mut weighed: Vec<(f64, &ClassifierFeature<'_>)> =
        case.features.iter().map(|feature| (weight(feature), feature)).collect();
    weighed.retain(|(weight, _)| *weight > MIN_EVIDENCE_WEIGHT);
    weighed.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.key.cmp(&other.1.key)));
    weighed.into_iter().map(|(_, feature)| feature).collect()
}

/// Describes the verb in the tool's name or description. This is used only if no other fact quotes the definition.
fn find_verb_fact(case: &RationaleContext<'_, '_>) -> Option<String> {
    let is_verb = |feature: &&ClassifierFeature<'_>| {
        matches!(feature.key, FeatureId::Group(WordPosition::NameVerb | WordPosition::DescriptionVerb, _))
    };
    case.features.iter().find(is_verb).and_then(|feature| describe_feature(feature, case.parsed))
}

/// Describes which parts of the definition were not recognized.
fn unrecognized_facts(case: &RationaleContext<'_, '_>) -> Vec<String> {
    let (name, text) = (case.parsed.name, case.parsed.text);
    let words: Vec<String> = name.words.iter().take(MAX_LISTED_WORDS).map(|(word, _)| backtick_quoted(word)).collect();
    let named = match (name.lead_verb, words.is_empty()) {
        (Some(_), _) => None,
        (None, true) => Some("its name has no words".to_owned()),
        (None, false) => Some(format!("its name has no known verb, only the words {}", words.join(", "))),
    };
    let lacks_verb = case.tool.has_description_text() && text.lead_verb.is_none();
    let facts = lacks_verb.then(|| "its description does not begin with a known verb".to_owned());
    let is_cut = case.decision.is_truncated.then(|| format!("it {}", RiskSignalKind::LongDescription.description()));
    is_cut.into_iter().chain(named).chain(facts).collect()
}

/// Returns how far a feature's score for a category is above its average score for all categories.
fn feature_weight(key: FeatureId, category: Category, data: &ClassifierData) -> f64 {
    let points = data.model.scores(key);
    let own = MODEL_CATEGORIES.iter().zip(points).find(|(outcome, _)| **outcome == category);
    let mean = points.iter().sum::<f64>() / points.len() as f64;
    own.map_or(0.0, |(_, own)| own - mean)
}

/// Describes a feature in words. Returns `None` if another fact already covers it.
pub(super) fn describe_feature(feature: &ClassifierFeature<'_>, found: &ParsedTool<'_>) -> Option<String> {
    if matches!(feature.key, FeatureId::Word(..) | FeatureId::WordPair(..)) && is_empty_text(feature.source_text) {
        return None;
    }
    let source = backtick_quoted(feature.source_text);
    let fact = match feature.key {
        FeatureId::Group(slot, _) | FeatureId::Word(slot, _) => match slot {
            WordPosition::NameVerb => format!("{NAME_VERB_PREFIX}{source}"),
            // The verb of the name has a fact of its own.
            WordPosition::NameWord if found.name.verb().is_some_and(|(verb, _)| verb == feature.source_text) => {
                return None;
            }
            WordPosition::NameWord => format!("{NAME_WORD_PREFIX}{source}"),
            WordPosition::DescriptionVerb => format!("its description begins with {source}"),
            // The leading verb is already mentioned.
            WordPosition::FirstSentence if is_lead_verb(feature, found) => return None,
            WordPosition::FirstSentence => format!("its description says {source}"),
            WordPosition::LaterSentence => format!("its description later says {source}"),
            WordPosition::ChoiceValue => format!("a parameter offers {source}"),
            WordPosition::ParameterWord => format!("a parameter's name has {source}"),
            WordPosition::ParameterName => format!("it takes {source}"),
        },
        // Each of the two verbs has a fact of its own.
        FeatureId::GroupPair(..) | FeatureId::VerbPair(..) => return None,
        FeatureId::WordPair(..) => format!("its description says {source}"),
        FeatureId::Flag(IndicatorFeature::NoParameters) => "it takes no parameters".to_owned(),
        FeatureId::Flag(IndicatorFeature::NoVerb) => return None,
        FeatureId::Flag(IndicatorFeature::OnlyNumbers) => "it takes only numbers".to_owned(),
        FeatureId::Flag(IndicatorFeature::CommitsMoney) => "its name commits money".to_owned(),
        FeatureId::Flag(IndicatorFeature::Phrase(PhraseKind::DeniesChange)) => {
            format!("its description denies {source}")
        }
        FeatureId::Flag(IndicatorFeature::Phrase(_)) => format!("its description says {source}"),
        FeatureId::Flag(IndicatorFeature::Signal(RiskSignalKind::NoDescription | RiskSignalKind::CrowdedServer)) => {
            return None;
        }
        FeatureId::Flag(IndicatorFeature::Signal(kind)) if feature.source_text.is_empty() => {
            format!("it {}", kind.description())
        }
        FeatureId::Flag(IndicatorFeature::Signal(kind)) => format!("parameter {source} {}", kind.description()),
    };
    Some(fact)
}

/// Returns whether a text consists of words that say nothing by themselves.
fn is_empty_text(text: &str) -> bool {
    text.split_whitespace().all(|word| EMPTY_WORDS.contains(&word.to_ascii_lowercase().as_str()))
}

fn is_lead_verb(feature: &ClassifierFeature<'_>, found: &ParsedTool<'_>) -> bool {
    let lead = found.text.lead_verb.and_then(|at| found.text.tokens.get(at));
    lead.is_some_and(|lead| lead.text == feature.source_text)
}

/// Finds a word in the tool's name or description for which `matches` is true, and returns it in backticks.
pub(super) fn find_mentioned_word(
    case: &RationaleContext<'_, '_>,
    matches: impl Fn(&LexiconWord) -> bool,
) -> Option<String> {
    let matches = |id: Option<u32>| id.and_then(|id| case.data.lexicon.word(id)).is_some_and(&matches);
    let named = case.parsed.name.words.iter().find(|(_, id)| matches(*id)).map(|(word, _)| word.as_str());
    let facts = || case.parsed.text.tokens.iter().find(|token| matches(token.word_id)).map(|token| token.text);
    named.or_else(facts).map(backtick_quoted)
}
