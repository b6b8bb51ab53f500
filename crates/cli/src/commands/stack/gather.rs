//! The servers of clients' configurations, with what the index knows of them.
//!
//! INVARIANT: nothing of an entry but its name leaves this file: not its command, arguments, address, variables or
//! headers. A package is named only as the index spells it.

mod written;

use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{Index, Reading, Source, ToolFacts};

use super::place;
use crate::cli::{StackArgs, StackFormat};
use crate::clients::{self, ALL, Client, Document, Found, Held, Spot};
use crate::commands::connect::{home, places};
use crate::commands::init::scan::{Finding, scan};
use crate::exit::{Exit, Failed, Usage};
use crate::report::shown;
use written::{Identity, look_up};

/// Nobody has more servers, and what they add up to is of no use.
const MOST_ENTRIES: usize = 1_000;

/// A server that some clients have.
pub struct Entry {
    /// Its name in the configuration.
    pub name: String,
    /// Who has it.
    pub clients: Vec<String>,
    /// The agents that have it switched on.
    seats: Vec<Seat>,
    /// The file it stands in: from the folder that the command runs in, or as its client calls it.
    pub file: String,
    /// The line of that file.
    pub line: usize,
    /// The package, as the index has it.
    pub package: Option<String>,
    pub source: Option<Source>,
    /// The version that the index has read.
    pub version: Option<String>,
    /// What kind of thing it is.
    pub what: &'static str,
    /// Whether it is only likely that this package is what starts.
    pub is_guess: bool,
    /// Whether the version that starts is the one that the index has read.
    pub reading: Reading,
    /// The version that starts, where it is plain numbers.
    pub started: Option<String>,
    /// Whether it is switched off.
    pub is_off: bool,
    /// Its tools; none where nothing is known.
    pub tools: Option<Vec<ToolFacts>>,
    /// By what it is told from others of its name. It stays here.
    identity: Identity,
}

/// Whose agent has a server: a client's, and of one file for several projects, in which of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Seat {
    client: &'static str,
    project: Option<usize>,
}

impl Seat {
    fn of(client: &Client, project: Option<usize>) -> Self {
        // What a project has is read beside what the user has, by the same agent.
        Self { client: client.id.strip_suffix("-project").unwrap_or(client.id), project }
    }

    /// Whether an agent that sits here has what is there for `other`, too.
    fn has(self, other: Self) -> bool {
        self.client == other.client && (other.project.is_none() || other.project == self.project)
    }
}

/// The agents there are, each by its client and the places of its servers.
pub fn agents(entries: &[Entry]) -> Vec<(&'static str, Vec<usize>)> {
    let mut seats: Vec<Seat> = Vec::new();
    for seat in entries.iter().flat_map(|entry| &entry.seats) {
        if !seats.contains(seat) {
            seats.push(*seat);
        }
    }
    let servers = |seat: &Seat| {
        let own = entries.iter().enumerate();
        own.filter(|(_, entry)| entry.seats.iter().any(|other| seat.has(*other))).map(|(at, _)| at).collect()
    };
    seats.iter().map(|seat| (seat.client, servers(seat))).collect()
}

/// Where an entry was found.
struct Spotted<'s> {
    client: &'static Client,
    project: Option<usize>,
    file: &'s str,
    line: usize,
}

/// All servers, and what could not be read.
pub fn gather(args: &StackArgs, index: &Index) -> Result<(Vec<Entry>, Vec<String>)> {
    let client = match &args.client {
        Some(id) => Some(clients::find(id).ok_or_else(|| {
            let all: Vec<&str> = ALL.iter().filter(|own| !own.files.is_empty()).map(|own| own.id).collect();
            Usage(format!("there is no client `{}`; there are {}", shown(id), all.join(", ")))
        })?),
        None => None,
    };
    if let Some(path) = &args.file {
        return Ok((of_file(path, client, wants_lines(args), index)?, Vec::new()));
    }
    let asked: Vec<&'static Client> = client.map_or_else(|| ALL.iter().collect(), |client| vec![client]);
    let home = home(args.home.as_deref())?;
    let places = places(home.clone(), args.project.as_deref())?;
    let project = args.project.as_deref().map(std::path::absolute).transpose()?;
    let scan = scan(&places, &asked);
    let mut entries = Vec::new();
    for seen in &scan.seen {
        let spot = &seen.spot;
        let document = scan.files.get(&spot.file).map(|read| &read.document).filter(|_| wants_lines(args));
        let line = document.map_or(1, |document| document.line(&spot.root, &seen.found.name));
        let called = called(spot);
        let is_of_project = project.as_ref().is_some_and(|project| spot.file.starts_with(project));
        let file = if is_of_project { place::below_here(&spot.file) } else { None };
        let file = file.unwrap_or_else(|| called.to_owned());
        add(&mut entries, &seen.found, &Spotted { client: spot.client, project: None, file: &file, line }, index);
    }
    let told = |own: &Finding| {
        let mut spots = asked.iter().flat_map(|client| places.spots(client));
        let spot = spots.find(|spot| spot.file.display().to_string() == own.subject);
        let subject = spot.map(|spot| {
            let path = called(&spot);
            let root = if spot.file == home.0.join(path) { "~/" } else { "" };
            format!("{} (`{root}{path}`)", spot.client.id)
        });
        format!("{}: {}", subject.unwrap_or_else(|| "a file of a client".to_owned()), own.message)
    };
    Ok((bounded(entries)?, scan.findings.iter().map(told).collect()))
}

