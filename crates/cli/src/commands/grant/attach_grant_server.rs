//! `grant attach` and `grant detach`: change which servers a grant has access to.

use anyhow::Result;
use gatelodge_admin::Administration;
use gatelodge_store::{EnforcementMode, GrantServerAttachment};
use serde_json::json;

use super::{attachment_text, change_grant_error};
use crate::cli::{AttachGrantServerArgs, DetachGrantServerArgs};
use crate::commands::server;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::CommandExitCode;
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

pub fn run(args: AttachGrantServerArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let administration = ctx.administration();
        let found = administration.find_editable_grant(&args.name).await.map_err(change_grant_error)?;
        let attachment = new_attachment(&administration, &args.server, args.policy.as_deref(), args.observe).await?;
        administration.attach_server(&found, &attachment).await.map_err(change_grant_error)?;
        let grant = found.grant();
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
        let administration = ctx.administration();
        let found = administration.find_editable_grant(&args.name).await.map_err(change_grant_error)?;
        let server = server::parse_server_name(&args.server)?;
        administration.detach_server(&found, &server).await.map_err(change_grant_error)?;
        let grant = found.grant();
        if args.json {
            stdout_output::print_json(&json!({"id": grant.id, "label": grant.label, "detached": server}))?;
        }
        print_stderr(&format!("grant `{}` no longer reaches {server}", escape_for_terminal(&grant.label)));
        Ok(CommandExitCode::Success)
    })
}

/// Returns an attachment for a server and a policy that exist.
pub async fn new_attachment(
    administration: &Administration,
    server: &str,
    policy: Option<&str>,
    observe: bool,
) -> Result<GrantServerAttachment> {
    let mode = if observe { EnforcementMode::Observe } else { EnforcementMode::Enforce };
    administration.new_attachment(server, policy, mode).await.map_err(change_grant_error)
}
