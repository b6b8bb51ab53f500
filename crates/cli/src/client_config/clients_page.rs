//! `docs/clients.md`, from the table.

use std::path::PathBuf;

use super::client_config_locations::{OperatingSystem, UserDirectories};
use super::client_config_snippet::config_snippet;
use super::client_table::{ALL, ClientConfigFormat, ClientProfile, ConnectionMethod};
use super::gateway_entry::{DEFAULT_TOKEN_ENV, GatewayEntry};

const PAGE_INTRODUCTION: &str = "# Clients

`gatelodge connect CLIENT --server NAME` prints what a client needs to reach a server through the gateway.
`--write` puts it into the client's own file: it shows what changes, asks, and makes a backup beside the file.
Comments, order, indentation and line ends of the file stay; `--undo` takes the change back, byte for byte.

The token is never written.
The client takes it from a variable of the environment, `GATELODGE_TOKEN` unless `--token-env` names another.
A client that cannot do that, or only starts programs, gets `gatelodge bridge`, which takes the token from the variable,
or, with `--token-file`, from a file that only you can read: many clients hand few variables to the programs they start.
`init` makes such files and names them; `connect` names the one that `init` made.

`--url http://127.0.0.1:7420/mcp` in place of `--server` connects to all servers of a grant at once.
There, tools are called `<server>__<tool>`, and one server that does not answer keeps nobody from the others.

`gatelodge init` looks for all of these files, shows the servers in them, and moves those you choose behind the gateway.

This page is made from the table that both commands use.
Paths are those on Linux; macOS and Windows follow where they differ.
";

/// The page.
pub fn clients_page() -> String {
    let mut out = PAGE_INTRODUCTION.to_owned();
    out.push_str("\n| client | | way | file |\n|---|---|---|---|\n");
    for client in ALL {
        let way = match client.connection_method() {
            ConnectionMethod::Http => "HTTP",
            ConnectionMethod::Bridge => "bridge",
            ConnectionMethod::PublicHttps => "public HTTPS",
        };
        let file = match client.format {
            ClientConfigFormat::Json | ClientConfigFormat::Toml => "written",
            ClientConfigFormat::Yaml => "read; changed by hand",
            ClientConfigFormat::NoFile => "none",
        };
        out.push_str(&format!("| {} | `{}` | {way} | {file} |\n", client.name, client.id));
    }
    ALL.iter().for_each(|client| write_section(client, &mut out));
    out
}

fn write_section(client: &'static ClientProfile, out: &mut String) {
    out.push_str(&format!("\n## {}\n\n", client.name));
    let files = file_paths(client, OperatingSystem::Linux);
    if !files.is_empty() {
        out.push_str(&format!("Files: {}.\n", join_quoted(&files)));
    }
    for (system, name) in [(OperatingSystem::Mac, "macOS"), (OperatingSystem::Windows, "Windows")] {
        let there = file_paths(client, system);
        if there != files {
            out.push_str(&format!("On {name}: {}.\n", join_quoted(&there)));
        }
    }
    let url = if client.connection_method() == ConnectionMethod::PublicHttps {
        "https://gate.example.com/mcp/books"
    } else {
        "http://127.0.0.1:7420/mcp/books"
    };
    let link = GatewayEntry {
        name: "books".to_owned(),
        url: url.to_owned(),
        token_env: DEFAULT_TOKEN_ENV.to_owned(),
        token_file: None,
        program: "gatelodge".to_owned(),
    };
    for sentence in client.note.split_inclusive(". ") {
        out.push_str(&format!("{}\n", sentence.trim_end()));
    }
    if client.connection_method() == ConnectionMethod::PublicHttps {
        out.push_str("It calls from elsewhere, so the gateway must be reachable from the internet, by HTTPS.\n");
    }
    let language = match client.format {
        ClientConfigFormat::Json | ClientConfigFormat::NoFile => "json",
        ClientConfigFormat::Toml => "toml",
        ClientConfigFormat::Yaml => "yaml",
    };
    out.push_str(&format!("\n```{language}\n{}```\n", config_snippet(client, &link)));
    if let Some(install) = link.install_command(client) {
        out.push_str(&format!("\n```text\n{install}\n```\n"));
    }
}

fn file_paths(client: &'static ClientProfile, system: OperatingSystem) -> Vec<String> {
    let places = UserDirectories::under_home(system, PathBuf::from("~"), Some(PathBuf::from(".")));
    let spots = places.config_locations(client).into_iter().filter(|spot| spot.servers_path == client.servers_path);
    spots.map(|spot| spot.file.display().to_string()).collect()
}

fn join_quoted(files: &[String]) -> String {
    files.iter().map(|file| format!("`{file}`")).collect::<Vec<_>>().join(", ")
}
