//! One rule of Intercept: what its fields say together, and the parts of a block that it becomes.

use std::ops::Range;

use super::block::{Block, Part};
use super::condition::{self, Taken};
use super::counter::{self, Bound, State};
use super::{Importer, NoteKind, quoted};
use crate::compiled_policy::Action;
use crate::diagnostic::{Diagnostic, DiagnosticCode};
use crate::limit::string_enum;
use crate::syntax_tree::{NodeValue, SyntaxNode};

const FIELDS: [&str; 7] = ["name", "action", "conditions", "on_deny", "rate_limit", "state", "approval_timeout"];

string_enum! {
    /// What a rule of Intercept does.
    Verb {
        /// Its conditions must hold.
        Evaluate = "evaluate",
        /// It refuses every call.
        Deny = "deny",
        /// A person must agree.
        RequireApproval = "require_approval",
    }
}

/// What is known of the rule at hand.
pub(super) struct Rule<'n> {
    pub node: &'n SyntaxNode,
    pub name: String,
    /// The message as JSON.
    pub on_deny: Option<String>,
    /// What its counters are keyed by: the tool, or `_global`.
    pub scope: &'n str,
}

pub(super) fn take(importer: &mut Importer, node: &SyntaxNode, scope: &str, block: &mut Block) {
    let NodeValue::Map(fields) = &node.value else {
        return importer.wrong_type(node, "a rule", "an object");
    };
    importer.check_names(fields, &FIELDS, "a rule");
    let name = importer.text_of(node, "name");
    if name.is_none() {
        importer.missing(node, "name", "give each rule a name");
    }
    let on_deny = importer.text_of(node, "on_deny").map(|text| quoted(&text));
    let rule = Rule { node, name: name.unwrap_or_default(), on_deny, scope };
    if let Some(timeout) = node.get("approval_timeout") {
        let message = "`approval_timeout` is not taken over; how long a question stays open is set in the gateway";
        importer.note(NoteKind::Dropped, &timeout.span, message);
    }
    let verb = verb(importer, &rule);
    let has_conditions = check_fields(importer, &rule, verb);
    match verb {
        Verb::Deny => return block.act(Action::Deny, reason(&rule)),
        Verb::RequireApproval => {
            if has_conditions {
                let message = "every call waits for a person here, whatever the conditions say, which is the safer \
                               reading; to ask for some calls only, write the conditions under `approve_if`";
                importer.note(NoteKind::Changed, &start(node), message);
            }
            block.act(Action::Approve, reason(&rule));
        }
        Verb::Evaluate => {}
    }
    evaluate(importer, &rule, verb, block);
}

/// The place of a whole rule; underlined in full it would say nothing.
fn start(node: &SyntaxNode) -> Range<usize> {
    node.span.start..(node.span.start + 1).min(node.span.end)
}

fn verb(importer: &mut Importer, rule: &Rule<'_>) -> Verb {
    let Some((node, word)) = rule.node.get("action").zip(importer.text_of(rule.node, "action")) else {
        return Verb::Evaluate;
    };
    importer.word(node, &word, "action", Verb::WORDS, Verb::from_word).unwrap_or(Verb::Deny)
}

/// Refuses fields that exclude each other; says whether there are conditions.
fn check_fields(importer: &mut Importer, rule: &Rule<'_>, verb: Verb) -> bool {
    let present = |name: &str| rule.node.get(name).filter(|value| !matches!(value.value, NodeValue::Null));
    let conditions =
        present("conditions").filter(|node| !matches!(&node.value, NodeValue::List(list) if list.is_empty()));
    let (rate, state) = (present("rate_limit"), present("state"));
    let mut clash = |node: &SyntaxNode, message: &str, help: &str| {
        importer.report(Diagnostic::error(DiagnosticCode::FieldClash, node.span.clone(), message).with_help(help));
    };
    if let Some(rate) = rate.filter(|_| conditions.is_some() || state.is_some()) {
        clash(rate, "`rate_limit` stands beside `conditions` or `state`", "make two rules of it");
    }
    if let Some(rate) = rate.filter(|_| verb == Verb::Deny) {
        clash(rate, "`rate_limit` stands in a rule that denies every call", "remove one of the two");
    }
    if let Some(conditions) = conditions.filter(|_| verb == Verb::Deny) {
        clash(conditions, "a rule with `action: deny` has conditions", "remove the action, or the conditions");
    }
    if verb == Verb::Evaluate && conditions.is_none() && rate.is_none() {
        let fault = Diagnostic::error(
            DiagnosticCode::EmptyList,
            start(rule.node),
            format!("the rule `{}` has no conditions", rule.name),
        );
        importer.report(fault.with_help("add conditions, or write `action: deny`"));
    }
    conditions.is_some()
}

fn reason(rule: &Rule<'_>) -> Part {
    Part { rule: rule.name.clone(), json: rule.on_deny.clone().unwrap_or_default() }
}

/// Takes over conditions and counters.
fn evaluate(importer: &mut Importer, rule: &Rule<'_>, verb: Verb, block: &mut Block) {
    let counter = counter::state(importer, rule);
    let told = importer.notes.len();
    let Conditions { mut said, bounds, is_whole } = conditions(importer, rule, counter.as_ref());
    if verb == Verb::Evaluate && !is_whole {
        block.deny(&rule.name);
    }
    if verb == Verb::RequireApproval {
        // Every call is asked for, so nothing is to be known of the conditions; limits hold all the same.
        said.clear();
        importer.notes.truncate(told);
    }
    if let Some(counter) = &counter {
        said.extend(counter::limit(importer, rule, counter, &bounds, block));
    }
    counter::rate(importer, rule, block);
    if !said.is_empty() {
        let on_deny = rule.on_deny.as_ref().map_or_else(String::new, |text| format!(", \"on_deny\": {text}"));
        let json = format!("{{\"conditions\": [{}]{on_deny}}}", said.join(", "));
        block.require.push(Part { rule: rule.name.clone(), json });
    }
}

/// The conditions of a rule.
#[derive(Default)]
struct Conditions {
    /// Those on arguments, as JSON.
    said: Vec<String>,
    /// Those on the rule's own counter.
    bounds: Vec<Bound>,
    /// Whether there are no others.
    is_whole: bool,
}

fn conditions(importer: &mut Importer, rule: &Rule<'_>, counter: Option<&State>) -> Conditions {
    let mut all = Conditions { is_whole: true, ..Conditions::default() };
    let written = rule.node.get("conditions").map_or(&[][..], |node| importer.list(node, "conditions"));
    for node in written {
        match condition::take(importer, node, counter) {
            Some(Taken::Condition(json)) => all.said.push(json),
            Some(Taken::Bound(bound)) => all.bounds.push(bound),
            Some(Taken::Unsaid(why)) => {
                let message = format!("{why}, so the rule denies every call here; write it anew");
                importer.note(NoteKind::Changed, &node.span, message);
                all.is_whole = false;
            }
            None => {}
        }
    }
    all
}
