//! What forbids Read, whatever the points say. The server writes its definitions: one fact that speaks of more than
//! looking outweighs any number of words that speak of looking.

use super::IN_FRONT;
use crate::classify::quoted;
use crate::features::{Feature, Flag, Found, Key, Phrase, Slot};
use crate::lexicon::Group;
use crate::rulebook::Rulebook;
use crate::signals::SignalKind;

/// Why a tool is not Read.
#[derive(Debug, Clone)]
pub(crate) struct Hindrance {
    /// In words.
    pub why: String,
    /// Whether it says that something is gone for good.
    pub destroys: bool,
}

/// Finds the weightiest.
pub(super) fn hindrance(found: &Found<'_>, features: &[Feature<'_>], book: &Rulebook) -> Option<Hindrance> {
    destroys(found, features, book)
        .map(|why| Hindrance { why, destroys: true })
        .or_else(|| does_more(found, features, book).map(|why| Hindrance { why, destroys: false }))
}

/// A word of the name, or a choice, that takes away for good.
fn destroys(found: &Found<'_>, features: &[Feature<'_>], book: &Rulebook) -> Option<String> {
    let named = found.name.words.iter().find(|(_, id)| {
        let word = id.and_then(|id| book.lexicon.word(id));
        word.is_some_and(|word| word.group == Some(Group::Destroy) && !word.is_doubtful)
    });
    let leads = || found.name.verb().filter(|_| found.name.group(&book.lexicon) == Some(Group::Destroy));
    if let Some((word, _)) = named.or_else(leads) {
        return Some(format!("its name has {}", quoted(word)));
    }
    let offers = features.iter().find(|feature| feature.key == Key::Group(Slot::Choice, Group::Destroy));
    offers.map(|feature| format!("a parameter offers {}", quoted(feature.source)))
}

fn does_more(found: &Found<'_>, features: &[Feature<'_>], book: &Rulebook) -> Option<String> {
    let begins = found.text.lead.is_some_and(|at| at < IN_FRONT);
    // A verb that may leave all as it was is no reason by itself.
    let is_either = lead_is_either(found, book);
    let may_look = |key| matches!(key, Key::Group(Slot::Lead, Group::Write | Group::Run));
    let counts = |feature: &&Feature<'_>| !(is_either && may_look(feature.key));
    if let Some(why) = features.iter().filter(counts).find_map(|feature| by_feature(feature, begins)) {
        return Some(why);
    }
    if let Some(token) = found.text.destroying(&book.lexicon) {
        return Some(format!("its description says {}", quoted(token.written)));
    }
    let is_cut = |own: &crate::parameters::Parameter<'_>| own.has_more_choices && book.chooses(&own.joined);
    found.parameters.list.iter().any(is_cut).then(|| "a parameter offers more than is looked at".to_owned())
}

/// Whether the verb of the name may leave all as it was.
pub(super) fn lead_is_either(found: &Found<'_>, book: &Rulebook) -> bool {
    let word = found.name.verb().and_then(|(_, id)| book.lexicon.word((*id)?));
    word.is_some_and(|word| word.is_either || (word.computes && found.parameters.are_only_numbers()))
}

fn by_feature(feature: &Feature<'_>, begins: bool) -> Option<String> {
    let source = quoted(feature.source);
    match feature.key {
        Key::Flag(Flag::Signal(kind @ (SignalKind::TakesShell | SignalKind::TakesCode | SignalKind::TakesSql))) => {
            Some(format!("parameter {source} {}", kind.says()))
        }
        Key::Flag(Flag::Signal(kind @ (SignalKind::PartlyRead | SignalKind::MixedLetters))) => {
            Some(format!("it {}", kind.says()))
        }
        Key::Flag(Flag::Phrase(Phrase::AnyCode)) => Some(format!("its description says {source}")),
        Key::Flag(Flag::Commits) => Some("it commits money".to_owned()),
        Key::Group(Slot::Choice, group) if group.takes_away() || group == Group::Money => {
            Some(format!("a parameter offers {source}"))
        }
        Key::Group(Slot::Lead, group) if group.harm() > Group::Think.harm() => {
            Some(format!("the verb of its name is {source}"))
        }
        Key::Group(Slot::Says, group) if begins && (group.takes_away() || group == Group::Money) => {
            Some(format!("its description begins with {source}"))
        }
        _ => None,
    }
}
