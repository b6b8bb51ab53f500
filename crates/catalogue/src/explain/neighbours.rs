//! Why a tool is not of a neighbouring category, by what this tool has and lacks.

use gatelodge_policy::Category;

use super::Case;
use super::fact::spoken;
use crate::classify::backtick_quoted;
use crate::lexicon::{LexiconWord, VerbGroup};
use crate::risk_signals::RiskSignalKind;

/// So many parameters are named.
const FEW_PARAMETERS: usize = 3;

pub(super) fn not_its_neighbours(case: &Case<'_, '_>) -> String {
    match case.verdict.category {
        Category::Read => not_a_change(case),
        Category::Write => format!("{} {} {}", not_read(case), not_destructive(case), not_execute(case)),
        Category::Execute => format!("{} {} {}", not_read(case), more_than_write(case), not_for_removing(case)),
        Category::Destructive => gone(case),
        Category::Financial => moved(case),
        Category::Unknown if case.verdict.is_truncated => {
            let bytes = case.tool.description.as_deref().unwrap_or_default().len();
            let why = "and what was not read is not known to be harmless";
            format!("Not Read: its description of {bytes} bytes is too long to be read whole, {why}.")
        }
        Category::Unknown => format!("{} What is not understood is not taken for harmless.", not_read(case)),
    }
}

/// Why it is not Read, by the rule that decided.
fn not_read(case: &Case<'_, '_>) -> String {
    let (name, lexicon) = (case.found.name, &case.book.lexicon);
    let group = name.verb_group(lexicon);
    let changes = group.is_some_and(|group| group.harm_rank() > VerbGroup::Compute.harm_rank());
    match (&case.verdict.not_read_reason, name.verb()) {
        _ if case.verdict.raised_by_claim => "Not Read: the server itself says that it does more.".to_owned(),
        (_, Some((verb, _))) if changes => format!("Not Read: {} does more than look.", backtick_quoted(verb)),
        (Some(hindrance), _) => format!("Not Read: {}.", hindrance.reason),
        (None, Some((verb, _))) => {
            format!("Not Read: {} alone does not say for certain that it only looks.", backtick_quoted(verb))
        }
        (None, None) => "Not Read: its name has no verb, so nothing says for certain that it only looks.".to_owned(),
    }
}

fn not_a_change(case: &Case<'_, '_>) -> String {
    if let Some(own) = spoken(case, takes_away) {
        return format!("Not Write or Destructive: {own} is spoken of, but not as what a call does.");
    }
    match spoken(case, |word| {
        !word.is_often_noun && word.group.is_some_and(|own| own.harm_rank() > VerbGroup::Compute.harm_rank())
    }) {
        Some(own) => format!("Not Write: {own} is spoken of, but not as what a call does."),
        None => format!("Not Write: nothing in {} speaks of a change that a call makes.", looked_at(case)),
    }
}

fn not_destructive(case: &Case<'_, '_>) -> String {
    match spoken(case, takes_away) {
        Some(own) => format!("Not Destructive: {own} alone does not say that something is gone for good."),
        None => format!("Not Destructive: nothing in {} says that something is gone for good.", looked_at(case)),
    }
}

fn not_execute(case: &Case<'_, '_>) -> String {
    match (carrier(case), parameters(case)) {
        (Some(carrier), _) => format!("Not Execute: nothing says that what {carrier} carries is run."),
        (None, None) => "Not Execute: it has no parameter that could carry code, a command or a query.".to_owned(),
        (None, Some(told)) => format!("Not Execute: no code, command or query goes into {told}."),
    }
}

fn more_than_write(case: &Case<'_, '_>) -> String {
    match (carrier(case), case.found.name.verb()) {
        (Some(carrier), _) => format!("Not Write: what it does is decided by what {carrier} carries."),
        (None, Some((verb, _))) => {
            format!(
                "Not Write: {} sets something off, and how far that goes the definition does not say.",
                backtick_quoted(verb)
            )
        }
        (None, None) => "Not Write: what it sets off may do more.".to_owned(),
    }
}

fn not_for_removing(case: &Case<'_, '_>) -> String {
    match spoken(case, takes_away) {
        Some(own) => format!("Not Destructive: {own} is spoken of, but what is run decides."),
        None => format!("Not Destructive: nothing in {} says that removing is what it is for.", looked_at(case)),
    }
}

fn gone(case: &Case<'_, '_>) -> String {
    match (spoken(case, takes_away), case.found.name.verb()) {
        _ if case.verdict.raised_by_claim => "Not Write: the server itself says that it destroys.".to_owned(),
        (Some(own), _) => format!("Not Write: what falls to {own} cannot simply be brought back."),
        (None, Some((verb, _))) => {
            format!("Not Write: nothing says that what {} writes over can be brought back.", backtick_quoted(verb))
        }
        (None, None) => "Not Write: nothing says that what it writes over can be brought back.".to_owned(),
    }
}

fn moved(case: &Case<'_, '_>) -> String {
    match spoken(case, |word| word.is_money_noun || word.group == Some(VerbGroup::Pay)) {
        Some(own) => format!("Not Write: {own} is about money, and money that has moved no other call brings back."),
        None => "Not Write: money that has moved no other call brings back.".to_owned(),
    }
}

fn takes_away(word: &LexiconWord) -> bool {
    word.group.is_some_and(VerbGroup::is_removal)
}

/// The parameter that takes code, a command or a query, quoted.
fn carrier(case: &Case<'_, '_>) -> Option<String> {
    let carries =
        |kind| matches!(kind, RiskSignalKind::TakesCode | RiskSignalKind::TakesShell | RiskSignalKind::TakesSql);
    let signal = case.found.signals.iter().find(|signal| carries(signal.kind))?;
    signal.parameter.as_deref().map(backtick_quoted)
}

/// What there is to look at.
fn looked_at(case: &Case<'_, '_>) -> String {
    let description = case.tool.has_description_text().then(|| "its description".to_owned());
    let mut places: Vec<String> =
        [Some("its name".to_owned()), description, parameters(case)].into_iter().flatten().collect();
    let last = places.pop().unwrap_or_default();
    if places.is_empty() { last } else { format!("{} and {last}", places.join(", ")) }
}

/// The first of its parameters, by name.
fn parameters(case: &Case<'_, '_>) -> Option<String> {
    let all = case.found.parameters;
    let named: Vec<String> = all
        .list
        .iter()
        .filter(|own| own.is_top_level)
        .take(FEW_PARAMETERS)
        .map(|own| backtick_quoted(&own.path))
        .collect();
    let more = all.top_level_count.saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if all.top_level_count == 1 { "its parameter" } else { "its parameters" };
    (!named.is_empty()).then(|| format!("{noun} {}{more}", named.join(", ")))
}
