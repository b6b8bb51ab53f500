//! Chooses a category from the model's scores. If several categories fit, the riskiest one is chosen.

mod read_category_veto;

use gatelodge_policy::Category;

use crate::classifier_data::ClassifierData;
use crate::classifier_model::{CategoryProbabilities, is_money_feature, is_removal_feature};
use crate::lexicon::VerbGroup;
use crate::tool_features::{ClassifierFeature, FeatureId, IndicatorFeature, ParsedTool, WordPosition};
use crate::tool_spec::ToolAnnotations;
pub(crate) use read_category_veto::ReadCategoryVeto;
use read_category_veto::{RemovalExtent, find_not_read_reason, is_lead_verb_ambiguous, removal_extent, takes_program};

/// A description counts as starting with a verb if the verb is among this many words at its start: `This tool deletes`.
const MAX_LEADING_WORDS: usize = 4;

/// The chosen category and the reasons for it.
#[derive(Debug, Clone)]
pub(crate) struct CategoryDecision {
    pub category: Category,
    /// The model's probability for the category.
    pub probability: f64,
    pub probabilities: CategoryProbabilities,
    /// Whether one of the server's annotations led to a riskier category.
    pub raised_by_claim: bool,
    /// Why the category cannot be Read.
    pub not_read_reason: Option<ReadCategoryVeto>,
    /// Whether the category is Unknown because the description was too long to be read completely.
    pub is_truncated: bool,
}

