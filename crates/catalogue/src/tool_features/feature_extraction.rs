//! Extracts the features of a tool definition. Each feature counts only once, so that long descriptions do not carry
//! more weight.

use super::feature_pairs;
use super::{ClassifierFeature, FeatureId, IndicatorFeature, PhraseKind, WordPosition};
use crate::classifier_data::ClassifierData;
use crate::description_text::DescriptionText;
use crate::lexicon::{Lexicon, LexiconWord, VerbGroup, WordId};
use crate::risk_signals::{RiskSignal, RiskSignalKind};
use crate::tool_name_words::{ToolNameWords, may_be_noun, split_words};
use crate::tool_parameters::ToolParameters;

/// The parsed parts of a tool definition.
pub(crate) struct ParsedTool<'t> {
    pub name: &'t ToolNameWords,
    pub text: &'t DescriptionText<'t>,
    pub parameters: &'t ToolParameters<'t>,
    pub signals: &'t [RiskSignal],
    /// Whether the description was too long to be read completely.
    pub is_truncated: bool,
}

/// Extracts all features, sorted by key.
pub(crate) fn extract_features<'t>(found: &ParsedTool<'t>, data: &ClassifierData) -> Vec<ClassifierFeature<'t>> {
    let mut features = Vec::with_capacity(64);
    push_name_features(found, &data.lexicon, &mut features);
    push_text_features(found.text, data, &mut features);
    feature_pairs::push_verb_pairs(&mut features, &data.lexicon);
    feature_pairs::push_word_pairs(found.text, &data.lexicon, &mut features);
    push_parameter_features(found.parameters, data, &mut features);
    // The number of other tools says nothing about what a tool does.
    for signal in found.signals.iter().filter(|signal| signal.kind != RiskSignalKind::CrowdedServer) {
        let source = signal.parameter.as_deref().unwrap_or_default();
        features.push(ClassifierFeature {
            key: FeatureId::Flag(IndicatorFeature::Signal(signal.kind)),
            source_text: source,
        });
    }
    let flags = [
        (IndicatorFeature::NoParameters, found.parameters.top_level_count == 0 && !found.parameters.is_invalid_schema),
        (
            IndicatorFeature::NoVerb,
            found.name.lead_verb.is_none()
                && found.text.lead_verb.is_none()
                && found.text.is_mostly_known(&data.lexicon),
        ),
        (IndicatorFeature::OnlyNumbers, found.parameters.has_only_numbers()),
        (IndicatorFeature::CommitsMoney, commits_money(found.name, &data.lexicon)),
    ];
    let flags = flags.into_iter().filter(|(_, is_set)| *is_set);
    features.extend(flags.map(|(flag, _)| ClassifierFeature { key: FeatureId::Flag(flag), source_text: "" }));
    // The sort is stable: of two sources of one key, the first is kept.
    features.sort_by_key(|feature| feature.key);
    features.dedup_by_key(|feature| feature.key);
    features
}

/// Returns whether the tool's name indicates a financial commitment: a verb such as `create` or `cancel` together with
/// a money noun.
fn commits_money(name: &ToolNameWords, lexicon: &Lexicon) -> bool {
    let words = || name.words.iter().enumerate().filter_map(|(at, (_, id))| Some((at, lexicon.word((*id)?)?)));
    let nouns = words().filter(|(_, word)| word.is_money_noun).count();
    // In `transfer_issue`, nothing is issued.
    let is_done = |at: usize, word: &LexiconWord| {
        word.commits_money && !(word.is_often_noun && name.lead_verb.is_some_and(|lead| lead != at))
    };
    // `order` and `transfer` can be verb or noun, but not both, unless the name has no other word.
    let is_alone = name.words.len() == 1;
    words().any(|(at, word)| is_done(at, word) && (!word.is_money_noun || nouns > 1 || is_alone)) && nouns > 0
}

fn push_word<'t>(
    slot: WordPosition,
    id: Option<WordId>,
    source: &'t str,
    lexicon: &Lexicon,
    features: &mut Vec<ClassifierFeature<'t>>,
) {
    let Some(id) = id else { return };
    features.push(ClassifierFeature { key: FeatureId::Word(slot, id), source_text: source });
    if let Some(group) = lexicon.word(id).and_then(|word| word.group) {
        features.push(ClassifierFeature { key: FeatureId::Group(slot, group), source_text: source });
    }
}

