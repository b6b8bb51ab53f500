//! Collects the servers from clients' configurations and looks them up in the index.
//!
//! INVARIANT: only these parts of an entry leave this module: its name, client, file and line, whether it is disabled,
//! and a version that consists of digits and dots. The command, other arguments, URL, variables and headers do not. A
//! package name is printed only as spelled in the index.

mod package_lookup;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use gatelodge_catalogue::{IncidentMatch, PackageIndex, PackageRegistry, ToolFacts, VersionComparison};
use gatelodge_clients::{
    CLAUDE_PROJECTS_KEY, CLIENT_PROFILES, ClientConfigDocument, ClientConfigFileFormat, ClientConfigLocation,
    ClientConfigPath, ClientConfigServer, ClientProfile,
};

use super::report_relative_uri;
use crate::cli::{ServerStackArgs, StackReportFormat};
use crate::client_files::ClientFileSnapshot;
use crate::commands::connect::{home_directory, user_directories};
use crate::commands::init::client_scan::{ClientConfigProblem, ClientScan, scan_all_projects};
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use package_lookup::{ServerIdentity, look_up_package};

/// Maximum number of servers. A report on more than that would not be useful.
const MAX_SERVERS: usize = 1_000;

/// Shown instead of a client's name for a file that could belong to several clients.
const UNKNOWN_CLIENT: &str = "a file";

/// A server that one or more clients have configured.
pub struct ServerInventoryEntry {
    /// Name of the server in the configuration.
    pub name: String,
    /// Ids of the clients in whose configuration the server appears.
    pub clients: Vec<String>,
    /// Agents for which the server is enabled.
    agents: Vec<ClientProject>,
    /// Path of the file, relative to the current directory; `None` for the user's own client files and for files
    /// outside that directory.
    pub file: Option<String>,
    /// Line of the entry in the file.
    pub line: usize,
    /// Name of the package as spelled in the index; `None` if it is not indexed.
    pub package: Option<String>,
    pub source: Option<PackageRegistry>,
    /// Indexed version of the package.
    pub version: Option<String>,
    /// Description of what the entry refers to: a package, a program or a URL.
    pub kind_text: &'static str,
    /// Whether the package is only a guess, because the entry's command may run something else.
    pub is_guess: bool,
    /// Whether the entry starts the indexed version.
    pub version_match: VersionComparison,
    /// Version that the entry starts, if it differs from the indexed one and consists only of digits and dots.
    pub launched_version: Option<String>,
    /// Whether the client has disabled the server.
    pub is_disabled: bool,
    /// The server's tools; `None` if the server is not in the index.
    pub tools: Option<Vec<ToolFacts>>,
    /// Public incidents that concern the package that the entry starts.
    pub concerns: Vec<IncidentMatch>,
    /// Distinguishes the server from others with the same name. Never printed.
    identity: ServerIdentity,
}

/// An agent, identified by the client and, if the client has separate servers for each project, by the project.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ClientProject {
    client: &'static str,
    project: Option<usize>,
}

impl ClientProject {
    fn of(client: &'static str, project: Option<usize>) -> Self {
        // The same agent reads the project's file and the user's file.
        Self { client: client.strip_suffix("-project").unwrap_or(client), project }
    }

    /// Returns whether this agent also has `other`'s servers. This is the case if both have the same client, and
    /// `other` is for all projects or for the same project.
    fn includes(self, other: Self) -> bool {
        self.client == other.client && (other.project.is_none() || other.project == self.project)
    }
}

/// Returns the client and the indices of the servers for each agent.
pub fn agent_servers(entries: &[ServerInventoryEntry]) -> Vec<(&'static str, Vec<usize>)> {
    let mut agents: Vec<ClientProject> = Vec::new();
    for agent in entries.iter().flat_map(|entry| &entry.agents) {
        if !agents.contains(agent) {
            agents.push(*agent);
        }
    }
    let servers = |agent: &ClientProject| {
        let own = entries.iter().enumerate();
        own.filter(|(_, entry)| entry.agents.iter().any(|other| agent.includes(*other))).map(|(at, _)| at).collect()
    };
    agents.iter().map(|agent| (agent.client, servers(agent))).collect()
}

/// Where a server entry was found.
struct ClientConfigEntryLocation<'s> {
    /// Id of the client whose file contains the entry.
    client: &'static str,
    project: Option<usize>,
    file: Option<&'s str>,
    line: usize,
}

