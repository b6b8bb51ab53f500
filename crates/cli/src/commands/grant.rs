//! `gatelodge grant …`: creates, lists, changes and revokes grants.

mod attach_grant_server;
mod create_grant;
pub mod list_grants;

use anyhow::Result;
use gatelodge_admin::ChangeGrantError;
use gatelodge_server::config;
use gatelodge_store::{EnforcementMode, GrantServerAttachment, GrantToken};
use jiff::Timestamp;
use serde_json::json;

use crate::cli::{GenerateTokenArgs, GrantSubcommand, NamedItemArgs, TokenLifetimeArgs};
use crate::commands::time_text::local_time;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

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
        let administration = ctx.administration();
        let found = administration.find_editable_grant(&args.name).await.map_err(change_grant_error)?;
        administration.revoke_grant(&found).await.map_err(change_grant_error)?;
        let grant = found.grant();
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

/// Builds the error for a grant that was not created or changed.
pub fn change_grant_error(error: ChangeGrantError) -> anyhow::Error {
    let text = error.to_string();
    let message = match error {
        ChangeGrantError::Store(error) => return error.into(),
        ChangeGrantError::Token(error) => return error.into(),
        ChangeGrantError::InvalidLabel
        | ChangeGrantError::DefinedInFile(_)
        | ChangeGrantError::UnknownServer { .. } => text,
        ChangeGrantError::UnknownPolicy { .. } => format!("{text}; store one with `gatelodge policy put NAME FILE`"),
        ChangeGrantError::Revoked { at, .. } => {
            format!("{text} at {}; create a new one with `gatelodge grant create`", local_time(at))
        }
    };
    UsageError(message).into()
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
