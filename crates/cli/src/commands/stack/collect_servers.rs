//! The servers of clients' configurations, with what the index knows of them.
//!
//! INVARIANT: of an entry its name leaves this file, its client, its file and line, whether it is switched off, and a
//! version that is plain numbers: not its command, other arguments, address, variables or headers. A package is named only
//! as the index spells it.

mod package_lookup;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use anyhow::Result;
use gatelodge_catalogue::{IncidentMatch, PackageIndex, PackageRegistry, ToolFacts, VersionComparison};

use super::report_path;
use crate::cli::{StackArgs, StackFormat};
use crate::client_config::{
    self, ALL, CLAUDE_PROJECTS_KEY, ClientConfigDocument, ClientConfigFormat, ClientConfigLocation, ClientConfigPath,
    ClientProfile, FileSnapshot, NamedServerEntry,
};
use crate::commands::connect::{home_directory, user_directories};
use crate::commands::init::client_scan::{ClientConfigProblem, ClientScan, scan_all_projects};
use crate::diagnostic_report::escape_for_terminal;
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use package_lookup::{ServerIdentity, look_up_package};

/// Nobody has more servers, and what they add up to is of no use.
const MAX_SERVERS: usize = 1_000;

/// What a file is called of which nobody says whose it is.
const UNKNOWN_CLIENT: &str = "a file";

/// A server that some clients have.
pub struct StackServer {
    /// Its name in the configuration.
    pub name: String,
    /// Who has it.
    pub clients: Vec<String>,
    /// The agents that have it switched on.
    agents: Vec<AgentKey>,
    /// The file it stands in, from the folder that the command runs in; none if it is the user's own.
    pub file: Option<String>,
    /// The line of that file.
    pub line: usize,
    /// The package, as the index has it.
    pub package: Option<String>,
    pub source: Option<PackageRegistry>,
    /// The version that the index has read.
    pub version: Option<String>,
    /// What kind of thing it is.
    pub kind_text: &'static str,
    /// Whether it is only likely that this package is what starts.
    pub is_guess: bool,
    /// Whether the version that starts is the one that the index has read.
    pub version_match: VersionComparison,
    /// The version that starts, where it is plain numbers.
    pub launched_version: Option<String>,
    /// Whether it is switched off.
    pub is_disabled: bool,
    /// Its tools; none where nothing is known.
    pub tools: Option<Vec<ToolFacts>>,
    /// Public cases of the package that it starts.
    pub concerns: Vec<IncidentMatch>,
    /// By what it is told from others of its name. It stays here.
    identity: ServerIdentity,
}

/// Whose agent has a server: a client's, and of one file for several projects, in which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct AgentKey {
    client: &'static str,
    project: Option<usize>,
}

impl AgentKey {
    fn of(client: &'static str, project: Option<usize>) -> Self {
        // What a project has is read beside what the user has, by the same agent.
        Self { client: client.strip_suffix("-project").unwrap_or(client), project }
    }

    /// Whether an agent that sits here has what is there for `other`, too.
    fn includes(self, other: Self) -> bool {
        self.client == other.client && (other.project.is_none() || other.project == self.project)
    }
}

/// The agents there are, each by its client and the places of its servers.
pub fn agent_servers(entries: &[StackServer]) -> Vec<(&'static str, Vec<usize>)> {
    let mut seats: Vec<AgentKey> = Vec::new();
    for seat in entries.iter().flat_map(|entry| &entry.agents) {
        if !seats.contains(seat) {
            seats.push(*seat);
        }
    }
    let servers = |seat: &AgentKey| {
        let own = entries.iter().enumerate();
        own.filter(|(_, entry)| entry.agents.iter().any(|other| seat.includes(*other))).map(|(at, _)| at).collect()
    };
    seats.iter().map(|seat| (seat.client, servers(seat))).collect()
}

