//! One tool, classified: what it can do, how sure that is, and why.

use gatelodge_policy::Category;
use serde::Serialize;
use serde_json::Value as Json;

use crate::categorize::{CategoryDecision, categorize};
use crate::classification_rationale::{ClassificationReasons, explain_category};
use crate::classifier_data::ClassifierData;
use crate::data_flow::{self, DataFlow};
use crate::description_text::{DescriptionText, VisibleText, strip_invisible};
use crate::display_escape::{escape_for_display, is_invisible};
use crate::homoglyphs::has_mixed_scripts;
use crate::risk_signals::{MANY_PARAMETERS, RiskSignal, RiskSignalKind};
use crate::server_context::ServerContext;
use crate::tool_features::{Feature, ParsedTool, extract_features};
use crate::tool_name_words::ToolNameWords;
use crate::tool_parameters::ToolParameters;
use crate::tool_spec::ToolSpec;
use crate::{attack_pattern, recommendation};

/// How much harm a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum RiskLevel {
    /// It looks.
    Low,
    /// It changes what can be changed back.
    Medium,
    /// It runs something, or nobody knows.
    High,
    /// Something is gone, or paid.
    Critical,
}

impl RiskLevel {
    /// All, the mildest first.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// The level of a category.
    pub fn of(category: Category) -> Self {
        match category {
            Category::Read => Self::Low,
            Category::Write => Self::Medium,
            Category::Execute | Category::Unknown => Self::High,
            Category::Destructive | Category::Financial => Self::Critical,
        }
    }

    /// The word for people.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "Low",
            Self::Medium => "Medium",
            Self::High => "High",
            Self::Critical => "Critical",
        }
    }
}

/// What we know of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Classification {
    /// What it can do.
    #[serde(serialize_with = "serialize_category_name")]
    pub category: Category,
    /// How much harm a call can do.
    pub level: RiskLevel,
    /// How sure the category is: of the tools given 0.9, nine in ten are right.
    pub confidence: f64,
    /// Why this category and not its neighbours.
    pub rationale: String,
    /// The facts it rests on.
    pub evidence: Vec<String>,
    /// What the definition shows.
    pub signals: Vec<RiskSignal>,
    /// Where data comes from and where it goes.
    pub flow: Vec<DataFlow>,
    /// Slugs of the attack patterns that this access serves.
    pub attacks: Vec<&'static str>,
    /// Ids of the OWASP lists.
    pub owasp: Vec<&'static str>,
    /// The rule that fits, as a whole policy.
    pub recommended: Json,
    /// Whether the index has it as one that is there only under a setting.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// Below this confidence a category is likely, and is told as no more than that.
const CERTAIN_CONFIDENCE: f64 = 0.7;
/// Below this, something else is likelier than what is told.
const LIKELY_CONFIDENCE: f64 = 0.5;

/// A category as it is told to people: `Write`, `likely Write` where that is not sure, `maybe Write` where it is a guess.
pub fn qualified_category_name(category: Category, confidence: f64) -> String {
    let word = category_name(category);
    if is_uncertain(category, confidence) { format!("{} {word}", certainty_word(confidence)) } else { word.to_owned() }
}

fn certainty_word(confidence: f64) -> &'static str {
    if confidence < LIKELY_CONFIDENCE { "maybe" } else { "likely" }
}

fn is_uncertain(category: Category, confidence: f64) -> bool {
    confidence < CERTAIN_CONFIDENCE && category != Category::Unknown
}

impl Classification {
    /// The category as it is told to people.
    pub fn qualified_category_name(&self) -> String {
        qualified_category_name(self.category, self.confidence)
    }

