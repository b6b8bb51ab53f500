//! Generates `docs/clients.md` from the table of clients.

use std::path::PathBuf;

use crate::client_config_locations::{OperatingSystem, UserDirectories};
use crate::client_config_snippet::config_snippet;
use crate::client_profiles::{CLIENT_PROFILES, ClientConfigFileFormat, ClientConnectionMethod, ClientProfile};
use crate::gateway_entry::{DEFAULT_TOKEN_ENV, GatewayEntry};

const PAGE_INTRODUCTION: &str = "# Clients

`gatelodge connect CLIENT --server NAME` prints the configuration that a client needs to use a server through the gateway.
`--write` writes it into the client's file: it shows the changes, asks, and creates a backup next to the file.
Comments, order, indentation and line endings of the file are kept; `--undo` restores it byte for byte.

The token is never written.
The client reads it from an environment variable, `GATELODGE_TOKEN` unless `--token-env` names another.
A client that cannot do that, or supports only stdio servers, gets `gatelodge bridge`, which reads the token from the variable
or, with `--token-file`, from a file that only you can read. Many clients pass few variables to the programs they start.
`init` creates such files and refers to them; `connect` refers to the one that `init` created.

`--url http://127.0.0.1:7420/mcp` instead of `--server` connects to all servers of a grant at once.
There, tools are called `<server>__<tool>`, and a server that does not respond does not block the others.

`gatelodge init` searches all these files, shows the servers in them, and moves those you choose behind the gateway.

This page is generated from the table that both commands use.
Paths are those on Linux; paths on macOS and Windows follow where they differ.
";

/// Returns the text of `docs/clients.md`.
pub fn clients_page() -> String {
    let mut out = PAGE_INTRODUCTION.to_owned();
    out.push_str("\n| client | name | connection | file |\n|---|---|---|---|\n");
    for client in CLIENT_PROFILES {
        let connection = match client.connection_method() {
            ClientConnectionMethod::Http => "HTTP",
            ClientConnectionMethod::Bridge => "bridge",
            ClientConnectionMethod::PublicHttps => "public HTTPS",
        };
        let file = match client.format {
            ClientConfigFileFormat::Json | ClientConfigFileFormat::Toml => "written",
            ClientConfigFileFormat::Yaml => "read; changed by hand",
            ClientConfigFileFormat::NoFile => "none",
        };
        out.push_str(&format!("| {} | `{}` | {connection} | {file} |\n", client.name, client.id));
    }
    CLIENT_PROFILES.iter().for_each(|client| write_section(client, &mut out));
    out
}

fn write_section(client: &'static ClientProfile, out: &mut String) {
    out.push_str(&format!("\n## {}\n\n", client.name));
    let files = file_paths(client, OperatingSystem::Linux);
    if !files.is_empty() {
        out.push_str(&format!("Files: {}.\n", join_quoted(&files)));
    }
    for (system, name) in [(OperatingSystem::Mac, "macOS"), (OperatingSystem::Windows, "Windows")] {
        let other_files = file_paths(client, system);
        if other_files != files {
            out.push_str(&format!("On {name}: {}.\n", join_quoted(&other_files)));
        }
    }
    let url = if client.connection_method() == ClientConnectionMethod::PublicHttps {
        "https://gate.example.com/mcp/books"
    } else {
        "http://127.0.0.1:7420/mcp/books"
    };
    let entry = GatewayEntry {
        name: "books".to_owned(),
        url: url.to_owned(),
        token_env: DEFAULT_TOKEN_ENV.to_owned(),
        token_file: None,
        program: "gatelodge".to_owned(),
    };
    for sentence in client.note.split_inclusive(". ") {
        out.push_str(&format!("{}\n", sentence.trim_end()));
    }
    if client.connection_method() == ClientConnectionMethod::PublicHttps {
        out.push_str(
            "It connects from its own servers, so the gateway must be reachable from the internet over HTTPS.\n",
        );
    }
    let language = match client.format {
        ClientConfigFileFormat::Json | ClientConfigFileFormat::NoFile => "json",
        ClientConfigFileFormat::Toml => "toml",
        ClientConfigFileFormat::Yaml => "yaml",
    };
    out.push_str(&format!("\n```{language}\n{}```\n", config_snippet(client, &entry)));
    if let Some(install) = entry.install_command(client) {
        out.push_str(&format!("\n```text\n{install}\n```\n"));
    }
}

fn file_paths(client: &'static ClientProfile, system: OperatingSystem) -> Vec<String> {
    let directories = UserDirectories::under_home(system, PathBuf::from("~"), Some(PathBuf::from(".")));
    let locations = directories
        .config_locations(client)
        .into_iter()
        .filter(|location| location.servers_path == client.servers_path);
    locations.map(|location| location.file.display().to_string()).collect()
}

fn join_quoted(files: &[String]) -> String {
    files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ")
}
