//! A catalogue file as Docker has them: YAML, with a server under each name of `registry`.

use std::path::Path;

use anyhow::Result;
use gatelodge_json::JsonLimits;
use serde_json::Value;

use super::{PrecheckedServer, claimed_tools};
use crate::client_config::read_yaml;
use crate::diagnostic_report::{count_noun, escape_for_terminal};
use crate::exit_code::UsageError;
use crate::source_file;

/// More servers are not told at once.
const MAX_SERVERS: usize = 2_000;

const UNREAD_IMAGE_REASON: &str =
    "an image was not read, and is not in the index; what is told of its tools is what the catalogue says";
const UNREAD_REMOTE_REASON: &str =
    "an address says nothing of the tools behind it; what is told of them is what the catalogue says";

/// What to do about each server of a catalogue.
pub fn check_catalogue(path: &Path) -> Result<Vec<PrecheckedServer>> {
    let source = source_file::read_source(path)?;
    let refused = |why: &str| UsageError(format!("`{}` {why}", escape_for_terminal(&source.name)));
    if source.text.len() > JsonLimits::DOCUMENT.max_bytes {
        return Err(refused("is larger than 8 MiB").into());
    }
    let text = str::from_utf8(&source.text).map_err(|_| refused("is not UTF-8"))?;
    let document = read_yaml(text).map_err(|why| refused(&format!("is no catalogue: {why}")))?;
    let servers = document.get("registry").and_then(Value::as_object);
    let servers = servers.filter(|servers| !servers.is_empty());
    let servers = servers.ok_or_else(|| refused("is no catalogue: it has no servers under `registry`"))?;
    if servers.len() > MAX_SERVERS {
        return Err(refused("has more than 2,000 servers").into());
    }
    Ok(servers.iter().map(|(name, server)| check_server(name, server)).collect())
}

fn check_server(name: &str, server: &Value) -> PrecheckedServer {
    let is_remote = server.get("remote").is_some() || server.get("type").and_then(Value::as_str) == Some("remote");
    let why = if is_remote { UNREAD_REMOTE_REASON } else { UNREAD_IMAGE_REASON };
    let mut own =
        PrecheckedServer::from_claims(name, claimed_tools::read_claimed_tools(name, server.get("tools")), why);
    let secrets = server.get("secrets").and_then(Value::as_array).map(Vec::len).filter(|count| *count > 0);
    own.advice.reasons.extend(secrets.map(|count| format!("it asks for {}", count_noun(count, "secret"))));
    own
}
