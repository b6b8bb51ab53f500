//! The context of a tool: its server and the names of the server's other tools. The order of the tools does not matter.

use std::collections::{BTreeMap, BTreeSet};

use crate::classifier_data::ClassifierData;
use crate::lexicon::VerbGroup;
use crate::tool_name_words::{ToolNameWords, split_words};

/// Maximum number of tools that can reasonably be reviewed.
pub(crate) const MANY_TOOLS: usize = 60;
/// Maximum number of related tool names to keep. More names would not make the rationale clearer.
const MAX_RELATED_TOOLS: usize = 4;

/// A server and the names of its tools.
#[derive(Debug, Clone, Default)]
pub struct ServerContext {
    /// Display name.
    pub name: String,
    /// Words in the server's name and description.
    words: BTreeSet<String>,
    common_prefix: Vec<String>,
    /// Tool names, keyed by their object: the name without its verb.
    by_object: BTreeMap<String, BTreeSet<String>>,
    /// Tool names, keyed by their verb.
    by_verb: BTreeMap<String, BTreeSet<String>>,
    /// Tool names that suggest that the server runs code.
    code_runner_names: BTreeSet<String>,
    tool_count: usize,
}

impl ServerContext {
    /// Collects the tool names of a server. Duplicate names count once.
    pub fn new<'n>(name: &str, description: Option<&str>, tools: impl IntoIterator<Item = &'n str>) -> Self {
        let data = ClassifierData::built_in();
        let names: BTreeSet<&str> = tools.into_iter().collect();
        let text = description.unwrap_or_default().chars().take(2_000).collect::<String>();
        let words = split_words(name).into_iter().chain(text.split_whitespace().flat_map(split_words)).collect();
        let prefix = common_prefix(&names, data);
        let mut server =
            Self { name: name.to_owned(), words, common_prefix: prefix, tool_count: names.len(), ..Self::default() };
        for own in names {
            server.add_tool_name(own, data);
        }
        server
    }

    fn add_tool_name(&mut self, own: &str, data: &ClassifierData) {
        let name = ToolNameWords::of(own, &self.common_prefix, &data.lexicon);
        let Some((verb, _)) = name.verb() else { return };
        let object = name.object_words();
        let runs = name.verb_group(&data.lexicon) == Some(VerbGroup::Run)
            && object.split('_').any(|word| data.code_nouns.contains(word));
        if runs || data.code_verbs.contains(verb.as_str()) {
            insert_bounded(&mut self.code_runner_names, own);
        }
        insert_bounded(self.by_verb.entry(verb.clone()).or_default(), own);
        if !object.is_empty() {
            insert_bounded(self.by_object.entry(object).or_default(), own);
        }
    }

    /// Returns the words that all tool names start with.
    pub(crate) fn name_prefix(&self) -> &[String] {
        &self.common_prefix
    }

    /// Returns whether the server has too many tools to review.
    pub(crate) fn has_many_tools(&self) -> bool {
        self.tool_count > MANY_TOOLS
    }

    /// Returns whether the server's name or description contains a word.
    pub(crate) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    /// Returns other tools that handle the same object, such as `import_package` for `export_package`.
    pub(crate) fn related_tools(&self, own: &str, name: &ToolNameWords) -> Vec<&str> {
        other_names(self.by_object.get(&name.object_words()), own)
    }

    /// Returns other tools with the same verb.
    pub(crate) fn same_verb_tools(&self, own: &str, name: &ToolNameWords) -> Vec<&str> {
        other_names(name.verb().and_then(|(verb, _)| self.by_verb.get(verb)), own)
    }

    /// Returns other tools whose names suggest that the server runs code.
    pub(crate) fn code_runners(&self, own: &str) -> Vec<&str> {
        other_names(Some(&self.code_runner_names), own)
    }
}

fn other_names<'s>(names: Option<&'s BTreeSet<String>>, own: &str) -> Vec<&'s str> {
    names.into_iter().flatten().map(String::as_str).filter(|name| *name != own).take(MAX_RELATED_TOOLS - 1).collect()
}

/// Adds a tool name unless enough names are stored already. Names are added in sorted order, so the selection does not
/// depend on the order of the tool list.
fn insert_bounded(names: &mut BTreeSet<String>, own: &str) {
    if names.len() < MAX_RELATED_TOOLS {
        names.insert(own.to_owned());
    }
}

/// Returns the words that all names start with, up to the first verb or money noun. Empty if there are fewer than three
/// names.
fn common_prefix(names: &BTreeSet<&str>, data: &ClassifierData) -> Vec<String> {
    // In sorted order, the first and the last name differ the most.
    let (Some(first), Some(last)) = (names.first(), names.last()) else { return Vec::new() };
    if names.len() < 3 {
        return Vec::new();
    }
    let (first, last) = (split_words(first), split_words(last));
    let common = first.iter().zip(&last).take_while(|(one, other)| one == other).map(|(word, _)| word);
    let has_meaning = |word: &&String| {
        let known = data.lexicon.find(word).and_then(|id| data.lexicon.word(id));
        known.is_some_and(|word| word.group.is_some() || word.is_money_noun)
    };
    common.take_while(|word| !has_meaning(word)).cloned().collect()
}
