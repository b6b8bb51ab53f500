//! Who could call a tool, and by which rule.

use std::sync::Arc;

use anyhow::Result;
use gatelodge_gateway::ActivePolicy;
use gatelodge_policy::{Call, CallTarget, CalledTool, Category, ClientFacts, Decision, Definition, decide};
use gatelodge_store::ServerName;
use serde::Serialize;

use crate::admin_context::AdminContext;
use crate::app::{load_stored_config, merge_config};
use crate::process_environment;

/// Who could call a tool.
#[derive(Debug, Serialize)]
pub struct GrantReach {
    pub grant: String,
    pub policy: String,
    pub rule: Option<String>,
}

/// The grants that reach a server, and the policy that each goes by.
pub(super) type GrantPolicies = Vec<(String, Arc<ActivePolicy>)>;

/// Finds them.
pub(super) async fn load_grant_policies(desk: &AdminContext, server: &ServerName) -> Result<GrantPolicies> {
    let picture = merge_config(
        &desk.config_entries(),
        &load_stored_config(&desk.stores).await?,
        &process_environment::find_variable,
    );
    let doors = picture.grants.into_iter().filter_map(|grant| {
        let policy = grant.servers.get(server)?.policy.clone()?;
        Some((grant.label.to_string(), policy))
    });
    Ok(doors.collect())
}

/// Who could call it if it were accepted, with arguments that no condition minds.
pub(super) fn grants_reaching(
    doors: &GrantPolicies,
    name: &str,
    category: Category,
    desk: &AdminContext,
) -> Vec<GrantReach> {
    let tool = CalledTool { name, category, definition: Definition::Accepted, schema: None };
    let reach = |(grant, policy): &(String, Arc<ActivePolicy>)| {
        if !policy.policy.is_tool_visible(&tool) {
            return None;
        }
        let subject = CallTarget::Tool(tool);
        let call =
            Call { target: subject, arguments: None, server: None, client: ClientFacts::default(), session: None };
        let rule = match decide(&policy.policy, &call, desk.clock.now()) {
            Decision::Allow(terms) => terms.rule,
            Decision::Deny(reason) => reason.rule,
        };
        Some(GrantReach {
            grant: grant.clone(),
            policy: policy.name.to_string(),
            rule: rule.map(|rule| rule.to_string()),
        })
    };
    doors.iter().filter_map(reach).collect()
}
