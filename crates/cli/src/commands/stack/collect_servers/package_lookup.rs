//! What an entry starts, by what is written in it.

use gatelodge_catalogue::{
    IncidentMatch, IndexedServer, PackageIndex, PackageName, PackageRegistry, VersionComparison,
};

use crate::client_config::{NamedServerEntry, ServerEntry as Written};

/// By what two entries of one name are the same server.
#[derive(Debug, PartialEq, Eq)]
pub enum ServerIdentity {
    /// A package of the index, and which version of it.
    Package {
        source: PackageRegistry,
        name: String,
        version: Option<String>,
        /// `==1.0` and `>=1.0` are not the same.
        is_range: bool,
        is_guess: bool,
    },
    /// A program and its arguments.
    Command(Vec<String>),
    Address(String),
    Unknown,
}

/// What is known of an entry.
pub struct PackageLookup<'i> {
    pub server: Option<IndexedServer<'i>>,
    pub kind_text: &'static str,
    pub is_guess: bool,
    pub version_match: VersionComparison,
    /// The version that starts, where it is plain numbers: anything else could be something that is nobody's business.
    pub launched_version: Option<String>,
    pub identity: ServerIdentity,
    /// Public cases of the package. They are told in our own words.
    pub concerns: Vec<IncidentMatch>,
}

/// Looks an entry up in the index.
pub fn look_up_package<'i>(found: &NamedServerEntry, index: &'i PackageIndex) -> PackageLookup<'i> {
    let named = match &found.entry {
        Some(Written::Command { argv: words, env, .. }) => {
            let variables = env.iter().map(|(name, _)| name).chain(&found.forwarded_variables);
            let own = PackageName::of_command(words, variables.map(String::as_str));
            own.map(|own| PackageName { is_guess: own.is_guess || found.has_external_context, ..own })
        }
        Some(Written::Remote { .. }) | None => None,
    };
    let what = match &found.entry {
        Some(Written::Remote { .. }) => "an address",
        Some(Written::Command { .. }) if named.is_some() => "a package",
        Some(Written::Command { .. }) => "a program",
        None => "an entry that is not plainly a command or an address",
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
            kind_text: what,
            is_guess: false,
            version_match: VersionComparison::Same,
            launched_version: None,
            identity,
            concerns,
        };
    };
    let is_guess = named.is_guess;
    let plain = |version: &&String| version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let reading = named.compare_version(server.source(), server.version());
    let (source, name) = (server.source(), server.package().to_owned());
    PackageLookup {
        server: Some(server),
        kind_text: what,
        is_guess,
        version_match: reading,
        launched_version: named
            .version
            .as_ref()
            .filter(|_| reading == VersionComparison::Different)
            .filter(plain)
            .cloned(),
        identity: ServerIdentity::Package { source, name, version: named.version, is_range: named.is_range, is_guess },
        concerns,
    }
}
