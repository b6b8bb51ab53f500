//! Parses limits and `rate_limit`.

use std::sync::Arc;

use gatelodge_json::Decimal;

use super::PolicyParser;
use super::predicate_parser::read_path;
use crate::call::call_path::{CallPath, CallPathRoot};
use crate::compile::limit::{Amount, CounterRef, Limit, LimitScope, LimitWindow, WindowAlignment};
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode, DiagnosticSink};
use crate::syntax::field_reader::{check_field_names, read_entries, read_text, read_word, report_wrong_type};
use crate::syntax::syntax_tree::{SyntaxNode, SyntaxNodeValue};

pub(crate) const LIMIT_FIELDS: [&str; 8] =
    ["counter", "window", "max", "scope", "amount", "increment_from", "align", "on_deny"];
pub(crate) const RATE_LIMIT_FIELDS: [&str; 3] = ["max", "window", "scope"];

const LIMIT_HELP: &str = r#"a limit is {"counter": "calls", "window": "minute", "max": 10}"#;
const WINDOW_HELP: &str =
    "write `minute`, `hour`, `day`, `week`, `month`, `15m` (`s`, `m`, `h`, `d`), or seconds, up to 366 days";
const RATE_LIMIT_HELP: &str = r#"write "10/minute", or {"max": 10, "window": 60}"#;

pub(super) fn read_limit(node: &SyntaxNode, pointer: Arc<str>, parser: &mut PolicyParser) -> Option<Limit> {
    let fields = read_entries(node, "a limit", parser);
    check_field_names(fields, &LIMIT_FIELDS, "a limit", parser);
    let SyntaxNodeValue::Map(_) = node.value else { return None };
    for name in ["counter", "window", "max"].iter().filter(|name| node.get(name).is_none()) {
        parser.report_missing(node, name, LIMIT_HELP);
    }
    let counter = node.get("counter").and_then(|node| read_counter(node, parser));
    let window = node.get("window").and_then(|node| read_window(node, parser));
    let scope = node.get("scope").map(|node| read_scope(node, parser));
    let align = node
        .get("align")
        .map(|node| read_word(node, "align", WindowAlignment::WORDS, WindowAlignment::from_word, parser));
    let on_deny = node.get("on_deny").and_then(|node| read_text(node, "on_deny", parser)).map(Into::into);
    let amount = read_amount(node, parser);
    let max = node.get("max").and_then(|node| read_max(node, amount.is_some(), parser));
    let align = align.flatten().unwrap_or(WindowAlignment::Calendar);
    if let (Some(written), Some(LimitWindow::Month), WindowAlignment::Rolling) = (node.get("align"), window, align) {
        let diagnostic = Diagnostic::error(
            DiagnosticCode::BadWindow,
            written.span.clone(),
            "a month cannot be a rolling window: months differ in length",
        );
        parser.report(diagnostic.with_help("write `30d` as the window"));
    }
    let span = node.get("counter").unwrap_or(node).span.clone();
    Some(Limit {
        pointer,
        span,
        counter: CounterRef::Named(counter?),
        window: window?,
        align,
        scope: scope.flatten().unwrap_or(LimitScope::Grant),
        max: max?,
        amount: amount.flatten(),
        on_deny,
    })
}

fn read_counter(node: &SyntaxNode, parser: &mut PolicyParser) -> Option<Arc<str>> {
    let name = read_text(node, "counter", parser)?;
    if name.is_empty() {
        parser.report(Diagnostic::error(DiagnosticCode::EmptyText, node.span.clone(), "a counter needs a name"));
        return None;
    }
    Some(name.into())
}

fn read_scope(node: &SyntaxNode, parser: &mut PolicyParser) -> Option<LimitScope> {
    read_word(node, "scope", LimitScope::WORDS, LimitScope::from_word, parser)
}

fn read_window(node: &SyntaxNode, parser: &mut PolicyParser) -> Option<LimitWindow> {
    let window = match &node.value {
        // Seconds are written as a number; as a string they would be a second spelling.
        SyntaxNodeValue::Text(text) if text.bytes().all(|byte| byte.is_ascii_digit()) => None,
        SyntaxNodeValue::Text(text) => LimitWindow::new(text),
        SyntaxNodeValue::Number(text) => window_from_seconds(text),
        _ => {
            report_wrong_type(node, "`window`", "a string or a number of seconds", parser);
            return None;
        }
    };
    if window.is_none() {
        parser.report(
            Diagnostic::error(DiagnosticCode::BadWindow, node.span.clone(), "this is not a window")
                .with_help(WINDOW_HELP),
        );
    }
    window
}

