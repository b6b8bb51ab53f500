//! `grant create` and `grant rotate`: a token is made, shown once, and kept as a hash.

use std::collections::BTreeMap;

use anyhow::Result;
use gatelodge_mcp::Revision;
use gatelodge_store::{GrantToken, NewGrant};
use jiff::Timestamp;
use serde_json::json;

use super::attach::attachment;
use super::{expiry, find};
use crate::admin_context::{self, StoreMode};
use crate::cli::{CreateArgs, RotateArgs};
use crate::config::{is_label, revisions};
use crate::exit::{Exit, Usage};
use crate::output;
use crate::report::{say, shown};

pub fn run(args: CreateArgs) -> Result<Exit> {
    if !is_label(&args.label) {
        return Err(Usage(
            "a label has 1 to 128 characters, without control characters, `file:` in front or a token in it".to_owned(),
        )
        .into());
    }
    let labels = facts(&args.labels)?;
    let minimum_revision = args.minimum_revision.as_deref().map(revision).transpose()?;
    admin_context::with_store(&args.store, StoreMode::CreateIfMissing, async |desk| {
        if desk.entries().grants.iter().any(|grant| *grant.label == *args.label) {
            return Err(admin_context::defined_in_file_error("grant", &shown(&args.label)));
        }
        let attachments = match &args.server {
            Some(server) => vec![attachment(&desk, server, args.policy.as_deref(), args.observe).await?],
            None => Vec::new(),
        };
        let now = desk.clock.now();
        let minimum_revision = minimum_revision.map(|revision| revision.to_string());
        let expires_at = expiry(&args.life, now)?;
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
        tell(&token, &args.label, id.0.as_ref(), expires_at, args.json)?;
        if args.server.is_none() {
            say(&format!(
                "it reaches nothing yet: gatelodge grant attach {} --server NAME --policy NAME",
                shown(&args.label)
            ));
        }
        Ok(Exit::Fine)
    })
}

pub fn rotate(args: RotateArgs) -> Result<Exit> {
    admin_context::with_store(&args.store, StoreMode::Existing, async |desk| {
        let grant = find(&desk, &args.name).await?;
        let expires_at = expiry(&args.life, desk.clock.now())?;
        let token = GrantToken::random()?;
        let entry =
            desk.admin_log_entry("grant.rotate", &grant.label, json!({"id": grant.id, "expires_at": expires_at}));
        desk.stores.grants.rotate(&grant.id, token.hash(), expires_at, entry).await?;
        tell(&token, &grant.label, grant.id.0.as_ref(), expires_at, args.json)?;
        say("the old token has ended; a running gateway refuses it within a second");
        Ok(Exit::Fine)
    })
}

/// Shows the token, this once.
fn tell(token: &GrantToken, label: &str, id: &str, expires_at: Option<Timestamp>, json: bool) -> Result<()> {
    if json {
        return output::json(&json!({"id": id, "label": label, "token": token.reveal(), "expires_at": expires_at}));
    }
    let end = expires_at.map_or_else(|| "never ends by itself".to_owned(), |end| format!("ends on {end}"));
    say(&format!("grant `{}` ({id}) {end}; this is the only time its token is shown:", shown(label)));
    output::print(&format!("{}\n", token.reveal()))
}

fn revision(text: &str) -> Result<Revision, Usage> {
    let unknown = |_| Usage(format!("`{}` is not a revision of the protocol; there are {}", shown(text), revisions()));
    text.parse().map_err(unknown)
}

fn facts(written: &[String]) -> Result<BTreeMap<String, String>, Usage> {
    let mut facts = BTreeMap::new();
    for fact in written {
        let (key, value) = fact
            .split_once('=')
            .filter(|(key, _)| !key.is_empty())
            .ok_or_else(|| Usage(format!("`{}` is not of the form KEY=VALUE", shown(fact))))?;
        if facts.insert(key.to_owned(), value.to_owned()).is_some() {
            return Err(Usage(format!("the label `{}` is there twice", shown(key))));
        }
    }
    Ok(facts)
}
