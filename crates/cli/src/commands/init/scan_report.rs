//! What `init` says: what it found, what it will do, and what comes next. Names of variables and headers, never values.

use std::path::Path;

use serde_json::{Value, json};

use super::client_scan::{ClientScan, ScannedServer};
use crate::client_config::{ServerEntry, shorten_home, shown_command};
use crate::diagnostic_report::escape_for_terminal;
use crate::{server_url, stdout_output};

/// All servers, as a table.
pub fn scan_table(scan: &ClientScan, home: &Path, gateway: &str) -> String {
    let head = ["client", "file", "server", "runs", "variables and headers"];
    let mut rows = vec![head.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>()];
    for one in &scan.servers {
        let names: Vec<String> = value_names(one).iter().map(|name| escape_for_terminal(name)).collect();
        let off = if one.named_entry.is_disabled { " (off)" } else { "" };
        let client = one.location.client.name.to_owned();
        let file = escape_for_terminal(&shorten_home(&one.location.file, home));
        rows.push(vec![
            client,
            file,
            format!("{}{off}", escape_for_terminal(&one.named_entry.name)),
            target_text(one, gateway),
            names.join(", "),
        ]);
    }
    stdout_output::format_table(&rows)
}

/// All servers, for programs.
pub fn scan_json(scan: &ClientScan, gateway: &str) -> Value {
    let one = |one: &ScannedServer| {
        json!({
            "client": one.location.client.id, "file": one.location.file, "server": one.named_entry.name, "off": one.named_entry.is_disabled,
            "runs": target_text(one, gateway), "names": value_names(one), "is_ours": one.is_gateway_entry(gateway),
        })
    };
    scan.servers.iter().map(one).collect()
}

fn target_text(one: &ScannedServer, gateway: &str) -> String {
    if one.is_gateway_entry(gateway) {
        return "the gateway".to_owned();
    }
    match &one.named_entry.entry {
        Some(ServerEntry::Command { argv: words, .. }) => shown_command(words),
        Some(ServerEntry::Remote { url, .. }) => match server_url::parse_server_url(url) {
            Ok(_) => shown_command(std::slice::from_ref(url)),
            Err(_) => "*** (no address)".to_owned(),
        },
        None => "(not plainly a command or an address)".to_owned(),
    }
}

fn value_names(one: &ScannedServer) -> Vec<&str> {
    let values = one.named_entry.entry.as_ref().map(ServerEntry::variables_or_headers).unwrap_or_default();
    values.iter().map(|(name, _)| name.as_str()).collect()
}
