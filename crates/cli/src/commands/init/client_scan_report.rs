//! Prints the scanned servers. Shows the names of environment variables and headers, but never their values.

use std::path::Path;

use gatelodge_admin::server_url;
use gatelodge_clients::{ClientServerEntry, shorten_home};
use serde_json::{Value, json};

use super::client_scan::{ClientScan, ClientScanEntry};
use crate::client_config_redaction::redact_command;
use crate::diagnostic_report::escape_for_terminal;
use crate::stdout_output;

/// Formats all scanned servers as a table.
pub fn scan_table(scan: &ClientScan, home: &Path, gateway: &str) -> String {
    let header = ["client", "file", "server", "runs", "variables and headers"];
    let mut rows = vec![header.iter().map(|&cell| cell.to_owned()).collect::<Vec<_>>()];
    for server in &scan.servers {
        let names: Vec<String> = value_names(server).iter().map(|name| escape_for_terminal(name)).collect();
        let off = if server.named_entry.is_disabled { " (off)" } else { "" };
        let client = server.location.client.name.to_owned();
        let file = escape_for_terminal(&shorten_home(&server.location.file, home));
        rows.push(vec![
            client,
            file,
            format!("{}{off}", escape_for_terminal(&server.named_entry.name)),
            target_text(server, gateway),
            names.join(", "),
        ]);
    }
    stdout_output::format_table(&rows)
}

/// Returns all scanned servers for `--json`.
pub fn scan_json(scan: &ClientScan, gateway: &str) -> Value {
    let to_json = |server: &ClientScanEntry| {
        json!({
            "client": server.location.client.id, "file": server.location.file, "server": server.named_entry.name, "off": server.named_entry.is_disabled,
            "runs": target_text(server, gateway), "names": value_names(server), "is_ours": server.is_gateway_entry(gateway),
        })
    };
    scan.servers.iter().map(to_json).collect()
}

fn target_text(server: &ClientScanEntry, gateway: &str) -> String {
    if server.is_gateway_entry(gateway) {
        return "the gateway".to_owned();
    }
    match &server.named_entry.entry {
        Some(ClientServerEntry::Command { argv: words, .. }) => redact_command(words),
        Some(ClientServerEntry::Remote { url, .. }) => match server_url::parse_server_url(url) {
            Ok(_) => redact_command(std::slice::from_ref(url)),
            Err(_) => "*** (not a URL)".to_owned(),
        },
        None => "(neither a command nor a URL)".to_owned(),
    }
}

fn value_names(server: &ClientScanEntry) -> Vec<&str> {
    let values = server.named_entry.entry.as_ref().map(ClientServerEntry::variables_or_headers).unwrap_or_default();
    values.iter().map(|(name, _)| name.as_str()).collect()
}
