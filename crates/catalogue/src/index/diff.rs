//! What changed between two indexes.

use serde::{Deserialize, Serialize};

use super::rows::{Index, IndexedServer, IndexedTool};
use crate::classify::Level;

/// What happened to a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChangeKind {
    /// It is new.
    ToolAdded,
    /// It is gone.
    ToolRemoved,
    /// It can do more harm than before.
    LevelRaised,
    /// Its author no longer claims what was claimed.
    ClaimLost,
    /// Its definition differs.
    DefinitionChanged,
}

impl ChangeKind {
    /// What happened, for people.
    pub fn says(self) -> &'static str {
        match self {
            Self::ToolAdded => "is new",
            Self::ToolRemoved => "is gone",
            Self::LevelRaised => "can do more harm than before",
            Self::ClaimLost => "lost a claim of its author",
            Self::DefinitionChanged => "has another definition",
        }
    }
}

/// One change of a tool.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// What.
    pub kind: ChangeKind,
    /// `pypi` or `npm`.
    pub source: super::Source,
    /// On which server.
    pub package: String,
    /// The version it was found in.
    pub version: String,
    /// Which tool.
    pub tool: String,
    /// How much harm a call can do now.
    pub level: String,
}

/// What changed on servers that are in both with another version, by server and tool; of one tool the gravest change.
pub fn changes(old: &Index, new: &Index) -> Vec<Change> {
    let mut changes = Vec::new();
    let mut before = old.servers().peekable();
    for server in new.servers() {
        let key = |server: &IndexedServer<'_>| (server.source(), server.package().to_owned());
        // Both come in order.
        while before.peek().is_some_and(|old| key(old) < key(&server)) {
            before.next();
        }
        // What is published under a version stays; where it reads differently, it was the reader that changed.
        let is_newer = |old: &&IndexedServer<'_>| key(old) == key(&server) && old.version() != server.version();
        if let Some(old) = before.peek().filter(is_newer) {
            of_server(old, &server, &mut changes);
        }
    }
    changes
}

fn of_server(old: &IndexedServer<'_>, new: &IndexedServer<'_>, changes: &mut Vec<Change>) {
    let mut tell = |kind, tool: &IndexedTool<'_>| {
        changes.push(Change {
            kind,
            source: new.source(),
            package: new.package().to_owned(),
            version: new.version().to_owned(),
            tool: tool.name().to_owned(),
            level: Level::as_str(tool.level()).to_owned(),
        });
    };
    for tool in new.tools() {
        match old.tool(tool.name()) {
            None => tell(ChangeKind::ToolAdded, &tool),
            Some(before) => {
                if let Some(kind) = of_tool(&before, &tool) {
                    tell(kind, &tool);
                }
            }
        }
    }
    old.tools().filter(|tool| new.tool(tool.name()).is_none()).for_each(|tool| tell(ChangeKind::ToolRemoved, &tool));
}

fn of_tool(old: &IndexedTool<'_>, new: &IndexedTool<'_>) -> Option<ChangeKind> {
    let (was, is) = (old.claims(), new.claims());
    let lost = |was: Option<bool>, is: Option<bool>| was.is_some() && is.is_none();
    if new.level() > old.level() {
        Some(ChangeKind::LevelRaised)
    } else if lost(was.read_only, is.read_only) || lost(was.destructive, is.destructive) {
        Some(ChangeKind::ClaimLost)
    } else if old.hash() != new.hash() {
        Some(ChangeKind::DefinitionChanged)
    } else {
        None
    }
}
