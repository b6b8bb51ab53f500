//! What a server offers now, against what was accepted of it.

mod definition_diff;
mod drift_text;
mod grant_reach;

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use gatelodge_gateway::{ToolCategorization, categorize_accepted_tools, categorize_tools, confusable_names};
use gatelodge_policy::Category;
use gatelodge_store::{CategoryOverride, ServerName, ServerTools, ToolDefinition};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::admin_context::AdminContext;
use definition_diff::definition_diff;
pub use drift_text::{drift_headline, drift_text, lapsed_override_text};
pub use grant_reach::GrantReach;
use grant_reach::{GrantPolicies, grants_reaching, load_grant_policies};

/// One tool that is not as it was accepted.
#[derive(Debug, Serialize)]
pub struct ToolDrift {
    pub tool: String,
    #[serde(rename = "what")]
    pub kind: DriftKind,
    /// What it could do if it were accepted as it is, beside all that is offered; none if it is gone.
    #[serde(serialize_with = "serialize_optional_category")]
    pub category: Option<Category>,
    /// What it counts as by the accepted definition; none if there is none.
    #[serde(serialize_with = "serialize_optional_category")]
    pub category_before: Option<Category>,
    /// What somebody said of the accepted definition, and what does not hold for this one.
    #[serde(rename = "lapses")]
    pub lapsed_override: Option<LapsedOverride>,
    /// The fingerprint of what is offered.
    pub fingerprint: Option<String>,
    /// Why it cannot be accepted.
    #[serde(rename = "refused")]
    pub rejection: Option<String>,
    /// The grants that could call it, and by which rule.
    pub reached_by: Vec<GrantReach>,
    /// Line by line, what changed.
    #[serde(rename = "difference")]
    pub diff: String,
}

/// How a tool differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftKind {
    /// It was never accepted.
    New,
    /// Its definition is another one.
    Changed,
    /// It was accepted, and is not offered any more.
    Gone,
}

/// What somebody said that a tool can do.
#[derive(Debug, Serialize)]
pub struct LapsedOverride {
    #[serde(serialize_with = "serialize_optional_category")]
    pub category: Option<Category>,
    pub by: String,
    pub at: Timestamp,
    pub why: String,
}

fn serialize_optional_category<S: Serializer>(category: &Option<Category>, to: S) -> Result<S::Ok, S::Error> {
    category.map(Category::as_str).serialize(to)
}

/// Both sides of the comparison.
struct DriftComparison<'k> {
    accepted: BTreeMap<&'k str, &'k ToolDefinition>,
    offered: BTreeSet<&'k str>,
    /// Names that no tool is accepted under.
    confusable_names: BTreeSet<&'k str>,
    before: BTreeMap<String, ToolCategorization>,
    after: BTreeMap<String, ToolCategorization>,
    grant_policies: GrantPolicies,
    context: &'k AdminContext,
}

/// Everything that is not as it was accepted, by name.
pub async fn find_drifts(desk: &AdminContext, server: &ServerName, known: &ServerTools) -> Result<Vec<ToolDrift>> {
    let accepted: BTreeMap<&str, &ToolDefinition> =
        known.pinned.iter().map(|pin| (pin.definition.name.as_str(), &pin.definition)).collect();
    let offered: BTreeSet<&str> = known.offered.iter().map(|tool| tool.name.as_str()).collect();
    let siblings = accepted.keys().chain(&offered).copied();
    let sides = DriftComparison {
        confusable_names: confusable_names(offered.iter().copied()),
        before: categorize_accepted_tools(server, known),
        after: categorize_tools(server, siblings, &known.category_overrides, &known.offered),
        grant_policies: load_grant_policies(desk, server).await?,
        accepted,
        offered,
        context: desk,
    };
    let differ = known.offered.iter().filter_map(|tool| sides.compare_offered(tool));
    let gone = sides.accepted.values().filter(|tool| !sides.offered.contains(tool.name.as_str()));
    Ok(differ.chain(gone.map(|tool| sides.removed_tool(tool))).collect())
}

impl DriftComparison<'_> {
    fn compare_offered(&self, tool: &ToolDefinition) -> Option<ToolDrift> {
        let (name, accepted) = (tool.name.as_str(), self.accepted.get(tool.name.as_str()));
        let what = match accepted {
            Some(accepted) if accepted.fingerprint == tool.fingerprint => return None,
            Some(_) => DriftKind::Changed,
            None => DriftKind::New,
        };
        let (before, after) = (self.before.get(name), self.after.get(name));
        let category = after.map_or(Category::Unknown, ToolCategorization::category);
        let held = before.is_some_and(|before| before.category_override.is_some());
        let is_odd = self.confusable_names.contains(name);
        Some(ToolDrift {
            tool: tool.name.clone(),
            kind: what,
            category: Some(category),
            category_before: before.map(ToolCategorization::category),
            lapsed_override: after
                .and_then(|after| after.stale_override.as_ref())
                .filter(|_| held)
                .map(LapsedOverride::from),
            fingerprint: Some(tool.fingerprint.clone()),
            rejection: is_odd.then(|| "its name cannot be read, or looks like another tool's".to_owned()),
            reached_by: grants_reaching(&self.grant_policies, name, category, self.context),
            diff: definition_diff(accepted.copied(), Some(tool)),
        })
    }

    fn removed_tool(&self, tool: &ToolDefinition) -> ToolDrift {
        let category = self.before.get(&tool.name).map_or(Category::Unknown, ToolCategorization::category);
        ToolDrift {
            tool: tool.name.clone(),
            kind: DriftKind::Gone,
            category: None,
            category_before: Some(category),
            lapsed_override: None,
            fingerprint: None,
            rejection: None,
            reached_by: grants_reaching(&self.grant_policies, &tool.name, category, self.context),
            diff: String::new(),
        }
    }
}

impl From<&CategoryOverride> for LapsedOverride {
    fn from(said: &CategoryOverride) -> Self {
        let CategoryOverride { set_by: said_by, set_at: said_at, reason: why, .. } = said;
        Self { category: Some(said.category), by: said_by.clone(), at: *said_at, why: why.clone() }
    }
}
