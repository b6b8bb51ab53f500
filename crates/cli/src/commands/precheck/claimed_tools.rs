//! Tools that somebody says a server has, without having been read in it.

use std::collections::HashSet;

use gatelodge_catalogue::{ExtractedTool, PackageRegistry, PackageRelease, ToolFacts, derive_facts};
use serde_json::{Map, Value, json};

use crate::diagnostic_report::count_noun;

/// The tools that a list names.
pub struct ClaimedTools {
    pub tools: Vec<ToolFacts>,
    /// How many of them cannot be told: without a name, with one that is too long, or beyond the most that are looked at.
    pub skipped: usize,
}

impl ClaimedTools {
    /// That some cannot be told.
    pub fn skipped_reason(&self) -> Option<String> {
        let count = count_noun(self.skipped, "tool");
        (self.skipped > 0)
            .then(|| format!("{count} that it names cannot be judged, by a name that is none or too long"))
    }
}

/// The facts of the tools that a list names.
pub fn read_claimed_tools(server: &str, list: Option<&Value>) -> ClaimedTools {
    let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found: Vec<ExtractedTool> = list.iter().filter_map(read_tool).collect();
    // Tools are judged among their siblings; where the server is published counts for nothing.
    let release =
        PackageRelease { source: PackageRegistry::Npm, package: server.to_owned(), version: String::new(), date: None };
    let tools = derive_facts(&release, &found).tools;
    let names: HashSet<&str> = found.iter().map(|tool| tool.name.as_str()).collect();
    let left_out = (list.len() - found.len()) + (names.len() - tools.len());
    ClaimedTools { tools, skipped: left_out }
}

fn read_tool(tool: &Value) -> Option<ExtractedTool> {
    let text = |name: &str| tool.get(name).and_then(Value::as_str).map(str::to_owned);
    let annotations = tool.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let (name, description) = (text("name")?, text("description"));
    Some(ExtractedTool { name, description, input_schema: input_schema(tool), annotations, optional: false })
}

/// What a tool takes: a schema, or the list of arguments that Docker's catalogues have.
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
