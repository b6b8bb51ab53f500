//! `gatelodge catalogue search|show|update|changes|mcp`, `precheck` and `stack`, run as commands.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "stack/advice.rs"]
mod advice;
#[path = "stack/agent_tools.rs"]
mod agent_tools;
#[path = "stack/behind_gateway.rs"]
mod behind_gateway;
#[path = "stack/bundle.rs"]
mod bundle;
#[path = "stack/change_events.rs"]
mod change_events;
mod clients;
#[path = "stack/exit_codes.rs"]
mod exit_codes;
#[path = "stack/index_update.rs"]
mod index_update;
#[path = "stack/large_configs.rs"]
mod large_configs;
#[path = "stack/misleading_configs.rs"]
mod misleading_configs;
#[path = "stack/precheck.rs"]
mod precheck;
#[path = "stack/precheck_read.rs"]
mod precheck_read;
#[path = "stack/project_servers.rs"]
mod project_servers;
#[path = "stack/reports.rs"]
mod reports;
#[path = "stack/search.rs"]
mod search;
#[path = "stack/secrets.rs"]
mod secrets;
#[path = "stack/show.rs"]
mod show;
#[path = "stack/stack_scope.rs"]
mod stack_scope;
mod support;
#[path = "../../../tools/indexer/tests/program/test_registry.rs"]
mod test_registry;
#[path = "stack/update_limits.rs"]
mod update_limits;

use gatelodge_catalogue::{IndexMetadata, PackageFacts};
use gatelodge_indexer::write_index;
use serde_json::{Value, json};
use support::{Run, TestDir};

fn tool(name: &str, category: &str, flow: &[&str]) -> Value {
    json!({"name": name, "parameters": [{"name": "path", "type": "string", "required": true}], "category": category,
        "confidence": 0.9, "signals": ["takes_path"], "flow": flow, "hash": "0123456789abcdef"})
}

fn package(source: &str, name: &str, tools: &[Value]) -> String {
    json!({"source": source, "package": name, "version": "1.0.0", "date": "2026-11-01", "tools": tools}).to_string()
}

/// Package facts of some servers in the client configurations of [`clients`].
fn facts() -> String {
    [
        package(
            "npm",
            "@example/github",
            &[
                tool("read_issue", "Read", &["reads_private", "reads_untrusted"]),
                tool("delete_repository", "Destructive", &[]),
            ],
        ),
        package("npm", "@example/files", &[tool("list_files", "Read", &["reads_private"])]),
        package("pypi", "mail", &[tool("send_mail", "Write", &["sends_outward"])]),
        package("pypi", "notes", &[tool("get_note", "Read", &[])]),
    ]
    .join("\n")
}

fn dir_with_index() -> TestDir {
    let dir = TestDir::new();
    dir.write("facts.jsonl", &facts());
    write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    dir
}

/// Writes an index of the facts in a file, like `gatelodge-indexer index`.
fn write_index_file(dir: &TestDir, facts: &str, date: &str, out: &str) {
    let facts = dir.read(facts);
    let packages = facts.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap());
    let about = IndexMetadata {
        date: date.to_owned(),
        outcomes: [("no_tools".to_owned(), 2)].into(),
        ..IndexMetadata::default()
    };
    dir.write_bytes(out, &write_index(packages.collect::<Vec<PackageFacts>>(), &about).unwrap());
}

/// Writes an index of a later day with later versions, in which all read tools have become execute tools.
fn write_newer_index(dir: &TestDir, name: &str) {
    let mut later: Vec<Value> = facts().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for package in &mut later {
        package["version"] = json!("1.0.1");
        let tools = package["tools"].as_array_mut().unwrap().iter_mut();
        for tool in tools.filter(|tool| tool["category"] == "Read") {
            tool["category"] = json!("Execute");
            tool["hash"] = json!("fedcba9876543210");
        }
    }
    dir.write("later.jsonl", &later.iter().map(|package| format!("{package}\n")).collect::<String>());
    write_index_file(dir, "later.jsonl", "2026-11-17", name);
}

fn json_output(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr))
}

fn stack(dir: &TestDir, more: &[&str]) -> Run {
    ["home", "project"].iter().for_each(|name| std::fs::create_dir_all(dir.path(name)).unwrap());
    let mut args = vec!["stack", "--home", "home", "--project", "project", "--index", "i.glx"];
    args.extend(more);
    dir.run(&args)
}

/// Sends lines to `catalogue mcp`; returns its responses.
fn send_lines(dir: &TestDir, lines: &[Value]) -> Vec<Value> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    dir.write("lines", &text);
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = dir.run_shell(&format!("'{program}' catalogue mcp --data d < lines"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The JSON in the only text block of a tool result.
fn tool_output(response: &Value) -> Value {
    let result = &response["result"];
    assert!(
        result.get("structuredContent").is_none() && result["content"].as_array().unwrap().len() == 1,
        "{response}"
    );
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

fn tool_call(id: u64, name: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}
