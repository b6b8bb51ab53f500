//! Fetches a server's entry from the official MCP registry, or from another registry with the same API.

use std::time::Duration;

use anyhow::Result;
use gatelodge_admin::server_url;
use serde_json::Value;

use super::package_facts_source::PackageFactsSource;
use super::{PrecheckedServer, check_document};
use crate::exit_code::{CommandExitCode, ExitError, UnreachableError, UsageError};
use crate::{mcp_client, store_command_context};

/// Maximum size of the registry's response.
const MAX_RESPONSE_BYTES: usize = 4 << 20;
/// Time limit for the whole request; [`IDLE_TIMEOUT`] limits each pause in which no data arrives.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// Key in `_meta` under which the registry stores its own data about an entry.
const OFFICIAL_META_KEY: &str = "io.modelcontextprotocol.registry/official";

/// Returns whether a URL points to a registry entry: `https://HOST/v0.1/servers/NAME/versions/VERSION`.
pub fn is_registry_url(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    ["/v0.1/servers/", "/v0/servers/"].iter().any(|part| path.contains(part)) && path.contains("/versions/")
}

/// Fetches a registry entry and rates the packages and URLs in it.
pub fn check_registry_entry(facts_source: PackageFactsSource<'_>, url: &str) -> Result<Vec<PrecheckedServer>> {
    let shown = server_url::redact_url(url);
    let uri = server_url::parse_server_url(url)
        .map_err(|error| UsageError(format!("`{shown}`: {}; {}", error.message(), error.help())))?;
    if uri.scheme_str() == Some("http") && !server_url::is_loopback(&uri) {
        return Err(UsageError(format!(
            "`{shown}` is not encrypted, so anyone on the network could forge the response; use `https://`"
        ))
        .into());
    }
    let response = store_command_context::block_on(async {
        let response = mcp_client::download_bytes(uri, REQUEST_TIMEOUT, IDLE_TIMEOUT, MAX_RESPONSE_BYTES).await;
        response.map_err(|error| UnreachableError(format!("cannot query the registry at `{shown}`: {error}")).into())
    })?;
    let document: Value = serde_json::from_slice(&response)
        .map_err(|_| ExitError(CommandExitCode::Unreachable, format!("the response of `{shown}` is not JSON")))?;
    let checked = check_document(facts_source, &document, &shown)?;
    // Entries in an older format have the status under another key; they are treated as active.
    let status = document.get("_meta").and_then(|meta| meta.get(OFFICIAL_META_KEY)?.get("status")?.as_str());
    Ok(match status {
        None | Some("active") => checked,
        Some("deprecated") => doubt_all(checked, "the registry lists it as deprecated"),
        Some("deleted") => doubt_all(checked, "the registry lists it as deleted"),
        Some(_) => doubt_all(checked, "the registry lists it with an unknown status"),
    })
}

fn doubt_all(checked: Vec<PrecheckedServer>, why: &str) -> Vec<PrecheckedServer> {
    checked.into_iter().map(|server| server.with_doubt(why)).collect()
}
