//! What the accepted tools of a server can do: as somebody said, else as the catalogue judges.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use gatelodge_catalogue::{Classification, Server, Tool, classify};
use gatelodge_json::{Limits, read};
use gatelodge_policy::Category;
use gatelodge_store::{Known, SaidClass, ServerName, ToolDefinition};

/// What is known of one tool.
#[derive(Debug, Clone)]
pub struct Class {
    /// What the catalogue says.
    pub judged: Classification,
    /// What somebody says, who knows better.
    pub said: Option<SaidClass>,
}

impl Class {
    /// The category that counts.
    #[must_use]
    pub fn category(&self) -> Category {
        self.said.as_ref().map_or(self.judged.category, |said| said.category)
    }
}

/// Classifies definitions among those that were accepted of their server. One that cannot be read is of no class.
#[must_use]
pub fn classes<'d>(
    server: &ServerName,
    known: &Known,
    definitions: impl IntoIterator<Item = &'d ToolDefinition>,
) -> BTreeMap<String, Class> {
    let siblings = known.accepted.iter().map(|pin| pin.definition.name.as_str());
    let around = Server::new(server.as_str(), None, siblings);
    let class = |definition: &ToolDefinition| {
        let document = read(definition.text.as_bytes(), &Limits::REPLY).ok()?;
        let judged = classify(&Tool::of(document.root()).ok()?, &around);
        let said = known.said.iter().find(|said| said.holds_for(definition)).cloned();
        Some((definition.name.clone(), Class { judged, said }))
    };
    definitions.into_iter().filter_map(class).collect()
}

/// The categories of a server's accepted tools, and what they were found from.
#[derive(Debug, Default)]
pub(crate) struct Categories {
    by_name: HashMap<Box<str>, Category>,
    accepted: Vec<(String, String)>,
    said: Vec<SaidClass>,
}

impl Categories {
    /// The categories for what is known now: the same ones while nothing has changed.
    pub async fn of(before: Option<Arc<Self>>, server: &ServerName, known: &Known) -> Arc<Self> {
        let accepted = known.accepted.iter().map(|pin| &pin.definition);
        let accepted: Vec<(String, String)> =
            accepted.map(|tool| (tool.name.clone(), tool.fingerprint.clone())).collect();
        if let Some(before) = before.filter(|before| before.accepted == accepted && before.said == known.said) {
            return before;
        }
        let (server, known) = (server.clone(), known.clone());
        // A server may have thousands of tools, and others wait for this thread.
        let found = tokio::task::spawn_blocking(move || {
            let classes = classes(&server, &known, known.accepted.iter().map(|pin| &pin.definition));
            let by_name = classes.into_iter().map(|(name, class)| (name.into(), class.category())).collect();
            Self { by_name, accepted, said: known.said }
        });
        // What could not be judged is unknown.
        Arc::new(found.await.unwrap_or_default())
    }

    /// What a tool can do; unknown if it was not accepted.
    pub fn category(&self, tool: &str) -> Category {
        self.by_name.get(tool).copied().unwrap_or(Category::Unknown)
    }
}
