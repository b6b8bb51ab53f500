//! `grant attach` and `grant detach`: change which servers a grant has access to.

use anyhow::Result;
use gatelodge_server::config::suggest_name;
use gatelodge_store::{EnforcementMode, GrantServerAttachment, PolicyName, ServerName};
use serde_json::json;

use super::{attachment_text, load_editable_grant};
use crate::cli::{AttachGrantServerArgs, DetachGrantServerArgs};
use crate::commands::server;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCommandContext, StoreCreationMode};

pub fn run(args: AttachGrantServerArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let grant = load_editable_grant(&ctx, &args.name).await?;
        let attachment = build_attachment(&ctx, &args.server, args.policy.as_deref(), args.observe).await?;
        let entry = ctx.admin_log_entry("grant.attach", &grant.label, json!(attachment));
        ctx.stores.grants.attach(&grant.id, attachment.clone(), entry).await?;
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

pub fn detach(args: DetachGrantServerArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let grant = load_editable_grant(&ctx, &args.name).await?;
        let server = server::parse_server_name(&args.server)?;
        let entry = ctx.admin_log_entry("grant.detach", &grant.label, json!({"server": server}));
        ctx.stores.grants.detach(&grant.id, &server, entry).await?;
        if args.json {
            stdout_output::print_json(&json!({"id": grant.id, "label": grant.label, "detached": server}))?;
        }
        print_stderr(&format!("grant `{}` no longer reaches {server}", escape_for_terminal(&grant.label)));
        Ok(CommandExitCode::Success)
    })
}

/// Builds an attachment after checking that the server and the policy exist.
pub async fn build_attachment(
    ctx: &StoreCommandContext,
    server: &str,
    policy: Option<&str>,
    observe: bool,
) -> Result<GrantServerAttachment> {
    let server = check_server(ctx, server).await?;
    let policy = match policy {
        Some(policy) => Some(check_policy(ctx, policy).await?),
        None => None,
    };
    Ok(GrantServerAttachment {
        server,
        policy,
        mode: if observe { EnforcementMode::Observe } else { EnforcementMode::Enforce },
    })
}

async fn check_server(ctx: &StoreCommandContext, name: &str) -> Result<ServerName> {
    let stored = ctx.stores.servers.list().await?;
    let configured = ctx.config_entries().servers.into_iter().map(|server| server.name);
    let known: Vec<ServerName> = configured.chain(stored.into_iter().map(|server| server.name)).collect();
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

async fn check_policy(ctx: &StoreCommandContext, name: &str) -> Result<PolicyName> {
    let stored = ctx.stores.policies.list().await?;
    let entries = ctx.config_entries();
    let configured = entries.policies.iter().map(|policy| policy.name.as_str());
    let known: Vec<&str> = configured.chain(stored.iter().map(|policy| policy.name.as_str())).collect();
    if !known.contains(&name) {
        let help = "store one with `gatelodge policy put NAME FILE`";
        return Err(UsageError(format!(
            "there is no policy `{}`; {}; {help}",
            escape_for_terminal(name),
            suggest_name(name, &known)
        ))
        .into());
    }
    Ok(name.parse()?)
}
