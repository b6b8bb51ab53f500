//! The lexicon as it is written, in `data/lexicon.toml`.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Group, Lexicon};

/// Points for the five outcomes: Read, Write, Execute, Destructive, Financial.
pub type Points = [f64; 5];

/// The file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Written {
    pub groups: BTreeMap<String, GroupEntry>,
    pub money: Money,
    pub relations: Relations,
    pub code: Code,
    pub negation: Negation,
    pub phrases: BTreeMap<String, Vec<String>>,
    pub steering: Steering,
    pub flags: BTreeMap<String, Points>,
    pub choice: Choice,
    pub parameters: Parameters,
    pub borders: Borders,
    pub leans: Leans,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupEntry {
    verbs: String,
    #[serde(default)]
    doubtful: String,
    #[serde(default)]
    either: String,
    #[serde(default)]
    unties: String,
    #[serde(default)]
    computes: String,
    pub prior: Prior,
}

/// Points by the place a word stands in.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Prior {
    pub lead: Points,
    pub name: Points,
    pub says: Points,
    pub first: Points,
    pub rest: Points,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Money {
    nouns: String,
    commits: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Relations {
    nouns: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Code {
    pub things: String,
    pub verbs: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Negation {
    words: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Steering {
    pub phrases: Vec<String>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Choice {
    pub names: String,
    #[serde(flatten)]
    pub groups: BTreeMap<String, Points>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Parameters {
    pub reads: String,
    pub reads_prior: Points,
    pub writes: String,
    pub writes_prior: Points,
    pub gone: String,
    pub gone_prior: Points,
}

/// Where one category ends and the next begins.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Borders {
    /// The least share of Read that makes a tool one, where a verb or a noun of the name, or the verb of the description, looks.
    pub read: f64,
    /// The same where the verb of the name may leave something behind or not.
    pub read_if_either: f64,
    /// The same where no verb looks.
    pub read_without_verb: f64,
    /// The same where there is nothing but a name, and no verb in it.
    pub read_by_name: f64,
    /// The least share of Destructive, of what is not Read, where a verb takes away what may be a relation.
    pub destroy_if_untied: f64,
    /// The least share of Destructive or Financial, of what is not Read, where no word speaks of it.
    pub without_word: f64,
    /// The least share of Destructive, of what is not Read, where the server itself says so.
    pub destroy_if_claimed: f64,
    /// The least share of an outcome, of what is not Read, where there is no verb.
    pub without_verb: f64,
    /// The share of Read that a `readOnlyHint: false` does not change.
    pub sure_of_read: f64,
}

/// How much more than its share an outcome counts against Write: of two readings the riskier one.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Leans {
    pub execute: f64,
    pub destroy: f64,
    pub money: f64,
    /// The same where the name commits money.
    pub money_if_committed: f64,
}

impl Written {
    /// The group that is written under a name.
    pub fn group(&self, group: Group) -> Option<&GroupEntry> {
        self.groups.get(group.as_str())
    }

    /// Makes the words.
    pub fn lexicon(&self) -> Lexicon {
        let mut lexicon = Lexicon::default();
        for group in Group::ALL {
            let Some(entry) = self.group(group) else { continue };
            for verb in entry.verbs.split_whitespace() {
                lexicon.add_verb(verb, group);
            }
            for verb in entry.doubtful.split_whitespace() {
                lexicon.add_verb(verb, group);
                lexicon.change(verb, |word| word.is_doubtful = true);
            }
            for verb in entry.either.split_whitespace() {
                lexicon.add_verb(verb, group);
                lexicon.change(verb, |word| word.is_either = true);
            }
            for verb in entry.unties.split_whitespace() {
                lexicon.change(verb, |word| word.unties = true);
            }
        }
        for verb in self.groups.values().flat_map(|entry| entry.computes.split_whitespace()) {
            lexicon.change(verb, |word| word.computes = true);
        }
        for noun in self.money.nouns.split_whitespace() {
            lexicon.change(noun, |word| word.is_money = true);
        }
        for noun in self.relations.nouns.split_whitespace() {
            lexicon.change(noun, |word| word.is_relation = true);
        }
        for verb in self.money.commits.split_whitespace() {
            lexicon.change(verb, |word| word.commits = true);
        }
        for denial in self.negation.words.split_whitespace() {
            lexicon.change(denial, |word| word.denies = true);
        }
        lexicon
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::Written;

    #[test]
    fn no_verb_stands_in_two_groups() {
        let written: Written = toml::from_str(include_str!("../../data/lexicon.toml")).unwrap();
        let mut owners: BTreeMap<&str, &str> = BTreeMap::new();
        for (group, entry) in &written.groups {
            for verb in entry.verbs.split_whitespace().chain(entry.doubtful.split_whitespace()) {
                let owner = owners.entry(verb).or_insert(group);
                assert_eq!(owner, group, "{verb}");
            }
        }
    }
}
