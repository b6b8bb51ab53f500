//! Converts one Intercept rule to parts of a rule block.

use std::ops::Range;

use super::intercept_condition_import::{self, ConditionImportResult};
use super::intercept_counter_import::{self, CounterBound, InterceptImportCounter};
use super::rule_block_json_builder::{RuleBlockJsonBuilder, RuleJsonFragment};
use super::{ImportNoteKind, InterceptImporter, quoted};
use crate::compile::compiled_policy::BlockAction;
use crate::string_enum::string_enum;
use crate::syntax::diagnostic::{Diagnostic, DiagnosticCode};
use crate::syntax::syntax_tree::{SyntaxNode, SyntaxNodeValue};

const RULE_FIELDS: [&str; 7] = ["name", "action", "conditions", "on_deny", "rate_limit", "state", "approval_timeout"];

string_enum! {
    /// The `action` of an Intercept rule.
    InterceptAction {
        /// All conditions must hold.
        Evaluate = "evaluate",
        /// Every call is denied.
        Deny = "deny",
        /// Every call needs approval.
        RequireApproval = "require_approval",
    }
}

/// An Intercept rule that is being converted.
pub(super) struct InterceptImportRule<'n> {
    pub node: &'n SyntaxNode,
    pub name: String,
    /// The rule's `on_deny` text, as a JSON string.
    pub on_deny: Option<String>,
    /// Prefix of the rule's counters: the tool name, or `_global`.
    pub scope: &'n str,
}

pub(super) fn convert_rule(
    importer: &mut InterceptImporter,
    node: &SyntaxNode,
    scope: &str,
    block: &mut RuleBlockJsonBuilder,
) {
    let SyntaxNodeValue::Map(fields) = &node.value else {
        return importer.report_wrong_type(node, "a rule", "an object");
    };
    importer.check_field_names(fields, &RULE_FIELDS, "a rule");
    let name = importer.read_text(node, "name");
    if name.is_none() {
        importer.report_missing(node, "name", "give each rule a name");
    }
    let on_deny = importer.read_text(node, "on_deny").map(|text| quoted(&text));
    let rule = InterceptImportRule { node, name: name.unwrap_or_default(), on_deny, scope };
    if let Some(timeout) = node.get("approval_timeout") {
        let message = "`approval_timeout` is not imported; the timeout is configured in the gateway";
        importer.add_note(ImportNoteKind::Dropped, &timeout.span, message);
    }
    let action = read_action(importer, &rule);
    let has_conditions = check_fields(importer, &rule, action);
    match action {
        InterceptAction::Deny => return block.set_action(BlockAction::Deny, reason_fragment(&rule)),
        InterceptAction::RequireApproval => {
            if has_conditions {
                let message = "every call requires approval here, whatever the conditions say, which is the safer interpretation; to \
                               require it for some calls only, move the conditions to `approve_if`";
                importer.add_note(ImportNoteKind::Changed, &first_char_span(node), message);
            }
            block.set_action(BlockAction::Approve, reason_fragment(&rule));
        }
        InterceptAction::Evaluate => {}
    }
    convert_checks(importer, &rule, action, block);
}

/// Returns the span of a rule's first character. Messages that underline a whole rule would be hard to read.
fn first_char_span(node: &SyntaxNode) -> Range<usize> {
    node.span.start..(node.span.start + 1).min(node.span.end)
}

fn read_action(importer: &mut InterceptImporter, rule: &InterceptImportRule<'_>) -> InterceptAction {
    let Some((node, word)) = rule.node.get("action").zip(importer.read_text(rule.node, "action")) else {
        return InterceptAction::Evaluate;
    };
    importer
        .read_word(node, &word, "action", InterceptAction::WORDS, InterceptAction::from_word)
        .unwrap_or(InterceptAction::Deny)
}

