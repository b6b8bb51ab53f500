//! Finds the grants that could call a tool, and the policy rule that applies to each.

use std::sync::Arc;

use anyhow::Result;
use gatelodge_gateway::ActivePolicy;
use gatelodge_policy::{Call, CallTarget, CalledTool, Category, ClientFacts, Decision, DefinitionStatus, decide};
use gatelodge_store::ServerName;
use serde::Serialize;

use crate::store_command_context::StoreCommandContext;

/// A grant that could call a tool.
#[derive(Debug, Serialize)]
pub struct ToolAccessGrant {
    pub grant: String,
    pub policy: String,
    pub rule: Option<String>,
}

/// Labels of the grants to which a server is attached, each with the policy that applies.
pub(super) type ServerGrantPolicies = Vec<(String, Arc<ActivePolicy>)>;

/// Searches the active configuration for the grants to which a server is attached, and returns their policies.
pub(super) async fn load_grant_policies(ctx: &StoreCommandContext, server: &ServerName) -> Result<ServerGrantPolicies> {
    let active_config = ctx.effective_config().await?;
    let policies = active_config.grants.into_iter().filter_map(|grant| {
        let policy = grant.servers.get(server)?.policy.clone()?;
        Some((grant.label.to_string(), policy))
    });
    Ok(policies.collect())
}

/// Returns the grants that could call the tool if it were accepted, assuming that the arguments satisfy all conditions.
pub(super) fn grants_reaching(
    policies: &ServerGrantPolicies,
    name: &str,
    category: Category,
    ctx: &StoreCommandContext,
) -> Vec<ToolAccessGrant> {
    let tool = CalledTool { name, category, definition: DefinitionStatus::Accepted, schema: None };
    let reach = |(grant, policy): &(String, Arc<ActivePolicy>)| {
        if !policy.policy.is_tool_visible(&tool) {
            return None;
        }
        let subject = CallTarget::Tool(tool);
        let call =
            Call { target: subject, arguments: None, server: None, client: ClientFacts::default(), session: None };
        let rule = match decide(&policy.policy, &call, ctx.clock.now()) {
            Decision::Allow(terms) => terms.rule,
            Decision::Deny(reason) => reason.rule,
        };
        Some(ToolAccessGrant {
            grant: grant.clone(),
            policy: policy.name.to_string(),
            rule: rule.map(|rule| rule.to_string()),
        })
    };
    policies.iter().filter_map(reach).collect()
}
