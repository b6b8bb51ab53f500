mod defaults;
mod forms;
mod hostile;
mod imports;
mod phantoms;
mod schemas;

use serde_json::Value;

use super::javascript_tools;
use gatelodge_catalogue::{FoundTool, SourceFile};

/// What makes a package one that speaks MCP.
const SDK: &str = "import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';\n";

fn read(files: &[(&str, &str)]) -> Vec<FoundTool> {
    let files: Vec<_> = files.iter().map(|(path, text)| SourceFile { path, text }).collect();
    let found = javascript_tools(&files);
    assert_eq!(found.passed_over, 0);
    found.tools
}

/// The tools of a package that is one file.
fn read_one(text: &str) -> Vec<FoundTool> {
    let text = format!("{SDK}{text}");
    read(&[("dist/index.js", &text)])
}

fn names(tools: &[FoundTool]) -> Vec<&str> {
    tools.iter().map(|tool| tool.name.as_str()).collect()
}

fn only(tools: &[FoundTool]) -> &FoundTool {
    match tools {
        [tool] => tool,
        _ => panic!("one tool, not {:?}", names(tools)),
    }
}

fn described(tool: &FoundTool) -> &str {
    tool.description.as_deref().unwrap_or_default()
}

/// The names of a tool's parameters.
fn parameters(tool: &FoundTool) -> Vec<&str> {
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    properties.map(|properties| properties.keys().map(String::as_str).collect()).unwrap_or_default()
}
