//! The clients' entries, pointed to the gateway. Entries that were not chosen stay as they are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::client_scan::{ClientConfigProblem, ClientScan};
use super::import_servers::ServerImport;
use super::init_plan::PlannedGrant;
use crate::client_config::{ClientProfile, EntryChange, GatewayEntry, PlannedWrite, config_snippet, entry_diff};
use crate::diagnostic_report::escape_for_terminal;

/// What will happen to the clients' files.
#[derive(Debug, Default)]
pub struct ClientRewrite {
    /// The files with their new texts.
    pub writes: Vec<PlannedWrite>,
    /// What changes, for people.
    pub diffs: Vec<String>,
    /// What has to be written by hand.
    pub manual_changes: Vec<String>,
    /// Files that cannot be changed.
    pub problems: Vec<ClientConfigProblem>,
}

/// How clients reach the gateway.
pub struct GatewayAccess<'a> {
    /// The address of a server.
    pub url: &'a dyn Fn(&str) -> String,
    /// How the bridge is started.
    pub program: &'a str,
    /// Where the tokens are.
    pub token_directory: &'a Path,
}

/// Plans the changes, file by file.
pub fn plan_rewrite(
    scan: &mut ClientScan,
    import: &ServerImport,
    grants: &[PlannedGrant],
    gateway: &GatewayAccess<'_>,
) -> ClientRewrite {
    let mut rewrite = ClientRewrite::default();
    let mut changes: BTreeMap<PathBuf, (&'static ClientProfile, Vec<EntryChange>)> = BTreeMap::new();
    for server in &import.servers {
        for one in server.scanned_indices.iter().filter_map(|&at| scan.servers.get(at)) {
            let (client, name) = (one.location.client, &one.named_entry.name);
            let granted = grants.iter().find(|grant| grant.client == client.id && grant.server == server.name);
            let Some(grant) = granted else { continue };
            let (url, token_env) = ((gateway.url)(&server.name), grant.variable.clone());
            let token_file = Some(gateway.token_directory.join(&grant.label).display().to_string());
            let link =
                GatewayEntry { name: name.clone(), url, token_env, token_file, program: gateway.program.to_owned() };
            if !client.is_writable() {
                rewrite.manual_changes.push(format!(
                    "# {}\n{}",
                    one.location.file.display(),
                    config_snippet(client, &link)
                ));
                continue;
            }
            let old = scan
                .files
                .get(&one.location.file)
                .and_then(|read| read.document.find_entry(&one.location.servers_path, name));
            let entry = link.merged_entry(client, old);
            let head = format!("{}: `{}.{name}`", one.location.file.display(), one.location.servers_path.join("."));
            rewrite.diffs.push(format!(
                "{}\n{}",
                escape_for_terminal(&head),
                entry_diff(old, &entry, &link.client_entry(client))
            ));
            let (root, input) = (one.location.servers_path.clone(), link.vscode_input(client));
            let change =
                EntryChange { servers_path: root, name: name.clone(), entry: Some(entry), vscode_input: input };
            changes.entry(one.location.file.clone()).or_insert((client, Vec::new())).1.push(change);
        }
    }
    for (file, (client, changes)) in changes {
        let Some(read) = scan.files.remove(&file) else { continue };
        let writable = read.snapshot.check_writable().map_err(|trouble| trouble.0);
        match writable.and_then(|()| read.document.apply_changes(&changes)) {
            Ok(bytes) => {
                let entries = changes.iter().map(EntryChange::path).collect();
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
