//! `gatelodge catalogue search|show|update`, `precheck` and `stack` as people call them.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

#[path = "stack/advice.rs"]
mod advice;
#[path = "stack/agents.rs"]
mod agents;
#[path = "stack/answers.rs"]
mod answers;
#[path = "stack/behind.rs"]
mod behind;
#[path = "stack/bundle.rs"]
mod bundle;
mod clients;
#[path = "stack/codes.rs"]
mod codes;
#[path = "../../../tools/indexer/tests/program/package_index.rs"]
mod index;
#[path = "stack/index_file.rs"]
mod index_file;
#[path = "stack/large.rs"]
mod large;
#[path = "stack/pages.rs"]
mod pages;
#[path = "stack/precheck.rs"]
mod precheck;
#[path = "stack/precheck_read.rs"]
mod precheck_read;
#[path = "stack/reach.rs"]
mod reach;
#[path = "stack/replaced.rs"]
mod replaced;
#[path = "stack/reports.rs"]
mod reports;
#[path = "stack/secrets.rs"]
mod secrets;
mod support;
#[path = "stack/tricks.rs"]
mod tricks;
#[path = "stack/update.rs"]
mod update;
#[path = "stack/webhook.rs"]
mod webhook;

use gatelodge_catalogue::{IndexMetadata, PackageFacts};
use gatelodge_indexer::write_index;
use serde_json::{Value, json};
use support::{House, Run, house};

fn tool(name: &str, category: &str, flow: &[&str]) -> Value {
    json!({"name": name, "parameters": [{"name": "path", "type": "string", "required": true}], "category": category,
        "confidence": 0.9, "signals": ["takes_path"], "flow": flow, "hash": "0123456789abcdef"})
}

fn package(source: &str, name: &str, tools: &[Value]) -> String {
    json!({"source": source, "package": name, "version": "1.0.0", "date": "2026-11-01", "tools": tools}).to_string()
}

/// Facts of some of the servers that the clients of the fixtures have.
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

fn with_index() -> House {
    let house = house();
    house.write("facts.jsonl", &facts());
    make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
    house
}

/// Writes an index of the facts in a file, as `gatelodge-indexer index` does.
fn make_index(house: &House, facts: &str, date: &str, out: &str) {
    let facts = house.read(facts);
    let packages = facts.lines().filter(|line| !line.is_empty()).map(|line| serde_json::from_str(line).unwrap());
    let about = IndexMetadata {
        date: date.to_owned(),
        outcomes: [("no_tools".to_owned(), 2)].into(),
        ..IndexMetadata::default()
    };
    house.write_bytes(out, &write_index(packages.collect::<Vec<PackageFacts>>(), &about).unwrap());
}

/// An index of a later day with later versions, in which all that read runs.
fn newer(house: &House, name: &str) {
    let mut later: Vec<Value> = facts().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for package in &mut later {
        package["version"] = json!("1.0.1");
        let tools = package["tools"].as_array_mut().unwrap().iter_mut();
        for tool in tools.filter(|tool| tool["category"] == "Read") {
            tool["category"] = json!("Execute");
            tool["hash"] = json!("fedcba9876543210");
        }
    }
    house.write("later.jsonl", &later.iter().map(|package| format!("{package}\n")).collect::<String>());
    make_index(house, "later.jsonl", "2026-11-17", name);
}

fn told(run: &Run) -> Value {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}{}", run.stdout, run.stderr))
}

fn stack(house: &House, more: &[&str]) -> Run {
    ["home", "project"].iter().for_each(|folder| std::fs::create_dir_all(house.path(folder)).unwrap());
    let mut args = vec!["stack", "--home", "home", "--project", "project", "--index", "i.glx"];
    args.extend(more);
    house.run(&args)
}

/// Sends lines to `catalogue mcp`, and gives what it answers.
fn converse(house: &House, lines: &[Value]) -> Vec<Value> {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    house.write("lines", &text);
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = house.paste(&format!("'{program}' catalogue mcp --data d < lines"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    run.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// What a tool tells: JSON, in its one text.
fn answered(answer: &Value) -> Value {
    let result = &answer["result"];
    assert!(result.get("structuredContent").is_none() && result["content"].as_array().unwrap().len() == 1, "{answer}");
    serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap()
}

fn called(id: u64, name: &str, arguments: &Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name, "arguments": arguments}})
}
