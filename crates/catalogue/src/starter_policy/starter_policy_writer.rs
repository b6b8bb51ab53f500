//! Writes the text of a starter policy.

use std::collections::BTreeMap;
use std::fmt::Write;

use gatelodge_json::{escape_unprintable, quote_for_display};
use gatelodge_policy::{DocumentFormat, format, parse};

use super::rule_suggestions::{RuleSuggestion, parameters_comment, suggest_rules};
use super::{StarterPolicyError, StarterPolicyStrictness};
use crate::classify::{Classification, RiskLevel, category_name};
use crate::display_escape::escape_for_display;
use crate::recommendation::{RecommendedAction, can_be_named};
use crate::tool_spec::ToolSpec;

/// What the comments in a starter policy say about each tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PolicyCommentDetail {
    /// Category and reasons.
    Reasons,
    /// Category, reasons and parameters.
    Parameters,
}

/// Policy entries that allow all resources and prompts, which would otherwise be denied. Reading them changes nothing;
/// only tool calls have effects.
const RESOURCES_AND_PROMPTS_JSON: &str =
    ",\n\n// Resources and prompts can be read.\n\"resources\": {\"*\": {}},\n\"prompts\": {\"*\": {}}";

type ClassifiedTool<'e> = (&'e ToolSpec<'e>, &'e Classification);

/// Writes a policy.
pub(super) fn write_policy(
    server: &str,
    tools: &[ClassifiedTool<'_>],
    strictness: StarterPolicyStrictness,
    detail: PolicyCommentDetail,
) -> Result<String, StarterPolicyError> {
    let mut by_name: BTreeMap<&str, ClassifiedTool<'_>> = BTreeMap::new();
    for (tool, known) in tools {
        let entry = by_name.entry(&tool.name).or_insert((tool, known));
        // Of two tools with one name, the riskier one is used. Ties are broken by content, not by order.
        if risk_rank(tool, known, strictness) > risk_rank(entry.0, entry.1, strictness) {
            *entry = (tool, known);
        }
    }
    let (named, odd): (Vec<_>, Vec<_>) = by_name.into_values().partition(|(tool, _)| can_be_named(&tool.name));
    let mut out = heading_comment(server, strictness, &odd);
    out.push_str("{\"version\": \"1\", \"default\": \"deny\"");
    let recommended_action = |known: &Classification| strictness.recommended_action(known.category);
    let (hidden, listed): (Vec<ClassifiedTool<'_>>, Vec<ClassifiedTool<'_>>) =
        named.into_iter().partition(|(_, known)| recommended_action(known) == RecommendedAction::Hide);
    write_hide(&hidden, detail, &mut out);
    write_blocks(listed, strictness, detail, &mut out);
    out.push_str(RESOURCES_AND_PROMPTS_JSON);
    out.push_str("}\n");
    let formatted = format(out.as_bytes(), DocumentFormat::Json).map_err(StarterPolicyError)?.text;
    parse(formatted.as_bytes(), DocumentFormat::Json).map_err(StarterPolicyError)?;
    Ok(formatted)
}

/// Returns a key for choosing between two tools with the same name. The tool with the greater key is used.
fn risk_rank<'e>(
    tool: &ToolSpec<'_>,
    known: &'e Classification,
    strictness: StarterPolicyStrictness,
) -> (RiskLevel, u8, &'e [String], String) {
    (
        known.level,
        strictness.recommended_action(known.category).strictness_rank(),
        &known.evidence,
        parameters_comment(tool),
    )
}

fn heading_comment(server: &str, strictness: StarterPolicyStrictness, odd: &[ClassifiedTool<'_>]) -> String {
    let mut out = format!(
        "// Policy `{}` for {}. {}\n",
        strictness.as_str(),
        escape_for_display(server),
        strictness.description()
    );
    out.push_str("// A tool that is not named here is refused, including tools that are added later. Resources and prompts can be read.\n");
    out.push_str("// A line marked `suggestion` is a rule to complete: insert your value and remove the slashes.\n");
    for (tool, _) in odd {
        let _ = writeln!(
            out,
            "// {} is left out and refused: a policy would read the `*` in it as a wildcard.",
            escape_for_display(&tool.name)
        );
    }
    out
}

fn write_hide(hidden: &[ClassifiedTool<'_>], detail: PolicyCommentDetail, out: &mut String) {
    if hidden.is_empty() {
        return;
    }
    out.push_str(",\n\"hide\": [");
    for (at, (tool, known)) in hidden.iter().enumerate() {
        out.push_str(if at > 0 { ",\n" } else { "\n" });
        write_comments(tool, known, detail, out);
        out.push_str(&quote_for_display(&tool.name));
    }
    out.push_str("\n]");
}

fn write_blocks(
    mut listed: Vec<ClassifiedTool<'_>>,
    strictness: StarterPolicyStrictness,
    detail: PolicyCommentDetail,
    out: &mut String,
) {
    if listed.is_empty() {
        return;
    }
    listed.sort_by_key(|(tool, known)| (std::cmp::Reverse(known.level), tool.name.clone()));
    out.push_str(",\n\"tools\": {");
    for (at, (tool, known)) in listed.iter().enumerate() {
        out.push_str(if at > 0 { ",\n" } else { "\n" });
        write_comments(tool, known, detail, out);
        let _ = write!(out, "{}: ", quote_for_display(&tool.name));
        write_block(tool, known, strictness, out);
    }
    out.push_str("\n}");
}

/// Writes a rule block. Suggestions are written as comments that become valid rules when uncommented.
fn write_block(tool: &ToolSpec<'_>, known: &Classification, strictness: StarterPolicyStrictness, out: &mut String) {
    let Some(block) = strictness.recommended_action(known.category).rule_block(&tool.name, known.category) else {
        return;
    };
    let own = block.to_string();
    let inner = own.strip_prefix('{').and_then(|own| own.strip_suffix('}')).unwrap_or_default();
    out.push('{');
    let suggestions = suggest_rules(tool, known);
    let count = suggestions.len();
    for (at, RuleSuggestion { purpose: says, rule }) in suggestions.into_iter().enumerate() {
        let comma = if at + 1 < count || !inner.is_empty() { "," } else { "" };
        let _ =
            write!(out, "\n// suggestion: {}\n// {}{comma}\n", escape_unprintable(&says), escape_unprintable(&rule));
    }
    let _ = write!(out, "{}}}", escape_unprintable(inner));
}

fn write_comments(tool: &ToolSpec<'_>, known: &Classification, detail: PolicyCommentDetail, out: &mut String) {
    let (category, level) = (category_name(known.category), RiskLevel::as_str(known.level));
    let why: Vec<String> = known.evidence.iter().take(2).map(|fact| escape_unprintable(fact)).collect();
    let _ = writeln!(out, "// {category}, {level}, {:.2}: {}.", known.confidence, why.join("; "));
    if detail == PolicyCommentDetail::Parameters {
        let _ = writeln!(out, "// {}", escape_unprintable(&parameters_comment(tool)));
    }
}
