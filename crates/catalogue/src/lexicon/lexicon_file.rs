//! Format of `data/lexicon.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Lexicon, VerbGroup};

/// Scores for the five categories that the model distinguishes: Read, Write, Execute, Destructive, Financial.
pub type CategoryScores = [f64; 5];

/// The contents of the lexicon file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LexiconFile {
    pub groups: BTreeMap<String, VerbGroupEntry>,
    pub money: MoneyWords,
    pub relations: RelationshipNouns,
    pub code: CodeWords,
    pub negation: NegationWords,
    pub phrases: BTreeMap<String, Vec<String>>,
    pub steering: SteeringPhrases,
    pub flags: BTreeMap<String, CategoryScores>,
    pub choice: ActionParameterPriors,
    pub parameters: ParameterWordPriors,
    #[serde(rename = "borders")]
    pub thresholds: CategoryThresholds,
    #[serde(rename = "leans")]
    pub biases: CategoryRiskMultipliers,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VerbGroupEntry {
    verbs: String,
    #[serde(default)]
    #[serde(rename = "doubtful")]
    often_nouns: String,
    #[serde(default)]
    #[serde(rename = "either")]
    may_change_nothing: String,
    #[serde(default)]
    #[serde(rename = "unties")]
    may_only_unlink: String,
    #[serde(default)]
    #[serde(rename = "computes")]
    may_only_compute: String,
    pub prior: PositionPriors,
}

/// Prior scores for a word, by its position in the tool definition.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PositionPriors {
    #[serde(rename = "lead")]
    pub name_verb: CategoryScores,
    #[serde(rename = "name")]
    pub name_word: CategoryScores,
    #[serde(rename = "says")]
    pub description_verb: CategoryScores,
    #[serde(rename = "first")]
    pub first_sentence: CategoryScores,
    #[serde(rename = "rest")]
    pub later_sentence: CategoryScores,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MoneyWords {
    nouns: String,
    commits: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RelationshipNouns {
    nouns: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CodeWords {
    #[serde(rename = "things")]
    pub nouns: String,
    pub verbs: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NegationWords {
    words: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SteeringPhrases {
    pub phrases: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct ActionParameterPriors {
    pub names: String,
    #[serde(flatten)]
    pub groups: BTreeMap<String, CategoryScores>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ParameterWordPriors {
    #[serde(rename = "reads")]
    pub read_words: String,
    pub reads_prior: CategoryScores,
    #[serde(rename = "writes")]
    pub write_words: String,
    pub writes_prior: CategoryScores,
    #[serde(rename = "gone")]
    pub removal_words: String,
    #[serde(rename = "gone_prior")]
    pub removal_prior: CategoryScores,
}

/// Thresholds for choosing a category.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CategoryThresholds {
    /// Probability required to choose Read if the name or the description has a verb for reading.
    pub read: f64,
    /// Probability required to choose Read if there is a verb for reading, but the verb in the name leaves open whether
    /// anything is changed.
    #[serde(rename = "read_if_either")]
    pub read_if_ambiguous: f64,
    /// Probability required to choose Read if there is no verb for reading.
    pub read_without_verb: f64,
    /// Probability required to choose Read if there is no description and the name has no verb.
    pub read_by_name: f64,
    /// Share of the total non-Read probability that is required to choose Destructive if the tool might only detach
    /// something.
    #[serde(rename = "destroy_if_untied")]
    pub destroy_if_unlinked: f64,
    /// Share of the total non-Read probability that is required to choose Destructive or Financial if no word indicates
    /// that category.
    #[serde(rename = "without_word")]
    pub without_category_word: f64,
    /// Share of the total non-Read probability that is required to choose Destructive if an annotation claims that the
    /// tool is destructive.
    pub destroy_if_claimed: f64,
    /// Share of the total non-Read probability that is required to choose Write if there is no verb.
    pub without_verb: f64,
    /// Probability of Read above which `readOnlyHint: false` has no effect.
    #[serde(rename = "sure_of_read")]
    pub certain_read: f64,
}

/// Factors that increase the probabilities of categories riskier than Write, so that a riskier category is chosen in
/// case of doubt.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CategoryRiskMultipliers {
    pub execute: f64,
    pub destroy: f64,
    pub money: f64,
    /// Factor for Financial if the tool's name indicates a financial commitment.
    pub money_if_committed: f64,
}

impl LexiconFile {
    /// Returns the entry for a verb group.
    pub fn find_group(&self, group: VerbGroup) -> Option<&VerbGroupEntry> {
        self.groups.get(group.as_str())
    }

    /// Builds the lexicon from the file.
    pub fn build_lexicon(&self) -> Lexicon {
        let mut lexicon = Lexicon::default();
        for group in VerbGroup::ALL {
            let Some(entry) = self.find_group(group) else { continue };
            for verb in entry.verbs.split_whitespace() {
                lexicon.add_verb(verb, group);
            }
            for verb in entry.often_nouns.split_whitespace() {
                lexicon.add_verb(verb, group);
                lexicon.update_word(verb, |word| word.is_often_noun = true);
            }
            for verb in entry.may_change_nothing.split_whitespace() {
                lexicon.add_verb(verb, group);
                lexicon.update_word(verb, |word| word.may_change_nothing = true);
            }
            for verb in entry.may_only_unlink.split_whitespace() {
                lexicon.update_word(verb, |word| word.may_only_unlink = true);
            }
        }
        for verb in self.groups.values().flat_map(|entry| entry.may_only_compute.split_whitespace()) {
            lexicon.update_word(verb, |word| word.may_only_compute = true);
        }
        for noun in self.money.nouns.split_whitespace() {
            lexicon.update_word(noun, |word| word.is_money_noun = true);
        }
        for noun in self.relations.nouns.split_whitespace() {
            lexicon.update_word(noun, |word| word.is_relation = true);
        }
        for verb in self.money.commits.split_whitespace() {
            lexicon.update_word(verb, |word| word.commits_money = true);
        }
        for denial in self.negation.words.split_whitespace() {
            lexicon.update_word(denial, |word| word.is_negation = true);
        }
        lexicon
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::LexiconFile;

    #[test]
    fn no_verb_is_in_two_groups() {
        let written: LexiconFile = toml::from_str(include_str!("../../data/lexicon.toml")).unwrap();
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for (group, entry) in &written.groups {
            for verb in entry.verbs.split_whitespace().chain(entry.often_nouns.split_whitespace()) {
                let owner = owners.entry(verb).or_insert(group);
                assert_eq!(owner, group, "{verb}");
            }
        }
    }
}
