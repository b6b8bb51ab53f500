//! Reads the tools that a manifest or catalogue lists for a server. The list is not verified against the server's code.

use std::collections::HashSet;

use gatelodge_catalogue::{ExtractedTool, PackageRegistry, PackageRelease, ToolFacts, derive_facts};
use serde_json::{Map, Value, json};

use crate::diagnostic_report::count_noun;

/// The tools that a bundle manifest or a Docker catalogue lists for a server.
pub struct ManifestTools {
    pub tools: Vec<ToolFacts>,
    /// Number of tools that were skipped because the name is missing or too long, or because the list is too long.
    pub skipped: usize,
}

impl ManifestTools {
    /// Returns a message that says how many tools were skipped, or `None` if there were none.
    pub fn skipped_reason(&self) -> Option<String> {
        let count = count_noun(self.skipped, "tool");
        (self.skipped > 0)
            .then(|| format!("{count} in its list cannot be rated, because the name is missing or too long"))
    }
}

/// Parses a list of tools and classifies them.
pub fn read_claimed_tools(server: &str, list: Option<&Value>) -> ManifestTools {
    let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found: Vec<ExtractedTool> = list.iter().filter_map(read_tool).collect();
    // Tools are classified together with the other tools of the server; the registry does not matter.
    let release =
        PackageRelease { source: PackageRegistry::Npm, package: server.to_owned(), version: String::new(), date: None };
    let tools = derive_facts(&release, &found).tools;
    let names: HashSet<&str> = found.iter().map(|tool| tool.name.as_str()).collect();
    let skipped = (list.len() - found.len()) + (names.len() - tools.len());
    ManifestTools { tools, skipped }
}

fn read_tool(tool: &Value) -> Option<ExtractedTool> {
    let text = |name: &str| tool.get(name).and_then(Value::as_str).map(str::to_owned);
    let annotations = tool.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let (name, description) = (text("name")?, text("description"));
    Some(ExtractedTool { name, description, input_schema: input_schema(tool), annotations, optional: false })
}

/// Returns a tool's input schema. Docker catalogues contain an argument list instead, which is converted to a schema.
fn input_schema(tool: &Value) -> Value {
    if let Some(schema) = tool.get("inputSchema").filter(|schema| schema.is_object()) {
        return schema.clone();
    }
    let arguments = tool.get("arguments").and_then(Value::as_array);
    let own = arguments.into_iter().flatten().filter_map(|own| {
        let kind = own.get("type").and_then(Value::as_str).map(|kind| json!({ "type": kind }));
        Some((own.get("name")?.as_str()?.to_owned(), kind.unwrap_or_else(|| json!({}))))
    });
    json!({"type": "object", "properties": own.collect::<Map<_, _>>()})
}
