//! Converts Intercept counters, and the conditions that bound them, to limits.

use std::ops::Range;

use super::intercept_condition_import::convert_args_path;
use super::intercept_rule_import::InterceptImportRule;
use super::rule_block_json_builder::{RuleBlockJsonBuilder, RuleJsonFragment};
use super::{ImportNoteKind, InterceptImporter, quoted};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::syntax_tree::{SyntaxNode, SyntaxNodeValue};

const STATE_FIELDS: [&str; 4] = ["counter", "window", "increment", "increment_from"];
const INTERCEPT_WINDOWS: [&str; 3] = ["minute", "hour", "day"];
/// The largest allowed value of `max`.
const MAX_COUNTER_MAXIMUM: i64 = 999_999_999_999_999_999;

/// The largest integer up to which a float can represent every integer exactly.
const MAX_EXACT_FLOAT_INTEGER: i64 = 1 << 53;

/// A counter that a rule increments.
pub(super) struct InterceptImportCounter {
    /// Scope and name of the counter in Intercept. The imported policy uses them as the counter's name, so that
    /// different counters stay separate.
    pub key: String,
    window: String,
    /// Amount that each call adds.
    increment: i64,
    /// Path of the argument whose value each call adds in place of `increment`.
    amount: Option<String>,
    span: Range<usize>,
}

/// A bound that a condition sets on the rule's own counter, with the number as text.
pub(super) enum CounterBound {
    Below(String),
    AtMost(String),
}

impl CounterBound {
    /// Returns the highest value that the bound lets the counter reach. Intercept truncates the number to an integer
    /// first.
    fn max(&self) -> i64 {
        let whole = |text: &str| text.parse::<f64>().map_or(0, |number| number as i64);
        match self {
            Self::Below(text) => whole(text).saturating_sub(1),
            Self::AtMost(text) => whole(text),
        }
    }
}

/// Reads the counter that a rule defines in `state`.
pub(super) fn read_state(
    importer: &mut InterceptImporter,
    rule: &InterceptImportRule<'_>,
) -> Option<InterceptImportCounter> {
    let node = rule.node.get("state").filter(|node| !importer.is_null(node))?;
    let fields = importer.read_entries(node, "`state`");
    importer.check_field_names(fields, &STATE_FIELDS, "`state`");
    let counter = importer.read_text(node, "counter");
    if counter.is_none() {
        importer.report_missing(node, "counter", "a counter needs a name");
    }
    let window = read_window(importer, node);
    let increment = read_increment(importer, node);
    let amount = read_amount(importer, node);
    let key = format!("{}.{}", rule.scope, counter?);
    let span = node.get("counter").unwrap_or(node).span.clone();
    register_counter(importer, &key, &span);
    Some(InterceptImportCounter { key, window: window?, increment: increment?, amount: amount?, span })
}

fn read_window(importer: &mut InterceptImporter, node: &SyntaxNode) -> Option<String> {
    let word = importer.read_text(node, "window");
    if word.is_none() {
        importer.report_missing(node, "window", "write `minute`, `hour` or `day`");
    }
    let place = node.get("window").unwrap_or(node);
    check_window(importer, place, word?)
}

fn check_window(importer: &mut InterceptImporter, place: &SyntaxNode, word: String) -> Option<String> {
    if INTERCEPT_WINDOWS.contains(&word.as_str()) {
        return Some(word);
    }
    let diagnostic =
        Diagnostic::error(DiagnosticCode::BadWindow, place.span.clone(), format!("`{word}` is not a window"));
    importer.report(diagnostic.with_help("write `minute`, `hour` or `day`"));
    None
}

fn read_increment(importer: &mut InterceptImporter, node: &SyntaxNode) -> Option<i64> {
    let Some(written) = node.get("increment").filter(|node| !importer.is_null(node)) else { return Some(1) };
    let number = match &written.value {
        SyntaxNodeValue::Number(text) => text.parse::<i64>().ok(),
        _ => None,
    };
    match number {
        // Intercept treats 0 like a missing value.
        Some(0) => Some(1),
        Some(number) if number > 0 => Some(number),
        _ => {
            let diagnostic = Diagnostic::error(
                DiagnosticCode::BadNumber,
                written.span.clone(),
                "`increment` must be a whole number above 0",
            );
            importer.report(diagnostic.with_help("write `increment: 1`, or leave it out"));
            None
        }
    }
}

/// Reads the path of `increment_from`. `Some(None)` if the field is missing, `None` if it is invalid.
fn read_amount(importer: &mut InterceptImporter, node: &SyntaxNode) -> Option<Option<String>> {
    let Some(path) = importer.read_text(node, "increment_from") else { return Some(None) };
    let span = node.get("increment_from").unwrap_or(node).span.clone();
    let Some(keys) = path.strip_prefix("args.") else {
        let diagnostic =
            Diagnostic::error(DiagnosticCode::BadPath, span, format!("`{path}` is not a path into the arguments"));
        importer.report(diagnostic.with_help("write a path such as `args.amount`"));
        return None;
    };
    Some(Some(convert_args_path(importer, keys, &span)))
}

