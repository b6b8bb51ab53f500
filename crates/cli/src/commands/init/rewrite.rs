//! The clients' entries, pointed to the gateway. Entries that were not chosen stay as they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::import::Import;
use super::plan::Grant;
use super::scan::{Finding, Scan};
use crate::client_config::{ClientProfile, EntryChange, GatewayEntry, PlannedWrite, config_snippet, entry_diff};
use crate::diagnostic_report::escape_for_terminal;

/// What will happen to the clients' files.
#[derive(Debug, Default)]
pub struct Rewrite {
    /// The files with their new texts.
    pub outputs: Vec<PlannedWrite>,
    /// What changes, for people.
    pub shown: Vec<String>,
    /// What has to be written by hand.
    pub by_hand: Vec<String>,
    /// Files that cannot be changed.
    pub findings: Vec<Finding>,
}

/// How clients reach the gateway.
pub struct Gateway<'a> {
    /// The address of a server.
    pub url: &'a dyn Fn(&str) -> String,
    /// How the bridge is started.
    pub program: &'a str,
    /// Where the tokens are.
    pub tokens: &'a Path,
}

/// Plans the changes, file by file.
pub fn rewrite(scan: &mut Scan, import: &Import, grants: &[Grant], gateway: &Gateway<'_>) -> Rewrite {
    let mut rewrite = Rewrite::default();
    let mut changes: BTreeMap<PathBuf, (&'static ClientProfile, Vec<EntryChange>)> = BTreeMap::new();
    for server in &import.servers {
        for one in server.seen.iter().filter_map(|&at| scan.seen.get(at)) {
            let (client, name) = (one.spot.client, &one.found.name);
            let granted = grants.iter().find(|grant| grant.client == client.id && grant.server == server.name);
            let Some(grant) = granted else { continue };
            let (url, token_env) = ((gateway.url)(&server.name), grant.variable.clone());
            let token_file = Some(gateway.tokens.join(&grant.label).display().to_string());
            let link =
                GatewayEntry { name: name.clone(), url, token_env, token_file, program: gateway.program.to_owned() };
            if !client.is_writable() {
                rewrite.by_hand.push(format!("# {}\n{}", one.spot.file.display(), config_snippet(client, &link)));
                continue;
            }
            let old =
                scan.files.get(&one.spot.file).and_then(|read| read.document.find_entry(&one.spot.servers_path, name));
            let entry = link.merged_entry(client, old);
            let head = format!("{}: `{}.{name}`", one.spot.file.display(), one.spot.servers_path.join("."));
            rewrite.shown.push(format!(
                "{}\n{}",
                escape_for_terminal(&head),
                entry_diff(old, &entry, &link.client_entry(client))
            ));
            let (root, input) = (one.spot.servers_path.clone(), link.vscode_input(client));
            let change =
                EntryChange { servers_path: root, name: name.clone(), entry: Some(entry), vscode_input: input };
            changes.entry(one.spot.file.clone()).or_insert((client, Vec::new())).1.push(change);
        }
    }
    for (file, (client, changes)) in changes {
        let Some(read) = scan.files.remove(&file) else { continue };
        let writable = read.held.check_writable().map_err(|trouble| trouble.0);
        match writable.and_then(|()| read.document.apply_changes(&changes)) {
            Ok(bytes) => {
                let entries = changes.iter().map(EntryChange::path).collect();
                rewrite.outputs.push(PlannedWrite {
                    snapshot: read.held,
                    new_bytes: bytes,
                    client: Some(client),
                    entries,
                });
            }
            Err(message) => rewrite.findings.push(Finding::new(file.display().to_string(), message)),
        }
    }
    rewrite
}
