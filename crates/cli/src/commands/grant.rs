//! `gatelodge grant …`: the verbs.

mod attach_server;
mod create_grant;
pub mod list_grants;

use anyhow::Result;
use gatelodge_store::{EnforcementMode, Grant, GrantAttachment, GrantToken, StoreError};
use jiff::Timestamp;
use serde_json::json;

use crate::admin_context::{self, AdminContext, StoreMode};
use crate::cli::{GenerateTokenArgs, GrantCommand, NamedItemArgs, TokenLifetimeArgs};
use crate::config::{self, FILE_GRANT_ID_PREFIX};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;

/// Runs a verb of `grant`.
pub fn run(command: GrantCommand) -> Result<CommandExitCode> {
    match command {
        GrantCommand::Create(args) => create_grant::run(args),
        GrantCommand::List(args) => list_grants::run(args),
        GrantCommand::Show(args) => list_grants::show(args),
        GrantCommand::Rotate(args) => create_grant::rotate(args),
        GrantCommand::Revoke(args) => revoke(args),
        GrantCommand::Attach(args) => attach_server::run(args),
        GrantCommand::Detach(args) => attach_server::detach(args),
        GrantCommand::Token(args) => generate_token(&args),
    }
}

fn revoke(args: NamedItemArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let grant = load_editable_grant(&desk, &args.name).await?;
        let entry = desk.admin_log_entry("grant.revoke", &grant.label, json!({"id": grant.id}));
        desk.stores.grants.revoke(&grant.id, desk.clock.now(), entry).await?;
        if args.json {
            stdout_output::print_json(&json!({"id": grant.id, "label": grant.label, "revoked": true}))?;
        }
        print_stderr(&format!(
            "grant `{}` has ended; a running gateway refuses its token within a second",
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

/// Finds a grant that may be changed.
async fn load_editable_grant(desk: &AdminContext, name: &str) -> Result<Grant> {
    let is_in_file =
        desk.config_entries().grants.iter().any(|grant| grant.label.as_ref() == name || grant.id.0.as_ref() == name);
    if is_in_file || name.starts_with(FILE_GRANT_ID_PREFIX) {
        return Err(admin_context::defined_in_file_error("grant", &escape_for_terminal(name)));
    }
    match desk.stores.grants.get(name).await {
        Err(StoreError::NotFound(what)) => {
            let ended = desk.stores.grants.list().await?.into_iter().filter(|grant| grant.label == name);
            match ended.filter_map(|grant| grant.revoked_at).max() {
                Some(at) => {
                    let help = "make a new one with `gatelodge grant create`";
                    Err(UsageError(format!("grant `{}` was revoked on {at}; {help}", escape_for_terminal(name))).into())
                }
                None => Err(StoreError::NotFound(what).into()),
            }
        }
        found => Ok(found?),
    }
}

/// When a token made now ends.
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
    if end <= now { Err(UsageError(format!("{end} has passed already"))) } else { Ok(Some(end)) }
}

/// What an attachment says, for people.
fn attachment_text(attachment: &GrantAttachment) -> String {
    let policy = match &attachment.policy {
        Some(policy) => format!("by `{policy}`"),
        None => "WITHOUT a policy: every call is refused".to_owned(),
    };
    let observe = match attachment.mode {
        EnforcementMode::Enforce => "",
        EnforcementMode::Observe => ", only OBSERVED: nothing is refused",
    };
    format!("{} {policy}{observe}", attachment.server)
}
