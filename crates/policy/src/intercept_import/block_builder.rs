//! A rule block on its way to JSON. The names of rules become comments.

use super::{member, quoted};
use crate::compiled_policy::Action;

/// What the rules of one tool become.
#[derive(Default)]
pub(super) struct BlockBuilder {
    action: Option<(Action, RuleFragment)>,
    pub require: Vec<RuleFragment>,
    pub deny_if: Vec<RuleFragment>,
    pub limits: Vec<RuleFragment>,
}

/// A piece of JSON and the name of the rule that it was.
pub(super) struct RuleFragment {
    pub rule_name: String,
    pub json: String,
}

impl BlockBuilder {
    /// Lets the block deny or ask; `json` is the reason. A denial wins, and the first of its kind is kept.
    pub fn set_action(&mut self, action: Action, reason: RuleFragment) {
        let is_weaker = self.action.as_ref().is_none_or(|(own, _)| *own != Action::Deny && action == Action::Deny);
        if is_weaker {
            self.action = Some((action, reason));
        }
    }

    /// Denies every call in the place of a rule that cannot be said here.
    pub fn deny_all(&mut self, rule: &str) {
        let text = format!("the rule `{rule}` could not be taken over, so every call is denied");
        let json = format!("{{\"conditions\": [], {}}}", member("on_deny", &quoted(&text)));
        self.deny_if.push(RuleFragment { rule_name: rule.to_owned(), json });
    }

    pub fn to_json(&self) -> String {
        let mut members = Vec::new();
        if let Some((action, reason)) = &self.action {
            members.push(format!("{}{}", comment_line(&reason.rule_name), member("action", &quoted(action.as_str()))));
            if !reason.json.is_empty() {
                members.push(member("reason", &reason.json));
            }
        }
        for (name, parts) in [("require", &self.require), ("deny_if", &self.deny_if), ("limits", &self.limits)] {
            let items: Vec<String> =
                parts.iter().map(|part| format!("{}{}", comment_line(&part.rule_name), part.json)).collect();
            if !items.is_empty() {
                members.push(member(name, &format!("[\n{}\n]", items.join(",\n"))));
            }
        }
        format!("{{\n{}\n}}", members.join(",\n"))
    }
}

/// A line with the rule's name; nothing in the name can end it.
fn comment_line(rule: &str) -> String {
    let line: String = rule.chars().map(|character| if character.is_control() { ' ' } else { character }).collect();
    match line.trim() {
        "" => String::new(),
        line => format!("// {line}\n"),
    }
}
