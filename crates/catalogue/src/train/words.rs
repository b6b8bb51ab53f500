//! Which words are learned: those that several servers use. A word of one server says which server it is, not what a
//! tool does.

use std::collections::{BTreeMap, BTreeSet};

use super::Servers;
use crate::labels::Labelled;
use crate::lexicon::Lexicon;
use crate::name::split;
use crate::parameters::Parameters;
use crate::text::{Text, plain};

/// So many servers must use a word.
const LEAST_SERVERS: usize = 4;

/// Adds the common words to the lexicon.
pub(super) fn add_common(lexicon: &mut Lexicon, tools: &[Labelled<'_>], servers: &Servers) {
    let mut users: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for tool in tools.iter().filter(|tool| tool.label.is_some()) {
        let Some((at, _)) = servers.get(&tool.item.family()) else { continue };
        let own = &tool.item.tool;
        let description = plain(own.description.as_deref().unwrap_or_default());
        let named = split(&own.name).into_iter();
        let text = Text::of(&description.text, lexicon);
        let told = text.tokens.iter().map(|token| token.written.to_lowercase());
        let parameters = Parameters::of(own.schema);
        let taken = parameters.list.iter().flat_map(|own| own.joined.split('_').chain([own.joined.as_str()]));
        for word in named.chain(told).chain(taken.map(str::to_owned)) {
            let is_one = |letter: char| letter.is_alphabetic() || letter == '_';
            if word.chars().nth(1).is_some() && word.chars().all(is_one) {
                users.entry(word).or_default().insert(*at);
            }
        }
    }
    for (word, users) in users {
        if users.len() >= LEAST_SERVERS && lexicon.find(&word).is_none() {
            lexicon.id_of(&word);
        }
    }
}
