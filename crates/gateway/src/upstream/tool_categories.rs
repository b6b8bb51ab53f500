//! Categories of a server's pinned tools: the operator's override or, without one, the catalogue's classification.

use std::collections::BTreeMap;
use std::sync::Arc;

use foldhash::HashMap;
use gatelodge_catalogue::{Classification, ServerContext, ToolSpec, classify};
use gatelodge_json::{JsonLimits, read};
use gatelodge_policy::Category;
use gatelodge_store::{CategoryOverride, ServerName, ServerTools, ToolDefinition};

/// A tool's classification and override.
#[derive(Debug, Clone)]
pub struct ToolCategorization {
    /// The catalogue's classification, or the reason why it is missing.
    pub classification: Result<Classification, String>,
    /// The operator's override, which takes precedence.
    pub category_override: Option<CategoryOverride>,
    /// An override made for an earlier definition. It no longer applies.
    pub stale_override: Option<CategoryOverride>,
}

impl ToolCategorization {
    /// Returns the effective category; unknown if the definition cannot be read.
    #[must_use]
    pub fn category(&self) -> Category {
        let classified = || self.classification.as_ref().map_or(Category::Unknown, |found| found.category);
        self.category_override.as_ref().map_or_else(classified, |override_row| override_row.category)
    }
}

/// Classifies definitions in the context of their sibling tools and applies overrides.
#[must_use]
pub fn categorize_tools<'d>(
    server: &ServerName,
    siblings: impl IntoIterator<Item = &'d str>,
    overrides: &[CategoryOverride],
    definitions: impl IntoIterator<Item = &'d ToolDefinition>,
) -> BTreeMap<String, ToolCategorization> {
    let server_context = ServerContext::new(server.as_str(), None, siblings);
    let categorize = |definition: &ToolDefinition| {
        // A tool has at most one override.
        let own = overrides.iter().find(|override_row| override_row.tool == definition.name);
        let (category_override, stale_override) = match own.cloned() {
            Some(override_row) if override_row.applies_to(definition) => (Some(override_row), None),
            stale => (None, stale),
        };
        (
            definition.name.clone(),
            ToolCategorization {
                classification: classify_definition(definition, &server_context),
                category_override,
                stale_override,
            },
        )
    };
    definitions.into_iter().map(categorize).collect()
}

/// Classifies the pinned tools of a server.
#[must_use]
pub fn categorize_accepted_tools(server: &ServerName, tools: &ServerTools) -> BTreeMap<String, ToolCategorization> {
    let accepted = || tools.pinned.iter().map(|pin| &pin.definition);
    categorize_tools(server, accepted().map(|tool| tool.name.as_str()), &tools.category_overrides, accepted())
}

fn classify_definition(definition: &ToolDefinition, server_context: &ServerContext) -> Result<Classification, String> {
    let document = read(definition.text.as_bytes(), &JsonLimits::REPLY).map_err(|error| error.to_string())?;
    let tool = ToolSpec::of(document.root()).map_err(str::to_owned)?;
    Ok(classify(&tool, server_context))
}

/// The categories of a server's pinned tools, with the pins and overrides they were computed from.
#[derive(Debug, Default)]
pub(crate) struct ServerToolCategories {
    by_name: HashMap<Box<str>, Category>,
    accepted_definitions: Vec<(String, String)>,
    category_overrides: Vec<CategoryOverride>,
}

impl ServerToolCategories {
    /// Returns the categories of `tools`. Reuses `before` if nothing has changed.
    pub async fn of(before: Option<Arc<Self>>, server: &ServerName, tools: &ServerTools) -> Arc<Self> {
        let accepted = tools.pinned.iter().map(|pin| &pin.definition);
        let accepted: Vec<(String, String)> =
            accepted.map(|tool| (tool.name.clone(), tool.fingerprint.clone())).collect();
        if let Some(before) = before.filter(|before| {
            before.accepted_definitions == accepted && before.category_overrides == tools.category_overrides
        }) {
            return before;
        }
        let (server, tools) = (server.clone(), tools.clone());
        // Off this thread: a server may have thousands of tools.
        let found = tokio::task::spawn_blocking(move || {
            let classes = categorize_accepted_tools(&server, &tools);
            let by_name = classes.into_iter().map(|(name, class)| (name.into(), class.category())).collect();
            Self { by_name, accepted_definitions: accepted, category_overrides: tools.category_overrides }
        });
        // If classification panics, all tools are unknown.
        Arc::new(found.await.unwrap_or_default())
    }

    /// Returns the category of a tool; unknown if it is not pinned.
    pub fn category(&self, tool: &str) -> Category {
        self.by_name.get(tool).copied().unwrap_or(Category::Unknown)
    }
}
