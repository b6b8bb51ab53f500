//! Builds the JSON text of a rule block. The names of the imported rules become comments.

use super::{json_member, quoted};
use crate::compile::compiled_policy::BlockAction;

/// The rule block that is built from one tool's rules.
#[derive(Default)]
pub(super) struct RuleBlockJsonBuilder {
    action: Option<(BlockAction, RuleJsonFragment)>,
    pub require: Vec<RuleJsonFragment>,
    pub deny_if: Vec<RuleJsonFragment>,
    pub limits: Vec<RuleJsonFragment>,
}

/// A piece of JSON, and the name of the rule it comes from.
pub(super) struct RuleJsonFragment {
    pub rule_name: String,
    pub json: String,
}

impl RuleBlockJsonBuilder {
    /// Sets the block's action; `reason.json` is the reason as JSON. A denial replaces any other action. Otherwise, an
    /// action that is already set is kept.
    pub fn set_action(&mut self, action: BlockAction, reason: RuleJsonFragment) {
        let is_weaker =
            self.action.as_ref().is_none_or(|(own, _)| *own != BlockAction::Deny && action == BlockAction::Deny);
        if is_weaker {
            self.action = Some((action, reason));
        }
    }

    /// Makes the block deny every call. This is used for rules that cannot be imported.
    pub fn deny_all(&mut self, rule: &str) {
        let text = format!("the rule `{rule}` could not be imported, so every call is denied");
        let json = format!("{{\"conditions\": [], {}}}", json_member("on_deny", &quoted(&text)));
        self.deny_if.push(RuleJsonFragment { rule_name: rule.to_owned(), json });
    }

    pub fn to_json(&self) -> String {
        let mut members = Vec::new();
        if let Some((action, reason)) = &self.action {
            members.push(format!(
                "{}{}",
                comment_line(&reason.rule_name),
                json_member("action", &quoted(action.as_str()))
            ));
            if !reason.json.is_empty() {
                members.push(json_member("reason", &reason.json));
            }
        }
        for (name, parts) in [("require", &self.require), ("deny_if", &self.deny_if), ("limits", &self.limits)] {
            let items: Vec<String> =
                parts.iter().map(|part| format!("{}{}", comment_line(&part.rule_name), part.json)).collect();
            if !items.is_empty() {
                members.push(json_member(name, &format!("[\n{}\n]", items.join(",\n"))));
            }
        }
        format!("{{\n{}\n}}", members.join(",\n"))
    }
}

/// Returns a comment line with the rule's name. Control characters are replaced so that none can end the line.
fn comment_line(rule: &str) -> String {
    let line: String = rule.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    match line.trim() {
        "" => String::new(),
        line => format!("// {line}\n"),
    }
}
