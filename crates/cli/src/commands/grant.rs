//! `gatelodge grant …`: creates, lists, changes and revokes grants.

mod attach_grant_server;
mod create_grant;
pub mod list_grants;

use anyhow::Result;
use gatelodge_server::config::{self, FILE_GRANT_ID_PREFIX};
use gatelodge_store::{EnforcementMode, Grant, GrantServerAttachment, GrantToken, StoreError};
use jiff::Timestamp;
use serde_json::json;

use crate::cli::{GenerateTokenArgs, GrantSubcommand, NamedItemArgs, TokenLifetimeArgs};
use crate::commands::time_text::local_time;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCommandContext, StoreCreationMode};

/// Runs one `grant` subcommand.
pub fn run(command: GrantSubcommand) -> Result<CommandExitCode> {
    match command {
        GrantSubcommand::Create(args) => create_grant::run(args),
        GrantSubcommand::List(args) => list_grants::run(args),
        GrantSubcommand::Show(args) => list_grants::show(args),
        GrantSubcommand::Rotate(args) => create_grant::rotate(args),
        GrantSubcommand::Revoke(args) => revoke(args),
        GrantSubcommand::Attach(args) => attach_grant_server::run(args),
        GrantSubcommand::Detach(args) => attach_grant_server::detach(args),
        GrantSubcommand::Token(args) => generate_token(&args),
    }
}

fn revoke(args: NamedItemArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let grant = load_editable_grant(&ctx, &args.name).await?;
        let entry = ctx.admin_log_entry("grant.revoke", &grant.label, json!({"id": grant.id}));
        ctx.stores.grants.revoke(&grant.id, ctx.clock.now(), entry).await?;
        if args.json {
            stdout_output::print_json(&json!({"id": grant.id, "label": grant.label, "revoked": true}))?;
        }
        print_stderr(&format!(
            "revoked grant `{}`; a running gateway refuses its token within a second",
            escape_for_terminal(&grant.label)
        ));
        Ok(CommandExitCode::Success)
    })
}

fn generate_token(args: &GenerateTokenArgs) -> Result<CommandExitCode> {
    let token = GrantToken::random()?;
    if args.json {
        stdout_output::print_json(&json!({"token": token.reveal(), "token_hash": token.hash()}))?;
    } else {
        stdout_output::print(&format!("{}\n", token.reveal()))?;
        print_stderr(&format!("token_hash = \"{}\"", token.hash()));
    }
    Ok(CommandExitCode::Success)
}

/// Loads a grant from the store. Returns an error if it is defined in the configuration file or has been revoked.
async fn load_editable_grant(ctx: &StoreCommandContext, name: &str) -> Result<Grant> {
    let is_in_file =
        ctx.config_entries().grants.iter().any(|grant| grant.label.as_ref() == name || grant.id.0.as_ref() == name);
    if is_in_file || name.starts_with(FILE_GRANT_ID_PREFIX) {
        return Err(store_command_context::defined_in_file_error("grant", &escape_for_terminal(name)));
    }
    match ctx.stores.grants.get(name).await {
        Err(StoreError::NotFound(what)) => {
            let revoked = ctx.stores.grants.list().await?.into_iter().filter(|grant| grant.label == name);
            match revoked.filter_map(|grant| grant.revoked_at).max() {
                Some(at) => {
                    let help = "create a new one with `gatelodge grant create`";
                    Err(UsageError(format!(
                        "grant `{}` was revoked at {}; {help}",
                        escape_for_terminal(name),
                        local_time(at)
                    ))
                    .into())
                }
                None => Err(StoreError::NotFound(what).into()),
            }
        }
        found => Ok(found?),
    }
}

/// Returns the time at which a token created now expires, or `None` if it never does.
fn token_expiry(life: &TokenLifetimeArgs, now: Timestamp) -> Result<Option<Timestamp>, UsageError> {
    if life.no_expiry {
        return Ok(None);
    }
    let text = &life.expires;
    let end = match config::parse_duration(text) {
        Some(length) => now.checked_add(length).ok(),
        None => config::parse_timestamp(text),
    };
    let end = end.ok_or_else(|| {
        UsageError(format!(
            "`{}` is not a time: write {}, or a date like `2027-01-31`",
            escape_for_terminal(text),
            config::DURATION_SYNTAX
        ))
    })?;
    if end <= now { Err(UsageError(format!("{} is in the past", local_time(end)))) } else { Ok(Some(end)) }
}

/// Describes the attachment of a server to a grant in one line.
fn attachment_text(attachment: &GrantServerAttachment) -> String {
    let policy = match &attachment.policy {
        Some(policy) => format!("with policy `{policy}`"),
        None => "WITHOUT a policy: every call is refused".to_owned(),
    };
    let observe = match attachment.mode {
        EnforcementMode::Enforce => "",
        EnforcementMode::Observe => ", OBSERVED only: nothing is refused",
    };
    format!("{} {policy}{observe}", attachment.server)
}
