//! A feature as a fact in words, and which features decided.

use gatelodge_policy::Category;

use super::Case;
use crate::classifier_data::ClassifierData;
use crate::classifier_model::MODEL_CATEGORIES;
use crate::classify::backtick_quoted;
use crate::lexicon::LexiconWord;
use crate::risk_signals::RiskSignalKind;
use crate::tool_features::{Feature, FeatureFlag, FeatureId, ParsedTool, PhraseKind, WordPosition};

/// What weighs less is not worth telling.
const LEAST_WEIGHT: f64 = 0.15;
/// So many words of a name are told.
const FEW_WORDS: usize = 5;

const VERB: &str = "the verb of its name is ";
const NAMED: &str = "its name has the word ";

/// Whether a fact is about a word of the name.
pub(crate) fn is_of_name(fact: &str) -> bool {
    fact.starts_with(VERB) || fact.starts_with(NAMED)
}

/// A fact in words.
pub(super) struct Fact {
    pub text: String,
    /// Whether it weighs, but proves little.
    pub is_weak: bool,
}

/// The facts that an answer rests on, the weightiest first.
pub(super) fn facts(case: &Case<'_, '_>) -> Vec<Fact> {
    let mut told = Vec::new();
    for feature in deciding(case) {
        let is_weak = matches!(
            feature.key,
            FeatureId::Word(WordPosition::ParameterWord | WordPosition::ParameterName | WordPosition::LaterSentence, _)
                | FeatureId::WordPair(..)
        );
        tell(fact(feature, case.found), is_weak, &mut told);
    }
    let is_unknown = case.verdict.category == Category::Unknown;
    let names_none = |told: &[Fact]| !told.iter().any(|fact| fact.text.contains('`'));
    if names_none(&told) && !is_unknown {
        tell(verb(case), false, &mut told);
    }
    if names_none(&told) || is_unknown {
        not_understood(case).into_iter().for_each(|fact| tell(Some(fact), false, &mut told));
    }
    if case.verdict.category != Category::Read {
        // It is often the verb, which is told already.
        let is_new = |why: &&String| why.split('`').nth(1).is_none_or(|word| !names(&told, word));
        let why = case.verdict.not_read_reason.as_ref().map(|hindrance| &hindrance.reason).filter(is_new).cloned();
        tell(why, false, &mut told);
    }
    told
}

/// Whether one of the facts is about a word.
fn names(told: &[Fact], word: &str) -> bool {
    let quoted = format!("`{word}`");
    told.iter().any(|fact| fact.text.contains(&quoted))
}

fn tell(fact: Option<String>, is_weak: bool, told: &mut Vec<Fact>) {
    let new = fact.filter(|text| !told.iter().any(|fact| fact.text == *text));
    told.extend(new.map(|text| Fact { text, is_weak }));
}

/// The features that speak for the category, the weightiest first.
fn deciding<'c>(case: &Case<'c, '_>) -> Vec<&'c Feature<'c>> {
    let weight = |feature: &Feature<'_>| weight(feature.key, case.verdict.category, case.book);
    let mut weighed: Vec<(f64, &Feature<'_>)> =
        case.features.iter().map(|feature| (weight(feature), feature)).collect();
    weighed.retain(|(weight, _)| *weight > LEAST_WEIGHT);
    weighed.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.key.cmp(&other.1.key)));
    weighed.into_iter().map(|(_, feature)| feature).collect()
}

/// Its verb, where nothing else is worth telling.
fn verb(case: &Case<'_, '_>) -> Option<String> {
    let is_verb = |feature: &&Feature<'_>| {
        matches!(feature.key, FeatureId::Group(WordPosition::NameVerb | WordPosition::DescriptionVerb, _))
    };
    case.features.iter().find(is_verb).and_then(|feature| fact(feature, case.found))
}