/// Chooses a category. Annotations are considered last, and can only raise the risk.
pub(crate) fn categorize(
    found: &ParsedTool<'_>,
    features: &[ClassifierFeature<'_>],
    claims: ToolAnnotations,
    data: &ClassifierData,
) -> CategoryDecision {
    let probabilities = CategoryProbabilities::of(data.model.total_scores(features));
    let not_read_reason = find_not_read_reason(found, features, data);
    let category = category_from_words(found, features, probabilities, not_read_reason.as_ref(), data);
    let claimed = raise_by_claims(category, probabilities, claims, data);
    // The part that was not read could describe something harmful.
    let is_truncated = found.is_truncated && matches!(claimed, Category::Read | Category::Write);
    let last = if is_truncated { Category::Unknown } else { claimed };
    CategoryDecision {
        category: last,
        probability: probabilities.get(last),
        probabilities,
        raised_by_claim: claimed != category,
        not_read_reason,
        is_truncated,
    }
}

fn category_from_words(
    found: &ParsedTool<'_>,
    features: &[ClassifierFeature<'_>],
    probabilities: CategoryProbabilities,
    not_read_reason: Option<&ReadCategoryVeto>,
    data: &ClassifierData,
) -> Category {
    let seen = |slots: &[WordPosition], group: VerbGroup| {
        let mut keys = features.iter().map(|feature| feature.key);
        keys.any(|key| matches!(key, FeatureId::Group(slot, own) if own == group && slots.contains(&slot)))
    };
    let has_verb = found.name.lead_verb.is_some() || found.text.lead_verb.is_some();
    match removal_extent(found, features, not_read_reason, data) {
        RemovalExtent::Nothing => {}
        RemovalExtent::Possible => return category_of_unlinking(probabilities, features, data),
        RemovalExtent::Permanent => return Category::Destructive,
    }
    if !has_verb && found.text.tokens.is_empty() && not_read_reason.is_none() {
        let is_clear = probabilities.read >= data.thresholds.read_by_name;
        return if is_clear { Category::Read } else { Category::Unknown };
    }
    let looks = seen(&[WordPosition::NameVerb, WordPosition::DescriptionVerb], VerbGroup::Read)
        || found.text.has_reading_verb(&data.lexicon);
    let threshold = match (looks, is_lead_verb_ambiguous(found, data)) {
        (true, false) => data.thresholds.read,
        (true, true) => data.thresholds.read_if_ambiguous,
        (false, _) => data.thresholds.read_without_verb,
    };
    if not_read_reason.is_none() && probabilities.read >= threshold {
        return Category::Read;
    }
    match category_above_read(probabilities, features, has_verb, data) {
        // With only a name to go by, its verb decides.
        Category::Write
            if found.text.tokens.is_empty() && found.name.verb_group(&data.lexicon) == Some(VerbGroup::Run) =>
        {
            Category::Execute
        }
        // A tool that would be Read, but takes code, a command or a query, does whatever that says.
        Category::Write
            if takes_program(found) && matches!(found.name.verb_group(&data.lexicon), None | Some(VerbGroup::Read)) =>
        {
            Category::Execute
        }
        category => category,
    }
}

/// Returns the category of a tool that might only detach something, such as a label: Write, unless other evidence
/// points to a riskier category.
fn category_of_unlinking(
    probabilities: CategoryProbabilities,
    features: &[ClassifierFeature<'_>],
    data: &ClassifierData,
) -> Category {
    let is_gone = probabilities.destructive >= data.thresholds.destroy_if_unlinked * (1.0 - probabilities.read);
    match category_above_read(CategoryProbabilities { destructive: 0.0, ..probabilities }, features, true, data) {
        Category::Write if !is_gone => Category::Write,
        _ => Category::Destructive,
    }
}

/// Returns the category of a tool that was found not to be Read. A removal word cannot lead to a less risky category,
/// because its scores never decrease from one category to the next riskier one.
fn category_above_read(
    probabilities: CategoryProbabilities,
    features: &[ClassifierFeature<'_>],
    has_verb: bool,
    data: &ClassifierData,
) -> Category {
    let (thresholds, biases) = (&data.thresholds, &data.biases);
    let takes_away = features.iter().any(|feature| is_removal_feature(feature.key, &data.lexicon));
    let is_of_money = features.iter().any(|feature| is_money_feature(feature.key, &data.lexicon));
    let commits = features.iter().any(|feature| feature.key == FeatureId::Flag(IndicatorFeature::CommitsMoney));
    let money = if commits { biases.money_if_committed } else { biases.money };
    let of_rest = |probability: f64| probability / (1.0 - probabilities.read);
    // Without a word for the category, a higher probability is required.
    let if_indicated = |probability: f64, is_indicated: bool| {
        if is_indicated || of_rest(probability) >= thresholds.without_category_word { probability } else { 0.0 }
    };
    let (mut most, mut category) = (probabilities.write, Category::Write);
    for (other, probability) in [
        (Category::Execute, probabilities.execute * biases.execute),
        (Category::Destructive, if_indicated(probabilities.destructive, takes_away) * biases.destroy),
        (Category::Financial, if_indicated(probabilities.financial, is_of_money) * money),
    ] {
        if probability >= most {
            (most, category) = (probability, other);
        }
    }
    // A tool that is not understood is not assumed to be harmless.
    let is_understood = has_verb || (!takes_away && of_rest(probabilities.write) >= thresholds.without_verb);
    if category == Category::Write && !is_understood { Category::Unknown } else { category }
}

fn raise_by_claims(
    category: Category,
    probabilities: CategoryProbabilities,
    claims: ToolAnnotations,
    data: &ClassifierData,
) -> Category {
    let thresholds = &data.thresholds;
    // A contradicting annotation that claims harmlessness is ignored: the riskier interpretation is used.
    let destroys = claims.destructive == Some(true);
    match category {
        Category::Unknown if destroys => Category::Destructive,
        Category::Write
            if destroys && probabilities.destructive >= thresholds.destroy_if_claimed * (1.0 - probabilities.read) =>
        {
            Category::Destructive
        }
        Category::Read if destroys => Category::Write,
        Category::Read if claims.read_only == Some(false) && probabilities.read < thresholds.certain_read => {
            Category::Write
        }
        // Execute already implies that the tool may destroy something.
        category => category,
    }
}
