//! Finds the package that a client's server entry starts.

use gatelodge_catalogue::{
    IncidentMatch, IndexedServer, PackageIndex, PackageReference, PackageRegistry, VersionComparison,
};
use gatelodge_clients::{ClientConfigServer, ClientServerEntry as Written};

/// Identity of a server. Entries with the same name and the same identity are treated as one server.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerIdentity {
    /// A package in the index, with the version that the entry starts.
    Package {
        source: PackageRegistry,
        name: String,
        version: Option<String>,
        /// Whether the version is a range, such as `>=1.0`, rather than an exact version, such as `==1.0`.
        is_range: bool,
        is_guess: bool,
    },
    /// The program and its arguments, for a command that starts no indexed package.
    Command(Vec<String>),
    Address(String),
    Unknown,
}

/// Result of looking up a client's server entry in the index.
pub struct PackageLookup<'i> {
    pub server: Option<IndexedServer<'i>>,
    pub kind_text: &'static str,
    pub is_guess: bool,
    pub version_match: VersionComparison,
    /// Version that the entry starts, if it differs from the indexed one. Only versions that consist of digits and dots
    /// are included, because other text could be private information.
    pub launched_version: Option<String>,
    pub identity: ServerIdentity,
    /// Public incidents that concern the package. Their messages contain nothing from the entry.
    pub concerns: Vec<IncidentMatch>,
}

/// Looks up a client's server entry in the index.
pub fn look_up_package<'i>(found: &ClientConfigServer, index: &'i PackageIndex) -> PackageLookup<'i> {
    let named = match &found.entry {
        Some(Written::Command { argv: words, env, .. }) => {
            let variables = env.iter().map(|(name, _)| name).chain(&found.forwarded_variables);
            let own = PackageReference::of_command(words, variables.map(String::as_str));
            own.map(|own| PackageReference { is_guess: own.is_guess || found.has_external_context, ..own })
        }
        Some(Written::Remote { .. }) | None => None,
    };
    let kind_text = match &found.entry {
        Some(Written::Remote { .. }) => "an address",
        Some(Written::Command { .. }) if named.is_some() => "a package",
        Some(Written::Command { .. }) => "a program",
        None => "an entry that is not clearly a command or a URL",
    };
    let server = named.as_ref().and_then(|named| index.find(named.source, &named.name));
    let concerns = named.as_ref().map(|named| named.incidents(server.as_ref())).unwrap_or_default();
    let known = server.and_then(|server| Some((server, named?)));
    let Some((server, named)) = known else {
        let identity = match &found.entry {
            Some(Written::Command { argv: words, .. }) => ServerIdentity::Command(words.clone()),
            Some(Written::Remote { url, .. }) => ServerIdentity::Address(url.clone()),
            None => ServerIdentity::Unknown,
        };
        return PackageLookup {
            server: None,
            kind_text,
            is_guess: false,
            version_match: VersionComparison::Same,
            launched_version: None,
            identity,
            concerns,
        };
    };
    let is_guess = named.is_guess;
    let plain = |version: &&String| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let version_match = named.compare_version(server.source(), server.version());
    let (source, name) = (server.source(), server.package().to_owned());
    PackageLookup {
        server: Some(server),
        kind_text,
        is_guess,
        version_match,
        launched_version: named
            .version
            .as_ref()
            .filter(|_| version_match == VersionComparison::Different)
            .filter(plain)
            .cloned(),
        identity: ServerIdentity::Package { source, name, version: named.version, is_range: named.is_range, is_guess },
        concerns,
    }
}
