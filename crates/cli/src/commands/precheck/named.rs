//! Tools that somebody says a server has, without having been read in it.

use gatelodge_catalogue::{Source, ToolFacts};
use gatelodge_crawl::{FoundTool, Release, facts};
use serde_json::{Map, Value, json};

/// The facts of the tools that a list names.
pub fn tools(server: &str, list: Option<&Value>) -> Vec<ToolFacts> {
    let list = list.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found: Vec<FoundTool> = list.iter().filter_map(tool).collect();
    // Tools are judged among their siblings; where the server is published counts for nothing.
    let release = Release { source: Source::Npm, package: server.to_owned(), version: String::new(), date: None };
    facts(&release, &found).tools
}

fn tool(tool: &Value) -> Option<FoundTool> {
    let text = |name: &str| tool.get(name).and_then(Value::as_str).map(str::to_owned);
    let annotations = tool.get("annotations").and_then(Value::as_object).cloned().unwrap_or_default();
    let (name, description) = (text("name")?, text("description"));
    Some(FoundTool { name, description, input_schema: schema(tool), annotations, optional: false })
}

/// What a tool takes: a schema, or the list of arguments that Docker's catalogues have.
fn schema(tool: &Value) -> Value {
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
