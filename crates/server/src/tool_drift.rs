//! Compares the tool definitions that a server currently lists with the accepted ones.

mod definition_diff;
mod tool_access_grants;

use std::collections::{BTreeMap, BTreeSet};

use gatelodge_gateway::{ToolCategorization, categorize_accepted_tools, categorize_tools, confusable_names};
use gatelodge_policy::Category;
use gatelodge_store::{CategoryOverride, ServerName, ServerTools, ToolDefinition};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::effective_config::EffectiveConfig;
use definition_diff::definition_diff;
pub use tool_access_grants::ToolAccessGrant;
use tool_access_grants::{GrantPolicy, grants_reaching, policies_for_server};

/// How one tool has drifted from its accepted definition.
#[derive(Debug, Serialize)]
pub struct ToolDrift {
    /// Name of the tool.
    pub tool: String,
    /// Whether the tool is new, changed or gone.
    #[serde(rename = "what")]
    pub kind: DriftKind,
    /// Category of the definition that the server now lists; `None` if the tool is no longer listed. Classification
    /// also takes the server's other tools into account.
    #[serde(serialize_with = "serialize_optional_category")]
    pub category: Option<Category>,
    /// Category of the accepted definition; `None` if the tool is new.
    #[serde(serialize_with = "serialize_optional_category")]
    pub category_before: Option<Category>,
    /// Category override that was set for the accepted definition and does not apply to the new one.
    #[serde(rename = "lapses")]
    pub lapsed_override: Option<LapsedOverride>,
    /// Fingerprint of the definition that the server now lists.
    pub fingerprint: Option<String>,
    /// Why the tool cannot be accepted; `None` if it can be.
    #[serde(rename = "refused")]
    pub rejection: Option<String>,
    /// Grants that could call the tool, each with the rule that applies.
    pub reached_by: Vec<ToolAccessGrant>,
    /// Unified diff between the accepted definition and the one that the server now lists.
    #[serde(rename = "difference")]
    pub diff: String,
}

/// How a tool's current definition relates to the accepted one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DriftKind {
    /// The tool has never been accepted.
    New,
    /// The definition differs from the accepted one.
    Changed,
    /// The tool was accepted but is no longer listed.
    Gone,
}

/// A category override that no longer applies.
#[derive(Debug, Serialize)]
pub struct LapsedOverride {
    /// The category.
    #[serde(serialize_with = "serialize_optional_category")]
    pub category: Option<Category>,
    /// The user who set it.
    pub by: String,
    /// When it was set.
    pub at: Timestamp,
    /// The reason given for it.
    pub why: String,
}

fn serialize_optional_category<S: Serializer>(category: &Option<Category>, to: S) -> Result<S::Ok, S::Error> {
    category.map(Category::as_str).serialize(to)
}

/// Accepted and currently listed tools of a server, with their categories and the grants to which the server is
/// attached.
struct DriftComparison<'k> {
    accepted: BTreeMap<&'k str, &'k ToolDefinition>,
    offered: BTreeSet<&'k str>,
    /// Tool names that cannot be accepted because they contain unreadable characters or look like another tool's name.
    confusable_names: BTreeSet<&'k str>,
    before: BTreeMap<String, ToolCategorization>,
    after: BTreeMap<String, ToolCategorization>,
    grant_policies: Vec<GrantPolicy<'k>>,
    now: Timestamp,
}

/// Returns the drift of each of a server's tools that is new, changed or gone. Policies are evaluated for `now`.
pub fn find_drifts(
    server: &ServerName,
    known: &ServerTools,
    active_config: &EffectiveConfig,
    now: Timestamp,
) -> Vec<ToolDrift> {
    let accepted: BTreeMap<&str, &ToolDefinition> =
        known.pinned.iter().map(|pin| (pin.definition.name.as_str(), &pin.definition)).collect();
    let offered: BTreeSet<&str> = known.offered.iter().map(|tool| tool.name.as_str()).collect();
    let siblings = accepted.keys().chain(&offered).copied();
    let comparison = DriftComparison {
        confusable_names: confusable_names(offered.iter().copied()),
        before: categorize_accepted_tools(server, known),
        after: categorize_tools(server, siblings, &known.category_overrides, &known.offered),
        grant_policies: policies_for_server(active_config, server),
        accepted,
        offered,
        now,
    };
    let differing = known.offered.iter().filter_map(|tool| comparison.compare_offered(tool));
    let gone = comparison.accepted.values().filter(|tool| !comparison.offered.contains(tool.name.as_str()));
    differing.chain(gone.map(|tool| comparison.removed_tool(tool))).collect()
}

impl DriftComparison<'_> {
    fn compare_offered(&self, tool: &ToolDefinition) -> Option<ToolDrift> {
        let (name, accepted) = (tool.name.as_str(), self.accepted.get(tool.name.as_str()));
        let kind = match accepted {
            Some(accepted) if accepted.fingerprint == tool.fingerprint => return None,
            Some(_) => DriftKind::Changed,
            None => DriftKind::New,
        };
        let (before, after) = (self.before.get(name), self.after.get(name));
        let category = after.map_or(Category::Unknown, ToolCategorization::category);
        let was_overridden = before.is_some_and(|before| before.category_override.is_some());
        let is_confusable = self.confusable_names.contains(name);
        Some(ToolDrift {
            tool: tool.name.clone(),
            kind,
            category: Some(category),
            category_before: before.map(ToolCategorization::category),
            lapsed_override: after
                .and_then(|after| after.stale_override.as_ref())
                .filter(|_| was_overridden)
                .map(LapsedOverride::from),
            fingerprint: Some(tool.fingerprint.clone()),
            rejection: is_confusable.then(|| "its name is unreadable or looks like that of another tool".to_owned()),
            reached_by: grants_reaching(&self.grant_policies, name, category, self.now),
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
            reached_by: grants_reaching(&self.grant_policies, &tool.name, category, self.now),
            diff: String::new(),
        }
    }
}

impl From<&CategoryOverride> for LapsedOverride {
    fn from(stale: &CategoryOverride) -> Self {
        let CategoryOverride { set_by, set_at, reason, .. } = stale;
        Self { category: Some(stale.category), by: set_by.clone(), at: *set_at, why: reason.clone() }
    }
}
