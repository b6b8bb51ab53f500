//! Finds the grants that could call a tool, and the policy rule that applies to each.

use gatelodge_gateway::ActivePolicy;
use gatelodge_policy::{Call, CallTarget, CalledTool, Category, ClientFacts, Decision, DefinitionStatus, decide};
use gatelodge_store::ServerName;
use jiff::Timestamp;
use serde::Serialize;

use crate::effective_config::EffectiveConfig;

/// A grant that could call a tool.
#[derive(Debug, Serialize)]
pub struct ToolAccessGrant {
    /// Label of the grant.
    pub grant: String,
    /// Name of its policy for the server.
    pub policy: String,
    /// Rule of the policy that applies.
    pub rule: Option<String>,
}

/// A grant to which a server is attached, with the policy that applies.
pub(super) struct GrantPolicy<'c> {
    grant: &'c str,
    policy: &'c ActivePolicy,
}

/// Returns the grants to which a server is attached with a policy.
pub(super) fn policies_for_server<'c>(active_config: &'c EffectiveConfig, server: &ServerName) -> Vec<GrantPolicy<'c>> {
    let attached = active_config.grants.iter().filter_map(|grant| {
        let policy = grant.servers.get(server)?.policy.as_deref()?;
        Some(GrantPolicy { grant: &grant.label, policy })
    });
    attached.collect()
}

/// Returns the grants that could call the tool if it were accepted, assuming that the arguments satisfy all conditions.
pub(super) fn grants_reaching(
    policies: &[GrantPolicy<'_>],
    name: &str,
    category: Category,
    now: Timestamp,
) -> Vec<ToolAccessGrant> {
    let tool = CalledTool { name, category, definition: DefinitionStatus::Accepted, schema: None };
    let reach = |GrantPolicy { grant, policy }: &GrantPolicy<'_>| {
        if !policy.policy.is_tool_visible(&tool) {
            return None;
        }
        let subject = CallTarget::Tool(tool);
        let call =
            Call { target: subject, arguments: None, server: None, client: ClientFacts::default(), session: None };
        let rule = match decide(&policy.policy, &call, now) {
            Decision::Allow(terms) => terms.rule,
            Decision::Deny(reason) => reason.rule,
        };
        Some(ToolAccessGrant {
            grant: (*grant).to_owned(),
            policy: policy.name.to_string(),
            rule: rule.map(|rule| rule.to_string()),
        })
    };
    policies.iter().filter_map(reach).collect()
}
