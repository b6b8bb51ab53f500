//! Finds what changed between two indexes.

use std::collections::{BTreeMap, HashMap};

use serde::{Deserialize, Serialize};

use super::index_rows::{IndexedServer, IndexedTool, PackageIndex, normalized_name};
use super::package_facts::PackageRegistry;
use crate::classify::RiskLevel;

/// The ways in which a tool can change, most serious first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolChangeKind {
    /// The tool's risk level has risen.
    LevelRaised,
    /// The tool was added.
    ToolAdded,
    /// An annotation was removed.
    ClaimLost,
    /// The tool's definition was changed.
    DefinitionChanged,
    /// The tool was removed.
    ToolRemoved,
    /// A summary that counts the changes to a server that are not listed individually.
    MoreChanges,
}

impl ToolChangeKind {
    /// Returns the display text for this kind of change.
    pub fn description(self) -> &'static str {
        match self {
            Self::LevelRaised => "can do more harm than before",
            Self::ToolAdded => "is new",
            Self::ClaimLost => "lost an annotation of its author",
            Self::DefinitionChanged => "has a changed definition",
            Self::ToolRemoved => "is gone",
            Self::MoreChanges => "changed",
        }
    }

    /// Returns the display text for this kind of change if it applies to `count` tools.
    pub(crate) fn description_for_count(self, count: usize) -> &'static str {
        match self {
            _ if count == 1 => self.description(),
            Self::LevelRaised => "can do more harm than before",
            Self::ToolAdded => "are new",
            Self::ClaimLost => "lost annotations of their author",
            Self::DefinitionChanged => "have changed definitions",
            Self::ToolRemoved => "are gone",
            Self::MoreChanges => "changed",
        }
    }
}

/// One change to a tool, or a summary of a server's remaining changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolChange {
    /// Kind of change.
    pub kind: ToolChangeKind,
    /// Registry of the package: `pypi` or `npm`.
    pub source: PackageRegistry,
    /// Name of the server's package.
    pub package: String,
    /// Version that contains the change.
    pub version: String,
    /// Name of the tool. Empty in a summary.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub tool: String,
    /// Risk level after the change. In a summary, the highest level of the changed tools.
    pub level: String,
    /// Number of summarized changes of each kind. Empty unless this is a summary.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<ToolChangeKind, usize>,
}

/// The changes to a server's tools, most serious first and at most one per tool.
#[derive(Debug)]
pub struct ServerChanges<'i> {
    server: IndexedServer<'i>,
    changes: Vec<(ToolChangeKind, IndexedTool<'i>)>,
}

/// Returns the changes to each server that is in both indexes with different versions.
pub fn index_changes<'i>(old: &'i PackageIndex, new: &'i PackageIndex) -> impl Iterator<Item = ServerChanges<'i>> {
    // Older indexes may spell names of Python packages differently.
    let key = |server: &IndexedServer<'_>| match server.source() {
        PackageRegistry::Pypi => (PackageRegistry::Pypi, normalized_name(server.package())),
        PackageRegistry::Npm => (PackageRegistry::Npm, server.package().to_owned()),
    };
    let before: HashMap<(PackageRegistry, String), IndexedServer<'i>> =
        old.servers().map(|server| (key(&server), server)).collect();
    new.servers().filter_map(move |server| {
        // A published version does not change. If its facts differ, the extractor has changed.
        let old = before.get(&key(&server)).filter(|old| old.version() != server.version())?;
        let changes = server_changes(old, &server);
        (!changes.is_empty()).then_some(ServerChanges { server, changes })
    })
}

impl ServerChanges<'_> {
    /// Returns the number of changed tools, which is never zero.
    #[expect(clippy::len_without_is_empty, reason = "a server without changes is not among them")]
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    /// Returns the first `max` changes, followed by a summary of the rest.
    pub fn first_changes(&self, max: usize) -> Vec<ToolChange> {
        let (each, rest) = self.changes.split_at_checked(max).unwrap_or((&self.changes, &[]));
        let mut listed: Vec<ToolChange> =
            each.iter().map(|(kind, tool)| self.make_change(*kind, tool.name(), tool.level())).collect();
        if let Some(level) = rest.iter().map(|(_, tool)| tool.level()).max() {
            let mut sum = self.make_change(ToolChangeKind::MoreChanges, "", level);
            rest.iter().for_each(|(kind, _)| *sum.counts.entry(*kind).or_default() += 1);
            listed.push(sum);
        }
        listed
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
    // An equal definition with a different category did not change: the classifier did.
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