    /// How sure a category is that is not certain.
    pub(crate) fn certainty_word(&self) -> &'static str {
        certainty_word(self.confidence)
    }

    /// What is said of such a category.
    pub fn uncertainty_note(&self) -> Option<&'static str> {
        let doubt = if self.confidence < LIKELY_CONFIDENCE { "This is a guess" } else { "This is likely, not certain" };
        self.is_uncertain().then_some(doubt)
    }

    /// Whether the category is no more than likely.
    pub fn is_uncertain(&self) -> bool {
        is_uncertain(self.category, self.confidence)
    }

    /// The category for people, with a capital.
    pub fn category_name(&self) -> &'static str {
        category_name(self.category)
    }
}

fn serialize_category_name<S: serde::Serializer>(category: &Category, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(category_name(*category))
}

/// A category for people, with a capital.
pub fn category_name(category: Category) -> &'static str {
    match category {
        Category::Read => "Read",
        Category::Write => "Write",
        Category::Execute => "Execute",
        Category::Destructive => "Destructive",
        Category::Financial => "Financial",
        Category::Unknown => "Unknown",
    }
}

/// Classifies a tool among its siblings.
pub fn classify(tool: &ToolSpec<'_>, server: &ServerContext) -> Classification {
    classify_with_data(tool, server, ClassifierData::built_in())
}

/// Finds what there is to find in a definition, and looks at it.
pub(crate) fn with_features<T>(
    tool: &ToolSpec<'_>,
    server: &ServerContext,
    book: &ClassifierData,
    look: impl FnOnce(&ParsedTool<'_>, &[Feature<'_>]) -> T,
) -> T {
    let description = strip_invisible(tool.description.as_deref().unwrap_or_default());
    let name = ToolNameWords::of(&tool.name, server.name_prefix(), &book.lexicon);
    let text = DescriptionText::of(&description.text, &book.lexicon);
    let parameters = ToolParameters::of(tool.schema);
    let signals = find_signals(tool, server, &name, &text, &description, &parameters, book);
    let is_cut = description.is_truncated;
    let found =
        ParsedTool { name: &name, text: &text, parameters: &parameters, signals: &signals, is_truncated: is_cut };
    let features = extract_features(&found, book);
    look(&found, &features)
}

fn classify_with_data(tool: &ToolSpec<'_>, server: &ServerContext, book: &'static ClassifierData) -> Classification {
    with_features(tool, server, book, |found, features| build_classification(tool, server, found, features, book))
}