/// What was looked at in vain.
fn not_understood(case: &Case<'_, '_>) -> Vec<String> {
    let (name, text) = (case.found.name, case.found.text);
    let words: Vec<String> = name.words.iter().take(FEW_WORDS).map(|(word, _)| backtick_quoted(word)).collect();
    let named = match (name.lead_verb, words.is_empty()) {
        (Some(_), _) => None,
        (None, true) => Some("its name has no word".to_owned()),
        (None, false) => {
            Some(format!("no verb that is known here is among the words of its name: {}", words.join(", ")))
        }
    };
    let is_told = case.tool.has_description_text() && text.lead_verb.is_none();
    let told = is_told.then(|| "its description does not begin with a verb that is known here".to_owned());
    let is_cut = case.verdict.is_truncated.then(|| format!("it {}", RiskSignalKind::LongDescription.says()));
    is_cut.into_iter().chain(named).chain(told).collect()
}

/// How much a feature speaks for a category against the others.
fn weight(key: FeatureId, category: Category, book: &ClassifierData) -> f64 {
    let points = book.model.scores(key);
    let own = MODEL_CATEGORIES.iter().zip(points).find(|(outcome, _)| **outcome == category);
    let mean = points.iter().sum::<f64>() / points.len() as f64;
    own.map_or(0.0, |(_, own)| own - mean)
}

/// A feature in words.
pub(super) fn fact(feature: &Feature<'_>, found: &ParsedTool<'_>) -> Option<String> {
    let source = backtick_quoted(feature.source_text);
    let fact = match feature.key {
        FeatureId::Group(slot, _) | FeatureId::Word(slot, _) => match slot {
            WordPosition::NameVerb => format!("{VERB}{source}"),
            // So is the verb of the name.
            WordPosition::NameWord if found.name.verb().is_some_and(|(verb, _)| verb == feature.source_text) => {
                return None;
            }
            WordPosition::NameWord => format!("{NAMED}{source}"),
            WordPosition::DescriptionVerb => format!("its description begins with {source}"),
            // The verb it begins with is told already.
            WordPosition::FirstSentence if is_lead(feature, found) => return None,
            WordPosition::FirstSentence => format!("its description says {source}"),
            WordPosition::LaterSentence => format!("its description goes on with {source}"),
            WordPosition::ChoiceValue => format!("a parameter offers {source}"),
            WordPosition::ParameterWord => format!("a parameter's name has {source}"),
            WordPosition::ParameterName => format!("it takes {source}"),
        },
        // Each of the two verbs is a fact of its own.
        FeatureId::GroupPair(..) | FeatureId::VerbPair(..) => return None,
        FeatureId::WordPair(..) => format!("its description says {source}"),
        FeatureId::Flag(FeatureFlag::NoParameters) => "it takes no parameters".to_owned(),
        FeatureId::Flag(FeatureFlag::NoVerb) => return None,
        FeatureId::Flag(FeatureFlag::OnlyNumbers) => "it takes nothing but numbers".to_owned(),
        FeatureId::Flag(FeatureFlag::CommitsMoney) => "its name commits money".to_owned(),
        FeatureId::Flag(FeatureFlag::Phrase(PhraseKind::DeniesChange)) => format!("its description denies {source}"),
        FeatureId::Flag(FeatureFlag::Phrase(_)) => format!("its description says {source}"),
        FeatureId::Flag(FeatureFlag::Signal(RiskSignalKind::NoDescription | RiskSignalKind::CrowdedServer)) => {
            return None;
        }
        FeatureId::Flag(FeatureFlag::Signal(kind)) if feature.source_text.is_empty() => format!("it {}", kind.says()),
        FeatureId::Flag(FeatureFlag::Signal(kind)) => format!("parameter {source} {}", kind.says()),
    };
    Some(fact)
}

fn is_lead(feature: &Feature<'_>, found: &ParsedTool<'_>) -> bool {
    let lead = found.text.lead_verb.and_then(|at| found.text.tokens.get(at));
    lead.is_some_and(|lead| lead.text == feature.source_text)
}

/// A word of the name or the description that is such a one, quoted.
pub(super) fn spoken(case: &Case<'_, '_>, is_such: impl Fn(&LexiconWord) -> bool) -> Option<String> {
    let is_such = |id: Option<u32>| id.and_then(|id| case.book.lexicon.word(id)).is_some_and(&is_such);
    let named = case.found.name.words.iter().find(|(_, id)| is_such(*id)).map(|(word, _)| word.as_str());
    let told = || case.found.text.tokens.iter().find(|token| is_such(token.word_id)).map(|token| token.text);
    named.or_else(told).map(backtick_quoted)
}
