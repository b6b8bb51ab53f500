//! Features for pairs of words. Removal verbs form pairs only by their group, and are otherwise skipped. Adding such a
//! verb to a definition therefore leaves the other word pairs intact, and no word pair can outweigh the verb.

use super::{ClassifierFeature, FeatureId, WordPosition};
use crate::description_text::DescriptionText;
use crate::lexicon::{Lexicon, VerbGroup, WordId};

/// Adds a feature for the name's verb paired with the description's leading verb, and one for the pair of their groups.
pub(super) fn push_verb_pairs(features: &mut Vec<ClassifierFeature<'_>>, lexicon: &Lexicon) {
    let group = |slot: WordPosition| {
        features.iter().find_map(|feature| match feature.key {
            FeatureId::Group(own, group) if own == slot => Some(group),
            _ => None,
        })
    };
    let word = |slot: WordPosition| {
        features.iter().find_map(|feature| match feature.key {
            FeatureId::Word(own, id) if own == slot => Some(id),
            _ => None,
        })
    };
    let (kinds, words) = (
        (group(WordPosition::NameVerb), group(WordPosition::DescriptionVerb)),
        (word(WordPosition::NameVerb), word(WordPosition::DescriptionVerb)),
    );
    if kinds != (None, None) {
        features.push(ClassifierFeature { key: FeatureId::GroupPair(kinds.0, kinds.1), source_text: "" });
    }
    if let (Some(lead), Some(says)) = words
        && !is_removal(lead, lexicon)
        && !is_removal(says, lexicon)
    {
        features.push(ClassifierFeature { key: FeatureId::VerbPair(lead, says), source_text: "" });
    }
}

/// Adds a feature for each pair of consecutive words in the first sentence.
pub(super) fn push_word_pairs<'t>(
    text: &DescriptionText<'t>,
    lexicon: &Lexicon,
    features: &mut Vec<ClassifierFeature<'t>>,
) {
    let mut before: Option<(usize, WordId)> = None;
    for (at, token) in text.tokens.iter().enumerate().take_while(|(_, token)| token.is_in_first_sentence) {
        if token.word_id.is_some_and(|id| is_removal(id, lexicon)) {
            continue;
        }
        let own = token.word_id.filter(|_| !token.is_negated);
        if let (Some((begin, first)), Some(second)) = (before, own) {
            features.push(ClassifierFeature {
                key: FeatureId::WordPair(first, second),
                source_text: text.text_of_tokens(begin, at + 1 - begin),
            });
        }
        before = own.map(|id| (at, id));
    }
}

fn is_removal(id: WordId, lexicon: &Lexicon) -> bool {
    lexicon.word(id).and_then(|word| word.group).is_some_and(VerbGroup::is_removal)
}
