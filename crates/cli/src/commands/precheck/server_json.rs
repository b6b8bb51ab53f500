//! What a `server.json` of the MCP registry offers, in its present form and in those before it.

use gatelodge_catalogue::{PackageName, PackageRegistry};
use serde_json::Value;

use crate::server_url;

/// Members of an argument that change nothing of the words it stands for.
const LITERAL_ARGUMENT_KEYS: [&str; 9] =
    ["type", "name", "value", "description", "isRequired", "is_required", "isRepeated", "is_repeated", "format"];

/// What is offered.
pub struct ServerJson {
    pub packages: Vec<ServerJsonPackage>,
    /// How many addresses there are.
    pub remotes: usize,
}

/// A package, and how it is started.
pub struct ServerJsonPackage {
    /// Which it is; none if it is of a kind that the index does not have.
    pub package_name: Option<PackageName>,
    /// Why something else may start than what is published under the name.
    pub launch_concern: Option<&'static str>,
}

/// Reads a document. Some have the server in a member of its own.
pub fn parse_server_json(document: &Value) -> ServerJson {
    let document = document.get("server").unwrap_or(document);
    let packages = list_member(document, &["packages"]).iter().map(parse_package).collect();
    ServerJson { packages, remotes: list_member(document, &["remotes"]).len() }
}

fn parse_package(package: &Value) -> ServerJsonPackage {
    let kind =
        find_text(package, &["registryType", "registry_type", "registryName", "registry_name"]).unwrap_or_default();
    let identifier = find_text(package, &["identifier", "name"]).unwrap_or_default();
    let named = PackageName::read(&format!("{kind}:{identifier}"));
    let bent = named.as_ref().and_then(|named| launch_concern(package, identifier, named));
    ServerJsonPackage {
        package_name: named.map(|own| with_version(own, package.get("version").and_then(Value::as_str))),
        launch_concern: bent,
    }
}

/// Why something else may start than what is published under the name.
fn launch_concern(package: &Value, identifier: &str, named: &PackageName) -> Option<&'static str> {
    if ["registryBaseUrl", "registry_base_url"].iter().any(|name| package.get(*name).is_some()) {
        return Some("it names a registry of its own, and the index may have read another");
    }
    if !is_local_transport(package) {
        return Some(
            "it is reached at an address that is not one of this machine, and something else may answer there",
        );
    }
    let usual = if named.source == Some(PackageRegistry::Pypi) { "uvx" } else { "npx" };
    let program = find_text(package, &["runtimeHint", "runtime_hint"]).unwrap_or(usual);
    let mut words = vec![program.to_owned()];
    for argument in list_member(package, &["runtimeArguments", "runtime_arguments"]) {
        let Some(own) = literal_words(argument) else {
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
    let variables = list_member(package, &["environmentVariables", "environment_variables"]);
    let variables = variables.iter().map(|own| find_text(own, &["name"]).unwrap_or("PATH"));
    let is_bent = PackageName::of_command(&words, variables).is_none_or(|own| own.is_guess);
    is_bent.then_some("it is started with variables by which something else may run")
}

/// Whether a client reaches it on this machine: by its standard streams, or at an address in which no host is filled in.
fn is_local_transport(package: &Value) -> bool {
    let Some(transport) = package.get("transport").filter(|own| !own.is_null()) else { return true };
    match transport.get("url") {
        Some(url) => url
            .as_str()
            .and_then(|url| server_url::parse_server_url(url).ok())
            .is_some_and(|url| server_url::is_loopback(&url)),
        None => find_text(transport, &["type"]) == Some("stdio"),
    }
}

/// The words that an argument stands for; none where something else is filled in.
fn literal_words(argument: &Value) -> Option<Vec<String>> {
    let members = argument.as_object()?;
    let is_plain = members.keys().all(|name| LITERAL_ARGUMENT_KEYS.contains(&name.as_str()));
    let words: Vec<String> = ["name", "value"]
        .iter()
        .filter_map(|name| members.get(*name))
        .map(|word| word.as_str().map(str::to_owned))
        .collect::<Option<_>>()?;
    (is_plain && !words.is_empty()).then_some(words)
}

/// A package with the version that stands beside its name. Where another stands in the name, nobody can tell which counts.
fn with_version(own: PackageName, version: Option<&str>) -> PackageName {
    let is_other = own.version.is_some() && version.is_some() && own.version.as_deref() != version;
    let version = version.map(str::to_owned).or(own.version);
    PackageName { version, is_range: own.is_range || is_other, ..own }
}

fn find_text<'v>(of: &'v Value, names: &[&str]) -> Option<&'v str> {
    names.iter().find_map(|name| of.get(*name)?.as_str())
}

fn list_member<'v>(of: &'v Value, names: &[&str]) -> &'v [Value] {
    let list = names.iter().find_map(|name| of.get(*name)?.as_array());
    list.map(Vec::as_slice).unwrap_or_default()
}
