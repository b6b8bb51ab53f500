//! Parses a `server.json` from the MCP registry, in the current format or an earlier one.

use gatelodge_admin::server_url;
use gatelodge_catalogue::{PackageReference, PackageRegistry};
use serde_json::Value;

/// Keys that are allowed in an argument with a fixed value. Any other key could change what the argument adds to the
/// command line.
const LITERAL_ARGUMENT_KEYS: [&str; 9] =
    ["type", "name", "value", "description", "isRequired", "is_required", "isRepeated", "is_repeated", "format"];

/// The packages and remotes listed in a `server.json`.
pub struct ServerJson {
    pub packages: Vec<ServerJsonPackage>,
    /// Number of remote URLs.
    pub remotes: usize,
}

/// A package in a `server.json`.
pub struct ServerJsonPackage {
    /// Name of the package; `None` if the package is in a registry that the index does not cover.
    pub package_name: Option<PackageReference>,
    /// Why the command may start something other than the published package; `None` if there is no such concern.
    pub launch_concern: Option<&'static str>,
}

/// Parses a `server.json`. The content may be nested under the key `server`.
pub fn parse_server_json(document: &Value) -> ServerJson {
    let document = document.get("server").unwrap_or(document);
    let packages = list_member(document, &["packages"]).iter().map(parse_package).collect();
    ServerJson { packages, remotes: list_member(document, &["remotes"]).len() }
}

fn parse_package(package: &Value) -> ServerJsonPackage {
    let kind =
        find_text(package, &["registryType", "registry_type", "registryName", "registry_name"]).unwrap_or_default();
    let identifier = find_text(package, &["identifier", "name"]).unwrap_or_default();
    let named = PackageReference::read(&format!("{kind}:{identifier}"));
    let concern = named.as_ref().and_then(|named| launch_concern(package, identifier, named));
    ServerJsonPackage {
        package_name: named.map(|own| with_version(own, package.get("version").and_then(Value::as_str))),
        launch_concern: concern,
    }
}

/// Returns why the command may start something other than the published package, or `None` if there is no such concern.
fn launch_concern(package: &Value, identifier: &str, named: &PackageReference) -> Option<&'static str> {
    if ["registryBaseUrl", "registry_base_url"].iter().any(|name| package.get(*name).is_some()) {
        return Some("it names its own registry, and the index may be from another one");
    }
    if !is_local_transport(package) {
        return Some("its URL is not on this machine, so another server may respond there");
    }
    let default = if named.source == Some(PackageRegistry::Pypi) { "uvx" } else { "npx" };
    let program = find_text(package, &["runtimeHint", "runtime_hint"]).unwrap_or(default);
    let mut words = vec![program.to_owned()];
    for argument in list_member(package, &["runtimeArguments", "runtime_arguments"]) {
        let Some(own) = literal_words(argument) else {
            return Some("it is started with options that are filled in later and may change what runs");
        };
        words.extend(own);
    }
    words.push(identifier.to_owned());
    let started = PackageReference::of_command(&words, []);
    if !started.is_some_and(|own| !own.is_guess && own.is_same_package(named)) {
        return Some("it is started by a program or with options that may change what runs");
    }
    // A variable without a name counts as `PATH`, because it could change what starts.
    let variables = list_member(package, &["environmentVariables", "environment_variables"]);
    let variables = variables.iter().map(|own| find_text(own, &["name"]).unwrap_or("PATH"));
    let is_changed = PackageReference::of_command(&words, variables).is_none_or(|own| own.is_guess);
    is_changed.then_some("it is started with variables that may change what runs")
}

/// Returns whether the server runs on this machine, that is, uses stdio or a loopback URL. A URL with a placeholder for
/// its host does not count as a loopback URL.
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

/// Returns the words that an argument adds to the command line, or `None` if the `server.json` does not fully determine
/// them.
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

/// Adds the value of the `version` member to a package name. If the name already contains a different version, either
/// could be meant, so the result is treated as a version range.
fn with_version(own: PackageReference, version: Option<&str>) -> PackageReference {
    let is_ambiguous = own.version.is_some() && version.is_some() && own.version.as_deref() != version;
    let version = version.map(str::to_owned).or(own.version);
    PackageReference { version, is_range: own.is_range || is_ambiguous, ..own }
}

fn find_text<'v>(of: &'v Value, names: &[&str]) -> Option<&'v str> {
    names.iter().find_map(|name| of.get(*name)?.as_str())
}

fn list_member<'v>(of: &'v Value, names: &[&str]) -> &'v [Value] {
    let list = names.iter().find_map(|name| of.get(*name)?.as_array());
    list.map(Vec::as_slice).unwrap_or_default()
}
