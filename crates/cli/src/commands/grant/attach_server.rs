//! `grant attach` and `grant detach`: what a grant may reach.

use anyhow::Result;
use gatelodge_store::{EnforcementMode, GrantAttachment, PolicyName, ServerName};
use serde_json::json;

use super::{attachment_text, load_editable_grant};
use crate::admin_context::{self, AdminContext, StoreMode};
use crate::cli::{AttachServerArgs, DetachServerArgs};
use crate::commands::server;
use crate::config::suggest_name;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;

pub fn run(args: AttachServerArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let grant = load_editable_grant(&desk, &args.name).await?;
        let attachment = build_attachment(&desk, &args.server, args.policy.as_deref(), args.observe).await?;
        let entry = desk.admin_log_entry("grant.attach", &grant.label, json!(attachment));
        desk.stores.grants.attach(&grant.id, attachment.clone(), entry).await?;
        if args.json {
            stdout_output::print_json(&json!({"id": grant.id, "label": grant.label, "attached": attachment}))?;
        }
        print_stderr(&format!(
            "grant `{}` reaches {}",
            escape_for_terminal(&grant.label),
            attachment_text(&attachment)
        ));
        Ok(CommandExitCode::Success)
    })
}

pub fn detach(args: DetachServerArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let grant = load_editable_grant(&desk, &args.name).await?;
        let server = server::parse_server_name(&args.server)?;
        let entry = desk.admin_log_entry("grant.detach", &grant.label, json!({"server": server}));
        desk.stores.grants.detach(&grant.id, &server, entry).await?;
        if args.json {
            stdout_output::print_json(&json!({"id": grant.id, "label": grant.label, "detached": server}))?;
        }
        print_stderr(&format!("grant `{}` no longer reaches {server}", escape_for_terminal(&grant.label)));
        Ok(CommandExitCode::Success)
    })
}

/// An attachment whose server and policy are there.
pub async fn build_attachment(
    desk: &AdminContext,
    server: &str,
    policy: Option<&str>,
    observe: bool,
) -> Result<GrantAttachment> {
    let server = check_server(desk, server).await?;
    let policy = match policy {
        Some(policy) => Some(check_policy(desk, policy).await?),
        None => None,
    };
    Ok(GrantAttachment {
        server,
        policy,
        mode: if observe { EnforcementMode::Observe } else { EnforcementMode::Enforce },
    })
}

async fn check_server(desk: &AdminContext, name: &str) -> Result<ServerName> {
    let stored = desk.stores.servers.list().await?;
    let of_file = desk.config_entries().servers.into_iter().map(|server| server.name);
    let known: Vec<ServerName> = of_file.chain(stored.into_iter().map(|server| server.name)).collect();
    let names: Vec<&str> = known.iter().map(ServerName::as_str).collect();
    if !names.contains(&name) {
        return Err(UsageError(format!(
            "there is no server `{}`; {}",
            escape_for_terminal(name),
            suggest_name(name, &names)
        ))
        .into());
    }
    Ok(server::parse_server_name(name)?)
}

async fn check_policy(desk: &AdminContext, name: &str) -> Result<PolicyName> {
    let stored = desk.stores.policies.list().await?;
    let entries = desk.config_entries();
    let of_file = entries.policies.iter().map(|policy| policy.name.as_str());
    let known: Vec<&str> = of_file.chain(stored.iter().map(|policy| policy.name.as_str())).collect();
    if !known.contains(&name) {
        let help = "keep one with `gatelodge policy put NAME FILE`";
        return Err(UsageError(format!(
            "there is no policy `{}`; {}; {help}",
            escape_for_terminal(name),
            suggest_name(name, &known)
        ))
        .into());
    }
    Ok(name.parse()?)
}
