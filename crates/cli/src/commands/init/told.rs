//! What `init` says: what it found, what it will do, and what comes next. Names of variables and headers, never values.

use std::path::Path;

use serde_json::{Value, json};

use super::scan::{Scan, Seen};
use crate::client_config::{ServerEntry, shorten_home, shown_command};
use crate::diagnostic_report::escape_for_terminal;
use crate::{server_url, stdout_output};

/// All servers, as a table.
pub fn table(scan: &Scan, home: &Path, gateway: &str) -> String {
    let head = ["client", "file", "server", "runs", "variables and headers"];
    let mut rows = vec![head.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>()];
    for one in &scan.seen {
        let names: Vec<String> = names(one).iter().map(|name| escape_for_terminal(name)).collect();
        let off = if one.found.is_disabled { " (off)" } else { "" };
        let client = one.spot.client.name.to_owned();
        let file = escape_for_terminal(&shorten_home(&one.spot.file, home));
        rows.push(vec![
            client,
            file,
            format!("{}{off}", escape_for_terminal(&one.found.name)),
            runs(one, gateway),
            names.join(", "),
        ]);
    }
    stdout_output::format_table(&rows)
}

/// All servers, for programs.
pub fn found(scan: &Scan, gateway: &str) -> Value {
    let one = |one: &Seen| {
        json!({
            "client": one.spot.client.id, "file": one.spot.file, "server": one.found.name, "off": one.found.is_disabled,
            "runs": runs(one, gateway), "names": names(one), "is_ours": one.leads_here(gateway),
        })
    };
    scan.seen.iter().map(one).collect()
}

fn runs(one: &Seen, gateway: &str) -> String {
    if one.leads_here(gateway) {
        return "the gateway".to_owned();
    }
    match &one.found.entry {
        Some(ServerEntry::Command { argv: words, .. }) => shown_command(words),
        Some(ServerEntry::Remote { url, .. }) => match server_url::parse_server_url(url) {
            Ok(_) => shown_command(std::slice::from_ref(url)),
            Err(_) => "*** (no address)".to_owned(),
        },
        None => "(not plainly a command or an address)".to_owned(),
    }
}

fn names(one: &Seen) -> Vec<&str> {
    let values = one.found.entry.as_ref().map(ServerEntry::variables_or_headers).unwrap_or_default();
    values.iter().map(|(name, _)| name.as_str()).collect()
}
