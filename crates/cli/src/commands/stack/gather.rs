//! The servers of clients' configurations, with what the index knows of them.
//!
//! INVARIANT: nothing of an entry but its name leaves this file: not its command, arguments, address, variables or
//! headers. A package is named only as the index spells it.

use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{Index, PackageName, Source, ToolFacts};

use crate::cli::StackArgs;
use crate::clients::{self, ALL, Client, Document, Entry as Written, Found, Held, Spot};
use crate::commands::connect::{home, places};
use crate::commands::init::scan::{Finding, scan};
use crate::exit::{Exit, Failed, Usage};
use crate::report::shown;

/// Nobody has more servers, and what they add up to is of no use.
const MOST_ENTRIES: usize = 1_000;

/// A server that some clients have.
pub struct Entry {
    /// Its name in the configuration.
    pub name: String,
    /// Who has it.
    pub clients: Vec<String>,
    /// The file it stands in, as its client calls it.
    pub file: String,
    /// The package, as the index has it.
    pub package: Option<String>,
    pub source: Option<Source>,
    pub version: Option<String>,
    /// What kind of thing it is.
    pub what: &'static str,
    /// Whether it is only likely that this package is what starts.
    pub is_guess: bool,
    /// Whether another version is started than the index has read.
    pub is_unread: bool,
    /// Whether it is switched off everywhere.
    pub is_off: bool,
    /// Its tools; none where nothing is known.
    pub tools: Option<Vec<ToolFacts>>,
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
        return Ok((of_file(path, client, index)?, Vec::new()));
    }
    let asked: Vec<&'static Client> = client.map_or_else(|| ALL.iter().collect(), |client| vec![client]);
    let home = home(args.home.as_deref())?;
    let places = places(home.clone(), args.project.as_deref())?;
    let scan = scan(&places, &asked);
    let mut entries = Vec::new();
    for seen in &scan.seen {
        add(&mut entries, &seen.found, seen.spot.client, place(&seen.spot), index);
    }
    let told = |own: &Finding| {
        let mut spots = asked.iter().flat_map(|client| places.spots(client));
        let spot = spots.find(|spot| spot.file.display().to_string() == own.subject);
        let subject = spot.map(|spot| {
            let path = place(&spot);
            let root = if spot.file == home.0.join(path) { "~/" } else { "" };
            format!("{} (`{root}{path}`)", spot.client.id)
        });
        format!("{}: {}", subject.unwrap_or_else(|| "a file of a client".to_owned()), own.message)
    };
    Ok((bounded(entries)?, scan.findings.iter().map(told).collect()))
}

/// A file as its client calls it. Where it is on this machine is nobody's business.
fn place(spot: &Spot) -> &'static str {
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

fn of_file(path: &Path, client: Option<&'static Client>, index: &Index) -> Result<Vec<Entry>> {
    if let Some(client) = client.filter(|client| client.files.is_empty()) {
        return Err(Usage(format!("`{}` has no file that could be looked at", client.id)).into());
    }
    let told = |why: String| Failed(Exit::Findings, format!("`{}`: {why}", path.display()));
    let held = Held::read(path).map_err(|trouble| told(trouble.0))?;
    let bytes = held.bytes().ok_or_else(|| Usage(format!("there is no file `{}`", path.display())))?;
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
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
                    if !known.contains(&root) {
                        document
                            .servers(own, &root)
                            .iter()
                            .for_each(|found| add(&mut entries, found, own, &name, index));
                        known.push(root);
                    }
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

/// Adds a server; one that several clients have is there once.
fn add(entries: &mut Vec<Entry>, found: &Found, client: &Client, file: &str, index: &Index) {
    if entries.len() > MOST_ENTRIES {
        return;
    }
    let named = match &found.entry {
        Some(Written::Command { words, .. }) => PackageName::of_command(words),
        Some(Written::Remote { .. }) | None => None,
    };
    let server = named.as_ref().and_then(|named| index.find(named.source, &named.name));
    let version = named.as_ref().and_then(|named| named.version.as_deref());
    let is_unread = server.zip(version).is_some_and(|(server, version)| server.version() != version);
    let is_guess = server.is_some() && named.as_ref().is_some_and(|named| named.is_guess);
    let what = match &found.entry {
        Some(Written::Remote { .. }) => "an address",
        Some(Written::Command { .. }) if named.is_some() => "a package",
        Some(Written::Command { .. }) => "a program",
        None => "an entry that is neither a command nor an address",
    };
    let name = shown(&found.name);
    let package = server.map(|server| shown(server.package()));
    let same = entries.iter_mut().find(|own| {
        own.name == name
            && own.package == package
            && own.what == what
            && (own.is_guess, own.is_unread) == (is_guess, is_unread)
    });
    match same {
        Some(own) => {
            if !own.clients.iter().any(|known| known == client.id) {
                own.clients.push(client.id.to_owned());
            }
            own.is_off &= found.is_off;
        }
        None => entries.push(Entry {
            name,
            clients: vec![client.id.to_owned()],
            file: file.to_owned(),
            package,
            source: server.map(|server| server.source()),
            version: server.map(|server| shown(server.version())),
            what,
            is_guess,
            is_unread,
            is_off: found.is_off,
            tools: server.map(|server| server.facts().tools),
        }),
    }
}
