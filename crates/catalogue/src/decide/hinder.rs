//! What forbids Read, whatever the points say. The server writes its definitions: one fact that speaks of more than
//! looking outweighs any number of words that speak of looking.

use super::IN_FRONT;
use crate::classifier_data::ClassifierData;
use crate::classify::quoted;
use crate::lexicon::{LexiconWord, VerbGroup, WordId};
use crate::risk_signals::RiskSignalKind;
use crate::tool_features::{Feature, FeatureFlag, FeatureId, ParsedTool, PhraseKind, WordPosition};

/// So many words are the beginning of a description.
const BEGINNING: usize = 8;

/// Why a tool is not Read.
#[derive(Debug, Clone)]
pub(crate) struct Hindrance {
    /// In words.
    pub why: String,
    /// Whether something is taken away.
    pub takes: Takes,
}

/// Whether something is taken away for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Takes {
    Nothing,
    /// It may be a relation, which can be put back.
    Perhaps,
    ForGood,
}

/// Whether a tool takes something away: by what forbids Read, or by its text. A text that says that something is gone for
/// good, and by which verb, says it of this tool.
pub(super) fn takes(
    found: &ParsedTool<'_>,
    features: &[Feature<'_>],
    hindrance: Option<&Hindrance>,
    book: &ClassifierData,
) -> Takes {
    let mut keys = features.iter().map(|feature| feature.key);
    let is_gone = keys.clone().any(|key| key == FeatureId::Flag(FeatureFlag::Phrase(PhraseKind::Irreversible)));
    let destroys = |key| {
        matches!(key, FeatureId::Group(WordPosition::FirstSentence | WordPosition::LaterSentence, VerbGroup::Destroy))
    };
    match hindrance.map_or_else(|| said(found, book), |own| own.takes) {
        Takes::Nothing if is_gone && keys.any(destroys) => Takes::ForGood,
        takes => takes,
    }
}

/// Finds the weightiest.
pub(super) fn hindrance(found: &ParsedTool<'_>, features: &[Feature<'_>], book: &ClassifierData) -> Option<Hindrance> {
    destroys(found, features, book)
        .or_else(|| does_more(found, features, book).map(|why| Hindrance { why, takes: said(found, book) }))
}

/// A word of the name, or a choice, that takes away; the one that does it for good before one that perhaps does.
fn destroys(found: &ParsedTool<'_>, features: &[Feature<'_>], book: &ClassifierData) -> Option<Hindrance> {
    let known = |id: Option<WordId>| id.and_then(|id| book.lexicon.word(id));
    let takes = |word: &LexiconWord| taken(word, found, book).max(said(found, book));
    let named = found.name.words.iter().enumerate().filter_map(|(at, (written, id))| {
        let leads = found.name.lead_verb == Some(at);
        let word =
            known(*id).filter(|word| word.group == Some(VerbGroup::Destroy) && (leads || !word.is_often_noun))?;
        Some(Hindrance { why: format!("its name has {}", quoted(written)), takes: takes(word) })
    });
    let offered = features.iter().filter_map(|feature| {
        let FeatureId::Word(WordPosition::ChoiceValue, id) = feature.key else { return None };
        let word = known(Some(id)).filter(|word| word.group == Some(VerbGroup::Destroy))?;
        Some(Hindrance { why: format!("a parameter offers {}", quoted(feature.source_text)), takes: takes(word) })
    });
    // Of several that do as much, the first.
    named.chain(offered).reduce(|most, own| if own.takes > most.takes { own } else { most })
}

/// Whether a parameter takes code, a command or a query.
pub(super) fn carries(found: &ParsedTool<'_>) -> bool {
    let is_program =
        |kind| matches!(kind, RiskSignalKind::TakesCode | RiskSignalKind::TakesShell | RiskSignalKind::TakesSql);
    found.signals.iter().any(|signal| is_program(signal.kind))
}

