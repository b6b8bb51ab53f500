//! The text of a ready policy.

use std::collections::BTreeMap;
use std::fmt::Write;

use gatelodge_json::{escape_unprintable, quote_for_display};
use gatelodge_policy::{DocumentFormat, format, parse};

use super::suggest::{Suggestion, parameters, suggestions};
use super::{Posture, ReadyError};
use crate::classify::{Classification, RiskLevel, category_name};
use crate::display_escape::escape_for_display;
use crate::recommend::{Remedy, can_be_named};
use crate::tool_spec::ToolSpec;

/// What comments say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Detail {
    /// Category and reasons.
    Reasons,
    /// These, and the parameters.
    Parameters,
}

/// Reading a resource or a prompt changes nothing, so it passes under every posture; without these two the rest of the
/// server would be gone. What acts is a tool.
const REST: &str =
    ",\n\n// What the server gives to read passes.\n\"resources\": {\"*\": {}},\n\"prompts\": {\"*\": {}}";

type Entry<'e> = (&'e ToolSpec<'e>, &'e Classification);

/// Writes a policy.
pub(super) fn write(server: &str, tools: &[Entry<'_>], posture: Posture, detail: Detail) -> Result<String, ReadyError> {
    let mut by_name: BTreeMap<&str, Entry<'_>> = BTreeMap::new();
    for (tool, known) in tools {
        let entry = by_name.entry(&tool.name).or_insert((tool, known));
        // A name that comes twice is as risky as the worse of the two; of two alike, whichever comes first in words.
        if rank(tool, known, posture) > rank(entry.0, entry.1, posture) {
            *entry = (tool, known);
        }
    }
    let (named, odd): (Vec<_>, Vec<_>) = by_name.into_values().partition(|(tool, _)| can_be_named(&tool.name));
    let mut out = heading(server, posture, &odd);
    out.push_str("{\"version\": \"1\", \"default\": \"deny\"");
    let remedy = |known: &Classification| posture.remedy(known.category);
    let (hidden, listed): (Vec<Entry<'_>>, Vec<Entry<'_>>) =
        named.into_iter().partition(|(_, known)| remedy(known) == Remedy::Hide);
    hide(&hidden, detail, &mut out);
    blocks(listed, posture, detail, &mut out);
    out.push_str(REST);
    out.push_str("}\n");
    let laid_out = format(out.as_bytes(), DocumentFormat::Json).map_err(ReadyError)?.text;
    parse(laid_out.as_bytes(), DocumentFormat::Json).map_err(ReadyError)?;
    Ok(laid_out)
}

/// What decides between two tools of one name, in whichever order they come.
fn rank<'e>(tool: &ToolSpec<'_>, known: &'e Classification, posture: Posture) -> (RiskLevel, u8, &'e [String], String) {
    (known.level, posture.remedy(known.category).binds(), &known.evidence, parameters(tool))
}

fn heading(server: &str, posture: Posture, odd: &[Entry<'_>]) -> String {
    let mut out = format!("// Policy `{}` for {}. {}\n", posture.as_str(), escape_for_display(server), posture.says());
    out.push_str("// A tool that is not named here is refused, so also one that comes later. Resources and prompts can be read.\n");
    out.push_str("// A line marked `suggestion` is a rule to fill in: put your value in, and take the slashes away.\n");
    for (tool, _) in odd {
        let _ = writeln!(
            out,
            "// {} is left out and refused: a policy would take the `*` in it for any text.",
            escape_for_display(&tool.name)
        );
    }
    out
}

fn hide(hidden: &[Entry<'_>], detail: Detail, out: &mut String) {
    if hidden.is_empty() {
        return;
    }
    out.push_str(",\n\"hide\": [");
    for (at, (tool, known)) in hidden.iter().enumerate() {
        out.push_str(if at > 0 { ",\n" } else { "\n" });
        remarks(tool, known, detail, out);
        out.push_str(&quote_for_display(&tool.name));
    }
    out.push_str("\n]");
}

fn blocks(mut listed: Vec<Entry<'_>>, posture: Posture, detail: Detail, out: &mut String) {
    if listed.is_empty() {
        return;
    }
    listed.sort_by_key(|(tool, known)| (std::cmp::Reverse(known.level), tool.name.clone()));
    out.push_str(",\n\"tools\": {");
    for (at, (tool, known)) in listed.iter().enumerate() {
        out.push_str(if at > 0 { ",\n" } else { "\n" });
        remarks(tool, known, detail, out);
        let _ = write!(out, "{}: ", quote_for_display(&tool.name));
        block(tool, known, posture, out);
    }
    out.push_str("\n}");
}

/// The rule block, with what is suggested as comments that can be uncommented as they stand.
fn block(tool: &ToolSpec<'_>, known: &Classification, posture: Posture, out: &mut String) {
    let Some(block) = posture.remedy(known.category).block(&tool.name, known.category) else { return };
    let own = block.to_string();
    let inner = own.strip_prefix('{').and_then(|own| own.strip_suffix('}')).unwrap_or_default();
    out.push('{');
    let suggestions = suggestions(tool, known);
    let count = suggestions.len();
    for (at, Suggestion { says, rule }) in suggestions.into_iter().enumerate() {
        let comma = if at + 1 < count || !inner.is_empty() { "," } else { "" };
        let _ =
            write!(out, "\n// suggestion: {}\n// {}{comma}\n", escape_unprintable(&says), escape_unprintable(&rule));
    }
    let _ = write!(out, "{}}}", escape_unprintable(inner));
}

fn remarks(tool: &ToolSpec<'_>, known: &Classification, detail: Detail, out: &mut String) {
    let (category, level) = (category_name(known.category), RiskLevel::as_str(known.level));
    let why: Vec<String> = known.evidence.iter().take(2).map(|fact| escape_unprintable(fact)).collect();
    let _ = writeln!(out, "// {category}, {level}, {:.2}: {}.", known.confidence, why.join("; "));
    if detail == Detail::Parameters {
        let _ = writeln!(out, "// {}", escape_unprintable(&parameters(tool)));
    }
}