/// Collects all servers. Also returns messages about the files that could not be read.
pub fn collect_servers(
    args: &ServerStackArgs,
    index: &PackageIndex,
) -> Result<(Vec<ServerInventoryEntry>, Vec<String>)> {
    let client = match &args.client {
        Some(id) => Some(gatelodge_clients::find_client(id).ok_or_else(|| {
            let all: Vec<&str> =
                CLIENT_PROFILES.iter().filter(|own| !own.config_paths.is_empty()).map(|own| own.id).collect();
            UsageError(format!("there is no client `{}`; there are {}", escape_for_terminal(id), all.join(", ")))
        })?),
        None => None,
    };
    if let Some(path) = &args.file {
        return Ok((collect_from_file(path, client, wants_lines(args), index)?, Vec::new()));
    }
    let clients: Vec<&'static ClientProfile> =
        client.map_or_else(|| CLIENT_PROFILES.iter().collect(), |client| vec![client]);
    for (option, folder) in [("--home", &args.home), ("--project", &args.project)] {
        if let Some(folder) = folder.as_deref().filter(|folder| !folder.is_dir()) {
            let what = format!("there is no folder `{}` (`{option}`)", folder.display());
            return Err(UsageError(what).into());
        }
    }
    let home = home_directory(args.home.as_deref())?;
    let directories = user_directories(home.clone(), args.project.as_deref())?;
    let project = args.project.as_deref().map(std::path::absolute).transpose()?;
    let scan = scan_all_projects(&directories, &clients);
    check_count(scan.servers.len())?;
    let mut entries = Vec::new();
    let lines = if wants_lines(args) { entry_lines(&scan) } else { HashMap::new() };
    let here = project.as_ref().map(|project| project.display().to_string());
    let mut folders: Vec<&str> = here.as_deref().into_iter().collect();
    for scanned in &scan.servers {
        let location = &scanned.location;
        let own = lines.get(&(&location.file, &location.servers_path));
        let line = own.and_then(|own| own.get(&scanned.named_entry.name)).copied().unwrap_or(1);
        let is_of_project = project.as_ref().is_some_and(|project| location.file.starts_with(project));
        let file = if is_of_project { report_relative_uri::path_below_current_directory(&location.file) } else { None };
        let folder = location.project_directory().or(here.as_deref().filter(|_| is_of_project));
        let project = folder.map(|folder| project_index(folder, &mut folders));
        let source = ClientConfigEntryLocation { client: location.client.id, project, file: file.as_deref(), line };
        add_server(&mut entries, &scanned.named_entry, &source, index);
    }
    let problem_text = |own: &ClientConfigProblem| {
        let mut locations = clients.iter().flat_map(|client| directories.config_locations(client));
        let location = locations.find(|location| location.file.display().to_string() == own.subject);
        let subject = location.map(|location| {
            let path = client_file_name(&location);
            let root = if location.file == home.0.join(path) { "~/" } else { "" };
            format!("{} (`{root}{path}`)", location.client.id)
        });
        format!("{}: {}", subject.unwrap_or_else(|| "a file of a client".to_owned()), own.message)
    };
    Ok((entries, scan.problems.iter().map(problem_text).collect()))
}

/// Returns the line number of each entry by name, grouped by file and by path within the file. Parses each file only
/// once.
fn entry_lines(scan: &ClientScan) -> HashMap<(&PathBuf, &Vec<String>), HashMap<String, usize>> {
    let mut roots: HashMap<&PathBuf, Vec<&Vec<String>>> = HashMap::new();
    for ClientConfigLocation { file, servers_path: root, .. } in scan.servers.iter().map(|scanned| &scanned.location) {
        let own = roots.entry(file).or_default();
        // Entries of one path are adjacent.
        if own.last() != Some(&root) {
            own.push(root);
        }
    }
    let mut all = HashMap::new();
    for (file, own) in roots {
        let Some(read) = scan.files.get(file) else { continue };
        let whole: Vec<Vec<String>> = own.iter().map(|&root| root.clone()).collect();
        all.extend(own.into_iter().map(|root| (file, root)).zip(read.document.entry_lines(&whole)));
    }
    all
}

/// Returns the index of a project folder in `folders`. Adds the folder if it is not in the list yet.
fn project_index<'s>(folder: &'s str, folders: &mut Vec<&'s str>) -> usize {
    folders.iter().position(|known| *known == folder).unwrap_or_else(|| {
        folders.push(folder);
        folders.len() - 1
    })
}

/// Returns the path of a client's file relative to its base directory, such as the home directory. The full path must
/// not be printed.
fn client_file_name(location: &ClientConfigLocation) -> &'static str {
    let place = location.client.config_paths.iter().find(|place| location.file.ends_with(place.path));
    place.map_or("", |place| place.path)
}

