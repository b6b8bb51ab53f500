//! Finding features. Each is seen or not; how often does not matter, so that long texts do not weigh more.

use super::pairs;
use super::{Feature, Flag, Key, Phrase, Slot};
use crate::classifier_data::ClassifierData;
use crate::lexicon::{Lexicon, LexiconWord, VerbGroup, WordId};
use crate::name::{Name, is_noun, split};
use crate::parameters::Parameters;
use crate::signals::{Signal, SignalKind};
use crate::text::Text;

/// What features are found in.
pub(crate) struct Found<'t> {
    pub name: &'t Name,
    pub text: &'t Text<'t>,
    pub parameters: &'t Parameters<'t>,
    pub signals: &'t [Signal],
    /// Whether the description was too long to be read whole.
    pub is_cut: bool,
}

/// Finds all features, in the order of their keys.
pub(crate) fn find<'t>(found: &Found<'t>, book: &ClassifierData) -> Vec<Feature<'t>> {
    let mut features = Vec::with_capacity(64);
    of_name(found, &book.lexicon, &mut features);
    of_text(found.text, book, &mut features);
    pairs::of_verbs(&mut features, &book.lexicon);
    pairs::of_neighbours(found.text, &book.lexicon, &mut features);
    of_parameters(found.parameters, book, &mut features);
    // How many siblings there are says nothing of what a tool does.
    for signal in found.signals.iter().filter(|signal| signal.kind != SignalKind::CrowdedServer) {
        let source = signal.parameter.as_deref().unwrap_or_default();
        features.push(Feature { key: Key::Flag(Flag::Signal(signal.kind)), source });
    }
    let flags = [
        (Flag::NoParameters, found.parameters.count == 0 && !found.parameters.is_odd),
        (Flag::NoVerb, found.name.lead.is_none() && found.text.lead.is_none() && found.text.is_known(&book.lexicon)),
        (Flag::OnlyNumbers, found.parameters.are_only_numbers()),
        (Flag::Commits, commits(found.name, &book.lexicon)),
    ];
    let flags = flags.into_iter().filter(|(_, is_set)| *is_set);
    features.extend(flags.map(|(flag, _)| Feature { key: Key::Flag(flag), source: "" }));
    // Stable: of two sources of one key, the first stays.
    features.sort_by_key(|feature| feature.key);
    features.dedup_by_key(|feature| feature.key);
    features
}

/// Whether the name commits money: a verb that does, and a thing of money.
fn commits(name: &Name, lexicon: &Lexicon) -> bool {
    let words = || name.words.iter().enumerate().filter_map(|(at, (_, id))| Some((at, lexicon.word((*id)?)?)));
    let nouns = words().filter(|(_, word)| word.is_money_noun).count();
    // `transfer_issue` issues nothing.
    let is_done = |at: usize, word: &LexiconWord| {
        word.commits_money && !(word.is_often_noun && name.lead.is_some_and(|lead| lead != at))
    };
    // `order` and `transfer` may be both, but not at once, unless there is nothing else.
    let is_alone = name.words.len() == 1;
    words().any(|(at, word)| is_done(at, word) && (!word.is_money_noun || nouns > 1 || is_alone)) && nouns > 0
}

fn word<'t>(slot: Slot, id: Option<WordId>, source: &'t str, lexicon: &Lexicon, features: &mut Vec<Feature<'t>>) {
    let Some(id) = id else { return };
    features.push(Feature { key: Key::Word(slot, id), source });
    if let Some(group) = lexicon.word(id).and_then(|word| word.group) {
        features.push(Feature { key: Key::Group(slot, group), source });
    }
}

fn of_name<'t>(found: &Found<'t>, lexicon: &Lexicon, features: &mut Vec<Feature<'t>>) {
    let name: &'t Name = found.name;
    let looks =
        found.text.lead.and_then(|at| lexicon.word(found.text.tokens.get(at)?.id?)?.group) == Some(VerbGroup::Read);
    for (at, (written, id)) in name.words.iter().enumerate() {
        // `group_members` that lists something groups nothing; what runs, pays or takes away is not talked away.
        let is_mild = |group: VerbGroup| group.harm_rank() <= VerbGroup::Write.harm_rank();
        let known = id.and_then(|id| lexicon.word(id));
        let is_thing = looks && known.is_some_and(|word| is_noun(written, word) && word.group.is_none_or(is_mild));
        let slot = if Some(at) == name.lead && !is_thing { Slot::Lead } else { Slot::Name };
        word(slot, *id, written, lexicon, features);
    }
}

fn of_text<'t>(text: &Text<'t>, book: &ClassifierData, features: &mut Vec<Feature<'t>>) {
    for (at, token) in text.tokens.iter().enumerate() {
        let Some(id) = token.id else { continue };
        if let Some((phrase, words)) = phrase_at(text, at, id, book) {
            features.push(Feature { key: Key::Flag(Flag::Phrase(phrase)), source: text.span(at, words) });
        }
        if token.is_denied {
            denied(id, token.written, &book.lexicon, features);
            continue;
        }
        if Some(at) == text.lead {
            word(Slot::Says, Some(id), token.written, &book.lexicon, features);
        }
        let slot = if token.is_first { Slot::First } else { Slot::Rest };
        word(slot, Some(id), token.written, &book.lexicon, features);
    }
}

/// `does not delete` says that it only looks; nothing else that is denied says anything.
fn denied<'t>(id: WordId, source: &'t str, lexicon: &Lexicon, features: &mut Vec<Feature<'t>>) {
    let changes = |group| matches!(group, VerbGroup::Write | VerbGroup::Destroy);
    let word = lexicon.word(id).filter(|word| !word.is_often_noun);
    if word.and_then(|word| word.group).is_some_and(changes) {
        features.push(Feature { key: Key::Flag(Flag::Phrase(Phrase::Denies)), source });
    }
}

fn phrase_at(text: &Text<'_>, at: usize, id: WordId, book: &ClassifierData) -> Option<(Phrase, usize)> {
    let candidates = book.phrases.get(&id)?;
    let fits = |words: &[WordId]| {
        let said = text.tokens.get(at..).unwrap_or_default().iter().map(|token| token.id);
        said.take(words.len()).eq(words.iter().map(|word| Some(*word)))
    };
    let is_denied = text.tokens.get(at).is_some_and(|token| token.is_denied);
    let counts = |phrase: Phrase| !is_denied || phrase == Phrase::ReadOnly;
    candidates
        .iter()
        .find(|(words, phrase)| counts(*phrase) && fits(words))
        .map(|(words, phrase)| (*phrase, words.len()))
}

fn of_parameters<'t>(parameters: &'t Parameters<'t>, book: &ClassifierData, features: &mut Vec<Feature<'t>>) {
    for parameter in &parameters.list {
        if parameter.is_outermost {
            // A name of one word is found as that word.
            if let Some(id) =
                Some(&parameter.joined).filter(|own| own.contains('_')).and_then(|own| book.lexicon.find(own))
            {
                features.push(Feature { key: Key::Word(Slot::Whole, id), source: &parameter.joined });
            }
            for part in parameter.joined.split('_') {
                if let Some(id) = book.lexicon.find(part) {
                    features.push(Feature { key: Key::Word(Slot::Parameter, id), source: part });
                }
            }
        }
        if !book.is_choice_parameter(&parameter.joined) {
            continue;
        }
        for choice in &parameter.choices {
            for part in split(choice) {
                word(Slot::Choice, book.lexicon.find(&part), choice, &book.lexicon, features);
            }
        }
    }
}
