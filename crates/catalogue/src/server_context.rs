//! What surrounds a tool: its server, and the names of its siblings. The order in which siblings come does not matter.

use std::collections::{BTreeMap, BTreeSet};

use crate::classifier_data::ClassifierData;
use crate::lexicon::VerbGroup;
use crate::tool_name_words::{ToolNameWords, split_words};

/// More tools on one server are very many, and more than anybody looks through.
pub(crate) const MANY_TOOLS: usize = 60;
/// Names of a family that are remembered; more say nothing new.
const MAX_RELATED_TOOLS: usize = 4;

/// A server and the names of its tools.
#[derive(Debug, Clone, Default)]
pub struct ServerContext {
    /// Its name, for people.
    pub name: String,
    /// The words of its name and description.
    words: BTreeSet<String>,
    common_prefix: Vec<String>,
    /// Names by what they are about, without their verb.
    by_object: BTreeMap<String, BTreeSet<String>>,
    /// Names by their verb.
    by_verb: BTreeMap<String, BTreeSet<String>>,
    /// Names that say that code runs.
    code_runner_names: BTreeSet<String>,
    tool_count: usize,
}

impl ServerContext {
    /// Takes note of a server's tools. Names that come twice count once.
    pub fn new<'n>(name: &str, description: Option<&str>, tools: impl IntoIterator<Item = &'n str>) -> Self {
        let book = ClassifierData::built_in();
        let names: BTreeSet<&str> = tools.into_iter().collect();
        let text = description.unwrap_or_default().chars().take(2_000).collect::<String>();
        let words = split_words(name).into_iter().chain(text.split_whitespace().flat_map(split_words)).collect();
        let prefix = common_prefix(&names, book);
        let mut server =
            Self { name: name.to_owned(), words, common_prefix: prefix, tool_count: names.len(), ..Self::default() };
        for own in names {
            server.add_tool_name(own, book);
        }
        server
    }

    fn add_tool_name(&mut self, own: &str, book: &ClassifierData) {
        let name = ToolNameWords::of(own, &self.common_prefix, &book.lexicon);
        let Some((verb, _)) = name.verb() else { return };
        let object = name.object_words();
        let runs = name.verb_group(&book.lexicon) == Some(VerbGroup::Run)
            && object.split('_').any(|word| book.code_nouns.contains(word));
        if runs || book.code_verbs.contains(verb.as_str()) {
            insert_bounded(&mut self.code_runner_names, own);
        }
        insert_bounded(self.by_verb.entry(verb.clone()).or_default(), own);
        if !object.is_empty() {
            insert_bounded(self.by_object.entry(object).or_default(), own);
        }
    }

    /// What all its names begin with.
    pub(crate) fn name_prefix(&self) -> &[String] {
        &self.common_prefix
    }

    /// Whether it has very many tools.
    pub(crate) fn has_many_tools(&self) -> bool {
        self.tool_count > MANY_TOOLS
    }

    /// Whether its name or description has a word.
    pub(crate) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Siblings that are about the same thing: `export_package` beside `import_package`.
    pub(crate) fn related_tools(&self, own: &str, name: &ToolNameWords) -> Vec<&str> {
        other_names(self.by_object.get(&name.object_words()), own)
    }

    /// Siblings with the same verb.
    pub(crate) fn same_verb_tools(&self, own: &str, name: &ToolNameWords) -> Vec<&str> {
        other_names(name.verb().and_then(|(verb, _)| self.by_verb.get(verb)), own)
    }

    /// Siblings that say that code runs here.
    pub(crate) fn code_runners(&self, own: &str) -> Vec<&str> {
        other_names(Some(&self.code_runner_names), own)
    }
}

fn other_names<'s>(names: Option<&'s BTreeSet<String>>, own: &str) -> Vec<&'s str> {
    names.into_iter().flatten().map(String::as_str).filter(|name| *name != own).take(MAX_RELATED_TOOLS - 1).collect()
}

/// Names come in order, so those that stay do not depend on how they were told.
fn insert_bounded(names: &mut BTreeSet<String>, own: &str) {
    if names.len() < MAX_RELATED_TOOLS {
        names.insert(own.to_owned());
    }
}

/// The words that all names begin with, up to the first that says what is done, or that it is about money. Few names have nothing in common by design.
fn common_prefix(names: &BTreeSet<&str>, book: &ClassifierData) -> Vec<String> {
    // In order, the first and the last differ the most.
    let (Some(first), Some(last)) = (names.first(), names.last()) else { return Vec::new() };
    if names.len() < 3 {
        return Vec::new();
    }
    let (first, last) = (split_words(first), split_words(last));
    let common = first.iter().zip(&last).take_while(|(one, other)| one == other).map(|(word, _)| word);
    let has_meaning = |word: &&String| {
        let known = book.lexicon.find(word).and_then(|id| book.lexicon.word(id));
        known.is_some_and(|word| word.group.is_some() || word.is_money_noun)
    };
    common.take_while(|word| !has_meaning(word)).cloned().collect()
}