/// Returns an error if there are more than [`MAX_SERVERS`] servers. Called before any of them is looked up.
fn check_count(count: usize) -> Result<()> {
    if count > MAX_SERVERS {
        let why = format!("there are more than {MAX_SERVERS} servers; report on one file or client at a time");
        return Err(ExitError(CommandExitCode::Findings, why).into());
    }
    Ok(())
}

/// Returns whether the report needs line numbers. Only SARIF reports do, and each file must be parsed again to find
/// them.
fn wants_lines(args: &ServerStackArgs) -> bool {
    args.format == Some(StackReportFormat::Sarif)
}

fn collect_from_file(
    path: &Path,
    client: Option<&'static ClientProfile>,
    lines: bool,
    index: &PackageIndex,
) -> Result<Vec<ServerInventoryEntry>> {
    if let Some(client) = client.filter(|client| client.config_paths.is_empty()) {
        return Err(UsageError(format!("`{}` has no configuration file", client.id)).into());
    }
    let file_error = |why: String| ExitError(CommandExitCode::Findings, format!("`{}`: {why}", path.display()));
    let snapshot = ClientFileSnapshot::read(path).map_err(|error| file_error(error.0))?;
    let bytes = snapshot.bytes().ok_or_else(|| UsageError(format!("there is no file `{}`", path.display())))?;
    if bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii().is_empty() {
        return Err(file_error("it is empty".to_owned()).into());
    }
    let file = report_relative_uri::report_path(path);
    let readers = candidate_clients(client, path);
    let documents = parse_documents(&readers, bytes);
    if documents.values().flatten().any(ClientConfigDocument::is_empty) {
        return Ok(Vec::new());
    }
    let (mut entries, mut count) = (Vec::new(), 0);
    let mut known: HashSet<Vec<String>> = HashSet::new();
    for (own, is_named) in &readers {
        let Some(Ok(document)) = documents.get(&own.format) else { continue };
        let mut roots = document.servers_paths(own);
        roots.retain(|root| !known.contains(root));
        let found: Vec<Vec<ClientConfigServer>> = roots.iter().map(|root| document.servers(own, root)).collect();
        count += found.iter().map(Vec::len).sum::<usize>();
        check_count(count)?;
        let all = if lines { document.entry_lines(&roots) } else { vec![HashMap::new(); roots.len()] };
        let is_unique = readers.iter().all(|(other, _)| own.id == other.id || !has_same_location(own, other));
        let is_known = *is_named || is_unique || roots.iter().any(|root| is_project_root(root));
        let client = if is_known { own.id } else { UNKNOWN_CLIENT };
        for ((root, found), lines) in roots.into_iter().zip(found).zip(all) {
            let project = is_project_root(&root).then_some(known.len());
            for mut found in found {
                found.is_disabled &= is_known;
                let line = lines.get(&found.name).copied().unwrap_or(1);
                add_server(
                    &mut entries,
                    &found,
                    &ClientConfigEntryLocation { client, project, file: Some(&file), line },
                    index,
                );
            }
            known.insert(root);
        }
    }
    let is_read = documents.values().any(Result::is_ok);
    match documents.into_values().find_map(Result::err) {
        _ if !known.is_empty() => Ok(entries),
        Some(why) if !is_read => Err(file_error(why).into()),
        _ => match client {
            Some(client) => {
                find_misplaced_servers(client, bytes).map_or(Ok(entries), |why| Err(file_error(why).into()))
            }
            None => Err(file_error(
                "it does not have the format of a known client; name the client with `--client`".to_owned(),
            )
            .into()),
        },
    }
}

/// Returns whether a path within a file belongs to a Claude Code project. No other client lists projects in its file.
fn is_project_root(root: &[String]) -> bool {
    root.first().map(String::as_str) == Some(CLAUDE_PROJECTS_KEY)
}

/// Returns an error message if the file has no servers in the section that the named client uses, but has some in a
/// section that another client uses.
fn find_misplaced_servers(client: &ClientProfile, bytes: &[u8]) -> Option<String> {
    let all: Vec<(&ClientProfile, bool)> =
        CLIENT_PROFILES.iter().filter(|own| !own.config_paths.is_empty()).map(|own| (own, false)).collect();
    let documents = parse_documents(&all, bytes);
    // Requires an entry, because a member with the right name alone may be some other setting.
    let has_some = |own: &ClientProfile| {
        let Some(Ok(document)) = documents.get(&own.format) else { return false };
        let roots = document.servers_paths(own);
        roots.iter().flat_map(|root| document.servers(own, root)).any(|found| found.entry.is_some())
    };
    let mut others = all.iter().filter(|(own, _)| has_some(own)).map(|(own, _)| own.id);
    let first = others.next()?;
    let owner = if others.next().is_some() { format!("{first} and others have") } else { format!("{first} has") };
    Some(format!("its servers are not where {} has them, but where {owner} them; name another `--client`", client.id))
}

