//! Reads all clients' configuration files and lists the servers in them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use gatelodge_clients::{
    ClientConfigDocument, ClientConfigLocation, ClientConfigServer, ClientProfile, ClientServerEntry, UserDirectories,
};

use crate::client_files::ClientFileSnapshot;

/// A server entry in a client's file.
#[derive(Debug)]
pub struct ClientScanEntry {
    /// The client's file, and where in it the servers are listed.
    pub location: ClientConfigLocation,
    /// Name and content of the entry.
    pub named_entry: ClientConfigServer,
}

/// A client's file that has been read and parsed.
#[derive(Debug)]
pub struct ClientScanFile {
    /// Content of the file at the time of the scan.
    pub snapshot: ClientFileSnapshot,
    /// Parsed content of the file.
    pub document: ClientConfigDocument,
}

/// Describes why a client's file, or an entry in it, was skipped.
#[derive(Debug, serde::Serialize)]
pub struct ClientConfigProblem {
    /// The file or server entry that has the problem.
    pub subject: String,
    /// Why the file or entry was skipped.
    pub message: String,
}

/// Result of scanning the clients' files.
#[derive(Debug, Default)]
pub struct ClientScan {
    /// The servers that were found, ordered by client and file.
    pub servers: Vec<ClientScanEntry>,
    /// Files that were read, by path.
    pub files: BTreeMap<PathBuf, ClientScanFile>,
    /// Files that could not be read.
    pub problems: Vec<ClientConfigProblem>,
}

impl ClientConfigProblem {
    /// Creates a problem with the given subject and message.
    pub fn new(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { subject: subject.into(), message: message.into() }
    }
}

impl ClientScanEntry {
    /// Describes the server by its name and file.
    pub fn description(&self) -> String {
        format!(
            "{} in {}",
            crate::diagnostic_report::escape_for_terminal(&self.named_entry.name),
            self.location.file.display()
        )
    }

    /// Returns whether the entry already points to the gateway, or runs `gatelodge bridge` or `gatelodge wrap`.
    pub fn is_gateway_entry(&self, gateway: &str) -> bool {
        match &self.named_entry.entry {
            Some(ClientServerEntry::Remote { url, .. }) => url.starts_with(gateway),
            Some(ClientServerEntry::Command { argv: words, .. }) => {
                let is_gatelodge =
                    |program: &String| Path::new(program).file_stem().is_some_and(|name| name == "gatelodge");
                words.first().is_some_and(is_gatelodge)
                    && words.get(1).is_some_and(|word| word == "bridge" || word == "wrap")
            }
            None => false,
        }
    }
}

impl ClientScan {
    /// Returns the servers that the scanned files define for projects other than the current one, grouped by their
    /// location.
    pub fn other_project_servers(
        &self,
        directories: &UserDirectories,
        clients: &[&'static ClientProfile],
    ) -> Vec<(ClientConfigLocation, Vec<ClientConfigServer>)> {
        let locations: Vec<ClientConfigLocation> =
            clients.iter().flat_map(|client| directories.config_locations(client)).collect();
        let mut all = Vec::new();
        for location in locations.iter().filter(|location| location.servers_path == location.client.servers_path) {
            let Some(read) = self.files.get(&location.file) else { continue };
            let is_known =
                |root: &Vec<String>| locations.iter().any(|own| own.file == location.file && own.servers_path == *root);
            for root in read.document.servers_paths(location.client).into_iter().filter(|root| !is_known(root)) {
                let found = read.document.servers(location.client, &root);
                all.push((ClientConfigLocation { servers_path: root, ..location.clone() }, found));
            }
        }
        all
    }
}

/// Scans all files of the given clients. A file that cannot be read is recorded as a problem.
pub fn scan_clients(directories: &UserDirectories, clients: &[&'static ClientProfile]) -> ClientScan {
    let mut scan = ClientScan::default();
    for client in clients {
        for location in directories.config_locations(client) {
            scan_location(&mut scan, location);
        }
    }
    scan
}

/// Like [`scan_clients`], but also includes servers that are defined for other projects. For example, Claude Code by
/// default stores a server under the project folder in which the user added it.
pub fn scan_all_projects(directories: &UserDirectories, clients: &[&'static ClientProfile]) -> ClientScan {
    let mut scan = scan_clients(directories, clients);
    for (location, found) in scan.other_project_servers(directories, clients) {
        scan.servers
            .extend(found.into_iter().map(|found| ClientScanEntry { location: location.clone(), named_entry: found }));
    }
    scan
}

fn scan_location(scan: &mut ClientScan, location: ClientConfigLocation) {
    if !scan.files.contains_key(&location.file) {
        let name = location.file.display().to_string();
        if scan.problems.iter().any(|problem| problem.subject == name) {
            return;
        }
        let read = ClientFileSnapshot::read(&location.file).map_err(|error| error.0);
        let read = read.and_then(|snapshot| match snapshot.bytes() {
            Some(bytes) => {
                ClientConfigDocument::read(location.client.format, bytes).map(|document| Some((snapshot, document)))
            }
            None => Ok(None),
        });
        match read {
            Ok(Some((snapshot, document))) => {
                drop(scan.files.insert(location.file.clone(), ClientScanFile { snapshot, document }))
            }
            Ok(None) => return,
            Err(message) => {
                scan.problems.push(ClientConfigProblem::new(name, message));
                return;
            }
        }
    }
    if let Some(read) = scan.files.get(&location.file) {
        let found = read.document.servers(location.client, &location.servers_path);
        scan.servers
            .extend(found.into_iter().map(|found| ClientScanEntry { location: location.clone(), named_entry: found }));
    }
}
