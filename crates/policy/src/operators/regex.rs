//! `regex`: a regular expression matches somewhere in the string.
//!
//! Patterns come from people who write policies, and are compiled within limits: searching takes linear time, and all
//! patterns of a document share a memory budget.

use regex::{Regex, RegexBuilder};
use serde_json::{Value, json};

use super::ConditionOperator;
use super::expected_value_reader::ExpectedValueReader;
use super::json_kind_set::JsonKindSet;
use super::value_restriction::ValueRestriction;
use crate::call::call_value::CallValue;
use crate::syntax::diagnostic::DiagnosticCode;

#[derive(Debug)]
pub(crate) struct RegexOperator(Box<Regex>);

impl ConditionOperator for RegexOperator {
    const WORD: &'static str = "regex";
    const HELP: &'static str = "Matches anywhere in a string; write `^…$` for the whole. Syntax of Rust's `regex`.";

    fn value_schema() -> Value {
        json!({ "type": "string" })
    }

    fn compile(reader: &mut ExpectedValueReader<'_>) -> Option<Self> {
        let pattern = reader.read_text()?;
        compile_regex(pattern, reader).map(|regex| Self(Box::new(regex)))
    }

    fn accepted_kinds(&self) -> JsonKindSet {
        JsonKindSet::STRING
    }

    fn holds(&self, found: &CallValue<'_>) -> Option<bool> {
        Some(self.0.is_match(found.as_text()?))
    }

    fn restriction(&self) -> ValueRestriction<'_> {
        ValueRestriction::Pattern(self.0.as_str())
    }
}

/// Memory budget for all regular expressions in one document.
pub(crate) struct RegexBudget {
    remaining_bytes: usize,
}

impl Default for RegexBudget {
    fn default() -> Self {
        Self { remaining_bytes: 256 << 20 }
    }
}

/// Size limits for compiled patterns. They are tried in ascending order, so that no pattern takes much more of the
/// budget than it needs.
const REGEX_SIZE_STEPS_BYTES: [usize; 5] = [8 << 10, 64 << 10, USUAL_REGEX_BYTES, 4 << 20, 16 << 20];
/// Patterns above this size must be limited to short matches. Otherwise, a pattern of 16 MiB could take half a second
/// to search 64 KiB of text.
const USUAL_REGEX_BYTES: usize = 1 << 20;
/// Maximum match length of a large pattern, in bytes. For example, `^[\w.-]{1,255}$` matches up to 1,020 bytes.
const MAX_SHORT_MATCH_BYTES: usize = 4_096;

fn compile_regex(pattern: &str, reader: &mut ExpectedValueReader<'_>) -> Option<Regex> {
    for size in REGEX_SIZE_STEPS_BYTES {
        if size > USUAL_REGEX_BYTES && !has_short_match(pattern) {
            break;
        }
        // Failed attempts are charged, too. Once the budget is used up, nothing more is tried.
        if size > reader.regex_budget.remaining_bytes {
            break;
        }
        match RegexBuilder::new(pattern).size_limit(size).build() {
            Ok(regex) => {
                reader.regex_budget.remaining_bytes -= size;
                return Some(regex);
            }
            Err(regex::Error::CompiledTooBig(_)) => {
                reader.regex_budget.remaining_bytes = reader.regex_budget.remaining_bytes.saturating_sub(size)
            }
            Err(error) => {
                let whole = error.to_string();
                let what = whole.lines().last().unwrap_or_default().trim_start_matches("error: ");
                let message = format!("this is not a regular expression: {what}");
                let help = "the syntax is that of Rust's `regex`: no look-around, no back-references";
                reader.report(DiagnosticCode::BadRegex, message, help);
                return None;
            }
        }
    }
    let help = "write ASCII classes, such as `[0-9A-Za-z_]` for `\\w` and `[0-9]` for `\\d`, which are far smaller; or fewer \
                repetitions, with an additional `length_lte`";
    reader.report(DiagnosticCode::LargeRegex, "the regular expression is too large to compile", help);
    None
}

/// Returns whether a pattern matches only at the start of a string, with matches of at most [`MAX_SHORT_MATCH_BYTES`].
fn has_short_match(pattern: &str) -> bool {
    let Ok(parsed) = regex_syntax::parse(pattern) else { return false };
    let properties = parsed.properties();
    let starts = properties.look_set_prefix().contains(regex_syntax::hir::Look::Start);
    starts && properties.maximum_len().is_some_and(|length| length <= MAX_SHORT_MATCH_BYTES)
}
