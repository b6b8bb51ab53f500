//! A server of the official registry API, or of one with the same form, by its address.

use std::time::Duration;

use anyhow::Result;
use gatelodge_catalogue::PackageIndex;
use serde_json::Value;

use super::{Asked, of_document};
use crate::exit_code::{CommandExitCode, ExitError, UnreachableError, UsageError};
use crate::{admin_context, mcp_client, server_url};

/// The largest answer.
const MOST_BYTES: usize = 4 << 20;
/// For the whole of it, and for a server that says nothing.
const TIME: Duration = Duration::from_secs(30);
const SILENCE: Duration = Duration::from_secs(10);
/// What the registry says of an entry, beside it.
const OFFICIAL: &str = "io.modelcontextprotocol.registry/official";

/// Whether an address is one of a server in a registry: `https://HOST/v0.1/servers/NAME/versions/VERSION`.
pub fn is_one(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    ["/v0.1/servers/", "/v0/servers/"].iter().any(|part| path.contains(part)) && path.contains("/versions/")
}

/// What to do about the packages and addresses of the server.
pub fn asked(index: &PackageIndex, url: &str) -> Result<Vec<Asked>> {
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
        let answer = mcp_client::download_bytes(uri, TIME, SILENCE, MOST_BYTES).await;
        answer.map_err(|error| UnreachableError(format!("cannot ask the registry at `{shown}`: {error}")).into())
    })?;
    let document: Value = serde_json::from_slice(&answer)
        .map_err(|_| ExitError(CommandExitCode::Unreachable, format!("what `{shown}` answers is not JSON")))?;
    let asked = of_document(index, &document, &shown)?;
    // Servers of an older form have it below another name; then nothing is said of them.
    let status = document.get("_meta").and_then(|meta| meta.get(OFFICIAL)?.get("status")?.as_str());
    Ok(match status {
        None | Some("active") => asked,
        Some("deprecated") => each(asked, "the registry says that it is deprecated"),
        Some("deleted") => each(asked, "the registry says that it is deleted"),
        Some(_) => each(asked, "the registry says something of it that is not known here"),
    })
}

fn each(asked: Vec<Asked>, why: &str) -> Vec<Asked> {
    asked.into_iter().map(|own| own.doubted(why)).collect()
}
