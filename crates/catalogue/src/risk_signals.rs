//! Risk signals: surface features of a definition, such as parameters that take code or URLs, or words about
//! administration.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use crate::display_escape::escape_for_display;
use crate::lexicon::Lexicon;
use crate::tool_parameters::{ParameterKind, ToolParameter};

/// A tool with at least this many top-level parameters has the risk signal [`RiskSignalKind::ManyParameters`].
pub(crate) const MANY_PARAMETERS: usize = 10;

macro_rules! signal_kinds {
    ($($variant:ident = $word:literal, $says:literal;)+) => {
        /// Kinds of risk signals.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum RiskSignalKind { $(#[doc = $says] $variant,)+ }

        impl RiskSignalKind {
            /// All kinds.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];

            /// Returns the signal's identifier.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word,)+ }
            }

            /// Returns the signal's display text.
            pub fn description(self) -> &'static str {
                match self { $(Self::$variant => $says,)+ }
            }
        }
    };
}

signal_kinds! {
    TakesCode = "takes_code", "takes code";
    TakesShell = "takes_shell", "takes a command line";
    TakesSql = "takes_sql", "takes a query";
    TakesUrl = "takes_url", "takes an address";
    TakesPath = "takes_path", "takes a file path";
    TakesMarkup = "takes_markup", "takes HTML or a template";
    TakesRecipients = "takes_recipients", "takes recipients";
    TakesAmount = "takes_amount", "takes an amount";
    TakesMany = "takes_many", "takes a list of targets";
    TakesSecret = "takes_secret", "takes a secret";
    AdminWords = "admin_words", "is about administration";
    BulkWords = "bulk_words", "acts on many things at once";
    ManyParameters = "many_parameters", "has many parameters";
    NoDescription = "no_description", "has no description";
    LongDescription = "long_description", "has a description that is too long to be read completely";
    OddSchema = "odd_schema", "has an invalid input schema";
    PartlyRead = "partly_read", "has an input schema that is read only in part";
    HiddenText = "hidden_text", "has invisible characters";
    MixedLetters = "mixed_letters", "mixes letters that look alike within a word";
    SteersModel = "steers_model", "has text written for the model";
    CrowdedServer = "crowded_server", "is one of very many on its server";
}

impl RiskSignalKind {
    /// Finds a kind by its identifier.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|kind| kind.as_str() == word)
    }
}

/// A risk signal found in a definition.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct RiskSignal {
    /// Kind of signal.
    #[serde(rename = "signal", serialize_with = "serialize_kind")]
    pub kind: RiskSignalKind,
    /// The parameter that causes the signal, escaped for display.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parameter: Option<String>,
}

fn serialize_kind<S: serde::Serializer>(kind: &RiskSignalKind, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(kind.as_str())
}

/// One entry in `data/signals.toml`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RiskSignalRuleEntry {
    #[serde(default)]
    #[serde(rename = "exact")]
    exact_names: Vec<String>,
    #[serde(default)]
    #[serde(rename = "word")]
    name_words: Vec<String>,
    #[serde(default)]
    #[serde(rename = "described")]
    description_texts: Vec<String>,
    #[serde(default)]
    #[serde(rename = "unless_last")]
    unless_last_word: Vec<String>,
    #[serde(default)]
    #[serde(rename = "unless_told")]
    unless_described: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    #[serde(rename = "list")]
    only_lists: bool,
    #[serde(default)]
    #[serde(rename = "if_sent")]
    only_if_sent: bool,
    #[serde(default)]
    #[serde(rename = "sure")]
    certain_words: Vec<String>,
    #[serde(default)]
    #[serde(rename = "tool_word")]
    tool_words: Vec<String>,
}

/// Rules that detect signals in parameters.
#[derive(Debug, Default)]
pub(crate) struct RiskSignalRules {
    by_exact_name: HashMap<Box<str>, Vec<RiskSignalKind>>,
    by_name_word: HashMap<Box<str>, Vec<RiskSignalKind>>,
    by_description: Vec<(Box<str>, RiskSignalKind)>,
    unless_last_word: Vec<(Box<str>, RiskSignalKind)>,
    /// Phrases in a description that rule out a signal, keyed by the last word of the parameter's name.
    unless_described: HashMap<Box<str>, Vec<(Box<str>, RiskSignalKind)>>,
    only_lists: Vec<RiskSignalKind>,
    /// Signals that are ignored if the tool does not send anything. Each is paired with words that, if they occur in
    /// the parameter's name, make the signal apply anyway.
    only_if_sent: Vec<(RiskSignalKind, Vec<String>)>,
}

