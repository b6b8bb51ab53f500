//! What forbids Read, whatever the points say. The server writes its definitions: one fact that speaks of more than
//! looking outweighs any number of words that speak of looking.

use super::MAX_LEADING_WORDS;
use crate::classifier_data::ClassifierData;
use crate::classify::backtick_quoted;
use crate::lexicon::{LexiconWord, VerbGroup, WordId};
use crate::risk_signals::RiskSignalKind;
use crate::tool_features::{Feature, FeatureFlag, FeatureId, ParsedTool, PhraseKind, WordPosition};

/// So many words are the beginning of a description.
const DESCRIPTION_START_WORDS: usize = 8;

/// Why a tool is not Read.
#[derive(Debug, Clone)]
pub(crate) struct NotReadReason {
    /// In words.
    pub reason: String,
    /// Whether something is taken away.
    pub removal: RemovalExtent,
}

/// Whether something is taken away for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RemovalExtent {
    Nothing,
    /// It may be a relation, which can be put back.
    Possible,
    Permanent,
}

/// Whether a tool takes something away: by what forbids Read, or by its text. A text that says that something is gone for
/// good, and by which verb, says it of this tool.
pub(super) fn removal_extent(
    found: &ParsedTool<'_>,
    features: &[Feature<'_>],
    hindrance: Option<&NotReadReason>,
    book: &ClassifierData,
) -> RemovalExtent {
    let mut keys = features.iter().map(|feature| feature.key);
    let is_gone = keys.clone().any(|key| key == FeatureId::Flag(FeatureFlag::Phrase(PhraseKind::Irreversible)));
    let destroys = |key| {
        matches!(key, FeatureId::Group(WordPosition::FirstSentence | WordPosition::LaterSentence, VerbGroup::Destroy))
    };
    match hindrance.map_or_else(|| description_removal_extent(found, book), |own| own.removal) {
        RemovalExtent::Nothing if is_gone && keys.any(destroys) => RemovalExtent::Permanent,
        takes => takes,
    }
}

/// Finds the weightiest.
pub(super) fn find_not_read_reason(
    found: &ParsedTool<'_>,
    features: &[Feature<'_>],
    book: &ClassifierData,
) -> Option<NotReadReason> {
    find_destructive_word(found, features, book).or_else(|| {
        find_non_read_fact(found, features, book)
            .map(|why| NotReadReason { reason: why, removal: description_removal_extent(found, book) })
    })
}

/// A word of the name, or a choice, that takes away; the one that does it for good before one that perhaps does.
fn find_destructive_word(
    found: &ParsedTool<'_>,
    features: &[Feature<'_>],
    book: &ClassifierData,
) -> Option<NotReadReason> {
    let known = |id: Option<WordId>| id.and_then(|id| book.lexicon.word(id));
    let takes =
        |word: &LexiconWord| verb_removal_extent(word, found, book).max(description_removal_extent(found, book));
    let named = found.name.words.iter().enumerate().filter_map(|(at, (written, id))| {
        let leads = found.name.lead_verb == Some(at);
        let word =
            known(*id).filter(|word| word.group == Some(VerbGroup::Destroy) && (leads || !word.is_often_noun))?;
        Some(NotReadReason { reason: format!("its name has {}", backtick_quoted(written)), removal: takes(word) })
    });
    let offered = features.iter().filter_map(|feature| {
        let FeatureId::Word(WordPosition::ChoiceValue, id) = feature.key else { return None };
        let word = known(Some(id)).filter(|word| word.group == Some(VerbGroup::Destroy))?;
        Some(NotReadReason {
            reason: format!("a parameter offers {}", backtick_quoted(feature.source_text)),
            removal: takes(word),
        })
    });
    // Of several that do as much, the first.
    named.chain(offered).reduce(|most, own| if own.removal > most.removal { own } else { most })
}

/// Whether a parameter takes code, a command or a query.
pub(super) fn takes_program(found: &ParsedTool<'_>) -> bool {
    let is_program =
        |kind| matches!(kind, RiskSignalKind::TakesCode | RiskSignalKind::TakesShell | RiskSignalKind::TakesSql);
    found.signals.iter().any(|signal| is_program(signal.kind))
}

/// What a verb of destroying takes: a relation only where one is named. Beside a verb that runs, pays or undoes, or with
/// code, nothing is a mere relation.
fn verb_removal_extent(word: &LexiconWord, found: &ParsedTool<'_>, book: &ClassifierData) -> RemovalExtent {
    let does_more = |word: &LexiconWord| {
        let group = word.group.filter(|group| *group != VerbGroup::Destroy && !word.is_often_noun);
        group.is_some_and(|group| group.harm_rank() > VerbGroup::Write.harm_rank())
    };
    let mut others = found.name.words.iter().filter_map(|(_, id)| book.lexicon.word((*id)?));
    let has_verb = found.name.lead_verb.is_some();
    if word.may_only_unlink
        && has_verb
        && !takes_program(found)
        && !others.any(does_more)
        && mentions_relation(found, book)
    {
        RemovalExtent::Possible
    } else {
        RemovalExtent::Permanent
    }
}

/// Whether the name has a relation, or something that is taken `from` another, or the description begins with one.
fn mentions_relation(found: &ParsedTool<'_>, book: &ClassifierData) -> bool {
    let is_relation = |id: Option<WordId>| id.and_then(|id| book.lexicon.word(id)).is_some_and(|word| word.is_relation);
    let mut named = found.name.words.iter();
    let mut told = found.text.tokens.iter().take(DESCRIPTION_START_WORDS);
    named.any(|(written, id)| written == "from" || is_relation(*id)) || told.any(|token| is_relation(token.word_id))
}

/// What the verb in front of the description takes: nothing that stands behind it makes that milder.
fn description_removal_extent(found: &ParsedTool<'_>, book: &ClassifierData) -> RemovalExtent {
    let begins = |at: &usize| *at < MAX_LEADING_WORDS || found.name.lead_verb.is_none();
    let token = found.text.lead_verb.filter(begins).and_then(|at| found.text.tokens.get(at));
    let word = token.and_then(|token| book.lexicon.word(token.word_id?));
    let word = word.filter(|word| word.group == Some(VerbGroup::Destroy));
    word.map_or(RemovalExtent::Nothing, |word| verb_removal_extent(word, found, book))
}

fn find_non_read_fact(found: &ParsedTool<'_>, features: &[Feature<'_>], book: &ClassifierData) -> Option<String> {
    let begins = found.text.lead_verb.is_some_and(|at| at < MAX_LEADING_WORDS);
    // A verb that may leave all as it was is no reason by itself.
    let is_either = is_lead_verb_ambiguous(found, book);
    let may_look = |key| matches!(key, FeatureId::Group(WordPosition::NameVerb, VerbGroup::Write | VerbGroup::Run));
    let counts = |feature: &&Feature<'_>| !(is_either && may_look(feature.key));
    if let Some(why) = features.iter().filter(counts).find_map(|feature| feature_reason(feature, begins)) {
        return Some(why);
    }
    if let Some(token) = found.text.find_destructive_verb(&book.lexicon) {
        return Some(format!("its description says {}", backtick_quoted(token.text)));
    }
    let is_cut = |own: &crate::tool_parameters::ToolParameter<'_>| {
        own.has_more_choices && book.is_choice_parameter(&own.name_words)
    };
    found.parameters.list.iter().any(is_cut).then(|| "a parameter offers more than is looked at".to_owned())
}

/// Whether the verb of the name may leave all as it was.
pub(super) fn is_lead_verb_ambiguous(found: &ParsedTool<'_>, book: &ClassifierData) -> bool {
    let word = found.name.verb().and_then(|(_, id)| book.lexicon.word((*id)?));
    word.is_some_and(|word| word.may_change_nothing || (word.may_only_compute && found.parameters.has_only_numbers()))
}

fn feature_reason(feature: &Feature<'_>, begins: bool) -> Option<String> {
    let source = backtick_quoted(feature.source_text);
    match feature.key {
        FeatureId::Flag(FeatureFlag::Signal(
            kind @ (RiskSignalKind::TakesShell | RiskSignalKind::TakesCode | RiskSignalKind::TakesSql),
        )) => Some(format!("parameter {source} {}", kind.description())),
        FeatureId::Flag(FeatureFlag::Signal(kind @ (RiskSignalKind::PartlyRead | RiskSignalKind::MixedLetters))) => {
            Some(format!("it {}", kind.description()))
        }
        FeatureId::Flag(FeatureFlag::Phrase(PhraseKind::AnyCode)) => Some(format!("its description says {source}")),
        FeatureId::Flag(FeatureFlag::CommitsMoney) => Some("it commits money".to_owned()),
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
