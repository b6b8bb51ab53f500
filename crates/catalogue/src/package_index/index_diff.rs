//! What changed between two indexes.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::index_rows::{IndexedServer, IndexedTool, PackageIndex, normalized_name};
use super::package_facts::PackageRegistry;
use crate::classify::RiskLevel;

/// What happened to a tool. The gravest comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChangeKind {
    /// It can do more harm than before.
    LevelRaised,
    /// It is new.
    ToolAdded,
    /// Its author no longer claims what was claimed.
    ClaimLost,
    /// Its definition differs.
    DefinitionChanged,
    /// It is gone.
    ToolRemoved,
    /// There are more changes of the server than are told one by one; these are counted.
    MoreChanges,
}

impl ToolChangeKind {
    /// What happened, for people.
    pub fn description(self) -> &'static str {
        match self {
            Self::LevelRaised => "can do more harm than before",
            Self::ToolAdded => "is new",
            Self::ClaimLost => "lost a claim of its author",
            Self::DefinitionChanged => "has another definition",
            Self::ToolRemoved => "is gone",
            Self::MoreChanges => "changed",
        }
    }

    /// The same of so many.
    pub(crate) fn description_for_count(self, count: usize) -> &'static str {
        match self {
            _ if count == 1 => self.description(),
            Self::LevelRaised => "can do more harm than before",
            Self::ToolAdded => "are new",
            Self::ClaimLost => "lost claims of their author",
            Self::DefinitionChanged => "have other definitions",
            Self::ToolRemoved => "are gone",
            Self::MoreChanges => "changed",
        }
    }
}

/// One change of a tool, or a count of those that are not told one by one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolChange {
    /// What.
    pub kind: ToolChangeKind,
    /// `pypi` or `npm`.
    pub source: PackageRegistry,
    /// On which server.
    pub package: String,
    /// The version it was found in.
    pub version: String,
    /// Which tool; empty where changes are counted.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// How much harm a call can do now; of those that are counted, the highest.
    pub level: String,
    /// How many of which kind are counted.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<ToolChangeKind, usize>,
}

/// What changed on a server, the gravest first; of one tool the gravest change.
#[derive(Debug)]
pub struct ServerChanges<'i> {
    server: IndexedServer<'i>,
    changes: Vec<(ToolChangeKind, IndexedTool<'i>)>,
}

/// What changed on servers that are in both with another version, a server at a time.
pub fn index_changes<'i>(old: &'i PackageIndex, new: &'i PackageIndex) -> impl Iterator<Item = ServerChanges<'i>> {
    // An older index may spell names of Python packages otherwise.
    let key = |server: &IndexedServer<'_>| match server.source() {
        PackageRegistry::Pypi => (PackageRegistry::Pypi, normalized_name(server.package())),
        PackageRegistry::Npm => (PackageRegistry::Npm, server.package().to_owned()),
    };
    let before: HashMap<(PackageRegistry, String), IndexedServer<'i>> =
        old.servers().map(|server| (key(&server), server)).collect();
    new.servers().filter_map(move |server| {
        // What is published under a version stays; where it reads differently, it was the reader that changed.
        let old = before.get(&key(&server)).filter(|old| old.version() != server.version())?;
        let changes = server_changes(old, &server);
        (!changes.is_empty()).then_some(ServerChanges { server, changes })
    })
}

impl ServerChanges<'_> {
    /// How many tools changed; never none.
    #[expect(clippy::len_without_is_empty, reason = "a server without changes is not among them")]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// The first `most` changes one by one, and what comes after them as a count.
    pub fn first_changes(&self, most: usize) -> Vec<ToolChange> {
        let (each, rest) = self.changes.split_at_checked(most).unwrap_or((&self.changes, &[]));
        let mut told: Vec<ToolChange> =
            each.iter().map(|(kind, tool)| self.make_change(*kind, tool.name(), tool.level())).collect();
        if let Some(level) = rest.iter().map(|(_, tool)| tool.level()).max() {
            let mut sum = self.make_change(ToolChangeKind::MoreChanges, "", level);
            rest.iter().for_each(|(kind, _)| *sum.counts.entry(*kind).or_default() += 1);
            told.push(sum);
        }
        told
    }

    fn make_change(&self, kind: ToolChangeKind, tool: &str, level: RiskLevel) -> ToolChange {
        ToolChange {
            kind,
            source: self.server.source(),
            package: self.server.package().to_owned(),
            version: self.server.version().to_owned(),
            tool: tool.to_owned(),
            level: level.as_str().to_owned(),
            counts: BTreeMap::new(),
        }
    }
}

fn server_changes<'i>(old: &IndexedServer<'i>, new: &IndexedServer<'i>) -> Vec<(ToolChangeKind, IndexedTool<'i>)> {
    let mut changes = Vec::new();
    for tool in new.tools() {
        let kind = match old.tool(tool.name()) {
            None => Some(ToolChangeKind::ToolAdded),
            Some(before) => tool_change(&before, &tool),
        };
        changes.extend(kind.map(|kind| (kind, tool)));
    }
    let gone = old.tools().filter(|tool| new.tool(tool.name()).is_none());
    changes.extend(gone.map(|tool| (ToolChangeKind::ToolRemoved, tool)));
    changes.sort_by_key(|(kind, tool)| (*kind, std::cmp::Reverse(tool.level())));
    changes
}

fn tool_change(old: &IndexedTool<'_>, new: &IndexedTool<'_>) -> Option<ToolChangeKind> {
    let (was, is) = (old.claims(), new.claims());
    // What reads as before and is judged otherwise did not change: the judge did.
    if old.hash() == new.hash() && was == is {
        return None;
    }
    let lost = |was: Option<bool>, is: Option<bool>| was.is_some() && is.is_none();
    if new.level() > old.level() {
        Some(ToolChangeKind::LevelRaised)
    } else if lost(was.read_only, is.read_only) || lost(was.destructive, is.destructive) {
        Some(ToolChangeKind::ClaimLost)
    } else if old.hash() != new.hash() {
        Some(ToolChangeKind::DefinitionChanged)
    } else {
        None
    }
}