fn register_counter(importer: &mut InterceptImporter, key: &str, span: &Range<usize>) {
    if let Some(other) = importer.counted_keys.insert(key.to_owned(), span.clone()) {
        let diagnostic = Diagnostic::error(
            DiagnosticCode::CounterClash,
            span.clone(),
            format!("the counter `{key}` is incremented twice"),
        );
        importer.report(diagnostic.with_related(other, "the other one").with_help("give this one a name of its own"));
    }
}

/// Converts a counter and its bounds to a limit. A counter without bounds gives no limit; if it still needs a
/// condition, that condition is returned.
pub(super) fn convert_limit(
    importer: &mut InterceptImporter,
    rule: &InterceptImportRule<'_>,
    state: &InterceptImportCounter,
    bounds: &[CounterBound],
    block: &mut RuleBlockJsonBuilder,
) -> Option<String> {
    let Some(bound) = bounds.iter().min_by_key(|bound| bound.max()) else {
        return unbounded(importer, state);
    };
    if let CounterBound::Below(text) = bound {
        let message = format!("`lt {text}` let the counter reach {}, which is now `max`", bound.max());
        importer.add_note(ImportNoteKind::Exact, &state.span, message);
    }
    let mut max = bound.max();
    if state.amount.is_some() {
        let message = "amounts were truncated to integers, and negative ones decreased the counter; here decimals count in full \
                       and negative amounts are denied";
        importer.add_note_once(ImportNoteKind::Changed, &state.span, message);
        // Below this value, truncating to an integer never increases an amount.
        if bound.max() > MAX_EXACT_FLOAT_INTEGER {
            let message = "amounts above 2^53 were rounded to floats, some of them up; here every digit counts, so slightly more \
                           can be allowed: write a lower bound if that matters";
            importer.add_note_once(ImportNoteKind::Looser, &state.span, message);
        }
    } else if state.increment > 1 {
        max /= state.increment;
        let message = format!("each call counted as {}; the limit is now {max} calls", state.increment);
        importer.add_note(ImportNoteKind::Exact, &state.span, message);
    }
    if max < 1 {
        let message =
            "the bound is too low for any call, so the rule denies every call; remove the rule, or raise the bound";
        importer.add_note(ImportNoteKind::Changed, &state.span, message);
        block.deny_all(&rule.name);
        return None;
    }
    push_limit(importer, rule, state, max.min(MAX_COUNTER_MAXIMUM), block);
    None
}

/// Handles a counter without a bound. In Intercept, such a counter limits nothing, but a call without the argument to
/// be counted is refused, so a condition that requires the argument is returned.
fn unbounded(importer: &mut InterceptImporter, state: &InterceptImportCounter) -> Option<String> {
    let message =
        "no `lt` or `lte` in the same rule bounds this counter, so it had no effect; add a limit if it should";
    importer.add_note(ImportNoteKind::Dropped, &state.span, message);
    let path = quoted(state.amount.as_ref()?);
    Some(format!("{{\"path\": {path}, \"op\": \"gte\", \"value\": 0}}"))
}

/// Converts a `rate_limit` to a limit.
pub(super) fn convert_rate_limit(
    importer: &mut InterceptImporter,
    rule: &InterceptImportRule<'_>,
    block: &mut RuleBlockJsonBuilder,
) {
    let Some((node, text)) = rule.node.get("rate_limit").zip(importer.read_text(rule.node, "rate_limit")) else {
        return;
    };
    let (count, word) = text.split_once('/').unwrap_or((&text, ""));
    let count = count.parse::<i64>().ok().filter(|count| *count > 0);
    let Some(count) = count.filter(|_| text.contains('/')) else {
        let diagnostic =
            Diagnostic::error(DiagnosticCode::BadNumber, node.span.clone(), format!("`{text}` is not a rate"));
        return importer.report(diagnostic.with_help("write it as `10/minute`"));
    };
    let Some(window) = check_window(importer, node, word.to_owned()) else { return };
    let key = format!("{}._rate_{window}", rule.scope);
    register_counter(importer, &key, &node.span);
    let state = InterceptImportCounter { key, window, increment: 1, amount: None, span: node.span.clone() };
    push_limit(importer, rule, &state, count.min(MAX_COUNTER_MAXIMUM), block);
}

fn push_limit(
    importer: &mut InterceptImporter,
    rule: &InterceptImportRule<'_>,
    state: &InterceptImportCounter,
    max: i64,
    block: &mut RuleBlockJsonBuilder,
) {
    let message = "counters were shared by all agents, so the scope is `server`; write `grant` for one counter per grant. \
                   Here, a call that returns an error still counts";
    importer.add_note_once(ImportNoteKind::Changed, &state.span, message);
    let (counter, window) = (quoted(&state.key), &state.window);
    let mut json = format!("{{\"counter\": {counter}, \"window\": \"{window}\", \"max\": {max}, \"scope\": \"server\"");
    if let Some(path) = &state.amount {
        json.push_str(&format!(", \"amount\": {}", quoted(path)));
    }
    if let Some(text) = &rule.on_deny {
        json.push_str(&format!(", \"on_deny\": {text}"));
    }
    json.push('}');
    block.limits.push(RuleJsonFragment { rule_name: rule.name.clone(), json });
}
