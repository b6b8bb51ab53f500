//! Classifies the tools of an indexed server. The category comes from the index, and the rationale is derived from the
//! stored facts, because descriptions are not stored.

use gatelodge_json::{JsonLimits, read};
use serde_json::{Map, Value as Json, json};

use super::index_rows::IndexedServer;
use super::package_facts::ToolFacts;
use crate::classify::Classification;
use crate::classify_index_facts::classify_from_facts;
use crate::server_context::ServerContext;
use crate::tool_spec::ToolSpec;

/// A server from the index with its tools, ready for classification.
#[derive(Debug)]
pub struct ServerCatalogueEntry {
    /// Display name.
    pub name: String,
    /// Context in which each tool is classified.
    pub server: ServerContext,
    /// Facts about the tools, sorted by name.
    pub tools: Vec<ToolFacts>,
    /// Definition of each tool, as in `tools/list` but without the description.
    definitions: Vec<String>,
}

impl ServerCatalogueEntry {
    /// Creates an entry for a server in the index.
    pub fn of(server: &IndexedServer<'_>) -> Self {
        Self::from_facts(server.package(), server.tools().map(|tool| tool.facts()).collect())
    }

    /// Creates an entry from facts about a server's tools.
    pub fn from_facts(name: &str, tools: Vec<ToolFacts>) -> Self {
        let server = ServerContext::new(name, None, tools.iter().map(|tool| tool.name.as_str()));
        let definitions = tools.iter().map(|tool| definition_json(tool).to_string()).collect();
        Self { name: name.to_owned(), server, tools, definitions }
    }

    /// Calls `work` with all tools and their classifications, and returns its result.
    pub fn with_classifications<T>(&self, work: impl FnOnce(&[(ToolSpec<'_>, Classification)]) -> T) -> T {
        let documents: Vec<_> =
            self.definitions.iter().map(|text| read(text.as_bytes(), &JsonLimits::REPLY).ok()).collect();
        let known = documents.iter().zip(&self.tools).map(|(document, facts)| {
            let tool = document.as_ref().and_then(|document| ToolSpec::of(document.root()).ok());
            let tool = tool.unwrap_or_else(|| ToolSpec::from_name(&facts.name));
            let known = classify_from_facts(&tool, &self.server, facts);
            (tool, known)
        });
        work(&known.collect::<Vec<_>>())
    }

    /// Estimates how many tokens the tool list takes without descriptions, at four characters per token.
    pub fn estimated_tokens(&self) -> usize {
        self.definitions.iter().map(|text| text.len().div_ceil(4)).sum()
    }
}

fn definition_json(tool: &ToolFacts) -> Json {
    let mut properties = Map::new();
    for own in &tool.parameters {
        let kind = if own.kind.is_empty() { json!({}) } else { json!({ "type": own.kind }) };
        properties.insert(own.name.clone(), kind);
    }
    let required: Vec<&str> = tool.parameters.iter().filter(|own| own.required).map(|own| own.name.as_str()).collect();
    let mut claims = Map::new();
    let all = [
        ("readOnlyHint", tool.claims.read_only),
        ("destructiveHint", tool.claims.destructive),
        ("idempotentHint", tool.claims.idempotent),
        ("openWorldHint", tool.claims.open_world),
    ];
    for (name, claim) in all {
        claim.map(|claim| claims.insert(name.to_owned(), claim.into()));
    }
    let schema = json!({"type": "object", "properties": properties, "required": required});
    json!({"name": tool.name, "inputSchema": schema, "annotations": claims})
}
