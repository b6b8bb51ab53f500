//! `gatelodge precheck`: what to do about a server before one connects to it.

mod bundle;
mod docker;
mod named;
mod registry;
mod server_json;

use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{
    CataloguedServer, PackageIndex, PackageName, PrecheckResult, PrecheckVerdict, Strictness, grade_server, precheck,
};
use serde_json::{Value, json};

use self::named::Named;
use super::catalogue::{index_access, show_package};
use crate::cli::PrecheckArgs;
use crate::diagnostic_report::{escape_for_terminal, print_stderr};
use crate::exit_code::{CommandExitCode, UsageError};
use crate::{server_url, source_file, stdout_output};

/// One server that was asked about.
struct Asked {
    /// What it is called, for people.
    name: String,
    advice: PrecheckResult,
    grade: Option<char>,
    version: Option<String>,
    rule: Option<String>,
}

pub fn run(args: &PrecheckArgs) -> Result<CommandExitCode> {
    let index = index_access::open_index(&args.index_source)?;
    let asked = asked(&index, &args.target)?;
    let verdict = asked.iter().map(|own| own.advice.verdict).max().unwrap_or(PrecheckVerdict::AskFirst);
    match args.json {
        true => stdout_output::print_json(&json!({
            "verdict": verdict, "servers": asked.iter().map(told).collect::<Vec<_>>(), "index": index.metadata(),
        }))?,
        false => asked.iter().try_for_each(print)?,
    }
    Ok(if verdict == PrecheckVerdict::AskFirst { CommandExitCode::Findings } else { CommandExitCode::Success })
}

/// What was named: by its form, and a file by its name.
fn asked(index: &PackageIndex, what: &str) -> Result<Vec<Asked>> {
    if what.contains("://") {
        return match registry::is_one(what) {
            true => registry::asked(index, what),
            false => Ok(vec![of_address()]),
        };
    }
    let path = Path::new(what);
    let extension = path.extension().and_then(|own| own.to_str()).unwrap_or_default().to_ascii_lowercase();
    match extension.as_str() {
        "mcpb" | "dxt" => Ok(vec![bundle::asked(index, path)?]),
        "yaml" | "yml" => docker::asked(path),
        "json" => of_server_json(index, path),
        _ if path.is_file() => of_server_json(index, path),
        _ => {
            let named = PackageName::read(what).ok_or_else(|| {
                UsageError(format!(
                    "`{}` is neither a package, nor an address, nor a file",
                    server_url::redact_url(what)
                ))
            })?;
            Ok(vec![of_package(index, &named)])
        }
    }
}

fn of_address() -> Asked {
    let why = "an address says nothing of the tools behind it; `gatelodge scan --url` lists and judges them";
    unknown("the server at this address", why)
}

fn of_package(index: &PackageIndex, named: &PackageName) -> Asked {
    match index.find(named.source, &named.name) {
        Some(server) => {
            let known = CataloguedServer::of(&server);
            Asked {
                name: format!("{}:{}", server.source().as_str(), escape_for_terminal(server.package())),
                grade: Some(grade_server(&known.tools).letter),
                version: Some(escape_for_terminal(server.version())),
                rule: show_package::server_policy(&known, Strictness::Recommended).ok(),
                advice: index_access::advise(index, named, &server, &known.tools),
            }
        }
        None => {
            let (name, advice) = (escape_for_terminal(&named.name), index_access::advise_unknown(index, named));
            Asked { name, advice, grade: None, version: None, rule: None }
        }
    }
}

fn unknown(name: &str, why: &str) -> Asked {
    Asked { name: name.to_owned(), advice: PrecheckResult::unknown(why), grade: None, version: None, rule: None }
}

impl Asked {
    /// What its author says that it offers. Nobody has read whether that is so: a person looks first, and there is no grade.
    fn claimed(name: &str, named: Named, why: &str) -> Self {
        let mut own = unknown(&escape_for_terminal(name), why);
        own.advice.reasons.extend(named.concern());
        if !named.tools.is_empty() {
            own.advice.reasons.extend(precheck(&named.tools).reasons);
            own.rule =
                show_package::server_policy(&CataloguedServer::from_facts(name, named.tools), Strictness::Recommended)
                    .ok();
        }
        own
    }

    /// With a reason to ask first.
    fn doubted(mut self, why: &str) -> Self {
        self.advice = self.advice.at_least(PrecheckVerdict::AskFirst, why.to_owned());
        self
    }
}

fn of_server_json(index: &PackageIndex, path: &Path) -> Result<Vec<Asked>> {
    let source = source_file::read_source(path)?;
    let document = serde_json::from_slice(&source.text)
        .map_err(|error| UsageError(format!("`{}` is no server.json: {error}", escape_for_terminal(&source.name))))?;
    of_document(index, &document, &escape_for_terminal(&source.name))
}

/// The packages and addresses of a `server.json`, each by itself.
fn of_document(index: &PackageIndex, document: &Value, name: &str) -> Result<Vec<Asked>> {
    let offered = server_json::offered(document);
    let mut asked = Vec::new();
    for package in offered.packages {
        let own = match &package.named {
            Some(named) => of_package(index, named),
            // What stands there may be an address with a password in it.
            None => unknown("a package of another kind", "packages of this kind are not in the index"),
        };
        asked.push(match package.bent {
            Some(why) => own.doubted(why),
            None => own,
        });
    }
    asked.extend((0..offered.remotes).map(|_| of_address()));
    if asked.is_empty() {
        return Err(UsageError(format!(
            "`{name}` names no package and no address; a server.json has `packages` or `remotes`"
        ))
        .into());
    }
    Ok(asked)
}

fn told(own: &Asked) -> Value {
    json!({"server": own.name, "verdict": own.advice.verdict, "reasons": own.advice.reasons, "grade": own.grade,
        "version": own.version, "rule": own.rule})
}

fn print(own: &Asked) -> Result<()> {
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
