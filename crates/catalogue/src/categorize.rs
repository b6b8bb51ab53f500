//! From points to a category. Severity wins where several fit; two readings, the riskier one.

mod not_read_reason;

use gatelodge_policy::Category;

use crate::classifier_data::ClassifierData;
use crate::classifier_model::{CategoryProbabilities, is_money_feature, is_removal_feature};
use crate::lexicon::VerbGroup;
use crate::tool_features::{Feature, FeatureFlag, FeatureId, ParsedTool, WordPosition};
use crate::tool_spec::ToolAnnotations;
pub(crate) use not_read_reason::NotReadReason;
use not_read_reason::{RemovalExtent, find_not_read_reason, is_lead_verb_ambiguous, removal_extent, takes_program};

/// A description begins with its verb if that is among so many words: `This tool deletes`.
const MAX_LEADING_WORDS: usize = 4;

/// A category, and what it rests on.
#[derive(Debug, Clone)]
pub(crate) struct CategoryDecision {
    pub category: Category,
    /// The model's share for it.
    pub probability: f64,
    pub probabilities: CategoryProbabilities,
    /// Whether a claim of the server raised it.
    pub raised_by_claim: bool,
    /// What forbids Read.
    pub not_read_reason: Option<NotReadReason>,
    /// Whether the description is too long to be read whole, and it is Unknown for that.
    pub is_truncated: bool,
}

/// Decides by what was found; claims of the server are looked at last, and only raise.
pub(crate) fn categorize(
    found: &ParsedTool<'_>,
    features: &[Feature<'_>],
    claims: ToolAnnotations,
    book: &ClassifierData,
) -> CategoryDecision {
    let shares = CategoryProbabilities::of(book.model.total_scores(features));
    let hindrance = find_not_read_reason(found, features, book);
    let category = category_from_words(found, features, shares, hindrance.as_ref(), book);
    let claimed = raise_by_claims(category, shares, claims, book);
    // What was not read is not known to be harmless.
    let is_cut = found.is_truncated && matches!(claimed, Category::Read | Category::Write);
    let last = if is_cut { Category::Unknown } else { claimed };
    CategoryDecision {
        category: last,
        probability: shares.get(last),
        probabilities: shares,
        raised_by_claim: claimed != category,
        not_read_reason: hindrance,
        is_truncated: is_cut,
    }
}

fn category_from_words(
    found: &ParsedTool<'_>,
    features: &[Feature<'_>],
    shares: CategoryProbabilities,
    hindrance: Option<&NotReadReason>,
    book: &ClassifierData,
) -> Category {
    let seen = |slots: &[WordPosition], group: VerbGroup| {
        let mut keys = features.iter().map(|feature| feature.key);
        keys.any(|key| matches!(key, FeatureId::Group(slot, own) if own == group && slots.contains(&slot)))
    };
    let has_verb = found.name.lead_verb.is_some() || found.text.lead_verb.is_some();
    match removal_extent(found, features, hindrance, book) {
        RemovalExtent::Nothing => {}
        RemovalExtent::Possible => return category_of_unlinking(shares, features, book),
        RemovalExtent::Permanent => return Category::Destructive,
    }
    if !has_verb && found.text.tokens.is_empty() && hindrance.is_none() {
        let is_clear = shares.read >= book.thresholds.read_by_name;
        return if is_clear { Category::Read } else { Category::Unknown };
    }
    let looks = seen(&[WordPosition::NameVerb, WordPosition::DescriptionVerb], VerbGroup::Read)
        || found.text.has_reading_verb(&book.lexicon);
    let border = match (looks, is_lead_verb_ambiguous(found, book)) {
        (true, false) => book.thresholds.read,
        (true, true) => book.thresholds.read_if_ambiguous,
        (false, _) => book.thresholds.read_without_verb,
    };
    if hindrance.is_none() && shares.read >= border {
        return Category::Read;
    }
    match category_above_read(shares, features, has_verb, book) {
        // Where there is nothing but a name, its verb says what is done.
        Category::Write
            if found.text.tokens.is_empty() && found.name.verb_group(&book.lexicon) == Some(VerbGroup::Run) =>
        {
            Category::Execute
        }
        // What would look but for the code, command or query that it takes does what that says.
        Category::Write
            if takes_program(found) && matches!(found.name.verb_group(&book.lexicon), None | Some(VerbGroup::Read)) =>
        {
            Category::Execute
        }
        category => category,
    }
}

/// What a tool is that takes away what may be a relation: Write if it is nothing else.
fn category_of_unlinking(shares: CategoryProbabilities, features: &[Feature<'_>], book: &ClassifierData) -> Category {
    let is_gone = shares.destructive >= book.thresholds.destroy_if_unlinked * (1.0 - shares.read);
    match category_above_read(CategoryProbabilities { destructive: 0.0, ..shares }, features, true, book) {
        Category::Write if !is_gone => Category::Write,
        _ => Category::Destructive,
    }
}

/// What a tool is that is not Read. A word that takes away lifts no milder outcome more than a riskier one, so that
/// nothing here gets milder by it.
fn category_above_read(
    shares: CategoryProbabilities,
    features: &[Feature<'_>],
    has_verb: bool,
    book: &ClassifierData,
) -> Category {
    let (borders, leans) = (&book.thresholds, &book.biases);
    let takes_away = features.iter().any(|feature| is_removal_feature(feature.key, &book.lexicon));
    let is_of_money = features.iter().any(|feature| is_money_feature(feature.key, &book.lexicon));
    let commits = features.iter().any(|feature| feature.key == FeatureId::Flag(FeatureFlag::CommitsMoney));
    let money = if commits { leans.money_if_committed } else { leans.money };
    let of_rest = |share: f64| share / (1.0 - shares.read);
    // Where no word speaks of it, it takes more.
    let told = |share: f64, is_told: bool| {
        if is_told || of_rest(share) >= borders.without_category_word { share } else { 0.0 }
    };
    let (mut most, mut category) = (shares.write, Category::Write);
    for (other, share) in [
        (Category::Execute, shares.execute * leans.execute),
        (Category::Destructive, told(shares.destructive, takes_away) * leans.destroy),
        (Category::Financial, told(shares.financial, is_of_money) * money),
    ] {
        if share >= most {
            (most, category) = (share, other);
        }
    }
    // What is not understood is not taken for harmless.
    let is_understood = has_verb || (!takes_away && of_rest(shares.write) >= borders.without_verb);
    if category == Category::Write && !is_understood { Category::Unknown } else { category }
}

fn raise_by_claims(
    category: Category,
    shares: CategoryProbabilities,
    claims: ToolAnnotations,
    book: &ClassifierData,
) -> Category {
    let borders = &book.thresholds;
    // A claim of being harmless beside it does not count: two readings, the riskier one.
    let destroys = claims.destructive == Some(true);
    match category {
        Category::Unknown if destroys => Category::Destructive,
        Category::Write if destroys && shares.destructive >= borders.destroy_if_claimed * (1.0 - shares.read) => {
            Category::Destructive
        }
        Category::Read if destroys => Category::Write,
        Category::Read if claims.read_only == Some(false) && shares.read < borders.certain_read => Category::Write,
        // What runs may destroy anyway, and says so by its category.
        category => category,
    }
}
