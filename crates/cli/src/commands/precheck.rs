//! `gatelodge precheck`: rates a server before any client connects to it.

mod docker_catalogue;
mod indexer_read;
mod manifest_tools;
mod mcp_bundle;
mod package_facts_source;
mod registry_entry;
mod server_json;

use std::path::Path;

use anyhow::Result;
use gatelodge_admin::server_url;
use gatelodge_catalogue::{
    ConnectionAdvice, PackageReference, PrecheckVerdict, ServerCatalogueEntry, StarterPolicyStrictness, precheck,
};
use gatelodge_server::input_file;
use serde_json::{Value, json};

use self::manifest_tools::ManifestTools;
use self::package_facts_source::PackageFactsSource;
use super::catalogue::{index_access, show_package};
use crate::cli::PrecheckArgs;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::stdout_output;

/// Precheck result for one server.
struct PrecheckedServer {
    /// Name of the server, escaped for the terminal.
    name: String,
    advice: ConnectionAdvice,
    grade: Option<char>,
    version: Option<String>,
    rule: Option<String>,
}

pub fn run(args: &PrecheckArgs) -> Result<CommandExitCode> {
    let index = index_access::open_index(&args.index_source)?;
    let facts_source = if args.read { PackageFactsSource::Indexer(&index) } else { PackageFactsSource::Index(&index) };
    let checked = check_target(facts_source, &args.target)?;
    let verdict = checked.iter().map(|server| server.advice.verdict).max().unwrap_or(PrecheckVerdict::AskFirst);
    match args.json {
        true => stdout_output::print_json(&json!({
            "verdict": verdict, "servers": checked.iter().map(result_json).collect::<Vec<_>>(), "index": index.metadata(),
        }))?,
        false => checked.iter().try_for_each(print_result)?,
    }
    Ok(if verdict == PrecheckVerdict::AskFirst { CommandExitCode::Findings } else { CommandExitCode::Success })
}

/// Checks the target given on the command line: a URL, a file (recognized by its extension) or a package name.
fn check_target(facts_source: PackageFactsSource<'_>, what: &str) -> Result<Vec<PrecheckedServer>> {
    if what.contains("://") {
        return match registry_entry::is_registry_url(what) {
            true => registry_entry::check_registry_entry(facts_source, what),
            false => Ok(vec![check_address()]),
        };
    }
    let path = Path::new(what);
    let extension = path.extension().and_then(|server| server.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "mcpb" | "dxt" => Ok(vec![mcp_bundle::check_bundle(facts_source, path)?]),
        "yaml" | "yml" => docker_catalogue::check_catalogue(path),
        "json" => check_server_json(facts_source, path),
        _ if path.is_file() => check_server_json(facts_source, path),
        _ => {
            let named = PackageReference::read(what).ok_or_else(|| {
                UsageError(format!("`{}` is not a package, a URL or a file", server_url::redact_url(what)))
            })?;
            Ok(vec![facts_source.check_package(&named)?.server])
        }
    }
}

fn check_address() -> PrecheckedServer {
    let why = "a URL does not show the tools behind it; `gatelodge scan --url` lists and rates them";
    unknown_server("the server at this URL", why)
}

fn unknown_server(name: &str, why: &str) -> PrecheckedServer {
    PrecheckedServer {
        name: name.to_owned(),
        advice: ConnectionAdvice::unknown(why),
        grade: None,
        version: None,
        rule: None,
    }
}

impl PrecheckedServer {
    /// Rates a server by the tools that its author lists. Since the list is not verified, the server gets no grade, and
    /// the verdict is "ask first".
    fn from_claims(name: &str, claims: ManifestTools, why: &str) -> Self {
        let mut server = unknown_server(&escape_for_terminal(name), why);
        server.advice.reasons.extend(claims.skipped_reason());
        if !claims.tools.is_empty() {
            server.advice.reasons.extend(precheck(&claims.tools).reasons);
            server.rule = show_package::server_policy(
                &ServerCatalogueEntry::from_facts(name, claims.tools),
                StarterPolicyStrictness::Recommended,
            )
            .ok();
        }
        server
    }

    /// Changes the verdict to "ask first" and adds the reason.
    fn with_doubt(mut self, why: &str) -> Self {
        self.advice = self.advice.at_least(PrecheckVerdict::AskFirst, why.to_owned());
        self
    }
}

fn check_server_json(facts_source: PackageFactsSource<'_>, path: &Path) -> Result<Vec<PrecheckedServer>> {
    let source = input_file::read_source(path)?;
    let document = serde_json::from_slice(&source.text).map_err(|error| {
        UsageError(format!("`{}` is not a server.json: {error}", escape_for_terminal(&source.name)))
    })?;
    check_document(facts_source, &document, &escape_for_terminal(&source.name))
}

/// Checks each package and URL in a `server.json`.
fn check_document(facts_source: PackageFactsSource<'_>, document: &Value, name: &str) -> Result<Vec<PrecheckedServer>> {
    let document = server_json::parse_server_json(document);
    let mut checked = Vec::new();
    for package in document.packages {
        let server = match &package.package_name {
            Some(named) => facts_source.check_package(named)?.server,
            // The identifier is not printed: it may be a URL with a password in it.
            None => unknown_server("a package of another kind", "packages of this kind are not in the index"),
        };
        checked.push(match package.launch_concern {
            Some(why) => server.with_doubt(why),
            None => server,
        });
    }
    checked.extend((0..document.remotes).map(|_| check_address()));
    if checked.is_empty() {
        return Err(UsageError(format!(
            "`{name}` names no package and no URL; a server.json has `packages` or `remotes`"
        ))
        .into());
    }
    Ok(checked)
}

fn result_json(server: &PrecheckedServer) -> Value {
    json!({"server": server.name, "verdict": server.advice.verdict, "reasons": server.advice.reasons, "grade": server.grade,
        "version": server.version, "rule": server.rule})
}

fn print_result(server: &PrecheckedServer) -> Result<()> {
    let grade = server.grade.map(|grade| format!(", grade {grade}")).unwrap_or_default();
    let mut out = format!("{}: {}{grade}\n", server.name, server.advice.verdict.as_str());
    server.advice.reasons.iter().for_each(|reason| out.push_str(&format!("  - {reason}\n")));
    if let Some(rule) = server.rule.as_ref().filter(|_| server.advice.verdict != PrecheckVerdict::Proceed) {
        out.push_str(&format!("\n{rule}\n"));
    }
    stdout_output::print(&out)?;
    if server.rule.is_none() {
        print_stderr("`gatelodge scan` connects to a server, rates its tools, and writes a policy for it");
    }
    Ok(())
}
