//! What is there: every file of every client, and the servers in it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::client_config::{
    ClientConfigDocument, ClientConfigLocation, ClientProfile, FileSnapshot, NamedServerEntry, ServerEntry,
    UserDirectories,
};

/// A server in a file.
#[derive(Debug)]
pub struct ScannedServer {
    /// Where.
    pub location: ClientConfigLocation,
    /// What.
    pub named_entry: NamedServerEntry,
}

/// A file that could be read.
#[derive(Debug)]
pub struct ScannedFile {
    /// As it was.
    pub snapshot: FileSnapshot,
    /// What it says.
    pub document: ClientConfigDocument,
}

/// Something that could not be used, while the rest was.
#[derive(Debug, serde::Serialize)]
pub struct ClientConfigProblem {
    /// The file, or the server in it.
    pub subject: String,
    /// Why.
    pub message: String,
}

/// Everything that was found.
#[derive(Debug, Default)]
pub struct ClientScan {
    /// The servers, by client and file.
    pub servers: Vec<ScannedServer>,
    /// The files, by their paths.
    pub files: BTreeMap<PathBuf, ScannedFile>,
    /// What could not be read.
    pub problems: Vec<ClientConfigProblem>,
}

impl ClientConfigProblem {
    /// A finding about something.
    pub fn new(subject: impl Into<String>, message: impl Into<String>) -> Self {
        Self { subject: subject.into(), message: message.into() }
    }
}

impl ScannedServer {
    /// The server and its file, for people.
    pub fn description(&self) -> String {
        format!(
            "{} in {}",
            crate::diagnostic_report::escape_for_terminal(&self.named_entry.name),
            self.location.file.display()
        )
    }

    /// Whether it leads to a gateway of ours already.
    pub fn is_gateway_entry(&self, gateway: &str) -> bool {
        match &self.named_entry.entry {
            Some(ServerEntry::Remote { url, .. }) => url.starts_with(gateway),
            Some(ServerEntry::Command { argv: words, .. }) => {
                let is_ours = |program: &String| Path::new(program).file_stem().is_some_and(|name| name == "gatelodge");
                words.first().is_some_and(is_ours)
                    && words.get(1).is_some_and(|word| word == "bridge" || word == "wrap")
            }
            None => false,
        }
    }
}

impl ClientScan {
    /// What the files have for folders that were not looked for: each place, with its servers.
    pub fn other_project_servers(
        &self,
        places: &UserDirectories,
        clients: &[&'static ClientProfile],
    ) -> Vec<(ClientConfigLocation, Vec<NamedServerEntry>)> {
        let spots: Vec<ClientConfigLocation> =
            clients.iter().flat_map(|client| places.config_locations(client)).collect();
        let mut all = Vec::new();
        for spot in spots.iter().filter(|spot| spot.servers_path == spot.client.servers_path) {
            let Some(read) = self.files.get(&spot.file) else { continue };
            let is_known =
                |root: &Vec<String>| spots.iter().any(|own| own.file == spot.file && own.servers_path == *root);
            for root in read.document.servers_paths(spot.client).into_iter().filter(|root| !is_known(root)) {
                let found = read.document.servers(spot.client, &root);
                all.push((ClientConfigLocation { servers_path: root, ..spot.clone() }, found));
            }
        }
        all
    }
}

/// Looks at all files of the clients. One that cannot be read is a finding; the others go on.
pub fn scan_clients(places: &UserDirectories, clients: &[&'static ClientProfile]) -> ClientScan {
    let mut scan = ClientScan::default();
    for client in clients {
        for spot in places.config_locations(client) {
            scan_location(&mut scan, spot);
        }
    }
    scan
}

/// The same with what the files have for any folder: by default, Claude Code keeps a server for the folder it was added in.
pub fn scan_all_projects(places: &UserDirectories, clients: &[&'static ClientProfile]) -> ClientScan {
    let mut scan = scan_clients(places, clients);
    for (spot, found) in scan.other_project_servers(places, clients) {
        scan.servers
            .extend(found.into_iter().map(|found| ScannedServer { location: spot.clone(), named_entry: found }));
    }
    scan
}

fn scan_location(scan: &mut ClientScan, spot: ClientConfigLocation) {
    if !scan.files.contains_key(&spot.file) {
        let name = spot.file.display().to_string();
        if scan.problems.iter().any(|finding| finding.subject == name) {
            return;
        }
        let read = FileSnapshot::read(&spot.file).map_err(|trouble| trouble.0);
        let read = read.and_then(|held| match held.bytes() {
            Some(bytes) => ClientConfigDocument::read(spot.client.format, bytes).map(|document| Some((held, document))),
            None => Ok(None),
        });
        match read {
            Ok(Some((held, document))) => {
                drop(scan.files.insert(spot.file.clone(), ScannedFile { snapshot: held, document }))
            }
            Ok(None) => return,
            Err(message) => {
                scan.problems.push(ClientConfigProblem::new(name, message));
                return;
            }
        }
    }
    if let Some(read) = scan.files.get(&spot.file) {
        let found = read.document.servers(spot.client, &spot.servers_path);
        scan.servers
            .extend(found.into_iter().map(|found| ScannedServer { location: spot.clone(), named_entry: found }));
    }
}