fn window_from_seconds(text: &str) -> Option<LimitWindow> {
    let amount = Decimal::new(text).and_then(Amount::new).filter(|amount| amount.is_whole())?;
    LimitWindow::of_seconds(u32::try_from(amount.billionths() / 1_000_000_000).ok()?)
}

/// Reads the path in `amount`, which may also be called `increment_from`. `None` if neither field is present, and
/// `Some(None)` if the path is invalid.
fn read_amount(node: &SyntaxNode, parser: &mut PolicyParser) -> Option<Option<CallPath>> {
    if let (Some(_), Some(second)) = (node.get("amount"), node.get("increment_from")) {
        let diagnostic = Diagnostic::error(
            DiagnosticCode::FieldClash,
            second.span.clone(),
            "`amount` and `increment_from` are the same field",
        );
        parser.report(diagnostic.with_help("keep `amount`"));
    }
    let written = node.get("amount").or_else(|| node.get("increment_from"))?;
    let path = read_path(written, parser);
    if let Some(path) = &path
        && (path.root != CallPathRoot::Args || path.segments.is_empty() || path.has_wildcard())
    {
        let diagnostic = Diagnostic::error(
            DiagnosticCode::BadPath,
            written.span.clone(),
            "an amount is one number in the arguments",
        );
        parser.report(diagnostic.with_help("write a path such as `args.amount`, without `[*]`"));
    }
    Some(path)
}

fn read_max(node: &SyntaxNode, has_amount: bool, parser: &mut PolicyParser) -> Option<Amount> {
    let SyntaxNodeValue::Number(text) = &node.value else {
        report_wrong_type(node, "`max`", "a number", parser);
        return None;
    };
    let max = parse_positive_amount(text);
    let Some(max) = max else {
        let message = "`max` must be above 0, with at most 18 digits before and 9 after the decimal point";
        let diagnostic = Diagnostic::error(DiagnosticCode::BadNumber, node.span.clone(), message);
        let is_above = Decimal::new(text).is_some_and(|number| number > Decimal::ZERO);
        parser.report(diagnostic.with_help(match is_above {
            true => "write fewer digits; to limit nothing, remove the limit",
            false => "to deny every call, write `action: deny`",
        }));
        return None;
    };
    if !has_amount && !max.is_whole() {
        let diagnostic =
            Diagnostic::error(DiagnosticCode::BadNumber, node.span.clone(), "calls are counted in whole numbers");
        parser.report(diagnostic.with_help("write a whole number, or an `amount` to count by"));
    }
    Some(max)
}

pub(super) fn read_rate_limit(
    node: &SyntaxNode,
    pointer: Arc<str>,
    prefix: &'static str,
    parser: &mut PolicyParser,
) -> Option<Limit> {
    let (max, window, scope) = match &node.value {
        SyntaxNodeValue::Text(text) => {
            let short = parse_short_rate(text);
            if short.is_none() {
                let diagnostic =
                    Diagnostic::error(DiagnosticCode::BadWindow, node.span.clone(), format!("`{text}` is not a rate"));
                parser.report(diagnostic.with_help(RATE_LIMIT_HELP));
            }
            let (max, window) = short?;
            (max, window, LimitScope::Grant)
        }
        SyntaxNodeValue::Map(fields) => {
            check_field_names(fields, &RATE_LIMIT_FIELDS, "a rate limit", parser);
            for name in ["max", "window"].iter().filter(|name| node.get(name).is_none()) {
                parser.report_missing(node, name, RATE_LIMIT_HELP);
            }
            let written_max = node.get("max").and_then(|node| read_max(node, false, parser));
            let window = node.get("window").and_then(|node| read_window(node, parser));
            let scope = node.get("scope").and_then(|node| read_scope(node, parser)).unwrap_or(LimitScope::Grant);
            (written_max?, window?, scope)
        }
        _ => {
            report_wrong_type(node, "`rate_limit`", "a string such as \"10/minute\", or an object", parser);
            return None;
        }
    };
    let counter = CounterRef::PerTool { prefix };
    let span = node.span.clone();
    Some(Limit {
        pointer,
        span,
        counter,
        window,
        align: WindowAlignment::Calendar,
        scope,
        max,
        amount: None,
        on_deny: None,
    })
}

/// Parses a rate such as `10/minute`.
fn parse_short_rate(text: &str) -> Option<(Amount, LimitWindow)> {
    let (max, window) = text.split_once('/')?;
    let is_plain = !max.starts_with('0') && max.bytes().all(|byte| byte.is_ascii_digit());
    let max = parse_positive_amount(max).filter(|_| is_plain)?;
    Some((max, LimitWindow::new(window)?))
}

/// Parses an amount greater than zero.
fn parse_positive_amount(text: &str) -> Option<Amount> {
    Decimal::new(text).and_then(Amount::new).filter(|amount| !amount.is_zero())
}
