//! What a `server.json` of the MCP registry offers, in its present form and in those before it.

use gatelodge_catalogue::{PackageName, PackageRegistry};
use serde_json::Value;

use crate::server_url;

/// Members of an argument that change nothing of the words it stands for.
const PLAIN: [&str; 9] =
    ["type", "name", "value", "description", "isRequired", "is_required", "isRepeated", "is_repeated", "format"];

/// What is offered.
pub struct Offered {
    pub packages: Vec<Package>,
    /// How many addresses there are.
    pub remotes: usize,
}

/// A package, and how it is started.
pub struct Package {
    /// Which it is; none if it is of a kind that the index does not have.
    pub named: Option<PackageName>,
    /// Why something else may start than what is published under the name.
    pub bent: Option<&'static str>,
}

/// Reads a document. Some have the server in a member of its own.
pub fn offered(document: &Value) -> Offered {
    let document = document.get("server").unwrap_or(document);
    let packages = list(document, &["packages"]).iter().map(package).collect();
    Offered { packages, remotes: list(document, &["remotes"]).len() }
}

fn package(package: &Value) -> Package {
    let kind = text(package, &["registryType", "registry_type", "registryName", "registry_name"]).unwrap_or_default();
    let identifier = text(package, &["identifier", "name"]).unwrap_or_default();
    let named = PackageName::read(&format!("{kind}:{identifier}"));
    let bent = named.as_ref().and_then(|named| bent(package, identifier, named));
    Package { named: named.map(|own| beside(own, package.get("version").and_then(Value::as_str))), bent }
}

/// Why something else may start than what is published under the name.
fn bent(package: &Value, identifier: &str, named: &PackageName) -> Option<&'static str> {
    if ["registryBaseUrl", "registry_base_url"].iter().any(|name| package.get(*name).is_some()) {
        return Some("it names a registry of its own, and the index may have read another");
    }
    if !is_here(package) {
        return Some(
            "it is reached at an address that is not one of this machine, and something else may answer there",
        );
    }
    let usual = if named.source == Some(PackageRegistry::Pypi) { "uvx" } else { "npx" };
    let program = text(package, &["runtimeHint", "runtime_hint"]).unwrap_or(usual);
    let mut words = vec![program.to_owned()];
    for argument in list(package, &["runtimeArguments", "runtime_arguments"]) {
        let Some(own) = plain_words(argument) else {
            return Some("it is started with options that are filled in later, by which something else may run");
        };
        words.extend(own);
    }
    words.push(identifier.to_owned());
    let started = PackageName::of_command(&words, []);
    if !started.is_some_and(|own| !own.is_guess && own.is_same_package(named)) {
        return Some("it is started by a program or with options by which something else may run");
    }
    // One without a name cannot be told from those that bend.
    let variables = list(package, &["environmentVariables", "environment_variables"]);
    let variables = variables.iter().map(|own| text(own, &["name"]).unwrap_or("PATH"));
    let is_bent = PackageName::of_command(&words, variables).is_none_or(|own| own.is_guess);
    is_bent.then_some("it is started with variables by which something else may run")
}

/// Whether a client reaches it on this machine: by its standard streams, or at an address in which no host is filled in.
fn is_here(package: &Value) -> bool {
    let Some(transport) = package.get("transport").filter(|own| !own.is_null()) else { return true };
    match transport.get("url") {
        Some(url) => url
            .as_str()
            .and_then(|url| server_url::parse_server_url(url).ok())
            .is_some_and(|url| server_url::is_loopback(&url)),
        None => text(transport, &["type"]) == Some("stdio"),
    }
}

/// The words that an argument stands for; none where something else is filled in.
fn plain_words(argument: &Value) -> Option<Vec<String>> {
    let members = argument.as_object()?;
    let is_plain = members.keys().all(|name| PLAIN.contains(&name.as_str()));
    let words: Vec<String> = ["name", "value"]
        .iter()
        .filter_map(|name| members.get(*name))
        .map(|word| word.as_str().map(str::to_owned))
        .collect::<Option<_>>()?;
    (is_plain && !words.is_empty()).then_some(words)
}

/// A package with the version that stands beside its name. Where another stands in the name, nobody can tell which counts.
fn beside(own: PackageName, version: Option<&str>) -> PackageName {
    let is_other = own.version.is_some() && version.is_some() && own.version.as_deref() != version;
    let version = version.map(str::to_owned).or(own.version);
    PackageName { version, is_range: own.is_range || is_other, ..own }
}

fn text<'v>(of: &'v Value, names: &[&str]) -> Option<&'v str> {
    names.iter().find_map(|name| of.get(*name)?.as_str())
}

fn list<'v>(of: &'v Value, names: &[&str]) -> &'v [Value] {
    let list = names.iter().find_map(|name| of.get(*name)?.as_array());
    list.map(Vec::as_slice).unwrap_or_default()
}
