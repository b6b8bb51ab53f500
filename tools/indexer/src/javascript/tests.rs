mod default_tools;
mod false_positives;
mod forms;
mod hostile;
mod imports;
mod schemas;

use serde_json::Value;

use super::extract_javascript_tools;
use gatelodge_catalogue::{ExtractedTool, SourceFile};

/// A dependency that makes a package use MCP.
const SDK: &str = "import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';\n";

fn read(files: &[(&str, &str)]) -> Vec<ExtractedTool> {
    let files: Vec<_> = files.iter().map(|(path, text)| SourceFile { path, text }).collect();
    let found = extract_javascript_tools(&files);
    assert_eq!(found.unread_parts, 0);
    found.tools
}

/// Returns the tools of a package with one file.
fn read_one(text: &str) -> Vec<ExtractedTool> {
    let text = format!("{SDK}{text}");
    read(&[("dist/index.js", &text)])
}

fn names(tools: &[ExtractedTool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn only(tools: &[ExtractedTool]) -> &ExtractedTool {
    match tools {
        [tool] => tool,
        _ => panic!("one tool, not {:?}", names(tools)),
    }
}

fn described(tool: &ExtractedTool) -> &str {
    tool.description.as_deref().unwrap_or_default()
}

/// Returns the names of a tool's parameters.
fn parameters(tool: &ExtractedTool) -> Vec<&str> {
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    properties.map(|properties| properties.keys().map(String::as_str).collect()).unwrap_or_default()
}