/// Where an entry was found.
struct EntrySource<'s> {
    /// Whose it is, by a client's word.
    client: &'static str,
    project: Option<usize>,
    file: Option<&'s str>,
    line: usize,
}

/// All servers, and what could not be read.
pub fn collect_servers(args: &StackArgs, index: &PackageIndex) -> Result<(Vec<StackServer>, Vec<String>)> {
    let client = match &args.client {
        Some(id) => Some(client_config::find_client(id).ok_or_else(|| {
            let all: Vec<&str> = ALL.iter().filter(|own| !own.config_paths.is_empty()).map(|own| own.id).collect();
            UsageError(format!("there is no client `{}`; there are {}", escape_for_terminal(id), all.join(", ")))
        })?),
        None => None,
    };
    if let Some(path) = &args.file {
        return Ok((collect_from_file(path, client, wants_lines(args), index)?, Vec::new()));
    }
    let asked: Vec<&'static ClientProfile> = client.map_or_else(|| ALL.iter().collect(), |client| vec![client]);
    for (option, folder) in [("--home", &args.home), ("--project", &args.project)] {
        if let Some(folder) = folder.as_deref().filter(|folder| !folder.is_dir()) {
            let what = format!("there is no folder `{}`, which `{option}` names", folder.display());
            return Err(UsageError(what).into());
        }
    }
    let home = home_directory(args.home.as_deref())?;
    let places = user_directories(home.clone(), args.project.as_deref())?;
    let project = args.project.as_deref().map(std::path::absolute).transpose()?;
    let scan = scan_all_projects(&places, &asked);
    check_count(scan.servers.len())?;
    let mut entries = Vec::new();
    let lines = if wants_lines(args) { entry_lines(&scan) } else { HashMap::new() };
    let here = project.as_ref().map(|project| project.display().to_string());
    let mut folders: Vec<&str> = here.as_deref().into_iter().collect();
    for seen in &scan.servers {
        let spot = &seen.location;
        let own = lines.get(&(&spot.file, &spot.servers_path));
        let line = own.and_then(|own| own.get(&seen.named_entry.name)).copied().unwrap_or(1);
        let is_of_project = project.as_ref().is_some_and(|project| spot.file.starts_with(project));
        let file = if is_of_project { report_path::path_below_current_directory(&spot.file) } else { None };
        let folder = spot.project_folder().or(here.as_deref().filter(|_| is_of_project));
        let project = folder.map(|folder| project_index(folder, &mut folders));
        let spotted = EntrySource { client: spot.client.id, project, file: file.as_deref(), line };
        add_server(&mut entries, &seen.named_entry, &spotted, index);
    }
    let told = |own: &ClientConfigProblem| {
        let mut spots = asked.iter().flat_map(|client| places.config_locations(client));
        let spot = spots.find(|spot| spot.file.display().to_string() == own.subject);
        let subject = spot.map(|spot| {
            let path = client_file_name(&spot);
            let root = if spot.file == home.0.join(path) { "~/" } else { "" };
            format!("{} (`{root}{path}`)", spot.client.id)
        });
        format!("{}: {}", subject.unwrap_or_else(|| "a file of a client".to_owned()), own.message)
    };
    Ok((entries, scan.problems.iter().map(told).collect()))
}

/// The lines of all entries, by their files and places. Each file is read once.
fn entry_lines(scan: &ClientScan) -> HashMap<(&PathBuf, &Vec<String>), HashMap<String, usize>> {
    let mut roots: HashMap<&PathBuf, Vec<&Vec<String>>> = HashMap::new();
    for ClientConfigLocation { file, servers_path: root, .. } in scan.servers.iter().map(|seen| &seen.location) {
        let own = roots.entry(file).or_default();
        // Those of one place come one after another.
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

/// The number of a folder among those that were met.
fn project_index<'s>(folder: &'s str, folders: &mut Vec<&'s str>) -> usize {
    folders.iter().position(|known| *known == folder).unwrap_or_else(|| {
        folders.push(folder);
        folders.len() - 1
    })
}

/// A file as its client calls it. Where it is on this machine is nobody's business.
fn client_file_name(spot: &ClientConfigLocation) -> &'static str {
    let place = spot.client.config_paths.iter().find(|place| spot.file.ends_with(place.path));
    place.map_or("", |place| place.path)
}

