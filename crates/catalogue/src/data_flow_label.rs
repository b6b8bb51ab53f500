//! Data-flow labels: where a tool's data comes from and where it goes.

use serde::{Deserialize, Serialize};

use gatelodge_policy::Category;

use crate::classifier_data::ClassifierData;
use crate::lexicon::{Lexicon, LexiconWord, WordId};
use crate::risk_signals::RiskSignalKind;
use crate::server_context::ServerContext;
use crate::tool_features::{ParsedTool, has_signal};

/// A data-flow label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataFlowLabel {
    /// The tool returns private data.
    ReadsPrivate,
    /// The tool returns content that strangers can write.
    ReadsUntrusted,
    /// The tool sends data to others.
    SendsOutward,
}

impl DataFlowLabel {
    /// Returns the label's identifier.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ReadsPrivate => "reads_private",
            Self::ReadsUntrusted => "reads_untrusted",
            Self::SendsOutward => "sends_outward",
        }
    }

    pub(crate) fn from_word(word: &str) -> Option<Self> {
        [Self::ReadsPrivate, Self::ReadsUntrusted, Self::SendsOutward].into_iter().find(|flow| flow.as_str() == word)
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataFlowFile {
    reads_private: DataFlowWords,
    reads_untrusted: DataFlowWords,
    sends_outward: DataFlowWords,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DataFlowWords {
    words: String,
    #[serde(default)]
    verbs: String,
    #[serde(default)]
    servers: String,
}

/// Adds the words from `data/flow.toml` to the lexicon. Returns the words that mark a server's content as written by
/// strangers.
pub(crate) fn read_flow_words(text: &str, lexicon: &mut Lexicon) -> Result<Vec<String>, toml::de::Error> {
    let written: DataFlowFile = toml::from_str(text)?;
    let all = [
        (DataFlowLabel::ReadsPrivate, &written.reads_private),
        (DataFlowLabel::ReadsUntrusted, &written.reads_untrusted),
        (DataFlowLabel::SendsOutward, &written.sends_outward),
    ];
    for (flow, words) in all {
        for word in words.words.split_whitespace() {
            lexicon.update_word(word, |word| {
                if !word.flows.contains(&flow) {
                    word.flows.push(flow);
                }
            });
        }
        for verb in words.verbs.split_whitespace() {
            lexicon.update_word(verb, |word| word.is_sending_verb = true);
        }
    }
    Ok(written.reads_untrusted.servers.split_whitespace().map(str::to_owned).collect())
}

/// Returns a tool's data-flow labels.
pub(crate) fn tool_data_flows(
    found: &ParsedTool<'_>,
    category: Category,
    server: &ServerContext,
    data: &ClassifierData,
) -> Vec<DataFlowLabel> {
    let signal = |kind| has_signal(found.signals, kind);
    // Code can read, fetch and send anything.
    if category == Category::Execute && (signal(RiskSignalKind::TakesCode) || signal(RiskSignalKind::TakesShell)) {
        return vec![DataFlowLabel::ReadsPrivate, DataFlowLabel::ReadsUntrusted, DataFlowLabel::SendsOutward];
    }
    let words = || words_mentioned(found, data);
    let speaks_of = |flow: DataFlowLabel| {
        words().any(|word| word.flows.contains(&flow))
            || (flow == DataFlowLabel::ReadsUntrusted
                && data.untrusted_server_words.iter().any(|word| server.has_word(word)))
    };
    let is_read = category == Category::Read || category == Category::Execute;
    let fetches = is_read && signal(RiskSignalKind::TakesUrl);
    let sends =
        found.name.verb().and_then(|(_, id)| data.lexicon.word((*id)?)).is_some_and(|verb| verb.is_sending_verb);
    let changes = matches!(category, Category::Write | Category::Execute | Category::Unknown | Category::Financial);
    let mut labels = Vec::new();
    if is_read
        && (speaks_of(DataFlowLabel::ReadsPrivate)
            || signal(RiskSignalKind::TakesPath)
            || signal(RiskSignalKind::TakesSql))
    {
        labels.push(DataFlowLabel::ReadsPrivate);
    }
    if fetches || (is_read && speaks_of(DataFlowLabel::ReadsUntrusted)) {
        labels.push(DataFlowLabel::ReadsUntrusted);
    }
    // Fetching a URL reveals its content to the operator of the host.
    let outward = sends
        || signal(RiskSignalKind::TakesRecipients)
        || signal(RiskSignalKind::TakesUrl)
        || speaks_of(DataFlowLabel::SendsOutward);
    if fetches || (changes && outward) {
        labels.push(DataFlowLabel::SendsOutward);
    }
    labels
}

/// Returns the known words in the tool's name and in the first sentence of its description.
fn words_mentioned<'b>(found: &ParsedTool<'_>, data: &'b ClassifierData) -> impl Iterator<Item = &'b LexiconWord> {
    let named = found.name.words.iter().filter_map(|(_, id)| *id);
    let described =
        found.text.tokens.iter().take_while(|token| token.is_in_first_sentence).filter_map(|token| token.word_id);
    let all: Vec<WordId> = named.chain(described).collect();
    all.into_iter().filter_map(|id| data.lexicon.word(id))
}
