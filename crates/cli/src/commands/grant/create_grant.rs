//! `grant create` and `grant rotate`: a token is made, shown once, and kept as a hash.

use std::collections::BTreeMap;

use anyhow::Result;
use gatelodge_mcp::Revision;
use gatelodge_store::{GrantToken, NewGrant};
use jiff::Timestamp;
use serde_json::json;

use super::attach_server::build_attachment;
use super::{load_editable_grant, token_expiry};
use crate::admin_context::{self, StoreMode};
use crate::cli::{CreateGrantArgs, RotateGrantArgs};
use crate::config::{is_valid_label, revision_list};
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;

pub fn run(args: CreateGrantArgs) -> Result<CommandExitCode> {
    if !is_valid_label(&args.label) {
        return Err(UsageError(
            "a label has 1 to 128 characters, without control characters, `file:` in front or a token in it".to_owned(),
        )
        .into());
    }
    let labels = parse_labels(&args.labels)?;
    let minimum_revision = args.minimum_revision.as_deref().map(parse_revision).transpose()?;
    admin_context::with_store(&args.store, StoreMode::CreateIfMissing, async |desk| {
        if desk.config_entries().grants.iter().any(|grant| *grant.label == *args.label) {
            return Err(admin_context::defined_in_file_error("grant", &escape_for_terminal(&args.label)));
        }
        let attachments = match &args.server {
            Some(server) => vec![build_attachment(&desk, server, args.policy.as_deref(), args.observe).await?],
            None => Vec::new(),
        };
        let now = desk.clock.now();
        let minimum_revision = minimum_revision.map(|revision| revision.to_string());
        let expires_at = token_expiry(&args.lifetime, now)?;
        let token = GrantToken::random()?;
        let detail = json!({"attachments": attachments, "expires_at": expires_at, "labels": labels,
            "minimum_revision": minimum_revision});
        let (label, hash) = (args.label.clone(), token.hash());
        let new = NewGrant {
            label,
            labels: labels.clone(),
            token: hash,
            attachments,
            created_at: now,
            expires_at,
            minimum_revision,
        };
        let id = desk.stores.grants.create(new, desk.admin_log_entry("grant.create", &args.label, detail)).await?;
        print_token(&token, &args.label, id.0.as_ref(), expires_at, args.json)?;
        if args.server.is_none() {
            print_stderr(&format!(
                "it reaches nothing yet: gatelodge grant attach {} --server NAME --policy NAME",
                escape_for_terminal(&args.label)
            ));
        }
        Ok(CommandExitCode::Success)
    })
}

pub fn rotate(args: RotateGrantArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let grant = load_editable_grant(&desk, &args.name).await?;
        let expires_at = token_expiry(&args.lifetime, desk.clock.now())?;
        let token = GrantToken::random()?;
        let entry =
            desk.admin_log_entry("grant.rotate", &grant.label, json!({"id": grant.id, "expires_at": expires_at}));
        desk.stores.grants.rotate(&grant.id, token.hash(), expires_at, entry).await?;
        print_token(&token, &grant.label, grant.id.0.as_ref(), expires_at, args.json)?;
        print_stderr("the old token has ended; a running gateway refuses it within a second");
        Ok(CommandExitCode::Success)
    })
}

/// Shows the token, this once.
fn print_token(token: &GrantToken, label: &str, id: &str, expires_at: Option<Timestamp>, json: bool) -> Result<()> {
    if json {
        return stdout_output::print_json(
            &json!({"id": id, "label": label, "token": token.reveal(), "expires_at": expires_at}),
        );
    }
    let end = expires_at.map_or_else(|| "never ends by itself".to_owned(), |end| format!("ends on {end}"));
    print_stderr(&format!(
        "grant `{}` ({id}) {end}; this is the only time its token is shown:",
        escape_for_terminal(label)
    ));
    stdout_output::print(&format!("{}\n", token.reveal()))
}

fn parse_revision(text: &str) -> Result<Revision, UsageError> {
    let unknown = |_| {
        UsageError(format!(
            "`{}` is not a revision of the protocol; there are {}",
            escape_for_terminal(text),
            revision_list()
        ))
    };
    text.parse().map_err(unknown)
}

fn parse_labels(written: &[String]) -> Result<BTreeMap<String, String>, UsageError> {
    let mut facts = BTreeMap::new();
    for fact in written {
        let (key, value) = fact
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| UsageError(format!("`{}` is not of the form KEY=VALUE", escape_for_terminal(fact))))?;
        if facts.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(UsageError(format!("the label `{}` is there twice", escape_for_terminal(key))));
        }
    }
    Ok(facts)
}
