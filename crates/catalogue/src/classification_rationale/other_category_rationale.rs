//! Explains why similar categories do not fit, based on what the tool's definition contains and what it lacks.

use gatelodge_policy::Category;

use super::RationaleContext;
use super::evidence_facts::find_mentioned_word;
use crate::classify::backtick_quoted;
use crate::lexicon::{LexiconWord, VerbGroup};
use crate::risk_signals::RiskSignalKind;

/// Maximum number of parameters to list.
const MAX_LISTED_PARAMETERS: usize = 3;

pub(super) fn explain_other_categories(case: &RationaleContext<'_, '_>) -> String {
    match case.decision.category {
        Category::Read => why_not_write_or_destructive(case),
        Category::Write => format!("{} {} {}", why_not_read(case), why_not_destructive(case), why_not_execute(case)),
        Category::Execute => {
            format!("{} {} {}", why_not_read(case), why_not_write(case), why_execute_not_destructive(case))
        }
        Category::Destructive => why_destructive_not_write(case),
        Category::Financial => why_financial_not_write(case),
        Category::Unknown if case.decision.is_truncated => {
            let bytes = case.tool.description.as_deref().unwrap_or_default().len();
            let why = "and the rest may not be harmless";
            format!("Not Read: its description of {bytes} bytes is too long to be read completely, {why}.")
        }
        Category::Unknown => {
            format!("{} A tool that is not understood is not assumed to be harmless.", why_not_read(case))
        }
    }
}

/// Explains why the tool is not Read, based on the rule that excluded this category.
fn why_not_read(case: &RationaleContext<'_, '_>) -> String {
    let (name, lexicon) = (case.parsed.name, &case.data.lexicon);
    let group = name.verb_group(lexicon);
    let changes = group.is_some_and(|group| group.harm_rank() > VerbGroup::Compute.harm_rank());
    match (&case.decision.not_read_reason, name.verb()) {
        _ if case.decision.raised_by_claim => "Not Read: the server itself says that it does more.".to_owned(),
        (_, Some((verb, _))) if changes => format!("Not Read: {} does more than read.", backtick_quoted(verb)),
        (Some(reason), _) => format!("Not Read: {}.", reason.reason),
        (None, Some((verb, _))) => {
            format!("Not Read: {} alone does not say clearly that it only reads.", backtick_quoted(verb))
        }
        (None, None) => "Not Read: its name has no verb, so nothing says clearly that it only reads.".to_owned(),
    }
}

fn why_not_write_or_destructive(case: &RationaleContext<'_, '_>) -> String {
    if let Some(own) = find_mentioned_word(case, is_removal_word) {
        return format!("Not Write or Destructive: {own} is mentioned, but not as the effect of a call.");
    }
    match find_mentioned_word(case, |word| {
        !word.is_often_noun && word.group.is_some_and(|own| own.harm_rank() > VerbGroup::Compute.harm_rank())
    }) {
        Some(own) => format!("Not Write: {own} is mentioned, but not as the effect of a call."),
        None => format!("Not Write: nothing in {} mentions a change that a call makes.", definition_parts(case)),
    }
}

fn why_not_destructive(case: &RationaleContext<'_, '_>) -> String {
    match find_mentioned_word(case, is_removal_word) {
        Some(own) => format!("Not Destructive: {own} alone does not say that something is removed permanently."),
        None => format!(
            "Not Destructive: nothing in {} says that something is removed permanently.",
            definition_parts(case)
        ),
    }
}

fn why_not_execute(case: &RationaleContext<'_, '_>) -> String {
    match (program_parameter(case), parameters_text(case)) {
        (Some(carrier), _) => format!("Not Execute: nothing says that {carrier} is executed."),
        (None, None) => "Not Execute: it has no parameter that could take code, a command or a query.".to_owned(),
        (None, Some(parameters)) => format!("Not Execute: no code, command or query goes into {parameters}."),
    }
}

fn why_not_write(case: &RationaleContext<'_, '_>) -> String {
    match (program_parameter(case), case.parsed.name.verb()) {
        (Some(carrier), _) => format!("Not Write: {carrier} decides what it does."),
        (None, Some((verb, _))) => {
            format!(
                "Not Write: {} starts something, and the definition does not say how far it goes.",
                backtick_quoted(verb)
            )
        }
        (None, None) => "Not Write: what it starts may do more.".to_owned(),
    }
}

fn why_execute_not_destructive(case: &RationaleContext<'_, '_>) -> String {
    match find_mentioned_word(case, is_removal_word) {
        Some(own) => format!("Not Destructive: {own} is mentioned, but the code that it runs decides."),
        None => format!("Not Destructive: nothing in {} says that its purpose is removal.", definition_parts(case)),
    }
}

fn why_destructive_not_write(case: &RationaleContext<'_, '_>) -> String {
    match (find_mentioned_word(case, is_removal_word), case.parsed.name.verb()) {
        _ if case.decision.raised_by_claim => "Not Write: the server itself says that it destroys.".to_owned(),
        (Some(own), _) => format!("Not Write: the effect of {own} cannot simply be undone."),
        (None, Some((verb, _))) => {
            format!("Not Write: nothing says that what {} overwrites can be restored.", backtick_quoted(verb))
        }
        (None, None) => "Not Write: nothing says that what it overwrites can be restored.".to_owned(),
    }
}

fn why_financial_not_write(case: &RationaleContext<'_, '_>) -> String {
    match find_mentioned_word(case, |word| word.is_money_noun || word.group == Some(VerbGroup::Pay)) {
        Some(own) => format!("Not Write: {own} is about money, and no other call can undo a payment."),
        None => "Not Write: no other call can undo a payment.".to_owned(),
    }
}

fn is_removal_word(word: &LexiconWord) -> bool {
    word.group.is_some_and(VerbGroup::is_removal)
}

/// Returns the name, in backticks, of the parameter that takes code, a command or a query.
fn program_parameter(case: &RationaleContext<'_, '_>) -> Option<String> {
    let carries =
        |kind| matches!(kind, RiskSignalKind::TakesCode | RiskSignalKind::TakesShell | RiskSignalKind::TakesSql);
    let signal = case.parsed.signals.iter().find(|signal| carries(signal.kind))?;
    signal.parameter.as_deref().map(backtick_quoted)
}

/// Lists the parts of the definition that were examined.
fn definition_parts(case: &RationaleContext<'_, '_>) -> String {
    let description = case.tool.has_description_text().then(|| "its description".to_owned());
    let mut places: Vec<String> =
        [Some("its name".to_owned()), description, parameters_text(case)].into_iter().flatten().collect();
    let last = places.pop().unwrap_or_default();
    if places.is_empty() { last } else { format!("{} and {last}", places.join(", ")) }
}

/// Lists the names of the first few parameters, and counts the others.
fn parameters_text(case: &RationaleContext<'_, '_>) -> Option<String> {
    let all = case.parsed.parameters;
    let named: Vec<String> = all
        .list
        .iter()
        .filter(|own| own.is_top_level)
        .take(MAX_LISTED_PARAMETERS)
        .map(|own| backtick_quoted(&own.path))
        .collect();
    let more = all.top_level_count.saturating_sub(named.len());
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let noun = if all.top_level_count == 1 { "its parameter" } else { "its parameters" };
    (!named.is_empty()).then(|| format!("{noun} {}{more}", named.join(", ")))
}
