//! A feature as a fact in words, and which features decided.

use gatelodge_policy::Category;

use crate::classify::quoted;
use crate::decide::Verdict;
use crate::features::{Feature, Flag, Found, Key, Phrase, Slot};
use crate::lexicon::Group;
use crate::rulebook::Rulebook;
use crate::signals::SignalKind;

/// What weighs less is not worth telling.
const LEAST_WEIGHT: f64 = 0.15;

/// The features that speak for the category, the weightiest first.
pub(super) fn deciding<'f, 't>(
    features: &'f [Feature<'t>],
    verdict: &Verdict,
    book: &Rulebook,
) -> Vec<&'f Feature<'t>> {
    let mut weighed: Vec<(f64, &Feature<'_>)> =
        features.iter().map(|feature| (weight(feature.key, verdict.category, book), feature)).collect();
    weighed.retain(|(weight, _)| *weight > LEAST_WEIGHT);
    weighed.sort_by(|one, other| other.0.total_cmp(&one.0).then(one.1.key.cmp(&other.1.key)));
    weighed.into_iter().map(|(_, feature)| feature).collect()
}

/// How much a feature speaks for a category against the others.
fn weight(key: Key, category: Category, book: &Rulebook) -> f64 {
    let [read, change, destroy] = book.model.points(key);
    match category {
        Category::Read => read - change.max(destroy),
        Category::Write => change - read,
        Category::Destructive => destroy - read.max(change),
        Category::Execute => match key {
            Key::Group(slot, Group::Run) => 4.0 + order(slot),
            Key::Flag(flag) => book.bent_flags.get(&flag).map_or(0.0, |(runs, _)| runs + 3.0),
            _ => change.max(destroy) - read,
        },
        Category::Financial => match key {
            Key::Group(slot, Group::Money) => 4.0 + order(slot),
            Key::Flag(flag) => book.bent_flags.get(&flag).map_or(0.0, |(_, moves)| moves + 2.0),
            _ => change.max(destroy) - read,
        },
        Category::Unknown => 0.0,
    }
}

/// Names before texts.
fn order(slot: Slot) -> f64 {
    match slot {
        Slot::Lead => 4.0,
        Slot::Says => 2.0,
        Slot::Name => 1.0,
        Slot::First | Slot::Rest | Slot::Choice | Slot::Parameter => 0.0,
    }
}

/// A feature in words.
pub(super) fn fact(feature: &Feature<'_>, found: &Found<'_>) -> Option<String> {
    let source = quoted(feature.source);
    let fact = match feature.key {
        Key::Group(slot, _) | Key::Word(slot, _) => match slot {
            Slot::Lead => format!("the verb of its name is {source}"),
            Slot::Name => format!("its name has the word {source}"),
            Slot::Says => format!("its description begins with {source}"),
            // The verb it begins with is told already.
            Slot::First if is_lead(feature, found) => return None,
            Slot::First => format!("its description says {source}"),
            Slot::Rest => format!("its description goes on with {source}"),
            Slot::Choice => format!("a parameter offers {source}"),
            Slot::Parameter => format!("a parameter's name has {source}"),
        },
        Key::Flag(Flag::NoParameters) => "it takes no parameters".to_owned(),
        Key::Flag(Flag::NoVerb) => return None,
        Key::Flag(Flag::Phrase(Phrase::Denies)) => format!("its description denies {source}"),
        Key::Flag(Flag::Phrase(_)) => format!("its description says {source}"),
        Key::Flag(Flag::Signal(SignalKind::NoDescription | SignalKind::CrowdedServer)) => return None,
        Key::Flag(Flag::Signal(kind)) if feature.source.is_empty() => format!("it {}", kind.says()),
        Key::Flag(Flag::Signal(kind)) => format!("parameter {source} {}", kind.says()),
    };
    Some(fact)
}

fn is_lead(feature: &Feature<'_>, found: &Found<'_>) -> bool {
    let lead = found.text.lead.and_then(|at| found.text.tokens.get(at));
    lead.is_some_and(|lead| lead.written == feature.source)
}

/// A verb of taking away that the definition has, quoted.
pub(super) fn takes_away(found: &Found<'_>, book: &Rulebook) -> Option<String> {
    let is_such = |id: Option<u32>| {
        let word = id.and_then(|id| book.lexicon.word(id));
        word.and_then(|word| word.group).is_some_and(Group::takes_away)
    };
    let named = found.name.words.iter().find(|(_, id)| is_such(*id)).map(|(word, _)| word.as_str());
    let told = || found.text.tokens.iter().find(|token| is_such(token.id)).map(|token| token.written);
    named.or_else(told).map(quoted)
}