impl RiskSignalRules {
    /// Parses `data/signals.toml`. Words that indicate a signal in a tool's name are added to the lexicon.
    pub fn read(text: &str, lexicon: &mut Lexicon) -> Result<Self, toml::de::Error> {
        let entries: BTreeMap<String, RiskSignalRuleEntry> = toml::from_str(text)?;
        let mut rules = Self::default();
        for (name, entry) in entries {
            let Some(kind) = RiskSignalKind::from_word(&name) else { continue };
            for exact in entry.exact_names {
                rules.by_exact_name.entry(exact.into()).or_default().push(kind);
            }
            for word in entry.name_words {
                rules.by_name_word.entry(word.into()).or_default().push(kind);
            }
            rules.by_description.extend(entry.description_texts.into_iter().map(|text| (text.into(), kind)));
            rules.unless_last_word.extend(entry.unless_last_word.into_iter().map(|text| (text.into(), kind)));
            for (last, texts) in entry.unless_described {
                let texts = texts.into_iter().map(|text| (text.into(), kind));
                rules.unless_described.entry(last.into()).or_default().extend(texts);
            }
            if entry.only_lists {
                rules.only_lists.push(kind);
            }
            if entry.only_if_sent {
                rules.only_if_sent.push((kind, entry.certain_words));
            }
            for word in entry.tool_words {
                lexicon.update_word(&word, |word| word.signals.push(kind));
            }
        }
        Ok(rules)
    }

    /// Adds the risk signals that are found in a parameter. `description` is the tool's description, and `sends` says
    /// whether the tool sends something.
    pub fn add_parameter_signals(
        &self,
        parameter: &ToolParameter<'_>,
        description: &str,
        sends: bool,
        found: &mut Vec<RiskSignal>,
    ) {
        if parameter.kind == ParameterKind::Boolean {
            return;
        }
        let mut kinds: Vec<RiskSignalKind> = Vec::new();
        kinds.extend(self.by_exact_name.get(parameter.name_words.as_str()).into_iter().flatten());
        for word in parameter.name_words.split('_') {
            kinds.extend(self.by_name_word.get(word).into_iter().flatten());
        }
        let last = parameter.name_words.rsplit('_').next().unwrap_or_default();
        kinds.retain(|kind| !self.unless_last_word.iter().any(|(word, own)| own == kind && **word == *last));
        if let Some(texts) = self.unless_described.get(last).filter(|_| !kinds.is_empty()) {
            let (own, small) = (parameter.description.as_deref().unwrap_or_default(), description.to_lowercase());
            let is_described = |text: &str| own.contains(text) || small.contains(text);
            kinds.retain(|kind| !texts.iter().any(|(text, own)| own == kind && is_described(text)));
        }
        if !sends && !parameter.is_address {
            let is_sure =
                |sure: &[String]| parameter.name_words.split('_').any(|word| sure.iter().any(|own| own == word));
            kinds.retain(|kind| !self.only_if_sent.iter().any(|(own, sure)| own == kind && !is_sure(sure)));
        }
        if let Some(text) = parameter.description.as_deref().filter(|_| parameter.kind == ParameterKind::Text) {
            let texts = self.by_description.iter().filter(|(texts, _)| text.contains(&**texts));
            kinds.extend(texts.map(|(_, kind)| *kind));
        }
        // A fixed set of values is not a program.
        let is_program =
            |kind| matches!(kind, RiskSignalKind::TakesCode | RiskSignalKind::TakesShell | RiskSignalKind::TakesSql);
        kinds.retain(|kind| !(parameter.is_enum && is_program(*kind)));
        kinds.retain(|kind| parameter.kind == ParameterKind::List || !self.only_lists.contains(kind));
        kinds.retain(|kind| parameter.kind != ParameterKind::Number || *kind == RiskSignalKind::TakesAmount);
        kinds.sort_unstable();
        kinds.dedup();
        for kind in kinds {
            found.push(RiskSignal { kind, parameter: Some(escape_for_display(&parameter.path)) });
        }
    }
}
