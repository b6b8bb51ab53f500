//! From points to a category. Severity wins where several fit; two readings, the riskier one.

mod hinder;

use gatelodge_policy::Category;

use crate::features::{Feature, Found, Key, Slot};
use crate::lexicon::Group;
use crate::model::{Shares, takes_away};
use crate::rulebook::Rulebook;
use crate::tool::Annotations;
pub(crate) use hinder::Hindrance;
use hinder::{hindrance, lead_is_either};

/// A description begins with its verb if that is among so many words: `This tool deletes`.
const IN_FRONT: usize = 4;

/// A category, and what it rests on.
#[derive(Debug, Clone)]
pub(crate) struct Verdict {
    pub category: Category,
    /// The model's share for it.
    pub share: f64,
    pub shares: Shares,
    /// Whether a claim of the server raised it.
    pub raised: bool,
    /// What forbids Read.
    pub hindrance: Option<Hindrance>,
    /// Whether the description is too long to be read whole, and it is Unknown for that.
    pub is_cut: bool,
}

/// Decides by what was found; claims of the server are looked at last, and only raise.
pub(crate) fn decide(found: &Found<'_>, features: &[Feature<'_>], claims: Annotations, book: &Rulebook) -> Verdict {
    let shares = Shares::of(book.model.sum(features));
    let (runs, moves) = bent(found, features, book);
    let hindrance = hindrance(found, features, moves >= book.borders.moves, book);
    let category = by_words(found, features, shares, (runs, moves), hindrance.as_ref(), book);
    let claimed = by_claims(category, shares, claims, book);
    // What was not read is not known to be harmless.
    let is_cut = found.is_cut && matches!(claimed, Category::Read | Category::Write);
    let last = if is_cut { Category::Unknown } else { claimed };
    let share = match last {
        Category::Read => shares.read,
        Category::Write => shares.change,
        Category::Destructive => shares.destroy,
        Category::Execute | Category::Financial => 1.0 - shares.read,
        Category::Unknown => 0.0,
    };
    Verdict { category: last, share, shares, raised: claimed != category, hindrance, is_cut }
}

fn by_words(
    found: &Found<'_>,
    features: &[Feature<'_>],
    shares: Shares,
    (runs, moves): (f64, f64),
    hindrance: Option<&Hindrance>,
    book: &Rulebook,
) -> Category {
    let borders = &book.borders;
    let seen = |wanted: &dyn Fn(Slot, Group) -> bool| {
        features.iter().any(|feature| matches!(feature.key, Key::Group(slot, group) if wanted(slot, group)))
    };
    let is_named = found.name.lead.is_some();
    // The verb in front takes away for good: nothing that stands behind it makes that milder.
    let begins = found.text.lead.is_some_and(|at| at < IN_FRONT || !is_named);
    let is_said = begins && seen(&|slot, group| slot == Slot::Says && group == Group::Destroy);
    if is_said || hindrance.is_some_and(|own| own.destroys) {
        return Category::Destructive;
    }
    let has_verb = is_named || found.text.lead.is_some();
    if !has_verb && found.text.tokens.is_empty() && hindrance.is_none() {
        return Category::Unknown;
    }
    let looks = seen(&|slot, group| matches!(slot, Slot::Lead | Slot::Says) && group == Group::Read)
        || found.text.gives(&book.lexicon);
    let border = match (looks, lead_is_either(found, book)) {
        (true, false) => borders.read,
        (true, true) => borders.read_if_either,
        (false, _) => borders.read_without_verb,
    };
    if hindrance.is_none() && shares.read >= border {
        return Category::Read;
    }
    if moves >= borders.moves {
        return Category::Financial;
    }
    let has_word = features.iter().any(|feature| takes_away(feature.key, &book.lexicon));
    let is_gone = shares.destroy >= if has_word { borders.destroy } else { borders.destroy_without_word };
    let is_named = seen(&|slot, group| matches!(slot, Slot::Lead | Slot::Name | Slot::Says) && group.takes_away());
    if is_gone && (is_named || runs < borders.runs_for_sure) {
        return Category::Destructive;
    }
    if runs >= borders.runs {
        return Category::Execute;
    }
    // What is not understood is not taken for harmless.
    if has_verb { Category::Write } else { Category::Unknown }
}

fn by_claims(category: Category, shares: Shares, claims: Annotations, book: &Rulebook) -> Category {
    let borders = &book.borders;
    // A claim of being harmless beside it does not count: two readings, the riskier one.
    let destroys = claims.destructive == Some(true);
    match category {
        Category::Unknown if destroys => Category::Destructive,
        Category::Write if destroys && shares.destroy >= borders.destroy_if_claimed * (1.0 - shares.read) => {
            Category::Destructive
        }
        Category::Read if destroys => Category::Write,
        Category::Read if claims.read_only == Some(false) && shares.read < borders.sure_of_read => Category::Write,
        // What runs may destroy anyway, and says so by its category.
        category => category,
    }
}

/// Points for running something and for moving money.
fn bent(found: &Found<'_>, features: &[Feature<'_>], book: &Rulebook) -> (f64, f64) {
    let (mut runs, mut moves) = (0.0, 0.0);
    for feature in features {
        match feature.key {
            Key::Group(slot, group) => {
                let bent = book.bent.get(&group).copied().unwrap_or_default();
                runs += place(slot).and_then(|at| bent.runs.get(at)).unwrap_or(&0.0);
                moves += place(slot).and_then(|at| bent.moves.get(at)).unwrap_or(&0.0);
            }
            Key::Flag(flag) => {
                let (more_runs, more_moves) = book.bent_flags.get(&flag).copied().unwrap_or_default();
                runs += more_runs;
                moves += more_moves;
            }
            Key::Word(..) => {}
        }
    }
    if commits(found, book) {
        moves += book.borders.moves;
    }
    (runs, moves)
}

/// Where a word stands, in the order of the lexicon's five places.
fn place(slot: Slot) -> Option<usize> {
    Slot::ALL.iter().take(5).position(|known| *known == slot)
}

/// Whether the name commits money: `create_refund`, `cancel_subscription`.
fn commits(found: &Found<'_>, book: &Rulebook) -> bool {
    let words = || found.name.words.iter().filter_map(|(_, id)| book.lexicon.word((*id)?));
    let nouns = words().filter(|word| word.is_money).count();
    // `order` may be both, but not at once.
    words().any(|word| word.commits && (!word.is_money || nouns > 1)) && nouns > 0
}
