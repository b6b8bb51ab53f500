//! `grant list` and `grant show`.

use std::collections::BTreeMap;

use anyhow::Result;
use gatelodge_gateway::GrantConfig;
use gatelodge_store::{Grant, GrantAttachment, StoreError};
use jiff::Timestamp;
use serde::Serialize;

use super::attachment_text;
use crate::admin_context::{self, AdminContext, StoreMode};
use crate::cli::{ListArgs, NamedItemArgs};
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::CommandExitCode;
use crate::stdout_output;

/// A grant as it is told. The hash of its token is no secret, but nobody needs it.
#[derive(Debug, Serialize)]
pub struct GrantView {
    id: String,
    pub label: String,
    labels: BTreeMap<String, String>,
    pub attachments: Vec<GrantAttachment>,
    pub state: &'static str,
    #[serde(rename = "from")]
    source: &'static str,
    created_at: Option<Timestamp>,
    expires_at: Option<Timestamp>,
    minimum_revision: Option<String>,
    revoked_at: Option<Timestamp>,
}

pub fn run(args: ListArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let none = "there are no grants; make one with `gatelodge grant create LABEL --server NAME --policy NAME`";
        stdout_output::print_list(&all_grants(&desk).await?, args.json, none, grant_rows)?;
        Ok(CommandExitCode::Success)
    })
}

pub fn show(args: NamedItemArgs) -> Result<CommandExitCode> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let is_it = |told: &GrantView| told.label == args.name || told.id == args.name;
        // Of an ended grant and a living one of the same label the living one is meant.
        let found = all_grants(&desk).await?.into_iter().filter(is_it).max_by_key(|told| told.state != "revoked");
        let told = found.ok_or_else(|| StoreError::NotFound(format!("grant `{}`", escape_for_terminal(&args.name))))?;
        if args.json {
            stdout_output::print_json(&told)?;
        } else {
            stdout_output::print(&grant_text(&told))?;
        }
        Ok(CommandExitCode::Success)
    })
}

/// All grants: those of the file first.
pub async fn all_grants(desk: &AdminContext) -> Result<Vec<GrantView>> {
    let now = desk.clock.now();
    let mut all: Vec<GrantView> =
        desk.config_entries().grants.iter().map(|grant| view_of_configured(grant, now)).collect();
    all.extend(desk.stores.grants.list().await?.into_iter().map(|grant| view_of_stored(grant, now)));
    Ok(all)
}

fn view_of_configured(grant: &GrantConfig, now: Timestamp) -> GrantView {
    let attachments = grant.servers.iter().map(|(server, door)| GrantAttachment {
        server: server.clone(),
        policy: door.policy.as_ref().map(|policy| policy.name.clone()),
        mode: door.mode,
    });
    let mut attachments: Vec<GrantAttachment> = attachments.collect();
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

/// One row for each server, the label only in the first.
fn grant_rows(told: &GrantView) -> Vec<Vec<String>> {
    let first = [escape_for_terminal(&told.label), told.state.to_owned(), told.source.to_owned()];
    let mut reached = told.attachments.iter().map(attachment_text);
    let head = reached.next().unwrap_or_else(|| "reaches nothing".to_owned());
    let mut rows = vec![first.into_iter().chain([head]).collect::<Vec<_>>()];
    rows.extend(reached.map(|words| vec![String::new(), String::new(), String::new(), words]));
    rows
}

fn grant_text(told: &GrantView) -> String {
    let row = |name: &str, value: String| vec![name.to_owned(), value];
    let mut rows = vec![
        row("label", escape_for_terminal(&told.label)),
        row("id", told.id.clone()),
        row("state", told.state.to_owned()),
    ];
    rows.extend(told.attachments.iter().map(|attachment| row("reaches", attachment_text(attachment))));
    rows.extend(told.labels.iter().map(|(key, value)| row("labels", escape_for_terminal(&format!("{key}={value}")))));
    rows.extend(
        told.minimum_revision
            .iter()
            .map(|revision| row("speaks", format!("{} or newer", escape_for_terminal(revision)))),
    );
    let moments = [("created", told.created_at), ("expires", told.expires_at), ("revoked", told.revoked_at)];
    rows.extend(moments.iter().filter_map(|(name, at)| at.map(|at| row(name, at.to_string()))));
    rows.push(row("from", told.source.to_owned()));
    stdout_output::format_table(&rows)
}
