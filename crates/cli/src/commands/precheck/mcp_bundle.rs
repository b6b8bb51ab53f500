//! Reads an MCP bundle, which is a zip file with a `manifest.json`. Only the manifest is read, and nothing is run.

use std::fs::File;
use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{
    ArchiveFormat, ArchiveLimits, ArchiveSkipReason, ExtractDecision, PackageReference, ToolFacts, unpack,
};
use serde_json::Value;

use super::package_facts_source::{PackageFactsSource, PackagePrecheck};
use super::{PrecheckedServer, manifest_tools};
use crate::diagnostic_report::{count_noun, escape_for_terminal};
use crate::exit_code::UsageError;

/// Maximum size of a bundle's manifest.
const MAX_MANIFEST_BYTES: usize = 1 << 20;
/// Supported manifest versions. Manifests of version `0.1` have `dxt_version` instead of `manifest_version`.
const MANIFEST_VERSIONS: [&str; 4] = ["0.1", "0.2", "0.3", "0.4"];

const UNREAD_BUNDLE_REASON: &str =
    "the contents of the bundle were not read and are not in the index; its tools are as its manifest lists them";

/// Rates the server in a bundle.
pub fn check_bundle(facts_source: PackageFactsSource<'_>, path: &Path) -> Result<PrecheckedServer> {
    let manifest = read_manifest(path)?;
    let name = manifest.get("name").and_then(Value::as_str).unwrap_or("a bundle without a name");
    let config = manifest.get("server").and_then(|server| server.get("mcp_config"));
    let claims = manifest_tools::read_claimed_tools(name, manifest.get("tools"));
    let package = config.and_then(launched_package);
    let checked = match &package {
        Some(package) => Some((package, facts_source.check_package(package)?)),
        None => None,
    };
    let mut own = match checked {
        Some((_, PackagePrecheck { server, tool_names: Some(tool_names) })) => {
            let is_new = |tool: &ToolFacts| !tool_names.contains(&tool.name);
            let has_unknown_tools = claims.skipped > 0 || claims.tools.iter().any(is_new);
            let own = PrecheckedServer { name: format!("{} ({})", escape_for_terminal(name), server.name), ..server };
            match has_unknown_tools {
                true => own.with_doubt("its manifest lists tools that were not found in the package it starts"),
                false => own,
            }
        }
        Some((package, PackagePrecheck { server, tool_names: None })) => {
            let mut own = PrecheckedServer::from_claims(name, claims, UNREAD_BUNDLE_REASON);
            match facts_source {
                PackageFactsSource::Index(_) => own.advice = own.advice.with_incidents(&package.incidents(None)),
                // These reasons say why the package could not be read, and include its incidents.
                PackageFactsSource::Indexer(_) => own.advice.reasons.extend(server.advice.reasons),
            }
            own
        }
        None => PrecheckedServer::from_claims(name, claims, UNREAD_BUNDLE_REASON),
    };
    if config.is_some_and(|config| config.get("platform_overrides").is_some()) {
        own = own.with_doubt("it is started differently on some systems");
    }
    if manifest.get("tools_generated") == Some(&Value::Bool(true)) {
        own = own.with_doubt("it adds tools while it runs");
    }
    let version = ["manifest_version", "dxt_version"].iter().find_map(|name| manifest.get(*name)?.as_str());
    if !version.is_some_and(|version| MANIFEST_VERSIONS.contains(&version)) {
        own = own.with_doubt("its manifest version is not supported");
    }
    own.advice.reasons.extend(settings_reason(&manifest));
    Ok(own)
}

/// Returns the package that the bundle starts, or `None` if the bundle runs its own files or the package can only be
/// guessed.
fn launched_package(config: &Value) -> Option<PackageReference> {
    let mut words = vec![config.get("command")?.as_str()?.to_owned()];
    for word in config.get("args").and_then(Value::as_array).into_iter().flatten() {
        words.push(word.as_str()?.to_owned());
    }
    let variables = config.get("env").and_then(Value::as_object).into_iter().flatten();
    PackageReference::of_command(&words, variables.map(|(name, _)| name.as_str())).filter(|own| !own.is_guess)
}

/// Returns a message that says how many settings the bundle asks the user for.
fn settings_reason(manifest: &Value) -> Option<String> {
    let all = manifest.get("user_config").and_then(Value::as_object).filter(|all| !all.is_empty())?;
    let is_secret = |own: &&Value| own.get("sensitive") == Some(&Value::Bool(true));
    let secret = all.values().filter(is_secret).count();
    Some(format!("it asks for {}, {secret} of them secret", count_noun(all.len(), "setting")))
}

fn read_manifest(path: &Path) -> Result<Value> {
    let refused = |why: String| UsageError(format!("`{}` {why}", escape_for_terminal(&path.display().to_string())));
    let file = File::open(path).map_err(|error| refused(format!("cannot be read: {error}")))?;
    let limits = ArchiveLimits {
        max_file_bytes: MAX_MANIFEST_BYTES,
        max_total_bytes: 2 * MAX_MANIFEST_BYTES,
        max_stream_bytes: 4 << 20,
        ..ArchiveLimits::default()
    };
    let want = |path: &str| if path == "manifest.json" { ExtractDecision::Extract } else { ExtractDecision::Skip };
    let unpacked = unpack(file, ArchiveFormat::Zip, &limits, want);
    let skipped = |why: ArchiveSkipReason| unpacked.skipped.contains_key(&why);
    let text = unpacked.files.get("manifest.json").ok_or_else(|| {
        let why = if skipped(ArchiveSkipReason::Broken) { "is not a complete zip" } else { "is not an MCP bundle" };
        refused(format!("{why}: it has no readable `manifest.json` of at most 1 MiB"))
    })?;
    // With several manifests, a client may use another one than this code reads, even one that is unreadable here.
    let has_unread_manifest = [
        ArchiveSkipReason::LargeFile,
        ArchiveSkipReason::LargeTotal,
        ArchiveSkipReason::NotText,
        ArchiveSkipReason::Broken,
        ArchiveSkipReason::Link,
    ]
    .into_iter()
    .any(skipped);
    if has_unread_manifest || !unpacked.duplicate_paths.is_empty() {
        return Err(refused("has more than one `manifest.json`".to_owned()).into());
    }
    let manifest: Value =
        serde_json::from_str(text).map_err(|error| refused(format!("has an invalid `manifest.json`: {error}")))?;
    match manifest.is_object() {
        true => Ok(manifest),
        false => Err(refused("has a `manifest.json` that is not an object".to_owned()).into()),
    }
}
