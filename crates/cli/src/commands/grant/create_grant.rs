//! `grant create` and `grant rotate`: generate a token, print it once and store only its hash.

use std::collections::BTreeMap;

use anyhow::Result;
use gatelodge_admin::{CreatedGrant, GrantRequest, check_grant_label};
use gatelodge_mcp::Revision;
use gatelodge_server::config::revision_list;
use gatelodge_store::GrantToken;
use jiff::Timestamp;
use serde_json::json;

use super::attach_grant_server::new_attachment;
use super::{change_grant_error, token_expiry};
use crate::cli::{CreateGrantArgs, RotateGrantArgs};
use crate::commands::time_text::local_time;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;
use crate::store_command_context::{self, StoreCreationMode};

pub fn run(args: CreateGrantArgs) -> Result<CommandExitCode> {
    check_grant_label(&args.label).map_err(change_grant_error)?;
    let labels = parse_labels(&args.labels)?;
    let minimum_revision = args.minimum_revision.as_deref().map(parse_revision).transpose()?;
    store_command_context::with_store(&args.store, StoreCreationMode::CreateIfMissing, async |ctx| {
        let administration = ctx.administration();
        administration.check_new_grant(&args.label).map_err(change_grant_error)?;
        let attachments = match &args.server {
            Some(server) => {
                vec![new_attachment(&administration, server, args.policy.as_deref(), args.observe).await?]
            }
            None => Vec::new(),
        };
        let expires_at = token_expiry(&args.lifetime, ctx.clock.now())?;
        let request = GrantRequest {
            label: args.label.clone(),
            labels: labels.clone(),
            attachments,
            expires_at,
            minimum_revision,
        };
        let CreatedGrant { id, token } = administration.create_grant(request).await.map_err(change_grant_error)?;
        print_token(&token, &args.label, id.0.as_ref(), expires_at, args.json)?;
        if let (Some(server), None) = (&args.server, &args.policy) {
            let server = escape_for_terminal(server);
            print_stderr(&format!(
                "warning: it has no policy for `{server}`, so every call is refused: gatelodge grant attach {} --server \
                 {server} --policy NAME",
                escape_for_terminal(&args.label)
            ));
        }
        if args.server.is_none() {
            print_stderr(&format!(
                "it has no servers yet: gatelodge grant attach {} --server NAME --policy NAME",
                escape_for_terminal(&args.label)
            ));
        }
        Ok(CommandExitCode::Success)
    })
}

pub fn rotate(args: RotateGrantArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let administration = ctx.administration();
        let found = administration.find_editable_grant(&args.name).await.map_err(change_grant_error)?;
        let expires_at = token_expiry(&args.lifetime, ctx.clock.now())?;
        let token = administration.rotate_grant(&found, expires_at).await.map_err(change_grant_error)?;
        let grant = found.grant();
        print_token(&token, &grant.label, grant.id.0.as_ref(), expires_at, args.json)?;
        print_stderr("the old token is invalid; a running gateway refuses it within a second");
        Ok(CommandExitCode::Success)
    })
}

/// Prints the token, which is not stored and cannot be printed again.
fn print_token(token: &GrantToken, label: &str, id: &str, expires_at: Option<Timestamp>, json: bool) -> Result<()> {
    if json {
        return stdout_output::print_json(
            &json!({"id": id, "label": label, "token": token.reveal(), "expires_at": expires_at}),
        );
    }
    let end = expires_at.map_or_else(|| "does not expire".to_owned(), |end| format!("expires at {}", local_time(end)));
    print_stderr(&format!(
        "grant `{}` ({id}) {end}; this is the only time its token is shown:",
        escape_for_terminal(label)
    ));
    stdout_output::print(&format!("{}\n", token.reveal()))
}

fn parse_revision(text: &str) -> Result<Revision, UsageError> {
    let unknown = |_| {
        UsageError(format!(
            "`{}` is not a protocol revision; the revisions are {}",
            escape_for_terminal(text),
            revision_list()
        ))
    };
    text.parse().map_err(unknown)
}

fn parse_labels(written: &[String]) -> Result<BTreeMap<String, String>, UsageError> {
    let mut labels = BTreeMap::new();
    for label in written {
        let (key, value) = label
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| UsageError(format!("`{}` is not of the form KEY=VALUE", escape_for_terminal(label))))?;
        if labels.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(UsageError(format!("the label `{}` is given twice", escape_for_terminal(key))));
        }
    }
    Ok(labels)
}
