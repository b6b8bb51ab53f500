//! Determines where `precheck` gets a package's tools from: the package index, or the package itself.

use std::collections::HashSet;

use anyhow::Result;
use gatelodge_catalogue::{
    ConnectionAdvice, PackageIndex, PackageReference, ServerCatalogueEntry, StarterPolicyStrictness, grade_server,
};

use super::{PrecheckedServer, indexer_read};
use crate::commands::catalogue::{index_access, show_package};
use crate::diagnostic_report::escape_for_terminal;

/// Where the facts about packages come from.
#[derive(Debug, Clone, Copy)]
pub enum PackageFactsSource<'i> {
    /// The package index. No program is started, and nothing is downloaded.
    Index(&'i PackageIndex),
    /// The package itself, which `gatelodge-indexer` downloads and reads. The index is searched only for similar names.
    Indexer(&'i PackageIndex),
}

/// Precheck result for one package.
pub struct PackagePrecheck {
    pub server: PrecheckedServer,
    /// Names of the package's tools; `None` if nothing is known about the package.
    pub tool_names: Option<HashSet<String>>,
}

impl PackageFactsSource<'_> {
    /// Rates a package by the facts from this source.
    pub fn check_package(self, named: &PackageReference) -> Result<PackagePrecheck> {
        match self {
            Self::Index(index) => Ok(check_indexed_package(index, named)),
            Self::Indexer(index) => indexer_read::check_package(index, named),
        }
    }
}

impl PackagePrecheck {
    /// Creates the result for a package whose tools are known.
    pub fn known(name: String, version: &str, known: &ServerCatalogueEntry, advice: ConnectionAdvice) -> Self {
        let server = PrecheckedServer {
            name,
            advice,
            grade: Some(grade_server(&known.tools).letter),
            version: Some(escape_for_terminal(version)),
            rule: show_package::server_policy(known, StarterPolicyStrictness::Recommended).ok(),
        };
        Self { server, tool_names: Some(known.tools.iter().map(|tool| tool.name.clone()).collect()) }
    }

    /// Creates the result for a package about which nothing is known.
    pub fn unknown(name: String, advice: ConnectionAdvice) -> Self {
        let server = PrecheckedServer { name, advice, grade: None, version: None, rule: None };
        Self { server, tool_names: None }
    }
}

fn check_indexed_package(index: &PackageIndex, named: &PackageReference) -> PackagePrecheck {
    match index.find(named.source, &named.name) {
        Some(server) => {
            let known = ServerCatalogueEntry::of(&server);
            let name = format!("{}:{}", server.source().as_str(), escape_for_terminal(server.package()));
            let advice = index_access::advise(index, named, &server, &known.tools);
            PackagePrecheck::known(name, server.version(), &known, advice)
        }
        None => PackagePrecheck::unknown(escape_for_terminal(&named.name), index_access::advise_unknown(index, named)),
    }
}