/// Refuses more than anybody has, before they are looked up.
fn check_count(count: usize) -> Result<()> {
    if count > MAX_SERVERS {
        let why = format!("there are more than {MAX_SERVERS} servers; look at one file or client at a time");
        return Err(ExitError(CommandExitCode::Findings, why).into());
    }
    Ok(())
}

/// Finding lines reads a file once more, and only one report has them.
fn wants_lines(args: &StackArgs) -> bool {
    args.format == Some(StackFormat::Sarif)
}

fn collect_from_file(
    path: &Path,
    client: Option<&'static ClientProfile>,
    lines: bool,
    index: &PackageIndex,
) -> Result<Vec<StackServer>> {
    if let Some(client) = client.filter(|client| client.config_paths.is_empty()) {
        return Err(UsageError(format!("`{}` has no file that could be looked at", client.id)).into());
    }
    let told = |why: String| ExitError(CommandExitCode::Findings, format!("`{}`: {why}", path.display()));
    let held = FileSnapshot::read(path).map_err(|trouble| told(trouble.0))?;
    let bytes = held.bytes().ok_or_else(|| UsageError(format!("there is no file `{}`", path.display())))?;
    if bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes).trim_ascii().is_empty() {
        return Err(told("it is empty".to_owned()).into());
    }
    let file = report_path::report_path(path);
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
        let found: Vec<Vec<NamedServerEntry>> = roots.iter().map(|root| document.servers(own, root)).collect();
        count += found.iter().map(Vec::len).sum::<usize>();
        check_count(count)?;
        let all = if lines { document.entry_lines(&roots) } else { vec![HashMap::new(); roots.len()] };
        let is_alone = readers.iter().all(|(other, _)| own.id == other.id || !has_same_location(own, other));
        let is_known = *is_named || is_alone || roots.iter().any(|root| is_project_root(root));
        let client = if is_known { own.id } else { UNKNOWN_CLIENT };
        for ((root, found), lines) in roots.into_iter().zip(found).zip(all) {
            let project = is_project_root(&root).then_some(known.len());
            for mut found in found {
                found.is_disabled &= is_known;
                let line = lines.get(&found.name).copied().unwrap_or(1);
                add_server(&mut entries, &found, &EntrySource { client, project, file: Some(&file), line }, index);
            }
            known.insert(root);
        }
    }
    let is_read = documents.values().any(Result::is_ok);
    match documents.into_values().find_map(Result::err) {
        _ if !known.is_empty() => Ok(entries),
        Some(why) if !is_read => Err(told(why).into()),
        _ => match client {
            Some(client) => find_misplaced_servers(client, bytes).map_or(Ok(entries), |why| Err(told(why).into())),
            None => Err(told("no form of a client is known here; name it with `--client`".to_owned()).into()),
        },
    }
}

/// Whether a place in a file is one of Claude Code's for a folder; no other client has any.
fn is_project_root(root: &[String]) -> bool {
    root.first().map(String::as_str) == Some(CLAUDE_PROJECTS_KEY)
}

/// That the servers of a file are where other clients have them than the one that was named.
fn find_misplaced_servers(client: &ClientProfile, bytes: &[u8]) -> Option<String> {
    let all: Vec<(&ClientProfile, bool)> =
        ALL.iter().filter(|own| !own.config_paths.is_empty()).map(|own| (own, false)).collect();
    let documents = parse_documents(&all, bytes);
    // What has the name of such a place alone may be a setting.
    let has_some = |own: &ClientProfile| {
        let Some(Ok(document)) = documents.get(&own.format) else { return false };
        let roots = document.servers_paths(own);
        roots.iter().flat_map(|root| document.servers(own, root)).any(|found| found.entry.is_some())
    };
    let mut others = all.iter().filter(|(own, _)| has_some(own)).map(|(own, _)| own.id);
    let first = others.next()?;
    let whose = if others.next().is_some() { format!("{first} and others have") } else { format!("{first} has") };
    Some(format!("its servers are not where {} has them, but where {whose} them; name another `--client`", client.id))
}