/// What a verb of destroying takes: a relation only where one is named. Beside a verb that runs, pays or undoes, or with
/// code, nothing is a mere relation.
fn taken(word: &LexiconWord, found: &ParsedTool<'_>, book: &ClassifierData) -> Takes {
    let does_more = |word: &LexiconWord| {
        let group = word.group.filter(|group| *group != VerbGroup::Destroy && !word.is_often_noun);
        group.is_some_and(|group| group.harm_rank() > VerbGroup::Write.harm_rank())
    };
    let mut others = found.name.words.iter().filter_map(|(_, id)| book.lexicon.word((*id)?));
    let has_verb = found.name.lead_verb.is_some();
    if word.may_only_unlink && has_verb && !carries(found) && !others.any(does_more) && speaks_of_relation(found, book)
    {
        Takes::Perhaps
    } else {
        Takes::ForGood
    }
}

/// Whether the name has a relation, or something that is taken `from` another, or the description begins with one.
fn speaks_of_relation(found: &ParsedTool<'_>, book: &ClassifierData) -> bool {
    let is_relation = |id: Option<WordId>| id.and_then(|id| book.lexicon.word(id)).is_some_and(|word| word.is_relation);
    let mut named = found.name.words.iter();
    let mut told = found.text.tokens.iter().take(BEGINNING);
    named.any(|(written, id)| written == "from" || is_relation(*id)) || told.any(|token| is_relation(token.word_id))
}

/// What the verb in front of the description takes: nothing that stands behind it makes that milder.
fn said(found: &ParsedTool<'_>, book: &ClassifierData) -> Takes {
    let begins = |at: &usize| *at < IN_FRONT || found.name.lead_verb.is_none();
    let token = found.text.lead_verb.filter(begins).and_then(|at| found.text.tokens.get(at));
    let word = token.and_then(|token| book.lexicon.word(token.word_id?));
    let word = word.filter(|word| word.group == Some(VerbGroup::Destroy));
    word.map_or(Takes::Nothing, |word| taken(word, found, book))
}

fn does_more(found: &ParsedTool<'_>, features: &[Feature<'_>], book: &ClassifierData) -> Option<String> {
    let begins = found.text.lead_verb.is_some_and(|at| at < IN_FRONT);
    // A verb that may leave all as it was is no reason by itself.
    let is_either = lead_is_either(found, book);
    let may_look = |key| matches!(key, FeatureId::Group(WordPosition::NameVerb, VerbGroup::Write | VerbGroup::Run));
    let counts = |feature: &&Feature<'_>| !(is_either && may_look(feature.key));
    if let Some(why) = features.iter().filter(counts).find_map(|feature| by_feature(feature, begins)) {
        return Some(why);
    }
    if let Some(token) = found.text.find_destructive_verb(&book.lexicon) {
        return Some(format!("its description says {}", quoted(token.text)));
    }
    let is_cut = |own: &crate::tool_parameters::ToolParameter<'_>| {
        own.has_more_choices && book.is_choice_parameter(&own.name_words)
    };
    found.parameters.list.iter().any(is_cut).then(|| "a parameter offers more than is looked at".to_owned())
}

/// Whether the verb of the name may leave all as it was.
pub(super) fn lead_is_either(found: &ParsedTool<'_>, book: &ClassifierData) -> bool {
    let word = found.name.verb().and_then(|(_, id)| book.lexicon.word((*id)?));
    word.is_some_and(|word| word.may_change_nothing || (word.may_only_compute && found.parameters.has_only_numbers()))
}

fn by_feature(feature: &Feature<'_>, begins: bool) -> Option<String> {
    let source = quoted(feature.source_text);
    match feature.key {
        FeatureId::Flag(FeatureFlag::Signal(
            kind @ (RiskSignalKind::TakesShell | RiskSignalKind::TakesCode | RiskSignalKind::TakesSql),
        )) => Some(format!("parameter {source} {}", kind.says())),
        FeatureId::Flag(FeatureFlag::Signal(kind @ (RiskSignalKind::PartlyRead | RiskSignalKind::MixedLetters))) => {
            Some(format!("it {}", kind.says()))
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
