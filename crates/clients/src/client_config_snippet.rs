//! Configuration snippets that users paste into a client's configuration.

use serde_json::{Map, Value, json};

use crate::client_config_document::{ClientConfigDocument, ClientConfigEntryChange};
use crate::client_profiles::{ClientConfigEntryFormat, ClientConfigFileFormat, ClientProfile};
use crate::gateway_entry::GatewayEntry;

/// Returns the part of a client's configuration that connects it to the gateway.
pub fn config_snippet(client: &ClientProfile, gateway_entry: &GatewayEntry) -> String {
    let entry = gateway_entry.client_entry(client);
    match client.format {
        ClientConfigFileFormat::Json => pretty_json(&wrap_in_servers_path(client, gateway_entry, entry)),
        ClientConfigFileFormat::Toml => {
            let root = client.servers_path.iter().map(|&name| name.to_owned()).collect();
            let change = ClientConfigEntryChange {
                servers_path: root,
                name: gateway_entry.name.clone(),
                entry: Some(entry),
                vscode_input: None,
            };
            let text =
                ClientConfigDocument::new(ClientConfigFileFormat::Toml).apply_changes(&[change]).unwrap_or_default();
            String::from_utf8_lossy(&text).trim_start().to_owned()
        }
        ClientConfigFileFormat::Yaml => {
            let mut out = String::new();
            write_yaml(&wrap_in_servers_path(client, gateway_entry, entry), 0, &mut out);
            out
        }
        ClientConfigFileFormat::NoFile => pretty_json(&entry),
    }
}

/// Nests an entry inside the keys that lead to it in the configuration.
fn wrap_in_servers_path(client: &ClientProfile, gateway_entry: &GatewayEntry, entry: Value) -> Value {
    let servers = if client.entry_shape == ClientConfigEntryFormat::Continue {
        json!([entry])
    } else {
        json!({gateway_entry.name.clone(): entry})
    };
    let document = client.servers_path.iter().rev().fold(servers, |inner, &name| json!({name: inner}));
    match (gateway_entry.vscode_input(client), document) {
        (Some(input), Value::Object(fields)) => {
            let inputs = Map::from_iter([("inputs".to_owned(), json!([input]))]);
            Value::Object(inputs.into_iter().chain(fields).collect())
        }
        (_, document) => document,
    }
}

fn pretty_json(value: &Value) -> String {
    format!("{value:#}\n")
}

/// Writes a value as YAML. Strings are quoted as in JSON, which is valid YAML, so that none is mistaken for another
/// type.
fn write_yaml(value: &Value, depth: usize, out: &mut String) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let name = if is_plain_key(name) { name.clone() } else { json!(name).to_string() };
                out.push_str(&format!("{indent}{name}:"));
                write_yaml_value(value, depth, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                let mut text = String::new();
                write_yaml(item, depth + 1, &mut text);
                // The first line of an item follows its dash.
                out.push_str(&format!("{indent}- {}\n", text.trim()));
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => out.push_str(&format!("{value}\n")),
    }
}

fn write_yaml_value(value: &Value, depth: usize, out: &mut String) {
    if value.is_object() || value.is_array() {
        out.push('\n');
        write_yaml(value, depth + 1, out);
    } else {
        out.push_str(&format!(" {value}\n"));
    }
}

fn is_plain_key(name: &str) -> bool {
    let starts_with_letter = name.starts_with(|first: char| first.is_ascii_alphabetic());
    let is_not_reserved = !matches!(
        name.to_ascii_lowercase().as_str(),
        "y" | "n" | "yes" | "no" | "on" | "off" | "true" | "false" | "null"
    );
    starts_with_letter
        && is_not_reserved
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CLIENT_PROFILES;

    #[test]
    fn the_snippet_of_each_client_is_read_back() {
        let (name, url) = ("books".to_owned(), "http://127.0.0.1:7420/mcp/books".to_owned());
        let gateway_entry =
            GatewayEntry { name, url, token_env: "KEY".to_owned(), token_file: None, program: "gatelodge".to_owned() };
        for client in CLIENT_PROFILES.iter().filter(|client| client.format != ClientConfigFileFormat::NoFile) {
            let text = config_snippet(client, &gateway_entry);
            let document = ClientConfigDocument::read(client.format, text.as_bytes()).expect(client.id);
            let root: Vec<String> = client.servers_path.iter().map(|&name| name.to_owned()).collect();
            let found = document.servers(client, &root);
            assert_eq!((found.len(), found[0].name.as_str()), (1, "books"), "{}", client.id);
            let entry = found[0].entry.clone().expect(client.id);
            match entry {
                crate::ClientServerEntry::Remote { url, headers, is_sse } => {
                    assert_eq!((url.as_str(), is_sse), (gateway_entry.url.as_str(), false), "{}", client.id);
                    assert_eq!(headers.len(), 1, "{}", client.id);
                }
                crate::ClientServerEntry::Command { argv: words, .. } => {
                    assert_eq!(
                        words,
                        ["gatelodge", "bridge", &gateway_entry.url, "--token-env", "KEY"],
                        "{}",
                        client.id
                    );
                }
            }
        }
    }
}
