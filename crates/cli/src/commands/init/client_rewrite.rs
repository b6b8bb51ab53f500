//! Plans the changes that make the clients' server entries point to the gateway. Entries that the user did not choose
//! stay unchanged.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gatelodge_clients::{ClientConfigEntryChange, ClientProfile, GatewayEntry, config_snippet};

use super::client_scan::{ClientConfigProblem, ClientScan};
use super::import_servers::ServerImport;
use super::init_plan::PlannedGrant;
use crate::client_config_redaction::entry_diff;
use crate::client_files::PlannedWrite;
use crate::diagnostic_report::escape_for_terminal;

/// Planned changes to the clients' files.
#[derive(Debug, Default)]
pub struct ClientRewrite {
    /// Files to write, with their new content.
    pub writes: Vec<PlannedWrite>,
    /// Diffs of the changed files, for printing.
    pub diffs: Vec<String>,
    /// Entries that the user has to add to files by hand.
    pub manual_changes: Vec<String>,
    /// Files that cannot be written.
    pub problems: Vec<ClientConfigProblem>,
}

/// What clients need to connect to the gateway.
pub struct ClientConnectionSettings<'a> {
    /// Function that returns the gateway's URL for the server with the given name.
    pub url: &'a dyn Fn(&str) -> String,
    /// Path of the `gatelodge` program, which clients start as the bridge.
    pub program: &'a str,
    /// Directory that contains the token files.
    pub token_directory: &'a Path,
}

/// Plans the changes to each client file.
pub fn plan_rewrite(
    scan: &mut ClientScan,
    import: &ServerImport,
    grants: &[PlannedGrant],
    gateway: &ClientConnectionSettings<'_>,
) -> ClientRewrite {
    let mut rewrite = ClientRewrite::default();
    let mut changes: BTreeMap<PathBuf, (&'static ClientProfile, Vec<ClientConfigEntryChange>)> = BTreeMap::new();
    for server in &import.servers {
        for scanned in server.scanned_indices.iter().filter_map(|&at| scan.servers.get(at)) {
            let (client, name) = (scanned.location.client, &scanned.named_entry.name);
            let grant = grants.iter().find(|grant| grant.client == client.id && grant.server == server.name);
            let Some(grant) = grant else { continue };
            let (url, token_env) = ((gateway.url)(&server.name), grant.variable.clone());
            let token_file = Some(gateway.token_directory.join(&grant.label).display().to_string());
            let gateway_entry =
                GatewayEntry { name: name.clone(), url, token_env, token_file, program: gateway.program.to_owned() };
            if !client.is_writable() {
                rewrite.manual_changes.push(format!(
                    "# {}\n{}",
                    scanned.location.file.display(),
                    config_snippet(client, &gateway_entry)
                ));
                continue;
            }
            let old = scan
                .files
                .get(&scanned.location.file)
                .and_then(|read| read.document.find_entry(&scanned.location.servers_path, name));
            let entry = gateway_entry.merged_entry(client, old);
            let head =
                format!("{}: `{}.{name}`", scanned.location.file.display(), scanned.location.servers_path.join("."));
            rewrite.diffs.push(format!(
                "{}\n{}",
                escape_for_terminal(&head),
                entry_diff(old, &entry, &gateway_entry.client_entry(client))
            ));
            let (root, input) = (scanned.location.servers_path.clone(), gateway_entry.vscode_input(client));
            let change = ClientConfigEntryChange {
                servers_path: root,
                name: name.clone(),
                entry: Some(entry),
                vscode_input: input,
            };
            changes.entry(scanned.location.file.clone()).or_insert((client, Vec::new())).1.push(change);
        }
    }
    for (file, (client, changes)) in changes {
        let Some(read) = scan.files.remove(&file) else { continue };
        let writable = read.snapshot.check_writable().map_err(|error| error.0);
        match writable.and_then(|()| read.document.apply_changes(&changes)) {
            Ok(bytes) => {
                let entries = changes.iter().map(ClientConfigEntryChange::path).collect();
                rewrite.writes.push(PlannedWrite {
                    snapshot: read.snapshot,
                    new_bytes: bytes,
                    client: Some(client),
                    entries,
                });
            }
            Err(message) => rewrite.problems.push(ClientConfigProblem::new(file.display().to_string(), message)),
        }
    }
    rewrite
}
