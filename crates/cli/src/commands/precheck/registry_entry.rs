//! A server of the official registry API, or of one with the same form, by its address.

use std::time::Duration;

use anyhow::Result;
use gatelodge_catalogue::PackageIndex;
use serde_json::Value;

use super::{PrecheckedServer, check_document};
use crate::exit_code::{CommandExitCode, ExitError, UnreachableError, UsageError};
use crate::{admin_context, mcp_client, server_url};

/// The largest answer.
const MAX_RESPONSE_BYTES: usize = 4 << 20;
/// For the whole of it, and for a server that says nothing.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);
const IDLE_TIMEOUT: Duration = Duration::from_secs(10);
/// What the registry says of an entry, beside it.
const OFFICIAL_META_KEY: &str = "io.modelcontextprotocol.registry/official";

/// Whether an address is one of a server in a registry: `https://HOST/v0.1/servers/NAME/versions/VERSION`.
pub fn is_registry_url(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    ["/v0.1/servers/", "/v0/servers/"].iter().any(|part| path.contains(part)) && path.contains("/versions/")
}

/// What to do about the packages and addresses of the server.
pub fn check_registry_entry(index: &PackageIndex, url: &str) -> Result<Vec<PrecheckedServer>> {
    let shown = server_url::redact_url(url);
    let uri = server_url::parse_server_url(url)
        .map_err(|fault| UsageError(format!("`{shown}` {}; {}", fault.message(), fault.help())))?;
    if uri.scheme_str() == Some("http") && !server_url::is_loopback(&uri) {
        return Err(UsageError(format!(
            "`{shown}` is not encrypted, and anybody on the way could answer; use `https://`"
        ))
        .into());
    }
    let answer = admin_context::block_on(async {
        let answer = mcp_client::download_bytes(uri, REQUEST_TIMEOUT, IDLE_TIMEOUT, MAX_RESPONSE_BYTES).await;
        answer.map_err(|error| UnreachableError(format!("cannot ask the registry at `{shown}`: {error}")).into())
    })?;
    let document: Value = serde_json::from_slice(&answer)
        .map_err(|_| ExitError(CommandExitCode::Unreachable, format!("what `{shown}` answers is not JSON")))?;
    let asked = check_document(index, &document, &shown)?;
    // Servers of an older form have it below another name; then nothing is said of them.
    let status = document.get("_meta").and_then(|meta| meta.get(OFFICIAL_META_KEY)?.get("status")?.as_str());
    Ok(match status {
        None | Some("active") => asked,
        Some("deprecated") => doubt_all(asked, "the registry says that it is deprecated"),
        Some("deleted") => doubt_all(asked, "the registry says that it is deleted"),
        Some(_) => doubt_all(asked, "the registry says something of it that is not known here"),
    })
}

fn doubt_all(asked: Vec<PrecheckedServer>, why: &str) -> Vec<PrecheckedServer> {
    asked.into_iter().map(|own| own.with_doubt(why)).collect()
}
