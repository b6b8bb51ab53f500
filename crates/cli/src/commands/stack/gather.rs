//! The servers of clients' configurations, with what the index knows of them.
//!
//! INVARIANT: nothing of an entry but its name leaves this file: not its command, arguments, address, variables or
//! headers. A package is named only as the index spells it.

use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{Index, PackageName, Source, ToolFacts};

use crate::cli::StackArgs;
use crate::clients::{self, ALL, Client, Document, Entry as Written, Found, Held};
use crate::commands::connect::{home, places};
use crate::commands::init::scan::scan;
use crate::exit::{Exit, Failed, Usage};
use crate::report::shown;

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
    let scan = scan(&places(home(args.home.as_deref())?, args.project.as_deref())?, &asked);
    let mut entries = Vec::new();
    for seen in &scan.seen {
        let file = seen.spot.client.files.iter().find(|place| seen.spot.file.ends_with(place.path));
        let file = file.map_or("", |place| place.path);
        add(&mut entries, &seen.found, seen.spot.client, file, index);
    }
    let findings = scan.findings.iter().map(|own| format!("{}: {}", own.subject, own.message)).collect();
    Ok((entries, findings))
}

fn of_file(path: &Path, client: Option<&'static Client>, index: &Index) -> Result<Vec<Entry>> {
    let told = |why: String| Failed(Exit::Findings, format!("`{}`: {why}", path.display()));
    let held = Held::read(path).map_err(|trouble| told(trouble.0))?;
    let bytes = held.bytes().ok_or_else(|| Usage(format!("there is no file `{}`", path.display())))?;
    let mut fault = None;
    // A form is known by where its servers stand; the first client that finds some there is as good as any.
    for own in client.map_or_else(|| ALL.iter().collect(), |client| vec![client]) {
        if own.files.is_empty() || (client.is_none() && !fits(own, path)) {
            continue;
        }
        let root: Vec<String> = own.root.iter().map(|&name| name.to_owned()).collect();
        match Document::read(own.format, bytes) {
            Ok(document) => {
                let found = document.servers(own, &root);
                if found.is_empty() && client.is_none() {
                    continue;
                }
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let mut entries = Vec::new();
                found.iter().for_each(|found| add(&mut entries, found, own, &name, index));
                return Ok(entries);
            }
            Err(why) => fault = Some(why),
        }
    }
    match fault {
        Some(why) => Err(told(why).into()),
        None => Ok(Vec::new()),
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
    let named = match &found.entry {
        Some(Written::Command { words, .. }) => PackageName::of_command(words),
        Some(Written::Remote { .. }) | None => None,
    };
    let server = named.as_ref().and_then(|named| index.find(named.source, &named.name));
    let what = match &found.entry {
        Some(Written::Remote { .. }) => "an address",
        Some(Written::Command { .. }) if named.is_some() => "a package",
        Some(Written::Command { .. }) => "a program",
        None => "an entry that is neither a command nor an address",
    };
    let name = shown(&found.name);
    let package = server.map(|server| shown(server.package()));
    let same = entries.iter_mut().find(|own| own.name == name && own.package == package && own.what == what);
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
            is_off: found.is_off,
            tools: server.map(|server| server.facts().tools),
        }),
    }
}
