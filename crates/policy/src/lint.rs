//! Lints: warnings from `policy check` about policies that load, but probably do not do what their author intended.
//!
//! A lint warns only when it is certain. False positives would make people ignore all warnings.

mod contradiction;
mod did_you_mean;
mod impossible_condition;
mod limit_lints;
mod located_block;
mod predicate_lints;
mod regex_anchoring;
mod schema_lookup;
mod tool_list;
mod tool_name_lints;
mod tool_schema_lints;
mod value_shape;

use crate::compile::policy_parser;
use crate::syntax::diagnostic::{Diagnostic, truncate_with_notice};
use crate::syntax::syntax_tree::DocumentFormat;
use did_you_mean::NameSuggester;
use limit_lints::RuleBlockLimitSummary;
use located_block::{PolicySection, located_blocks};
use predicate_lints::RequiredCallPaths;
pub use tool_list::ToolList;

/// Maximum number of warnings reported.
const MAX_WARNINGS: usize = 1_000;

/// Maximum length of a message; longer ones are truncated.
const MAX_MESSAGE_CHARS: usize = 600;

/// Returns all errors in a document or, if it has no errors, its warnings in document order.
///
/// If a server's tool list is given, conditions are also checked against the tools' input schemas.
///
/// # Examples
/// ```
/// use gatelodge_policy::{DiagnosticCode, DocumentFormat, lint};
///
/// let text = br#"{"version": "1", "default": "deny", "hide": ["pay"], "tools": {"pay": {}}}"#;
/// let warnings = lint(text, DocumentFormat::Json, None);
/// assert_eq!(warnings[0].code, DiagnosticCode::Shadowed);
/// ```
pub fn lint(text: &[u8], format: DocumentFormat, tools: Option<&ToolList>) -> Vec<Diagnostic> {
    let (policy, root) = match policy_parser::read(text, format) {
        Ok(read) => read,
        Err(diagnostics) => return diagnostics,
    };
    let sections = located_blocks(&policy, &root);
    let all_tools = sections.iter().find(|section| section.field == PolicySection::AllTools);
    let guarded = all_tools.map(RequiredCallPaths::of);
    let bounds = all_tools.map(RuleBlockLimitSummary::of);
    let mut suggester = NameSuggester::default();
    let mut warnings = Vec::new();
    for section in &sections {
        let is_under = section.field.is_under_all_tools();
        predicate_lints::lint_predicates(section, guarded.as_ref().filter(|_| is_under), &mut suggester, &mut warnings);
        limit_lints::lint_limits(section, bounds.as_ref().filter(|_| is_under), &mut warnings);
    }
    tool_name_lints::find_shadowed(&policy, &root, &sections, &mut warnings);
    if let Some(tools) = tools {
        tool_name_lints::find_not_offered(&root, tools, &mut suggester, &mut warnings);
        tool_schema_lints::lint_against_tools(&policy, &sections, tools, suggester, &mut warnings);
    }
    warnings.sort_by_key(|warning| (warning.span.start, warning.code));
    truncate_with_notice(&mut warnings, MAX_WARNINGS);
    for warning in &mut warnings {
        warning.message = sanitize_message(&warning.message);
        warning.help = warning.help.as_deref().map(sanitize_message);
    }
    warnings
}

/// Replaces control and bidirectional formatting characters and truncates long messages. Tool and argument names are
/// untrusted text that could manipulate the terminal.
fn sanitize_message(text: &str) -> String {
    let is_odd =
        |letter: char| letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let letters = text.chars().map(|letter| if is_odd(letter) { '\u{fffd}' } else { letter });
    let mut plain: String = letters.take(MAX_MESSAGE_CHARS).collect();
    if text.chars().nth(MAX_MESSAGE_CHARS).is_some() {
        plain.push('…');
    }
    plain
}
