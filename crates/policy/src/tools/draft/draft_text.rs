//! Writes a drafted policy as JSON with comments.

use std::fmt::Write;

use gatelodge_json::{escape_unprintable, quote_for_display};
use jiff::Timestamp;

use super::{DraftBlock, DraftSection};
use crate::syntax::diagnostic::Diagnostic;
use crate::syntax::syntax_tree::DocumentFormat;
use crate::tools::format::format;

/// Writes the policy in canonical layout.
pub(super) fn write_draft(origin: &str, blocks: &[DraftBlock]) -> Result<String, Vec<Diagnostic>> {
    let mut out = String::new();
    let calls: u64 = blocks.iter().map(|blocks| blocks.calls).sum();
    let span = blocks.iter().map(|blocks| blocks.first).min().zip(blocks.iter().map(|blocks| blocks.last).max());
    let span = span.map(|(first, last)| format!(", {}", time_span_text(first, last))).unwrap_or_default();
    let _ = writeln!(out, "// Drafted from {}: {}{span}.", escape_unprintable(origin), call_count_text(calls));
    out.push_str(
        "// It allows the recorded calls and nothing else. Each rate limit is twice the peak hour, rounded up, and at \
         least 10.\n",
    );
    out.push_str("{\"version\": \"1\", \"default\": \"deny\"");
    let mut part = None;
    for block in blocks {
        match part {
            Some(current) if current == block.section => out.push(','),
            Some(_) => open_section(block, "},", &mut out),
            None => open_section(block, ",", &mut out),
        }
        part = Some(block.section);
        write_entry(block, &mut out);
    }
    if part.is_some() {
        out.push('}');
    }
    out.push_str("}\n");
    Ok(format(out.as_bytes(), DocumentFormat::Json)?.text)
}

fn open_section(block: &DraftBlock, before: &str, out: &mut String) {
    let _ = write!(out, "{before}\n{}: {{", quote_for_display(block.section.as_str()));
}

fn write_entry(block: &DraftBlock, out: &mut String) {
    let [minute, hour, day] = block.peaks;
    let span = time_span_text(block.first, block.last);
    let _ = write!(out, "\n// {}, {span}", call_count_text(block.calls));
    if block.calls > 1 {
        let _ = write!(out, "; peaks: {minute} per minute, {hour} per hour, {day} per day");
    }
    out.push_str(".\n");
    if !block.arguments.is_empty() {
        let names = block.arguments.iter().map(|(name, calls)| match *calls {
            calls if calls == block.calls => plain_or_quoted(name),
            calls => format!("{} (in {calls})", plain_or_quoted(name)),
        });
        let _ = writeln!(out, "// Arguments: {}.", names.collect::<Vec<_>>().join(", "));
    }
    if !block.reason_codes.is_empty() {
        let codes = block.reason_codes.iter().map(|(code, calls)| format!("{} ({calls})", escape_unprintable(code)));
        let _ = writeln!(
            out,
            "// The policy active at that time would have refused: {}.",
            codes.collect::<Vec<_>>().join(", ")
        );
    }
    let _ = write!(out, "{}: ", quote_for_display(&block.name));
    match block.section {
        DraftSection::Methods | DraftSection::ClientRequests => out.push_str("\"allow\""),
        DraftSection::Tools | DraftSection::Resources | DraftSection::Prompts => write_block(block, out),
    }
}

/// Writes a rule block. Suggestions are written as comments that are valid rules once uncommented.
fn write_block(block: &DraftBlock, out: &mut String) {
    out.push('{');
    let comma = if block.rate_limit.is_some() { "," } else { "" };
    if !block.suggested_conditions.is_empty() {
        let suggestions = block.suggested_conditions.join(", ");
        let _ = write!(out, "\n// Few distinct values; uncomment to allow only these:\n");
        let _ = writeln!(out, "// \"require\": [{suggestions}]{comma}");
    }
    if let Some(rate) = &block.rate_limit {
        let _ = write!(out, "\"rate_limit\": {}", quote_for_display(rate));
    }
    out.push('}');
}

fn call_count_text(calls: u64) -> String {
    if calls == 1 { "1 call".to_owned() } else { format!("{calls} calls") }
}

/// Formats the times of the first and last call in whole seconds; fractions would only distract.
fn time_span_text(first: Timestamp, last: Timestamp) -> String {
    let whole = |at: Timestamp| Timestamp::from_second(at.as_second()).unwrap_or(at);
    match (whole(first), whole(last)) {
        (first, last) if first == last => format!("at {first}"),
        (first, last) => format!("from {first} to {last}"),
    }
}

fn plain_or_quoted(name: &str) -> String {
    let is_plain = |character: char| character.is_ascii_alphanumeric() || matches!(character, '_' | '-' | '.');
    if !name.is_empty() && name.chars().all(is_plain) { name.to_owned() } else { quote_for_display(name) }
}
