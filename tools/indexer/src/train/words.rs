//! Which words are learned: those that several servers use. A word of one server says which server it is, not what a
//! tool does.

use std::collections::{BTreeMap, BTreeSet};

use gatelodge_catalogue::training::TrainingModel;

use super::Servers;
use crate::labels::Labelled;

/// So many servers must use a word.
const LEAST_SERVERS: usize = 4;

/// Adds the common words to those that the model can learn.
pub(super) fn add_common(model: &mut TrainingModel, tools: &[Labelled<'_>], servers: &Servers) {
    let mut users: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    for tool in tools.iter().filter(|tool| tool.label.is_some()) {
        let Some((at, _)) = servers.get(&tool.item.server_key()) else { continue };
        for word in model.words_of(&tool.item.tool) {
            let is_one = |letter: char| letter.is_alphabetic() || letter == '_';
            if word.chars().nth(1).is_some() && word.chars().all(is_one) {
                users.entry(word).or_default().insert(*at);
            }
        }
    }
    for (word, users) in users {
        if users.len() >= LEAST_SERVERS {
            model.add_word(&word);
        }
    }
}