/// A file in each language that it may be in, read once.
fn parse_documents(
    readers: &[(&ClientProfile, bool)],
    bytes: &[u8],
) -> BTreeMap<ClientConfigFormat, Result<ClientConfigDocument, String>> {
    let formats: BTreeSet<ClientConfigFormat> = readers.iter().map(|(own, _)| own.format).collect();
    formats.into_iter().map(|format| (format, ClientConfigDocument::read(format, bytes))).collect()
}

/// The clients that may read a file, and whether it is theirs by its name. A form is known by where its servers stand, so
/// all count that have one; which of several that have the same reads the file, nobody says.
fn candidate_clients(client: Option<&'static ClientProfile>, path: &Path) -> Vec<(&'static ClientProfile, bool)> {
    if let Some(client) = client {
        return vec![(client, true)];
    }
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let is_named = |own: &ClientProfile| {
        own.config_paths.iter().any(|place| whole.ends_with(place.path) || is_unique_file_name(own, place, &whole))
    };
    let fitting = ALL.iter().filter(|own| !own.config_paths.is_empty() && has_matching_extension(own, path));
    let mut readers: Vec<_> = fitting.map(|own| (own, is_named(own))).collect();
    readers.sort_by_key(|(_, is_named)| !is_named);
    readers
}

/// Whether a file has the name of a client's own, in whichever folder, and no other client calls its own so.
fn is_unique_file_name(client: &ClientProfile, place: &ClientConfigPath, path: &Path) -> bool {
    let last = |place: &ClientConfigPath| place.path.rsplit('/').next().unwrap_or_default();
    let mut others = ALL.iter().filter(|other| other.id != client.id).flat_map(|other| other.config_paths);
    path.ends_with(last(place)) && others.all(|other| last(other) != last(place))
}

/// Whether two clients have their servers at the same place.
fn has_same_location(one: &ClientProfile, other: &ClientProfile) -> bool {
    one.format == other.format && one.servers_path == other.servers_path
}

/// Whether a file can be in a client's language, by its name.
fn has_matching_extension(client: &ClientProfile, path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    client.config_paths.iter().any(|place| {
        let own = place.path.rsplit('.').next().unwrap_or_default();
        own == extension || matches!((own, extension), ("json", "jsonc") | ("jsonc", "json") | ("yaml", "yml"))
    }) || extension.is_empty()
}

/// Adds a server; one that several clients have is there once, unless what they have under its name differs.
fn add_server(
    entries: &mut Vec<StackServer>,
    found: &NamedServerEntry,
    spotted: &EntrySource<'_>,
    index: &PackageIndex,
) {
    let known = look_up_package(found, index);
    let (name, client) = (escape_for_terminal(&found.name), spotted.client);
    let seat = (!found.is_disabled).then(|| AgentKey::of(spotted.client, spotted.project));
    let is_same = |own: &&mut StackServer| {
        own.name == name
            && own.is_disabled == found.is_disabled
            && own.kind_text == known.kind_text
            && own.identity == known.identity
    };
    if let Some(own) = entries.iter_mut().find(is_same) {
        if !own.clients.iter().any(|known| known == client) {
            own.clients.push(client.to_owned());
        }
        own.agents.extend(seat.filter(|seat| !own.agents.contains(seat)));
        return;
    }
    entries.push(StackServer {
        name,
        clients: vec![client.to_owned()],
        agents: seat.into_iter().collect(),
        file: spotted.file.map(str::to_owned),
        line: spotted.line,
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
