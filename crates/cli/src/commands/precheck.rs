//! `gatelodge precheck`: what to do about a server before one connects to it.

mod claimed_tools;
mod docker_catalogue;
mod mcp_bundle;
mod registry_entry;
mod server_json;

use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{
    CataloguedServer, PackageIndex, PackageName, PrecheckResult, PrecheckVerdict, Strictness, grade_server, precheck,
};
use serde_json::{Value, json};

use self::claimed_tools::ClaimedTools;
use super::catalogue::{index_access, show_package};
use crate::cli::PrecheckArgs;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::{server_url, source_file, stdout_output};

/// One server that was asked about.
struct PrecheckedServer {
    /// What it is called, for people.
    name: String,
    advice: PrecheckResult,
    grade: Option<char>,
    version: Option<String>,
    rule: Option<String>,
}

pub fn run(args: &PrecheckArgs) -> Result<CommandExitCode> {
    let index = index_access::open_index(&args.index_source)?;
    let asked = check_target(&index, &args.target)?;
    let verdict = asked.iter().map(|own| own.advice.verdict).max().unwrap_or(PrecheckVerdict::AskFirst);
    match args.json {
        true => stdout_output::print_json(&json!({
            "verdict": verdict, "servers": asked.iter().map(result_json).collect::<Vec<_>>(), "index": index.metadata(),
        }))?,
        false => asked.iter().try_for_each(print_result)?,
    }
    Ok(if verdict == PrecheckVerdict::AskFirst { CommandExitCode::Findings } else { CommandExitCode::Success })
}

/// What was named: by its form, and a file by its name.
fn check_target(index: &PackageIndex, what: &str) -> Result<Vec<PrecheckedServer>> {
    if what.contains("://") {
        return match registry_entry::is_registry_url(what) {
            true => registry_entry::check_registry_entry(index, what),
            false => Ok(vec![check_address()]),
        };
    }
    let path = Path::new(what);
    let extension = path.extension().and_then(|own| own.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "mcpb" | "dxt" => Ok(vec![mcp_bundle::check_bundle(index, path)?]),
        "yaml" | "yml" => docker_catalogue::check_catalogue(path),
        "json" => check_server_json(index, path),
        _ if path.is_file() => check_server_json(index, path),
        _ => {
            let named = PackageName::read(what).ok_or_else(|| {
                UsageError(format!(
                    "`{}` is neither a package, nor an address, nor a file",
                    server_url::redact_url(what)
                ))
            })?;
            Ok(vec![check_package(index, &named)])
        }
    }
}

fn check_address() -> PrecheckedServer {
    let why = "an address says nothing of the tools behind it; `gatelodge scan --url` lists and judges them";
    unknown_server("the server at this address", why)
}

fn check_package(index: &PackageIndex, named: &PackageName) -> PrecheckedServer {
    match index.find(named.source, &named.name) {
        Some(server) => {
            let known = CataloguedServer::of(&server);
            PrecheckedServer {
                name: format!("{}:{}", server.source().as_str(), escape_for_terminal(server.package())),
                grade: Some(grade_server(&known.tools).letter),
                version: Some(escape_for_terminal(server.version())),
                rule: show_package::server_policy(&known, Strictness::Recommended).ok(),
                advice: index_access::advise(index, named, &server, &known.tools),
            }
        }
        None => {
            let (name, advice) = (escape_for_terminal(&named.name), index_access::advise_unknown(index, named));
            PrecheckedServer { name, advice, grade: None, version: None, rule: None }
        }
    }
}

fn unknown_server(name: &str, why: &str) -> PrecheckedServer {
    PrecheckedServer {
        name: name.to_owned(),
        advice: PrecheckResult::unknown(why),
        grade: None,
        version: None,
        rule: None,
    }
}

impl PrecheckedServer {
    /// What its author says that it offers. Nobody has read whether that is so: a person looks first, and there is no grade.
    fn from_claims(name: &str, named: ClaimedTools, why: &str) -> Self {
        let mut own = unknown_server(&escape_for_terminal(name), why);
        own.advice.reasons.extend(named.skipped_reason());
        if !named.tools.is_empty() {
            own.advice.reasons.extend(precheck(&named.tools).reasons);
            own.rule =
                show_package::server_policy(&CataloguedServer::from_facts(name, named.tools), Strictness::Recommended)
                    .ok();
        }
        own
    }

    /// With a reason to ask first.
    fn with_doubt(mut self, why: &str) -> Self {
        self.advice = self.advice.at_least(PrecheckVerdict::AskFirst, why.to_owned());
        self
    }
}

fn check_server_json(index: &PackageIndex, path: &Path) -> Result<Vec<PrecheckedServer>> {
    let source = source_file::read_source(path)?;
    let document = serde_json::from_slice(&source.text)
        .map_err(|error| UsageError(format!("`{}` is no server.json: {error}", escape_for_terminal(&source.name))))?;
    check_document(index, &document, &escape_for_terminal(&source.name))
}

/// The packages and addresses of a `server.json`, each by itself.
fn check_document(index: &PackageIndex, document: &Value, name: &str) -> Result<Vec<PrecheckedServer>> {
    let offered = server_json::parse_server_json(document);
    let mut asked = Vec::new();
    for package in offered.packages {
        let own = match &package.package_name {
            Some(named) => check_package(index, named),
            // What stands there may be an address with a password in it.
            None => unknown_server("a package of another kind", "packages of this kind are not in the index"),
        };
        asked.push(match package.launch_concern {
            Some(why) => own.with_doubt(why),
            None => own,
        });
    }
    asked.extend((0..offered.remotes).map(|_| check_address()));
    if asked.is_empty() {
        return Err(UsageError(format!(
            "`{name}` names no package and no address; a server.json has `packages` or `remotes`"
        ))
        .into());
    }
    Ok(asked)
}

fn result_json(own: &PrecheckedServer) -> Value {
    json!({"server": own.name, "verdict": own.advice.verdict, "reasons": own.advice.reasons, "grade": own.grade,
        "version": own.version, "rule": own.rule})
}

fn print_result(own: &PrecheckedServer) -> Result<()> {
    let grade = own.grade.map(|grade| format!(", grade {grade}")).unwrap_or_default();
    let mut out = format!("{}: {}{grade}\n", own.name, own.advice.verdict.as_str());
    own.advice.reasons.iter().for_each(|reason| out.push_str(&format!("  - {reason}\n")));
    if let Some(rule) = own.rule.as_ref().filter(|_| own.advice.verdict != PrecheckVerdict::Proceed) {
        out.push_str(&format!("\n{rule}\n"));
    }
    stdout_output::print(&out)?;
    if own.rule.is_none() {
        print_stderr("`gatelodge scan` connects to a server, judges its tools, and writes a policy for it");
    }
    Ok(())
}
