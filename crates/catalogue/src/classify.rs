//! Classifies one tool: category, confidence and rationale.

use gatelodge_policy::Category;
use serde::Serialize;
use serde_json::Value as Json;

use crate::categorize::{CategoryDecision, categorize};
use crate::classification_rationale::{ClassificationReasons, explain_category};
use crate::classifier_data::ClassifierData;
use crate::data_flow_label::{self, DataFlowLabel};
use crate::description_text::{DescriptionText, VisibleText, strip_invisible};
use crate::display_escape::{escape_for_display, is_invisible};
use crate::homoglyphs::has_mixed_scripts;
use crate::risk_signals::{MANY_PARAMETERS, RiskSignal, RiskSignalKind};
use crate::server_context::ServerContext;
use crate::tool_features::{ClassifierFeature, ParsedTool, extract_features};
use crate::tool_name_words::ToolNameWords;
use crate::tool_parameters::ToolParameters;
use crate::tool_spec::ToolSpec;
use crate::{attack_pattern, recommendation};

/// How much harm a call can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub enum RiskLevel {
    /// The tool only reads.
    Low,
    /// The tool makes changes that can be undone.
    Medium,
    /// The tool runs something, or it is unknown what it does.
    High,
    /// The tool destroys something or moves money.
    Critical,
}

impl RiskLevel {
    /// All levels, from lowest to highest.
    pub const ALL: [Self; 4] = [Self::Low, Self::Medium, Self::High, Self::Critical];

    /// Returns the risk level of a category.
    pub fn of(category: Category) -> Self {
        match category {
            Category::Read => Self::Low,
            Category::Write => Self::Medium,
            Category::Execute | Category::Unknown => Self::High,
            Category::Destructive | Category::Financial => Self::Critical,
        }
    }

    /// Returns the level's display name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Low => "Low",
            Self::Medium => "Medium",
            Self::High => "High",
            Self::Critical => "Critical",
        }
    }
}

/// The classification of a tool.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Classification {
    /// What the tool does.
    #[serde(serialize_with = "serialize_category_name")]
    pub category: Category,
    /// How much harm a call can do.
    pub level: RiskLevel,
    /// Calibrated confidence: of the tools with a confidence of 0.9, nine in ten are classified correctly.
    pub confidence: f64,
    /// Why this category and not a neighboring one.
    pub rationale: String,
    /// The facts that the classification is based on.
    pub evidence: Vec<String>,
    /// Risk signals found in the definition.
    pub signals: Vec<RiskSignal>,
    /// Where the tool's data comes from and where it goes.
    pub flow: Vec<DataFlowLabel>,
    /// Slugs of the attack patterns that this tool makes possible.
    pub attacks: Vec<&'static str>,
    /// Identifiers of related entries in the OWASP lists.
    pub owasp: Vec<&'static str>,
    /// The recommended rule, as a complete policy.
    pub recommended: Json,
    /// Whether the tool is unavailable by default, according to the index.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub optional: bool,
}

/// Below this confidence, a category is displayed as `likely`.
const CERTAIN_CONFIDENCE: f64 = 0.7;
/// Below this confidence, a category is probably wrong and is displayed as `maybe`.
const LIKELY_CONFIDENCE: f64 = 0.5;

/// Returns the category for display: `Write`, `likely Write` if it is uncertain, or `maybe Write` if it is a guess.
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
    /// Returns the category for display, qualified by its certainty.
    pub fn qualified_category_name(&self) -> String {
        qualified_category_name(self.category, self.confidence)
    }

    /// Returns the word that qualifies an uncertain category.
    pub(crate) fn certainty_word(&self) -> &'static str {
        certainty_word(self.confidence)
    }

    /// Returns a note for display if the category is uncertain.
    pub fn uncertainty_note(&self) -> Option<&'static str> {
        let doubt = if self.confidence < LIKELY_CONFIDENCE { "This is a guess" } else { "This is likely, not certain" };
        self.is_uncertain().then_some(doubt)
    }

    /// Returns whether the category is uncertain.
    pub fn is_uncertain(&self) -> bool {
        is_uncertain(self.category, self.confidence)
    }

    /// Returns the display name of the category.
    pub fn category_name(&self) -> &'static str {
        category_name(self.category)
    }
}

fn serialize_category_name<S: serde::Serializer>(category: &Category, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(category_name(*category))
}

/// Returns the display name of a category.
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

/// Classifies a tool in the context of its server.
///
/// # Examples
/// ```
/// use gatelodge_catalogue::{ServerContext, ToolSpec, classify};
/// use gatelodge_json::{JsonLimits, read};
/// use gatelodge_policy::Category;
///
/// let text = br#"{"name": "delete_branch", "description": "Deletes a branch permanently."}"#;
/// let document = read(text, &JsonLimits::REPLY).expect("JSON");
/// let tool = ToolSpec::of(document.root()).expect("a tool");
/// let server = ServerContext::new("git", None, ["delete_branch"].into_iter());
/// assert_eq!(classify(&tool, &server).category, Category::Destructive);
/// ```
pub fn classify(tool: &ToolSpec<'_>, server: &ServerContext) -> Classification {
    classify_with_data(tool, server, ClassifierData::built_in())
}

