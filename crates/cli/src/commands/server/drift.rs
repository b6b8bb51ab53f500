//! What a server offers now, against what was accepted of it.

use anyhow::Result;
use gatelodge_gateway::{Class, classes, twins};
use gatelodge_policy::{Call, Caller, Category, Decision, Definition, Subject, Tool, decide};
use gatelodge_store::{Known, Pin, ServerName, ToolDefinition};
use serde::Serialize;
use serde_json::Value;
use similar::TextDiff;

use crate::desk::Desk;
use crate::environment;
use crate::wire::{merge, stored};

/// One tool that is not as it was accepted.
#[derive(Debug, Serialize)]
pub struct Drift {
    pub tool: String,
    pub what: What,
    /// The fingerprint of what is offered.
    pub fingerprint: Option<String>,
    /// Why it cannot be accepted.
    pub refused: Option<String>,
    /// The grants that could call it, and by which rule.
    pub reached_by: Vec<Reach>,
    /// Line by line, what changed.
    pub difference: String,
}

/// How a tool differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// It was never accepted.
    New,
    /// Its definition is another one.
    Changed,
    /// It was accepted, and is not offered any more.
    Gone,
}

/// Who could call a tool.
#[derive(Debug, Serialize)]
pub struct Reach {
    pub grant: String,
    pub policy: String,
    pub rule: Option<String>,
}

/// Everything that is not as it was accepted, by name.
pub async fn drifts(desk: &Desk, server: &ServerName, known: &Known) -> Result<Vec<Drift>> {
    let doors = doors(desk, server).await?;
    // What each could do if it were accepted as it is.
    let classes = classes(server, known, &known.offered);
    let category = |name: &str| classes.get(name).map_or(Category::Unknown, Class::category);
    let odd = twins(known.offered.iter().map(|tool| tool.name.as_str()));
    let pin_of = |name: &str| known.accepted.iter().find(|pin| pin.definition.name == name);
    let offered = known.offered.iter().filter_map(|tool| {
        let what = match pin_of(&tool.name) {
            Some(pin) if pin.definition.fingerprint == tool.fingerprint => return None,
            Some(_) => What::Changed,
            None => What::New,
        };
        let refused = odd
            .contains(tool.name.as_str())
            .then(|| "its name cannot be read, or looks like another tool's".to_owned());
        Some(Drift {
            tool: tool.name.clone(),
            what,
            fingerprint: Some(tool.fingerprint.clone()),
            refused,
            reached_by: reached_by(&doors, &tool.name, category(&tool.name), desk),
            difference: difference(pin_of(&tool.name).map(|pin| &pin.definition), Some(tool)),
        })
    });
    let is_gone = |pin: &&Pin| !known.offered.iter().any(|tool| tool.name == pin.definition.name);
    let gone = known.accepted.iter().filter(is_gone).map(|pin| Drift {
        tool: pin.definition.name.clone(),
        what: What::Gone,
        fingerprint: None,
        refused: None,
        reached_by: reached_by(&doors, &pin.definition.name, Category::Unknown, desk),
        difference: String::new(),
    });
    Ok(offered.chain(gone).collect())
}

type Doors = Vec<(String, std::sync::Arc<gatelodge_gateway::LivePolicy>)>;

async fn doors(desk: &Desk, server: &ServerName) -> Result<Doors> {
    let picture = merge(&desk.entries(), &stored(&desk.stores).await?, &environment::variable);
    let doors = picture.grants.into_iter().filter_map(|grant| {
        let policy = grant.doors.get(server)?.policy.clone()?;
        Some((grant.label.to_string(), policy))
    });
    Ok(doors.collect())
}

/// Who could call it if it were accepted, with arguments that no condition minds.
fn reached_by(doors: &Doors, name: &str, category: Category, desk: &Desk) -> Vec<Reach> {
    let tool = Tool { name, category, definition: Definition::Accepted, schema: None };
    let reach = |(grant, policy): &(String, std::sync::Arc<gatelodge_gateway::LivePolicy>)| {
        if !policy.policy.lists_tool(&tool) {
            return None;
        }
        let subject = Subject::Tool(tool);
        let call = Call { subject, arguments: None, server: None, caller: Caller::default(), session: None };
        let rule = match decide(&policy.policy, &call, desk.clock.now()) {
            Decision::Allow(terms) => terms.rule,
            Decision::Deny(reason) => reason.rule,
        };
        Some(Reach { grant: grant.clone(), policy: policy.name.to_string(), rule: rule.map(|rule| rule.to_string()) })
    };
    doors.iter().filter_map(reach).collect()
}

fn difference(before: Option<&ToolDefinition>, now: Option<&ToolDefinition>) -> String {
    let (before, now) = (before.map(laid_out).unwrap_or_default(), now.map(laid_out).unwrap_or_default());
    TextDiff::from_lines(&before, &now).unified_diff().context_radius(2).to_string()
}

/// A definition over lines, members in order, so that only what it says makes a difference.
fn laid_out(definition: &ToolDefinition) -> String {
    let value: Value = serde_json::from_str(&definition.text).unwrap_or_default();
    let text = serde_json::to_string_pretty(&sorted(value)).unwrap_or_default();
    format!("{text}\n")
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.into_iter().map(|(name, value)| (name, sorted(value))).collect();
            members.sort_by(|(one, _), (other, _)| one.cmp(other));
            Value::Object(members.into_iter().collect())
        }
        Value::Array(elements) => Value::Array(elements.into_iter().map(sorted).collect()),
        other => other,
    }
}
