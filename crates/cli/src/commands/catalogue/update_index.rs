//! `catalogue update`: installs a new package index and records the changes in the change feed.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use gatelodge_admin::server_url;
use gatelodge_catalogue::{IndexMetadata, PackageIndex, index_hash};
use serde_json::json;

use super::index_access;
use super::index_change_feed::{self, FeedUpdateSummary};
use crate::cli::UpdateIndexArgs;
use crate::diagnostic_report::{count_noun, print_stderr};
use crate::exit_code::{CommandExitCode, ExitError, UnreachableError, UsageError};
use crate::{file_output, mcp_client, stdout_output, store_command_context};

/// Time limit for downloading the index; long enough for eight megabytes over a slow connection.
const DOWNLOAD_TIMEOUT: Duration = Duration::from_secs(600);
/// A new index must have at least the old index's number of servers divided by this number. A smaller index is more
/// likely a mistake than an update.
const MIN_SIZE_DIVISOR: usize = 2;

pub fn run(args: &UpdateIndexArgs) -> Result<CommandExitCode> {
    let (index_path, log) = index_access::index_paths(&args.store)?;
    let (name, bytes) = match &args.from {
        Some(from) => {
            (format!("`{}`", server_url::redact_url(from)), load_index_bytes(from, Duration::from_secs(args.timeout))?)
        }
        None => ("the built-in index".to_owned(), PackageIndex::built_in().to_vec()),
    };
    let refused =
        |why: String| ExitError(CommandExitCode::Findings, format!("{name} {why}; the old index stays in use"));
    let new = PackageIndex::open(&bytes).map_err(|error| refused(format!("cannot be used: {error}")))?;
    if let Some(folder) = index_path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create `{}`", folder.display()))?;
    }
    // Held until the end: of two concurrent updates, the second compares with the index that the first installed.
    let lock = index_path.with_extension("lock");
    let held = File::create(&lock).and_then(|file| file.lock().map(|()| file));
    let _held = held.with_context(|| format!("cannot lock `{}`", lock.display()))?;
    // Cleans up after a killed update: publishes the changes of the installed index and removes other staged files.
    index_access::publish_staged_changes(&index_path, &log);
    index_change_feed::remove_stale_files(&index_path, &log);
    // An unreadable installed index must not block the update that repairs it; compare with the built-in one instead.
    let old = index_access::open_installed_quietly(&args.store)
        .or_else(|_| PackageIndex::open(PackageIndex::built_in()).map_err(anyhow::Error::from))?;
    let (before, after) = (old.metadata(), new.metadata());
    if let Some(why) = rejection_reason(before, after, args) {
        return Err(refused(why).into());
    }
    // INVARIANT: changes are staged before the index is installed and published after it. If the process is killed at
    // any point, they are published exactly once, and only if their index is installed.
    let hash = index_hash(&bytes);
    let kept = index_change_feed::stage_changes(&log, &after.date, &old, &new, &hash)?;
    file_output::replace_file(&index_path, &bytes)?;
    index_change_feed::publish_staged(&log, &hash).with_context(|| format!("cannot write `{}`", log.display()))?;
    match args.json {
        true => {
            let summary = json!({"date": after.date, "servers": after.servers, "tools": after.tools, "changes": kept.changes,
                "feed": kept, "before": {"date": before.date, "servers": before.servers, "tools": before.tools}});
            stdout_output::print_json(&summary)?;
        }
        false => print_stderr(&update_summary(before, after, &kept)),
    }
    Ok(CommandExitCode::Success)
}

/// Returns a message with all reasons for rejecting the new index and the options that override them, or `None` if the
/// index is accepted.
fn rejection_reason(before: &IndexMetadata, after: &IndexMetadata, args: &UpdateIndexArgs) -> Option<String> {
    let (mut why, mut options) = (Vec::new(), Vec::new());
    if after.date < before.date && !args.allow_older {
        why.push(format!("is from {}, and the one in use from {}", after.date, before.date));
        options.push("`--allow-older`");
    }
    let is_small = after.servers == 0 || after.servers < before.servers.div_ceil(MIN_SIZE_DIVISOR);
    if is_small && !args.allow_smaller {
        why.push(format!("has {}, and the one in use {}", count_noun(after.servers, "server"), before.servers));
        options.push("`--allow-smaller`");
    }
    let allow = if options.len() > 1 { "allow" } else { "allows" };
    (!why.is_empty()).then(|| format!("{}; {} {allow} it", why.join("; it "), options.join(" and ")))
}

fn update_summary(before: &IndexMetadata, after: &IndexMetadata, kept: &FeedUpdateSummary) -> String {
    let mut text = format!(
        "installed index: {} and {} from {}, before {} and {} from {}; {} changed",
        count_noun(after.servers, "server"),
        count_noun(after.tools, "tool"),
        after.date,
        before.servers,
        before.tools,
        before.date,
        count_noun(kept.changes, "tool"),
    );
    if kept.counted + kept.left_out > 0 {
        text.push_str(&format!(
            " on {}: {} listed one by one, {} counted by server",
            count_noun(kept.servers, "server"),
            kept.listed,
            kept.counted
        ));
    }
    if kept.left_out > 0 {
        text.push_str(&format!(", {} left out", kept.left_out));
    }
    if kept.dropped > 0 {
        text.push_str(&format!("; dropped the oldest {}", count_noun(kept.dropped, "event")));
    }
    text
}

fn load_index_bytes(from: &str, silence: Duration) -> Result<Vec<u8>> {
    if !from.contains("://") {
        let read = index_access::read_index_file(Path::new(from));
        return read
            .map_err(|error| UsageError(format!("cannot read `{}`: {error}", server_url::redact_url(from))).into());
    }
    let url = server_url::parse_server_url(from).map_err(|error| {
        UsageError(format!("`{}`: {}; {}", server_url::redact_url(from), error.message(), error.help()))
    })?;
    store_command_context::block_on(async {
        let file = mcp_client::download_bytes(url, DOWNLOAD_TIMEOUT, silence, PackageIndex::MAX_FILE_BYTES).await;
        let file = file
            .map_err(|error| UnreachableError(format!("cannot fetch the index: {error}; the old one stays in use")))?;
        Ok(file.to_vec())
    })
}