/// Reports fields that cannot be used together. Returns whether the rule has conditions.
fn check_fields(importer: &mut InterceptImporter, rule: &InterceptImportRule<'_>, action: InterceptAction) -> bool {
    let present = |name: &str| rule.node.get(name).filter(|value| !matches!(value.value, SyntaxNodeValue::Null));
    let conditions =
        present("conditions").filter(|node| !matches!(&node.value, SyntaxNodeValue::List(list) if list.is_empty()));
    let (rate, state) = (present("rate_limit"), present("state"));
    let mut clash = |node: &SyntaxNode, message: &str, help: &str| {
        importer.report(Diagnostic::error(DiagnosticCode::FieldClash, node.span.clone(), message).with_help(help));
    };
    if let Some(rate) = rate.filter(|_| conditions.is_some() || state.is_some()) {
        clash(rate, "`rate_limit` cannot be combined with `conditions` or `state`", "split it into two rules");
    }
    if let Some(rate) = rate.filter(|_| action == InterceptAction::Deny) {
        clash(rate, "`rate_limit` has no effect in a rule that denies every call", "remove one of the two");
    }
    if let Some(conditions) = conditions.filter(|_| action == InterceptAction::Deny) {
        clash(conditions, "a rule with `action: deny` has conditions", "remove the action, or the conditions");
    }
    if action == InterceptAction::Evaluate && conditions.is_none() && rate.is_none() {
        let diagnostic = Diagnostic::error(
            DiagnosticCode::EmptyList,
            first_char_span(rule.node),
            format!("the rule `{}` has no conditions", rule.name),
        );
        importer.report(diagnostic.with_help("add conditions, or write `action: deny`"));
    }
    conditions.is_some()
}

fn reason_fragment(rule: &InterceptImportRule<'_>) -> RuleJsonFragment {
    RuleJsonFragment { rule_name: rule.name.clone(), json: rule.on_deny.clone().unwrap_or_default() }
}

/// Converts a rule's conditions and counters.
fn convert_checks(
    importer: &mut InterceptImporter,
    rule: &InterceptImportRule<'_>,
    action: InterceptAction,
    block: &mut RuleBlockJsonBuilder,
) {
    let counter = intercept_counter_import::read_state(importer, rule);
    let note_count = importer.notes.len();
    let RuleConditionImports { mut conditions, bounds, is_complete } =
        convert_conditions(importer, rule, counter.as_ref());
    if action == InterceptAction::Evaluate && !is_complete {
        block.deny_all(&rule.name);
    }
    if action == InterceptAction::RequireApproval {
        // Every call needs approval, so the conditions and their notes do not matter. Limits still apply.
        conditions.clear();
        importer.notes.truncate(note_count);
    }
    if let Some(counter) = &counter {
        conditions.extend(intercept_counter_import::convert_limit(importer, rule, counter, &bounds, block));
    }
    intercept_counter_import::convert_rate_limit(importer, rule, block);
    if !conditions.is_empty() {
        let on_deny = rule.on_deny.as_ref().map_or_else(String::new, |text| format!(", \"on_deny\": {text}"));
        let json = format!("{{\"conditions\": [{}]{on_deny}}}", conditions.join(", "));
        block.require.push(RuleJsonFragment { rule_name: rule.name.clone(), json });
    }
}

/// The converted conditions of a rule.
#[derive(Default)]
struct RuleConditionImports {
    /// Conditions on arguments, as JSON.
    conditions: Vec<String>,
    /// Bounds on the rule's own counter.
    bounds: Vec<CounterBound>,
    /// Whether all conditions could be converted.
    is_complete: bool,
}

fn convert_conditions(
    importer: &mut InterceptImporter,
    rule: &InterceptImportRule<'_>,
    counter: Option<&InterceptImportCounter>,
) -> RuleConditionImports {
    let mut all = RuleConditionImports { is_complete: true, ..RuleConditionImports::default() };
    let written = rule.node.get("conditions").map_or(&[][..], |node| importer.read_list(node, "conditions"));
    for node in written {
        match intercept_condition_import::convert_condition(importer, node, counter) {
            Some(ConditionImportResult::Condition(json)) => all.conditions.push(json),
            Some(ConditionImportResult::Bound(bound)) => all.bounds.push(bound),
            Some(ConditionImportResult::Unsupported(why)) => {
                let message = format!("{why}, so the rule denies every call here; rewrite it");
                importer.add_note(ImportNoteKind::Changed, &node.span, message);
                all.is_complete = false;
            }
            None => {}
        }
    }
    all
}
