//! Finds evidence that rules out the category Read, whatever the model's scores are. Tool definitions come from the
//! server and cannot be trusted, so a single sign that a tool does more than read outweighs any number of words that
//! suggest reading.

use super::MAX_LEADING_WORDS;
use crate::classifier_data::ClassifierData;
use crate::classify::backtick_quoted;
use crate::lexicon::{LexiconWord, VerbGroup, WordId};
use crate::risk_signals::RiskSignalKind;
use crate::tool_features::{ClassifierFeature, FeatureId, IndicatorFeature, ParsedTool, PhraseKind, WordPosition};

/// Number of words at the start of a description that are searched for a relation, such as `label` or `member`.
const DESCRIPTION_START_WORDS: usize = 8;

/// Why a tool is not classified as Read.
#[derive(Debug, Clone)]
pub(crate) struct ReadCategoryVeto {
    /// The reason, phrased as a clause, such as "its name has `delete`".
    pub reason: String,
    /// Whether the tool removes something, and whether the removal is permanent.
    pub removal: RemovalExtent,
}

/// Whether a tool removes something, and whether the removal is permanent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RemovalExtent {
    Nothing,
    /// The tool might only detach something, such as a label, which can be undone.
    Possible,
    Permanent,
}

/// Returns whether a tool removes something, and whether the removal is permanent. The evidence against Read determines
/// this; without such evidence, the description does. If the result is that nothing is removed, but the description
/// contains both a destructive verb and a phrase such as `permanently`, the removal counts as permanent.
pub(super) fn removal_extent(
    found: &ParsedTool<'_>,
    features: &[ClassifierFeature<'_>],
    not_read_reason: Option<&ReadCategoryVeto>,
    data: &ClassifierData,
) -> RemovalExtent {
    let mut keys = features.iter().map(|feature| feature.key);
    let is_gone = keys.clone().any(|key| key == FeatureId::Flag(IndicatorFeature::Phrase(PhraseKind::Irreversible)));
    let destroys = |key| {
        matches!(key, FeatureId::Group(WordPosition::FirstSentence | WordPosition::LaterSentence, VerbGroup::Destroy))
    };
    match not_read_reason.map_or_else(|| description_removal_extent(found, data), |own| own.removal) {
        RemovalExtent::Nothing if is_gone && keys.any(destroys) => RemovalExtent::Permanent,
        takes => takes,
    }
}

/// Returns the strongest evidence against the category Read.
pub(super) fn find_not_read_reason(
    found: &ParsedTool<'_>,
    features: &[ClassifierFeature<'_>],
    data: &ClassifierData,
) -> Option<ReadCategoryVeto> {
    find_destructive_word(found, features, data).or_else(|| {
        find_non_read_fact(found, features, data)
            .map(|why| ReadCategoryVeto { reason: why, removal: description_removal_extent(found, data) })
    })
}

/// Finds a destructive word in the tool's name or among the choices of a parameter. If there are several, a word for
/// permanent removal is preferred to one for possible removal.
fn find_destructive_word(
    found: &ParsedTool<'_>,
    features: &[ClassifierFeature<'_>],
    data: &ClassifierData,
) -> Option<ReadCategoryVeto> {
    let known = |id: Option<WordId>| id.and_then(|id| data.lexicon.word(id));
    let takes =
        |word: &LexiconWord| verb_removal_extent(word, found, data).max(description_removal_extent(found, data));
    let named = found.name.words.iter().enumerate().filter_map(|(at, (written, id))| {
        let leads = found.name.lead_verb == Some(at);
        let word =
            known(*id).filter(|word| word.group == Some(VerbGroup::Destroy) && (leads || !word.is_often_noun))?;
        Some(ReadCategoryVeto { reason: format!("its name has {}", backtick_quoted(written)), removal: takes(word) })
    });
    let offered = features.iter().filter_map(|feature| {
        let FeatureId::Word(WordPosition::ChoiceValue, id) = feature.key else { return None };
        let word = known(Some(id)).filter(|word| word.group == Some(VerbGroup::Destroy))?;
        Some(ReadCategoryVeto {
            reason: format!("a parameter offers {}", backtick_quoted(feature.source_text)),
            removal: takes(word),
        })
    });
    // Of equally strong ones, the first.
    named.chain(offered).reduce(|most, own| if own.removal > most.removal { own } else { most })
}

/// Returns whether a parameter takes code, a command or a query.
pub(super) fn takes_program(found: &ParsedTool<'_>) -> bool {
    let is_program =
        |kind| matches!(kind, RiskSignalKind::TakesCode | RiskSignalKind::TakesShell | RiskSignalKind::TakesSql);
    found.signals.iter().any(|signal| is_program(signal.kind))
}

/// Returns whether a destructive verb removes something permanently. A verb such as `remove` may only detach
/// something, if the definition mentions something that can be detached, such as a label. A tool that takes code, a
/// command or a query, or whose name also contains a riskier verb, never counts as detaching.
fn verb_removal_extent(word: &LexiconWord, found: &ParsedTool<'_>, data: &ClassifierData) -> RemovalExtent {
    let does_more = |word: &LexiconWord| {
        let group = word.group.filter(|group| *group != VerbGroup::Destroy && !word.is_often_noun);
        group.is_some_and(|group| group.harm_rank() > VerbGroup::Write.harm_rank())
    };
    let mut others = found.name.words.iter().filter_map(|(_, id)| data.lexicon.word((*id)?));
    let has_verb = found.name.lead_verb.is_some();
    if word.may_only_unlink
        && has_verb
        && !takes_program(found)
        && !others.any(does_more)
        && mentions_relation(found, data)
    {
        RemovalExtent::Possible
    } else {
        RemovalExtent::Permanent
    }
}

/// Returns whether the tool mentions a relation: its name contains `from`, or its name or the start of its description
/// contains a word such as `label` or `member`.
fn mentions_relation(found: &ParsedTool<'_>, data: &ClassifierData) -> bool {
    let is_relation = |id: Option<WordId>| id.and_then(|id| data.lexicon.word(id)).is_some_and(|word| word.is_relation);
    let mut named = found.name.words.iter();
    let mut described = found.text.tokens.iter().take(DESCRIPTION_START_WORDS);
    named.any(|(written, id)| written == "from" || is_relation(*id))
        || described.any(|token| is_relation(token.word_id))
}

/// Returns whether the description's leading verb removes something, and whether the removal is permanent.
fn description_removal_extent(found: &ParsedTool<'_>, data: &ClassifierData) -> RemovalExtent {
    let begins = |at: &usize| *at < MAX_LEADING_WORDS || found.name.lead_verb.is_none();
    let token = found.text.lead_verb.filter(begins).and_then(|at| found.text.tokens.get(at));
    let word = token.and_then(|token| data.lexicon.word(token.word_id?));
    let word = word.filter(|word| word.group == Some(VerbGroup::Destroy));
    word.map_or(RemovalExtent::Nothing, |word| verb_removal_extent(word, found, data))
}

fn find_non_read_fact(
    found: &ParsedTool<'_>,
    features: &[ClassifierFeature<'_>],
    data: &ClassifierData,
) -> Option<String> {
    let begins = found.text.lead_verb.is_some_and(|at| at < MAX_LEADING_WORDS);
    // A verb that may leave everything unchanged is not a reason by itself.
    let is_either = is_lead_verb_ambiguous(found, data);
    let may_look = |key| matches!(key, FeatureId::Group(WordPosition::NameVerb, VerbGroup::Write | VerbGroup::Run));
    let counts = |feature: &&ClassifierFeature<'_>| !(is_either && may_look(feature.key));
    if let Some(why) = features.iter().filter(counts).find_map(|feature| feature_reason(feature, begins)) {
        return Some(why);
    }
    if let Some(token) = found.text.find_destructive_verb(&data.lexicon) {
        return Some(format!("its description says {}", backtick_quoted(token.text)));
    }
    let is_cut = |own: &crate::tool_parameters::ToolParameter<'_>| {
        own.has_more_choices && data.is_choice_parameter(&own.name_words)
    };
    found.parameters.list.iter().any(is_cut).then(|| "a parameter offers more choices than are examined".to_owned())
}

/// Returns whether the verb in the tool's name leaves open whether anything is changed: `download`, or `add` if all
/// parameters are numbers.
pub(super) fn is_lead_verb_ambiguous(found: &ParsedTool<'_>, data: &ClassifierData) -> bool {
    let word = found.name.verb().and_then(|(_, id)| data.lexicon.word((*id)?));
    word.is_some_and(|word| word.may_change_nothing || (word.may_only_compute && found.parameters.has_only_numbers()))
}

fn feature_reason(feature: &ClassifierFeature<'_>, begins: bool) -> Option<String> {
    let source = backtick_quoted(feature.source_text);
    match feature.key {
        FeatureId::Flag(IndicatorFeature::Signal(
            kind @ (RiskSignalKind::TakesShell | RiskSignalKind::TakesCode | RiskSignalKind::TakesSql),
        )) => Some(format!("parameter {source} {}", kind.description())),
        FeatureId::Flag(IndicatorFeature::Signal(
            kind @ (RiskSignalKind::PartlyRead | RiskSignalKind::MixedLetters),
        )) => Some(format!("it {}", kind.description())),
        FeatureId::Flag(IndicatorFeature::Phrase(PhraseKind::AnyCode)) => {
            Some(format!("its description says {source}"))
        }
        FeatureId::Flag(IndicatorFeature::CommitsMoney) => Some("it commits money".to_owned()),
        FeatureId::Group(WordPosition::ChoiceValue, group) if group.is_removal() || group == VerbGroup::Pay => {
            Some(format!("a parameter offers {source}"))
        }
        FeatureId::Group(WordPosition::NameVerb, group) if group.harm_rank() > VerbGroup::Compute.harm_rank() => {
            Some(format!("the verb of its name is {source}"))
        }
        FeatureId::Group(WordPosition::DescriptionVerb, group)
            if begins && (group.is_removal() || group == VerbGroup::Pay) =>
        {
            Some(format!("its description begins with {source}"))
        }
        _ => None,
    }
}
