//! `gatelodge precheck`: what to do about a server before one connects to it.

use std::path::Path;

use anyhow::Result;
use gatelodge_catalogue::{Advice, Index, Known, PackageName, Posture, Precheck, grade};
use serde_json::{Value, json};

use super::catalogue::{open, show};
use crate::cli::PrecheckArgs;
use crate::exit::{Exit, Usage};
use crate::report::{say, shown};
use crate::{address, file, output};

/// One server that was asked about.
struct Asked {
    /// What it is called, for people.
    name: String,
    advice: Precheck,
    grade: Option<char>,
    version: Option<String>,
    rule: Option<String>,
}

pub fn run(args: &PrecheckArgs) -> Result<Exit> {
    let index = open::index(&args.from)?;
    let asked =
        if is_file(&args.what) { of_server_json(&index, &args.what)? } else { vec![of_text(&index, &args.what)?] };
    let verdict = asked.iter().map(|own| own.advice.verdict).max().unwrap_or(Advice::AskFirst);
    match args.json {
        true => output::json(&json!({
            "verdict": verdict, "servers": asked.iter().map(told).collect::<Vec<_>>(), "index": index.about(),
        }))?,
        false => asked.iter().try_for_each(print)?,
    }
    Ok(if verdict == Advice::AskFirst { Exit::Findings } else { Exit::Fine })
}

fn is_file(what: &str) -> bool {
    !what.contains("://") && (what.ends_with(".json") || Path::new(what).is_file())
}

fn of_text(index: &Index, what: &str) -> Result<Asked> {
    if what.contains("://") {
        let why = "an address says nothing of the tools behind it; `gatelodge scan --url` lists and judges them";
        return Ok(unknown("the server at this address", why));
    }
    let named = PackageName::read(what)
        .ok_or_else(|| Usage(format!("`{}` is neither a package, nor an address, nor a file", address::shown(what))))?;
    Ok(of_package(index, &named))
}

fn of_package(index: &Index, named: &PackageName) -> Asked {
    match index.find(named.source, &named.name) {
        Some(server) => {
            let known = Known::of(&server);
            Asked {
                name: format!("{}:{}", server.source().as_str(), shown(server.package())),
                grade: Some(grade(&known.tools).letter),
                version: Some(shown(server.version())),
                rule: show::policy(&known, Posture::Recommended).ok(),
                advice: open::advise(index, named, &server, &known.tools),
            }
        }
        None => {
            let mut asked = unknown(&shown(&named.name), "it is not in the index, so nothing is known of its tools");
            if let Some(close) = open::close(index, &named.name) {
                asked.advice.reasons.push(format!(
                    "its name is close to `{}`, which is known: make sure which is meant",
                    shown(&close)
                ));
            }
            asked
        }
    }
}

fn unknown(name: &str, why: &str) -> Asked {
    Asked { name: name.to_owned(), advice: Precheck::unknown(why), grade: None, version: None, rule: None }
}

/// The packages and addresses of a `server.json`, each by itself.
fn of_server_json(index: &Index, path: &str) -> Result<Vec<Asked>> {
    let source = file::read(Path::new(path))?;
    let document: Value = serde_json::from_slice(&source.text)
        .map_err(|error| Usage(format!("`{}` is no server.json: {error}", shown(path))))?;
    let document = document.get("server").unwrap_or(&document);
    let list = |name: &str| document.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let mut asked = Vec::new();
    for package in list("packages") {
        let text = |names: [&str; 2]| names.iter().find_map(|name| package.get(*name)?.as_str());
        let kind = text(["registryType", "registry_type"]).unwrap_or_default();
        let identifier = text(["identifier", "name"]).unwrap_or_default();
        let version = package.get("version").and_then(Value::as_str);
        let named = PackageName::read(&format!("{kind}:{identifier}")).map(|own| beside(own, version));
        let own = match named {
            Some(named) => of_package(index, &named),
            // What stands there may be an address with a password in it.
            None => unknown("a package of another kind", "packages of this kind are not in the index"),
        };
        asked.push(match bent(&package) {
            Some(why) => Asked { advice: own.advice.at_least(Advice::AskFirst, why.to_owned()), ..own },
            None => own,
        });
    }
    for _ in list("remotes") {
        asked.push(of_text(index, "https://")?);
    }
    if asked.is_empty() {
        return Err(Usage(format!(
            "`{}` names no package and no address; a server.json has `packages` or `remotes`",
            shown(path)
        ))
        .into());
    }
    Ok(asked)
}

/// Why something else may start than what is published under the name.
fn bent(package: &Value) -> Option<&'static str> {
    let list =
        |names: [&str; 2]| names.iter().find_map(|name| package.get(*name)?.as_array()).cloned().unwrap_or_default();
    let is_harmless = |argument: &Value| {
        let words = ["name", "value"].map(|name| argument.get(name).and_then(Value::as_str));
        words.iter().flatten().all(|word| matches!(*word, "-y" | "--yes"))
    };
    let bends = |variable: &Value| variable.get("name").and_then(Value::as_str).is_some_and(PackageName::is_bent_by);
    if ["registryBaseUrl", "registry_base_url"].iter().any(|name| package.get(*name).is_some()) {
        return Some("it names a registry of its own, and the index may have read another");
    }
    if !list(["runtimeArguments", "runtime_arguments"]).iter().all(is_harmless) {
        return Some("it is started with options by which something else may run");
    }
    let is_bent = list(["environmentVariables", "environment_variables"]).iter().any(bends);
    is_bent.then_some("it is started with variables by which something else may run")
}

/// A package with the version that stands beside its name. Where another stands in the name, nobody can tell which counts.
fn beside(own: PackageName, version: Option<&str>) -> PackageName {
    let is_other = own.version.is_some() && version.is_some() && own.version.as_deref() != version;
    let version = version.map(str::to_owned).or(own.version);
    PackageName { version, is_range: own.is_range || is_other, ..own }
}

fn told(own: &Asked) -> Value {
    json!({"server": own.name, "verdict": own.advice.verdict, "reasons": own.advice.reasons, "grade": own.grade,
        "version": own.version, "rule": own.rule})
}

fn print(own: &Asked) -> Result<()> {
    let grade = own.grade.map(|grade| format!(", grade {grade}")).unwrap_or_default();
    let mut out = format!("{}: {}{grade}\n", own.name, own.advice.verdict.as_str());
    own.advice.reasons.iter().for_each(|reason| out.push_str(&format!("  - {reason}\n")));
    if let Some(rule) = own.rule.as_ref().filter(|_| own.advice.verdict != Advice::Proceed) {
        out.push_str(&format!("\n{rule}\n"));
    }
    output::print(&out)?;
    if own.rule.is_none() {
        say("`gatelodge scan` connects to a server, judges its tools, and writes a policy for it");
    }
    Ok(())
}