fn build_classification(
    tool: &ToolSpec<'_>,
    server: &ServerContext,
    found: &ParsedTool<'_>,
    features: &[Feature<'_>],
    book: &'static ClassifierData,
) -> Classification {
    let verdict = categorize(found, features, tool.annotations, book);
    let category = verdict.category;
    let flow = data_flow::tool_data_flows(found, category, server, book);
    let patterns = attack_pattern::patterns_for_tool(book, category, found.signals, &flow);
    let mut owasp: Vec<&str> = patterns.iter().flat_map(|pattern| pattern.owasp.iter().map(String::as_str)).collect();
    owasp.sort_unstable();
    owasp.dedup();
    let ClassificationReasons { rationale, evidence } = explain_category(tool, found, features, &verdict, server, book);
    Classification {
        category,
        level: RiskLevel::of(category),
        confidence: classification_confidence(&verdict, tool, book),
        rationale,
        evidence,
        attacks: patterns.iter().map(|pattern| pattern.slug.as_str()).collect(),
        owasp,
        recommended: recommendation::recommended_policy(&tool.name, category),
        optional: false,
        flow,
        signals: found.signals.to_vec(),
    }
}

/// How sure the category is. A claim that agrees adds nothing: it is the server's word.
fn classification_confidence(verdict: &CategoryDecision, tool: &ToolSpec<'_>, book: &ClassifierData) -> f64 {
    /// A claim raised it, against the words: one of two readings.
    const RAISED_CONFIDENCE: f64 = 0.6;
    /// What a claim that contradicts takes away.
    const CONTRADICTED_FACTOR: f64 = 0.85;
    /// What a missing description takes away.
    const NO_DESCRIPTION_FACTOR: f64 = 0.95;
    if verdict.raised_by_claim {
        return RAISED_CONFIDENCE;
    }
    let sure = book.calibration.confidence(verdict.category, verdict.probability);
    let claims = tool.annotations;
    let contradicts = match verdict.category {
        Category::Read => claims.read_only == Some(false) || claims.destructive == Some(true),
        Category::Destructive => claims.destructive == Some(false),
        _ => claims.read_only == Some(true),
    };
    let sure = if contradicts { sure * CONTRADICTED_FACTOR } else { sure };
    let sure = if tool.description.is_none() { sure * NO_DESCRIPTION_FACTOR } else { sure };
    (sure * 100.0).round() / 100.0
}

fn find_signals(
    tool: &ToolSpec<'_>,
    server: &ServerContext,
    name: &ToolNameWords,
    text: &DescriptionText<'_>,
    description: &VisibleText<'_>,
    parameters: &ToolParameters<'_>,
    book: &ClassifierData,
) -> Vec<RiskSignal> {
    let mut signals = Vec::new();
    let named = name.words.iter().filter_map(|(_, id)| *id);
    let told = text.tokens.iter().take_while(|token| token.is_in_first_sentence).filter_map(|token| token.word_id);
    let words: Vec<_> = named.chain(told).filter_map(|id| book.lexicon.word(id)).collect();
    let sends = words.iter().any(|word| word.is_sending_verb || word.flows.contains(&DataFlow::SendsOutward));
    for parameter in &parameters.list {
        book.signals.add_parameter_signals(parameter, &description.text, sends, &mut signals);
    }
    let shown_by_words = words.iter().flat_map(|word| &word.signals);
    signals.extend(shown_by_words.map(|kind| RiskSignal { kind: *kind, parameter: None }));
    let texts = || {
        let title = tool.title.as_deref().into_iter();
        title.chain([&*tool.name]).chain(parameters.texts.iter().map(|text| &**text))
    };
    let is_hidden = |text: &str| !text.is_ascii() && strip_invisible(text).had_invisible;
    let is_mixed = has_mixed_scripts(&description.text) || texts().any(has_mixed_scripts);
    let whole = [
        (RiskSignalKind::ManyParameters, parameters.top_level_count >= MANY_PARAMETERS),
        (RiskSignalKind::NoDescription, tool.description.is_none()),
        (RiskSignalKind::LongDescription, description.is_truncated),
        (RiskSignalKind::OddSchema, parameters.is_invalid_schema),
        (RiskSignalKind::PartlyRead, parameters.is_partly_read),
        (
            RiskSignalKind::HiddenText,
            description.had_invisible || texts().any(is_hidden) || tool.name.chars().any(is_invisible),
        ),
        (RiskSignalKind::MixedLetters, is_mixed),
        (RiskSignalKind::SteersModel, has_model_instructions(texts().chain([&*description.text]), book)),
        (RiskSignalKind::CrowdedServer, server.has_many_tools()),
    ];
    let whole = whole.into_iter().filter(|(_, is_shown)| *is_shown);
    signals.extend(whole.map(|(kind, _)| RiskSignal { kind, parameter: None }));
    signals.sort();
    signals.dedup();
    signals
}

/// Whether a text speaks to the model, however its words are parted.
fn has_model_instructions<'t>(texts: impl Iterator<Item = &'t str>, book: &ClassifierData) -> bool {
    let mut small = String::new();
    for text in texts {
        for word in text.split_whitespace() {
            small.extend(word.chars().filter(|letter| !is_invisible(*letter)).flat_map(char::to_lowercase));
            small.push(' ');
        }
        small.push('\n');
    }
    book.steering_phrases.iter().any(|phrase| small.contains(phrase))
}

/// A name in a sentence. What it is set in is written out where the name has it too.
pub(crate) fn backtick_quoted(name: &str) -> String {
    format!("`{}`", escape_for_display(name).replace('`', "\\u{60}"))
}
