//! Features of two words. A verb that takes away is in none but the pair of what verbs do: added to a text it parts no
//! pair, and no pair talks it away.

use super::{Feature, Key, Slot};
use crate::lexicon::{Lexicon, VerbGroup, WordId};
use crate::text::Text;

/// Adds the verb of the name with the first verb of the description, as they were found.
pub(super) fn of_verbs(features: &mut Vec<Feature<'_>>, lexicon: &Lexicon) {
    let group = |slot: Slot| {
        features.iter().find_map(|feature| match feature.key {
            Key::Group(own, group) if own == slot => Some(group),
            _ => None,
        })
    };
    let word = |slot: Slot| {
        features.iter().find_map(|feature| match feature.key {
            Key::Word(own, id) if own == slot => Some(id),
            _ => None,
        })
    };
    let (kinds, words) = ((group(Slot::Lead), group(Slot::Says)), (word(Slot::Lead), word(Slot::Says)));
    if kinds != (None, None) {
        features.push(Feature { key: Key::Kinds(kinds.0, kinds.1), source: "" });
    }
    if let (Some(lead), Some(says)) = words
        && !takes_away(lead, lexicon)
        && !takes_away(says, lexicon)
    {
        features.push(Feature { key: Key::Verbs(lead, says), source: "" });
    }
}

/// Adds words of the first sentence that follow each other.
pub(super) fn of_neighbours<'t>(text: &Text<'t>, lexicon: &Lexicon, features: &mut Vec<Feature<'t>>) {
    let mut before: Option<(usize, WordId)> = None;
    for (at, token) in text.tokens.iter().enumerate().take_while(|(_, token)| token.is_first) {
        if token.id.is_some_and(|id| takes_away(id, lexicon)) {
            continue;
        }
        let own = token.id.filter(|_| !token.is_denied);
        if let (Some((begin, first)), Some(second)) = (before, own) {
            features.push(Feature { key: Key::Next(first, second), source: text.span(begin, at + 1 - begin) });
        }
        before = own.map(|id| (at, id));
    }
}

fn takes_away(id: WordId, lexicon: &Lexicon) -> bool {
    lexicon.word(id).and_then(|word| word.group).is_some_and(VerbGroup::is_removal)
}
