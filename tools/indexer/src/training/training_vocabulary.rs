//! Selects the words to learn, which are those that several servers use. A word that only one server uses identifies
//! that server rather than what a tool does.

use std::collections::{BTreeMap, BTreeSet};

use gatelodge_catalogue::training_interface::TrainingModel;

use super::TrainingServers;
use crate::category_labels::LabeledTool;

/// Minimum number of servers that must use a word for it to be learned.
const MIN_SERVERS_PER_WORD: usize = 4;

/// Adds the words that several servers use to the model's features.
pub(super) fn add_common_words(model: &mut TrainingModel, tools: &[LabeledTool<'_>], servers: &TrainingServers) {
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
        if users.len() >= MIN_SERVERS_PER_WORD {
            model.add_word(&word);
        }
    }
}