/// Parses a file once in each format that the given clients use.
fn parse_documents(
    readers: &[(&ClientProfile, bool)],
    bytes: &[u8],
) -> BTreeMap<ClientConfigFileFormat, Result<ClientConfigDocument, String>> {
    let formats: BTreeSet<ClientConfigFileFormat> = readers.iter().map(|(own, _)| own.format).collect();
    formats.into_iter().map(|format| (format, ClientConfigDocument::read(format, bytes))).collect()
}

/// Returns the clients to which a file may belong, and for each of them whether it uses a file of this name. The caller
/// can usually identify the client by the section of the file that contains the servers, but several clients may use
/// the same section.
fn candidate_clients(client: Option<&'static ClientProfile>, path: &Path) -> Vec<(&'static ClientProfile, bool)> {
    if let Some(client) = client {
        return vec![(client, true)];
    }
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let is_named = |own: &ClientProfile| {
        own.config_paths.iter().any(|place| whole.ends_with(place.path) || is_unique_file_name(own, place, &whole))
    };
    let fitting =
        CLIENT_PROFILES.iter().filter(|own| !own.config_paths.is_empty() && has_matching_extension(own, path));
    let mut readers: Vec<_> = fitting.map(|own| (own, is_named(own))).collect();
    readers.sort_by_key(|(_, is_named)| !is_named);
    readers
}

/// Returns whether the file has a name that only this client uses, regardless of the folder.
fn is_unique_file_name(client: &ClientProfile, place: &ClientConfigPath, path: &Path) -> bool {
    let last = |place: &ClientConfigPath| place.path.rsplit('/').next().unwrap_or_default();
    let mut others = CLIENT_PROFILES.iter().filter(|other| other.id != client.id).flat_map(|other| other.config_paths);
    path.ends_with(last(place)) && others.all(|other| last(other) != last(place))
}

/// Returns whether two clients use the same file format and list their servers at the same path in the file.
fn has_same_location(one: &ClientProfile, other: &ClientProfile) -> bool {
    one.format == other.format && one.servers_path == other.servers_path
}

/// Returns whether the file's extension is one that the client uses, or is missing.
fn has_matching_extension(client: &ClientProfile, path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    client.config_paths.iter().any(|place| {
        let own = place.path.rsplit('.').next().unwrap_or_default();
        own == extension || matches!((own, extension), ("json", "jsonc") | ("jsonc", "json") | ("yaml", "yml"))
    }) || extension.is_empty()
}

/// Adds a server. Servers with the same name and identity are merged, and the ids of all their clients are kept.
fn add_server(
    entries: &mut Vec<ServerInventoryEntry>,
    found: &ClientConfigServer,
    source: &ClientConfigEntryLocation<'_>,
    index: &PackageIndex,
) {
    let known = look_up_package(found, index);
    let (name, client) = (escape_for_terminal(&found.name), source.client);
    let agent = (!found.is_disabled).then(|| ClientProject::of(source.client, source.project));
    let is_same = |own: &&mut ServerInventoryEntry| {
        own.name == name
            && own.is_disabled == found.is_disabled
            && own.kind_text == known.kind_text
            && own.identity == known.identity
    };
    if let Some(own) = entries.iter_mut().find(is_same) {
        if !own.clients.iter().any(|known| known == client) {
            own.clients.push(client.to_owned());
        }
        own.agents.extend(agent.filter(|agent| !own.agents.contains(agent)));
        return;
    }
    entries.push(ServerInventoryEntry {
        name,
        clients: vec![client.to_owned()],
        agents: agent.into_iter().collect(),
        file: source.file.map(str::to_owned),
        line: source.line,
        package: known.server.map(|server| escape_for_terminal(server.package())),
        source: known.server.map(|server| server.source()),
        version: known.server.map(|server| escape_for_terminal(server.version())),
        kind_text: known.kind_text,
        is_guess: known.is_guess,
        version_match: known.version_match,
        launched_version: known.launched_version,
        is_disabled: found.is_disabled,
        tools: known.server.map(|server| server.facts().tools),
        concerns: known.concerns,
        identity: known.identity,
    });
}
