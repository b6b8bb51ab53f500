//! What the accepted tools of a server can do: as somebody said, else as the catalogue judges.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use gatelodge_catalogue::{Classification, ServerContext, ToolSpec, classify};
use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::Category;
use gatelodge_store::{CategoryOverride, ServerName, ServerTools, ToolDefinition};

/// What is known of one tool.
#[derive(Debug, Clone)]
pub struct ToolCategorization {
    /// What the catalogue says, or why it cannot.
    pub classification: Result<Classification, String>,
    /// What somebody says, who knows better.
    pub category_override: Option<CategoryOverride>,
    /// What somebody said of an earlier definition; it does not count any more.
    pub stale_override: Option<CategoryOverride>,
}

impl ToolCategorization {
    /// The category that counts; what cannot be read is unknown.
    #[must_use]
    pub fn category(&self) -> Category {
        let judged = || self.classification.as_ref().map_or(Category::Unknown, |judged| judged.category);
        self.category_override.as_ref().map_or_else(judged, |override_row| override_row.category)
    }
}

/// Classifies definitions among their siblings, with what was said of them.
#[must_use]
pub fn categorize_tools<'d>(
    server: &ServerName,
    siblings: impl IntoIterator<Item = &'d str>,
    override_row: &[CategoryOverride],
    definitions: impl IntoIterator<Item = &'d ToolDefinition>,
) -> BTreeMap<String, ToolCategorization> {
    let sibling_tools = ServerContext::new(server.as_str(), None, siblings);
    let class = |definition: &ToolDefinition| {
        // Of one tool one thing is said.
        let about = override_row.iter().find(|override_row| override_row.tool == definition.name);
        let (override_row, lapsed) = match about.cloned() {
            Some(override_row) if override_row.applies_to(definition) => (Some(override_row), None),
            lapsed => (None, lapsed),
        };
        (
            definition.name.clone(),
            ToolCategorization {
                classification: classify_definition(definition, &sibling_tools),
                category_override: override_row,
                stale_override: lapsed,
            },
        )
    };
    definitions.into_iter().map(class).collect()
}

/// Classifies what was accepted of a server.
#[must_use]
pub fn categorize_accepted_tools(server: &ServerName, known: &ServerTools) -> BTreeMap<String, ToolCategorization> {
    let accepted = || known.pinned.iter().map(|pin| &pin.definition);
    categorize_tools(server, accepted().map(|tool| tool.name.as_str()), &known.category_overrides, accepted())
}

fn classify_definition(definition: &ToolDefinition, sibling_tools: &ServerContext) -> Result<Classification, String> {
    let document = read(definition.text.as_bytes(), &JsonLimits::REPLY).map_err(|error| error.to_string())?;
    let tool = ToolSpec::of(document.root()).map_err(str::to_owned)?;
    Ok(classify(&tool, sibling_tools))
}

/// The categories of a server's accepted tools, and what they were found from.
#[derive(Debug, Default)]
pub(crate) struct ServerToolCategories {
    by_name: HashMap<Box<str>, Category>,
    accepted_definitions: Vec<(String, String)>,
    category_overrides: Vec<CategoryOverride>,
}

impl ServerToolCategories {
    /// The categories for what is known now: the same ones while nothing has changed.
    pub async fn of(before: Option<Arc<Self>>, server: &ServerName, known: &ServerTools) -> Arc<Self> {
        let accepted = known.pinned.iter().map(|pin| &pin.definition);
        let accepted: Vec<(String, String)> =
            accepted.map(|tool| (tool.name.clone(), tool.fingerprint.clone())).collect();
        if let Some(before) = before.filter(|before| {
            before.accepted_definitions == accepted && before.category_overrides == known.category_overrides
        }) {
            return before;
        }
        let (server, known) = (server.clone(), known.clone());
        // A server may have thousands of tools, and others wait for this thread.
        let found = tokio::task::spawn_blocking(move || {
            let classes = categorize_accepted_tools(&server, &known);
            let by_name = classes.into_iter().map(|(name, class)| (name.into(), class.category())).collect();
            Self { by_name, accepted_definitions: accepted, category_overrides: known.category_overrides }
        });
        // What could not be judged is unknown.
        Arc::new(found.await.unwrap_or_default())
    }

    /// What a tool can do; unknown if it was not accepted.
    pub fn category(&self, tool: &str) -> Category {
        self.by_name.get(tool).copied().unwrap_or(Category::Unknown)
    }
}
