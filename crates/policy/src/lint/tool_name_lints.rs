//! Lints about tool names: rules that are never reached, and rules for tools that do not exist.

use std::ops::Range;
use std::sync::Arc;

use super::did_you_mean::NameSuggester;
use super::located_block::{LocatedBlock, PolicySection, entries, items};
use super::tool_list::ToolList;
use crate::compile::compiled_policy::{BlockAction, Policy};
use crate::compile::glob::Glob;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::syntax_tree::{SyntaxNode, SyntaxNodeValue};

/// Fields of a block that have no effect under `action: deny`.
const FIELDS_UNUSED_UNDER_DENY: [&str; 6] =
    ["require", "deny_if", "approve_if", "limits", "rate_limit", "validate_arguments"];

/// Maximum number of glob matches to try, which takes about one second.
const MAX_GLOB_TRIALS: usize = 20_000_000;

pub(super) fn find_shadowed(
    policy: &Policy,
    root: &SyntaxNode,
    sections: &[LocatedBlock<'_>],
    warnings: &mut Vec<Diagnostic>,
) {
    let most_names = MAX_GLOB_TRIALS / policy.hide.globs.len().max(1);
    let tools = sections.iter().filter(|section| section.field == PolicySection::Tools);
    warnings.extend(tools.clone().take(most_names).filter_map(|section| find_hidden_rule(policy, root, section)));
    warnings.extend(tools.clone().nth(most_names).map(|section| unfinished_warning(&section.entry.key_span)));
    for section in sections {
        if section.block.action == BlockAction::Deny {
            find_unused_fields(section, warnings);
        }
    }
    find_shadowed_categories(root, warnings);
}

/// Finds a rule that has no effect because `hide` hides its tool.
fn find_hidden_rule(policy: &Policy, root: &SyntaxNode, section: &LocatedBlock<'_>) -> Option<Diagnostic> {
    let key = &section.entry.key;
    // A glob hides another one if it matches its text, because only a `*` can match a `*`.
    let pointer = policy.hide.find(key)?;
    let message = format!("`{key}` is hidden, so this rule is never evaluated");
    let warning = Diagnostic::warning(DiagnosticCode::Shadowed, section.entry.key_span.clone(), message);
    let warning = warning.with_help("remove the rule, or the entry that hides the tool");
    Some(match hide_entry_span(root, pointer) {
        Some(place) => warning.with_related(place, "hidden here"),
        None => warning,
    })
}

fn hide_entry_span(root: &SyntaxNode, pointer: &Arc<str>) -> Option<Range<usize>> {
    let at: usize = pointer.strip_prefix("/hide/")?.parse().ok()?;
    items(root.get("hide")?).get(at).map(|item| item.span.clone())
}

/// Finds fields that have no effect next to `action: deny`: the call is refused before they are evaluated.
fn find_unused_fields(section: &LocatedBlock<'_>, warnings: &mut Vec<Diagnostic>) {
    for name in FIELDS_UNUSED_UNDER_DENY {
        let is_empty = section.entry.value.get(name).is_none_or(is_without_effect);
        let Some(place) = section.key_span(name).filter(|_| !is_empty) else { continue };
        let warning = Diagnostic::warning(
            DiagnosticCode::Shadowed,
            place,
            format!("`{name}` has no effect next to `action: deny`"),
        );
        let warning = match section.key_span("action") {
            Some(action) => warning.with_related(action, "refuses every call"),
            None => warning,
        };
        warnings.push(warning.with_help(format!("remove `{name}`, or the action")));
    }
}

fn is_without_effect(node: &SyntaxNode) -> bool {
    match &node.value {
        SyntaxNodeValue::List(items) => items.is_empty(),
        SyntaxNodeValue::Bool(value) => !value,
        _ => false,
    }
}

/// Finds categories that have no effect. A tool's category is used only if no entry in `tools` matches the tool's name.
fn find_shadowed_categories(root: &SyntaxNode, warnings: &mut Vec<Diagnostic>) {
    let Some(tools) = root.get("tools") else { return };
    let is_all = |key: &str| !key.is_empty() && key.bytes().all(|byte| byte == b'*');
    let Some(all) = entries(tools).iter().find(|entry| is_all(&entry.key)) else { return };
    for category in root.get("categories").map(entries).unwrap_or_default() {
        let message = format!("every tool matches `{}`, so categories have no effect", all.key);
        let warning = Diagnostic::warning(DiagnosticCode::Shadowed, category.key_span.clone(), message);
        let warning = warning.with_related(all.key_span.clone(), "matches every name");
        warnings.push(warning.with_help("put rules for all tools into `all_tools`"));
    }
}

/// Returns a warning that the check is incomplete. Without it, the author would assume that there is nothing else to
/// report.
fn unfinished_warning(span: &Range<usize>) -> Diagnostic {
    let message = "too many globs and names: from here on they were not compared";
    Diagnostic::warning(DiagnosticCode::TooLarge, span.clone(), message).with_help("write fewer globs")
}

pub(super) fn find_not_offered(
    root: &SyntaxNode,
    tools: &ToolList,
    suggester: &mut NameSuggester,
    warnings: &mut Vec<Diagnostic>,
) {
    let hide = root.get("hide").map(items).unwrap_or_default();
    let hide = hide.iter().filter_map(|item| match &item.value {
        SyntaxNodeValue::Text(name) => Some((name, &item.span)),
        _ => None,
    });
    let listed = root.get("tools").map(entries).unwrap_or_default();
    let listed = listed.iter().map(|entry| (&entry.key, &entry.key_span));
    let mut trials_left = MAX_GLOB_TRIALS;
    for (name, span) in hide.chain(listed) {
        if trials_left == 0 {
            warnings.push(unfinished_warning(span));
            return;
        }
        if name.contains('*') {
            trials_left = trials_left.saturating_sub(tools.names().count());
        }
        let (is_offered, what) = match Glob::new(name) {
            Some(glob) => (tools.names().any(|tool| glob.matches(tool)), "no tool of the server matches"),
            None => (tools.has(name), "the server has no tool"),
        };
        if is_offered {
            continue;
        }
        let warning = Diagnostic::warning(DiagnosticCode::NotOffered, span.clone(), format!("{what} `{name}`"));
        warnings.push(warning.with_help(match suggester.find_nearest(name, tools.names()) {
            Some(nearest) => format!("did you mean `{nearest}`?"),
            None => "the entry has no effect; correct or remove it".to_owned(),
        }));
    }
}
