//! Where data comes from and where it goes: labels for rules about flows.

use serde::{Deserialize, Serialize};

use gatelodge_policy::Category;

use crate::classifier_data::ClassifierData;
use crate::lexicon::{Lexicon, LexiconWord, WordId};
use crate::risk_signals::RiskSignalKind;
use crate::server_context::ServerContext;
use crate::tool_features::{ParsedTool, has_signal};

/// A label.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DataFlow {
    /// It gives data that is somebody's own.
    ReadsPrivate,
    /// It gives content that strangers can write.
    ReadsUntrusted,
    /// It carries something to others.
    SendsOutward,
}

impl DataFlow {
    /// The word for programs.
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
struct FlowFile {
    reads_private: FlowWords,
    reads_untrusted: FlowWords,
    sends_outward: FlowWords,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FlowWords {
    words: String,
    #[serde(default)]
    verbs: String,
    #[serde(default)]
    servers: String,
}

/// Reads `data/flow.toml` into the lexicon; gives the words of servers whose content strangers write.
pub(crate) fn read_flow_words(text: &str, lexicon: &mut Lexicon) -> Result<Vec<String>, toml::de::Error> {
    let written: FlowFile = toml::from_str(text)?;
    let all = [
        (DataFlow::ReadsPrivate, &written.reads_private),
        (DataFlow::ReadsUntrusted, &written.reads_untrusted),
        (DataFlow::SendsOutward, &written.sends_outward),
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

/// The labels of a tool.
pub(crate) fn tool_data_flows(
    found: &ParsedTool<'_>,
    category: Category,
    server: &ServerContext,
    book: &ClassifierData,
) -> Vec<DataFlow> {
    let signal = |kind| has_signal(found.signals, kind);
    // What it runs may read, fetch and send.
    if category == Category::Execute && (signal(RiskSignalKind::TakesCode) || signal(RiskSignalKind::TakesShell)) {
        return vec![DataFlow::ReadsPrivate, DataFlow::ReadsUntrusted, DataFlow::SendsOutward];
    }
    let words = || words_mentioned(found, book);
    let speaks_of = |flow: DataFlow| {
        words().any(|word| word.flows.contains(&flow))
            || (flow == DataFlow::ReadsUntrusted
                && book.untrusted_server_words.iter().any(|word| server.has_word(word)))
    };
    let is_read = category == Category::Read || category == Category::Execute;
    let fetches = is_read && signal(RiskSignalKind::TakesUrl);
    let sends =
        found.name.verb().and_then(|(_, id)| book.lexicon.word((*id)?)).is_some_and(|verb| verb.is_sending_verb);
    let changes = matches!(category, Category::Write | Category::Execute | Category::Unknown | Category::Financial);
    let mut labels = Vec::new();
    if is_read
        && (speaks_of(DataFlow::ReadsPrivate) || signal(RiskSignalKind::TakesPath) || signal(RiskSignalKind::TakesSql))
    {
        labels.push(DataFlow::ReadsPrivate);
    }
    if fetches || (is_read && speaks_of(DataFlow::ReadsUntrusted)) {
        labels.push(DataFlow::ReadsUntrusted);
    }
    // Fetching an address tells whoever runs it what stands in the address.
    let outward = sends
        || signal(RiskSignalKind::TakesRecipients)
        || signal(RiskSignalKind::TakesUrl)
        || speaks_of(DataFlow::SendsOutward);
    if fetches || (changes && outward) {
        labels.push(DataFlow::SendsOutward);
    }
    labels
}

/// The words of the name and of the first sentence.
fn words_mentioned<'b>(found: &ParsedTool<'_>, book: &'b ClassifierData) -> impl Iterator<Item = &'b LexiconWord> {
    let named = found.name.words.iter().filter_map(|(_, id)| *id);
    let told =
        found.text.tokens.iter().take_while(|token| token.is_in_first_sentence).filter_map(|token| token.word_id);
    let all: Vec<WordId> = named.chain(told).collect();
    all.into_iter().filter_map(|id| book.lexicon.word(id))
}
