//! Suggests rules for arguments, based on risk signals. Only the operator knows the right values, so the suggestions
//! are written as comments.

use gatelodge_json::quote_for_display;
use gatelodge_policy::Category;

use crate::classify::Classification;
use crate::display_escape::escape_for_display;
use crate::risk_signals::RiskSignalKind;
use crate::tool_parameters::{ParameterKind, ToolParameter, ToolParameters};
use crate::tool_spec::ToolSpec;

/// Maximum number of parameters listed per tool.
const MAX_LISTED_PARAMETERS: usize = 40;

/// A suggested rule for the operator to complete.
pub(super) struct RuleSuggestion {
    /// Purpose of the rule.
    pub purpose: String,
    /// A member of a rule block, as JSON.
    pub rule: String,
}

/// Returns the suggestions for a tool: at most one `require` entry, because a rule block can have only one, and the
/// rules that suit the tool's category.
pub(super) fn suggest_rules(tool: &ToolSpec<'_>, known: &Classification) -> Vec<RuleSuggestion> {
    let mut suggestions = Vec::new();
    let all = ToolParameters::of(tool.schema);
    let rules: Vec<(String, bool)> = all
        .list
        .iter()
        .filter(|own| own.is_top_level)
        .filter_map(|own| Some((suggest_argument_rule(own, known)?, own.is_required)))
        .collect();
    if !rules.is_empty() {
        let optional = if rules.iter().all(|(_, is_required)| *is_required) {
            ""
        } else {
            " A call without the argument is then refused."
        };
        let says = format!("restrict its arguments to a directory or to hosts.{optional}");
        let rules: Vec<String> = rules.into_iter().map(|(rule, _)| rule).collect();
        suggestions.push(RuleSuggestion { purpose: says, rule: format!("\"require\": [{}]", rules.join(", ")) });
    }
    if known.category == Category::Execute && !all.is_invalid_schema && tool.schema.is_some() {
        let says = "check the arguments against the tool's own schema.".to_owned();
        suggestions.push(RuleSuggestion { purpose: says, rule: "\"validate_arguments\": true".to_owned() });
    }
    suggestions
}

fn suggest_argument_rule(parameter: &ToolParameter<'_>, known: &Classification) -> Option<String> {
    // A truncated name would denote a different parameter.
    if parameter.is_path_truncated {
        return None;
    }
    let place = match parameter.kind {
        ParameterKind::Text => argument_path(&parameter.path),
        ParameterKind::List => format!("{}[*]", argument_path(&parameter.path)),
        ParameterKind::Number | ParameterKind::Boolean | ParameterKind::Other => return None,
    };
    let own = Some(escape_for_display(&parameter.path));
    let shows = |kind| known.signals.iter().any(|signal| signal.kind == kind && signal.parameter == own);
    let (op, value) = if shows(RiskSignalKind::TakesPath) {
        ("path_within", "\"/the/directory\"")
    } else if shows(RiskSignalKind::TakesUrl) {
        ("host_in", "[\"host.example.com\"]")
    } else {
        return None;
    };
    Some(format!("{{\"path\": {}, \"op\": \"{op}\", \"value\": {value}}}", quote_for_display(&place)))
}

/// Returns the path that refers to an argument in a policy.
fn argument_path(name: &str) -> String {
    let is_plain =
        !name.is_empty() && !name.contains(['.', '[', ']', '"', '\\']) && !name.chars().any(char::is_control);
    if is_plain { format!("args.{name}") } else { format!("args[{}]", quote_for_display(name)) }
}

/// Describes the parameters of a tool in one line.
pub(super) fn parameters_comment(tool: &ToolSpec<'_>) -> String {
    let all = ToolParameters::of(tool.schema);
    if all.is_invalid_schema {
        return "Its input schema is invalid; its parameters are unknown.".to_owned();
    }
    let listed: Vec<String> =
        all.list.iter().filter(|own| own.is_top_level).take(MAX_LISTED_PARAMETERS).map(parameter_text).collect();
    if listed.is_empty() {
        return "Parameters: none.".to_owned();
    }
    let more = if all.top_level_count > listed.len() {
        format!(", and {} more", all.top_level_count - listed.len())
    } else {
        String::new()
    };
    format!("Parameters: {}{more}.", listed.join(", "))
}

fn parameter_text(parameter: &ToolParameter<'_>) -> String {
    let kind = match parameter.kind {
        ParameterKind::Text if !parameter.choices.is_empty() => {
            let choices: Vec<String> =
                parameter.choices.iter().take(8).map(|choice| escape_for_display(choice)).collect();
            format!("one of {}", choices.join(" | "))
        }
        ParameterKind::Text => "string".to_owned(),
        ParameterKind::Number => "number".to_owned(),
        ParameterKind::Boolean => "boolean".to_owned(),
        ParameterKind::List => "list".to_owned(),
        ParameterKind::Other => "any".to_owned(),
    };
    let required = if parameter.is_required { ", required" } else { "" };
    format!("{} ({kind}{required})", escape_for_display(&parameter.path))
}