/// Parses a tool definition, extracts its features, and passes the parsed definition and the features to `look`.
pub(crate) fn with_features<T>(
    tool: &ToolSpec<'_>,
    server: &ServerContext,
    data: &ClassifierData,
    look: impl FnOnce(&ParsedTool<'_>, &[ClassifierFeature<'_>]) -> T,
) -> T {
    let description = strip_invisible(tool.description.as_deref().unwrap_or_default());
    let name = ToolNameWords::of(&tool.name, server.name_prefix(), &data.lexicon);
    let text = DescriptionText::of(&description.text, &data.lexicon);
    let parameters = ToolParameters::of(tool.schema);
    let signals = find_signals(tool, server, &name, &text, &description, &parameters, data);
    let is_cut = description.is_truncated;
    let found =
        ParsedTool { name: &name, text: &text, parameters: &parameters, signals: &signals, is_truncated: is_cut };
    let features = extract_features(&found, data);
    look(&found, &features)
}

fn classify_with_data(tool: &ToolSpec<'_>, server: &ServerContext, data: &'static ClassifierData) -> Classification {
    with_features(tool, server, data, |found, features| build_classification(tool, server, found, features, data))
}

fn build_classification(
    tool: &ToolSpec<'_>,
    server: &ServerContext,
    found: &ParsedTool<'_>,
    features: &[ClassifierFeature<'_>],
    data: &'static ClassifierData,
) -> Classification {
    let decision = categorize(found, features, tool.annotations, data);
    let category = decision.category;
    let flow = data_flow_label::tool_data_flows(found, category, server, data);
    let patterns = attack_pattern::patterns_for_tool(data, category, found.signals, &flow);
    let mut owasp: Vec<&str> = patterns.iter().flat_map(|pattern| pattern.owasp.iter().map(String::as_str)).collect();
    owasp.sort_unstable();
    owasp.dedup();
    let ClassificationReasons { rationale, evidence } =
        explain_category(tool, found, features, &decision, server, data);
    Classification {
        category,
        level: RiskLevel::of(category),
        confidence: classification_confidence(&decision, tool, data),
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

/// Returns the confidence in the chosen category. An annotation that agrees with the category does not increase it,
/// because annotations are only the server's claims.
fn classification_confidence(decision: &CategoryDecision, tool: &ToolSpec<'_>, data: &ClassifierData) -> f64 {
    /// Confidence if an annotation led to a riskier category than the tool's wording suggests.
    const RAISED_CONFIDENCE: f64 = 0.6;
    /// Factor applied to the confidence if an annotation contradicts the category.
    const CONTRADICTED_FACTOR: f64 = 0.85;
    /// Factor applied to the confidence if the tool has no description.
    const NO_DESCRIPTION_FACTOR: f64 = 0.95;
    if decision.raised_by_claim {
        return RAISED_CONFIDENCE;
    }
    let sure = data.calibration.confidence(decision.category, decision.probability);
    let claims = tool.annotations;
    let contradicts = match decision.category {
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
    data: &ClassifierData,
) -> Vec<RiskSignal> {
    let mut signals = Vec::new();
    let named = name.words.iter().filter_map(|(_, id)| *id);
    let described = text.tokens.iter().take_while(|token| token.is_in_first_sentence).filter_map(|token| token.word_id);
    let words: Vec<_> = named.chain(described).filter_map(|id| data.lexicon.word(id)).collect();
    let sends = words.iter().any(|word| word.is_sending_verb || word.flows.contains(&DataFlowLabel::SendsOutward));
    for parameter in &parameters.list {
        data.signals.add_parameter_signals(parameter, &description.text, sends, &mut signals);
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
        (RiskSignalKind::SteersModel, has_model_instructions(texts().chain([&*description.text]), data)),
        (RiskSignalKind::CrowdedServer, server.has_many_tools()),
    ];
    let whole = whole.into_iter().filter(|(_, is_shown)| *is_shown);
    signals.extend(whole.map(|(kind, _)| RiskSignal { kind, parameter: None }));
    signals.sort();
    signals.dedup();
    signals
}

/// Returns whether any of the strings contains a phrase that gives instructions to the language model. Case, white
/// space and invisible characters are ignored.
fn has_model_instructions<'t>(texts: impl Iterator<Item = &'t str>, data: &ClassifierData) -> bool {
    let mut small = String::new();
    for text in texts {
        for word in text.split_whitespace() {
            small.extend(word.chars().filter(|letter| !is_invisible(*letter)).flat_map(char::to_lowercase));
            small.push(' ');
        }
        small.push('\n');
    }
    data.steering_phrases.iter().any(|phrase| small.contains(phrase))
}

/// Quotes a name for use in a sentence, escaping backticks.
pub(crate) fn backtick_quoted(name: &str) -> String {
    format!("`{}`", escape_for_display(name).replace('`', "\\u{60}"))
}
