//! Reads a Docker MCP catalogue, a YAML file that lists servers by name under `registry`.

use std::path::Path;

use anyhow::Result;
use gatelodge_clients::read_yaml;
use gatelodge_json::JsonLimits;
use gatelodge_server::input_file;
use serde_json::Value;

use super::{PrecheckedServer, manifest_tools};
use crate::diagnostic_report::{count_noun, escape_for_terminal};
use crate::exit_code::UsageError;

/// Maximum number of servers in a catalogue file.
const MAX_SERVERS: usize = 2_000;

const UNREAD_IMAGE_REASON: &str =
    "the image was not read and is not in the index; its tools are as the catalogue lists them";
const UNREAD_REMOTE_REASON: &str = "a URL does not show the tools behind it; they are as the catalogue lists them";

/// Rates each server in a catalogue.
pub fn check_catalogue(path: &Path) -> Result<Vec<PrecheckedServer>> {
    let source = input_file::read_source(path)?;
    let refused = |why: &str| UsageError(format!("`{}` {why}", escape_for_terminal(&source.name)));
    if source.text.len() > JsonLimits::DOCUMENT.max_bytes {
        return Err(refused("is larger than 8 MiB").into());
    }
    let text = str::from_utf8(&source.text).map_err(|_| refused("is not UTF-8"))?;
    let document = read_yaml(text).map_err(|why| refused(&format!("is not a catalogue: {why}")))?;
    let servers = document.get("registry").and_then(Value::as_object);
    let servers = servers.filter(|servers| !servers.is_empty());
    let servers = servers.ok_or_else(|| refused("is not a catalogue: it has no servers under `registry`"))?;
    if servers.len() > MAX_SERVERS {
        return Err(refused("has more than 2,000 servers").into());
    }
    Ok(servers.iter().map(|(name, server)| check_server(name, server)).collect())
}

fn check_server(name: &str, server: &Value) -> PrecheckedServer {
    let is_remote = server.get("remote").is_some() || server.get("type").and_then(Value::as_str) == Some("remote");
    let why = if is_remote { UNREAD_REMOTE_REASON } else { UNREAD_IMAGE_REASON };
    let mut checked =
        PrecheckedServer::from_claims(name, manifest_tools::read_claimed_tools(name, server.get("tools")), why);
    let secrets = server.get("secrets").and_then(Value::as_array).map(Vec::len).filter(|count| *count > 0);
    checked.advice.reasons.extend(secrets.map(|count| format!("it asks for {}", count_noun(count, "secret"))));
    checked
}