/// A file as its client calls it. Where it is on this machine is nobody's business.
fn called(spot: &Spot) -> &'static str {
    let place = spot.client.files.iter().find(|place| spot.file.ends_with(place.path));
    place.map_or("", |place| place.path)
}

fn bounded(entries: Vec<Entry>) -> Result<Vec<Entry>> {
    if entries.len() > MOST_ENTRIES {
        let why = format!("there are more than {MOST_ENTRIES} servers; look at one file or client at a time");
        return Err(Failed(Exit::Findings, why).into());
    }
    Ok(entries)
}

/// Finding lines reads a file once more for each entry, and only one report has them.
fn wants_lines(args: &StackArgs) -> bool {
    args.format == Some(StackFormat::Sarif)
}

fn of_file(path: &Path, client: Option<&'static Client>, lines: bool, index: &Index) -> Result<Vec<Entry>> {
    if let Some(client) = client.filter(|client| client.files.is_empty()) {
        return Err(Usage(format!("`{}` has no file that could be looked at", client.id)).into());
    }
    let told = |why: String| Failed(Exit::Findings, format!("`{}`: {why}", path.display()));
    let held = Held::read(path).map_err(|trouble| told(trouble.0))?;
    let bytes = held.bytes().ok_or_else(|| Usage(format!("there is no file `{}`", path.display())))?;
    let file = place::named(path);
    let (mut entries, mut fault, mut is_read) = (Vec::new(), None, false);
    let mut known: Vec<Vec<String>> = Vec::new();
    // A form is known by where its servers stand. Which client reads the file nobody says, so all of them count.
    for own in client.map_or_else(|| ALL.iter().collect(), |client| vec![client]) {
        if own.files.is_empty() || (client.is_none() && !fits(own, path)) {
            continue;
        }
        match Document::read(own.format, bytes) {
            Ok(document) if document.is_empty() => return Ok(Vec::new()),
            Ok(document) => {
                is_read = true;
                for root in document.roots(own) {
                    if known.contains(&root) {
                        continue;
                    }
                    let project = (root.first().map(String::as_str) == Some("projects")).then_some(known.len());
                    for found in document.servers(own, &root) {
                        let line = if lines { document.line(&root, &found.name) } else { 1 };
                        let spotted = Spotted { client: own, project, file: &file, line };
                        add(&mut entries, &found, &spotted, index);
                    }
                    known.push(root);
                }
            }
            Err(why) => fault = Some(why),
        }
    }
    match fault {
        _ if !known.is_empty() => bounded(entries),
        Some(why) if !is_read => Err(told(why).into()),
        _ if client.is_some() => Ok(entries),
        _ => Err(told("no form of a client is known here; name it with `--client`".to_owned()).into()),
    }
}

/// Whether a file can be in a client's language, by its name.
fn fits(client: &Client, path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    client.files.iter().any(|place| {
        let own = place.path.rsplit('.').next().unwrap_or_default();
        own == extension || matches!((own, extension), ("json", "jsonc") | ("jsonc", "json") | ("yaml", "yml"))
    }) || extension.is_empty()
}

/// Adds a server; one that several clients have is there once, unless what they have under its name differs.
fn add(entries: &mut Vec<Entry>, found: &Found, spotted: &Spotted<'_>, index: &Index) {
    if entries.len() > MOST_ENTRIES {
        return;
    }
    let known = look_up(found, index);
    let (name, client) = (shown(&found.name), spotted.client.id);
    let seat = (!found.is_off).then(|| Seat::of(spotted.client, spotted.project));
    let is_same = |own: &&mut Entry| {
        own.name == name && own.is_off == found.is_off && own.what == known.what && own.identity == known.identity
    };
    if let Some(own) = entries.iter_mut().find(is_same) {
        if !own.clients.iter().any(|known| known == client) {
            own.clients.push(client.to_owned());
        }
        own.seats.extend(seat.filter(|seat| !own.seats.contains(seat)));
        return;
    }
    entries.push(Entry {
        name,
        clients: vec![client.to_owned()],
        seats: seat.into_iter().collect(),
        file: spotted.file.to_owned(),
        line: spotted.line,
        package: known.server.map(|server| shown(server.package())),
        source: known.server.map(|server| server.source()),
        version: known.server.map(|server| shown(server.version())),
        what: known.what,
        is_guess: known.is_guess,
        reading: known.reading,
        started: known.started,
        is_off: found.is_off,
        tools: known.server.map(|server| server.facts().tools),
        identity: known.identity,
    });
}
