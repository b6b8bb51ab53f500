//! `grant list` and `grant show`: print the grants in the configuration file and in the store.

use std::collections::BTreeMap;

use anyhow::Result;
use gatelodge_gateway::GrantConfig;
use gatelodge_store::{Grant, GrantServerAttachment, StoreError};
use jiff::Timestamp;
use serde::Serialize;

use super::attachment_text;
use crate::cli::{ListArgs, NamedItemArgs};
use crate::commands::server::source_text;
use crate::commands::time_text::local_time;
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::CommandExitCode;
use crate::stdout_output;
use crate::store_command_context::{self, StoreCommandContext, StoreCreationMode};

/// The printed fields of a grant. The token hash is left out: it is not secret, but of no use to readers.
#[derive(Debug, Serialize)]
pub struct GrantView {
    id: String,
    pub label: String,
    labels: BTreeMap<String, String>,
    pub attachments: Vec<GrantServerAttachment>,
    pub state: &'static str,
    #[serde(rename = "from")]
    source: &'static str,
    created_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    minimum_revision: Option<String>,
    revoked_at: Option<Timestamp>,
}

pub fn run(args: ListArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let none = "there are no grants; create one with `gatelodge grant create LABEL --server NAME --policy NAME`";
        stdout_output::print_list(&all_grants(&ctx).await?, args.json, none, grant_rows)?;
        Ok(CommandExitCode::Success)
    })
}

pub fn show(args: NamedItemArgs) -> Result<CommandExitCode> {
    store_command_context::with_store(&args.store, StoreCreationMode::Existing, async |ctx| {
        let is_named = |grant: &GrantView| grant.label == args.name || grant.id == args.name;
        // A live grant takes precedence over a revoked one with the same label.
        let found = all_grants(&ctx).await?.into_iter().filter(is_named).max_by_key(|grant| grant.state != "revoked");
        let grant =
            found.ok_or_else(|| StoreError::NotFound(format!("grant `{}`", escape_for_terminal(&args.name))))?;
        if args.json {
            stdout_output::print_json(&grant)?;
        } else {
            stdout_output::print(&grant_text(&grant))?;
        }
        Ok(CommandExitCode::Success)
    })
}

/// Returns all grants, starting with those defined in the configuration file.
pub async fn all_grants(ctx: &StoreCommandContext) -> Result<Vec<GrantView>> {
    let now = ctx.clock.now();
    let mut all: Vec<GrantView> =
        ctx.config_entries().grants.iter().map(|grant| view_of_configured(grant, now)).collect();
    all.extend(ctx.stores.grants.list().await?.into_iter().map(|grant| view_of_stored(grant, now)));
    Ok(all)
}

fn view_of_configured(grant: &GrantConfig, now: Timestamp) -> GrantView {
    let attachments = grant.servers.iter().map(|(server, access)| GrantServerAttachment {
        server: server.clone(),
        policy: access.policy.as_ref().map(|policy| policy.name.clone()),
        mode: access.mode,
    });
    let mut attachments: Vec<GrantServerAttachment> = attachments.collect();
    attachments.sort_by(|one, other| one.server.cmp(&other.server));
    GrantView {
        id: grant.id.to_string(),
        label: grant.label.to_string(),
        labels: grant.labels.clone(),
        attachments,
        state: grant_state(None, grant.expires, now),
        source: "file",
        created_at: None,
        expires_at: grant.expires,
        minimum_revision: grant.minimum_revision.map(|revision| revision.to_string()),
        revoked_at: None,
    }
}

fn view_of_stored(grant: Grant, now: Timestamp) -> GrantView {
    GrantView {
        id: grant.id.to_string(),
        label: grant.label,
        labels: grant.labels,
        attachments: grant.attachments,
        state: grant_state(grant.revoked_at, grant.expires_at, now),
        source: "store",
        created_at: Some(grant.created_at),
        expires_at: grant.expires_at,
        minimum_revision: grant.minimum_revision,
        revoked_at: grant.revoked_at,
    }
}

fn grant_state(revoked_at: Option<Timestamp>, expires_at: Option<Timestamp>, now: Timestamp) -> &'static str {
    match (revoked_at, expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(end)) if end <= now => "expired",
        (None, _) => "live",
    }
}

/// Returns one table row for each server of a grant. Only the first row contains the grant's label.
fn grant_rows(grant: &GrantView) -> Vec<Vec<String>> {
    let first = [escape_for_terminal(&grant.label), grant.state.to_owned(), grant.source.to_owned()];
    let mut servers = grant.attachments.iter().map(attachment_text);
    let first_server = servers.next().unwrap_or_else(|| "no servers".to_owned());
    let mut rows = vec![first.into_iter().chain([first_server]).collect::<Vec<_>>()];
    rows.extend(servers.map(|words| vec![String::new(), String::new(), String::new(), words]));
    rows
}

fn grant_text(grant: &GrantView) -> String {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        row("label", escape_for_terminal(&grant.label)),
        row("id", grant.id.clone()),
        row("state", grant.state.to_owned()),
    ];
    rows.extend(grant.attachments.iter().map(|attachment| row("reaches", attachment_text(attachment))));
    rows.extend(grant.labels.iter().map(|(key, value)| row("labels", escape_for_terminal(&format!("{key}={value}")))));
    rows.extend(
        grant
            .minimum_revision
            .iter()
            .map(|revision| row("protocol", format!("revision {} or newer", escape_for_terminal(revision)))),
    );
    let moments = [("created", grant.created_at), ("expires", grant.expires_at), ("revoked", grant.revoked_at)];
    rows.extend(moments.iter().filter_map(|(name, at)| at.map(|at| row(name, local_time(at)))));
    rows.push(row("defined in", source_text(grant.source).to_owned()));
    stdout_output::format_table(&rows)
}