fn push_name_features<'t>(found: &ParsedTool<'t>, lexicon: &Lexicon, features: &mut Vec<ClassifierFeature<'t>>) {
    let name: &'t ToolNameWords = found.name;
    let looks = found.text.lead_verb.and_then(|at| lexicon.word(found.text.tokens.get(at)?.word_id?)?.group)
        == Some(VerbGroup::Read);
    for (at, (written, id)) in name.words.iter().enumerate() {
        // In `group_members` that lists something, `group` is a noun. This does not apply to verbs that run, pay or
        // remove.
        let is_mild = |group: VerbGroup| group.harm_rank() <= VerbGroup::Write.harm_rank();
        let known = id.and_then(|id| lexicon.word(id));
        let is_thing = looks && known.is_some_and(|word| may_be_noun(written, word) && word.group.is_none_or(is_mild));
        let slot =
            if Some(at) == name.lead_verb && !is_thing { WordPosition::NameVerb } else { WordPosition::NameWord };
        push_word(slot, *id, written, lexicon, features);
    }
}

fn push_text_features<'t>(
    text: &DescriptionText<'t>,
    data: &ClassifierData,
    features: &mut Vec<ClassifierFeature<'t>>,
) {
    for (at, token) in text.tokens.iter().enumerate() {
        let Some(id) = token.word_id else { continue };
        if let Some((phrase, words)) = find_phrase_at(text, at, id, data) {
            features.push(ClassifierFeature {
                key: FeatureId::Flag(IndicatorFeature::Phrase(phrase)),
                source_text: text.text_of_tokens(at, words),
            });
        }
        if token.is_negated {
            push_denied(id, token.text, &data.lexicon, features);
            continue;
        }
        if Some(at) == text.lead_verb {
            push_word(WordPosition::DescriptionVerb, Some(id), token.text, &data.lexicon, features);
        }
        let slot = if token.is_in_first_sentence { WordPosition::FirstSentence } else { WordPosition::LaterSentence };
        push_word(slot, Some(id), token.text, &data.lexicon, features);
    }
}

/// Adds a feature for a negated verb of writing or removal, as in `does not delete`. Other negated words are ignored.
fn push_denied<'t>(id: WordId, source: &'t str, lexicon: &Lexicon, features: &mut Vec<ClassifierFeature<'t>>) {
    let changes = |group| matches!(group, VerbGroup::Write | VerbGroup::Destroy);
    let word = lexicon.word(id).filter(|word| !word.is_often_noun);
    if word.and_then(|word| word.group).is_some_and(changes) {
        features.push(ClassifierFeature {
            key: FeatureId::Flag(IndicatorFeature::Phrase(PhraseKind::DeniesChange)),
            source_text: source,
        });
    }
}

fn find_phrase_at(
    text: &DescriptionText<'_>,
    at: usize,
    id: WordId,
    data: &ClassifierData,
) -> Option<(PhraseKind, usize)> {
    let candidates = data.phrases.get(&id)?;
    let fits = |words: &[WordId]| {
        let said = text.tokens.get(at..).unwrap_or_default().iter().map(|token| token.word_id);
        said.take(words.len()).eq(words.iter().map(|word| Some(*word)))
    };
    let is_denied = text.tokens.get(at).is_some_and(|token| token.is_negated);
    let counts = |phrase: PhraseKind| !is_denied || phrase == PhraseKind::ReadOnly;
    candidates
        .iter()
        .find(|(words, phrase)| counts(*phrase) && fits(words))
        .map(|(words, phrase)| (*phrase, words.len()))
}

fn push_parameter_features<'t>(
    parameters: &'t ToolParameters<'t>,
    data: &ClassifierData,
    features: &mut Vec<ClassifierFeature<'t>>,
) {
    for parameter in &parameters.list {
        if parameter.is_top_level {
            // A name of one word is covered by that word.
            if let Some(id) =
                Some(&parameter.name_words).filter(|own| own.contains('_')).and_then(|own| data.lexicon.find(own))
            {
                features.push(ClassifierFeature {
                    key: FeatureId::Word(WordPosition::ParameterName, id),
                    source_text: &parameter.name_words,
                });
            }
            for part in parameter.name_words.split('_') {
                if let Some(id) = data.lexicon.find(part) {
                    features.push(ClassifierFeature {
                        key: FeatureId::Word(WordPosition::ParameterWord, id),
                        source_text: part,
                    });
                }
            }
        }
        if !data.is_choice_parameter(&parameter.name_words) {
            continue;
        }
        for choice in &parameter.choices {
            for part in split_words(choice) {
                push_word(WordPosition::ChoiceValue, data.lexicon.find(&part), choice, &data.lexicon, features);
            }
        }
    }
}
