//! The three recommended policies of every collected server: each loads, has no findings against the server's schemas,
//! and treats each tool according to its category.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use gatelodge_catalogue::{
    Classification, RiskLevel, ServerContext, StarterPolicyStrictness, ToolListEntry, classify, policy_scaffold,
    read_tools, starter_policy,
};
use gatelodge_policy::{CallTarget, Category, CompletionReference, DocumentFormat, Policy, ToolList, lint, parse};
use serde_json::{Value, json};
use support::policy_outcome::{PolicyOutcome, decide_target, decide_tool, expected_outcome};

/// Returns each collected server with its `tools/list` result.
fn servers(file: &str) -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checks/catalogue").join(file);
    let text = std::fs::read_to_string(&path).expect("collected facts");
    let mut servers: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for line in text.lines() {
        let tool: Value = serde_json::from_str(line).expect("JSON");
        let package = tool["package"].as_str().expect("a package").to_owned();
        servers.entry(package).or_default().push(tool);
    }
    servers.into_iter().map(|(package, tools)| (package, json!({ "tools": tools }).to_string())).collect()
}

/// Returns the category of each name. Of two tools with the same name the riskier one counts.
fn categories<'k>(known: &'k [(&ToolListEntry<'_>, Classification)]) -> BTreeMap<&'k str, Category> {
    let mut categories: BTreeMap<&str, Category> = BTreeMap::new();
    for (item, known) in known {
        let own = categories.entry(&item.tool.name).or_insert(known.category);
        if RiskLevel::of(known.category) > RiskLevel::of(*own) {
            *own = known.category;
        }
    }
    categories
}

fn check_tools(
    server: &str,
    text: &str,
    strictness: StarterPolicyStrictness,
    categories: &BTreeMap<&str, Category>,
    tools: &ToolList,
) -> Policy {
    let findings = lint(text.as_bytes(), DocumentFormat::Json, Some(tools));
    assert!(findings.is_empty(), "{server}, {strictness:?}: {findings:?}\n{text}");
    let policy = parse(text.as_bytes(), DocumentFormat::Json).expect("a policy");
    for (tool, category) in categories {
        let expected =
            if tool.contains('*') { PolicyOutcome::Refused } else { expected_outcome(strictness, *category) };
        assert_eq!(decide_tool(&policy, tool), expected, "{server}, {tool}, {category:?}, {strictness:?}\n{text}");
    }
    policy
}

fn check_other_targets(server: &str, policy: &Policy) {
    assert_eq!(decide_tool(policy, "a_tool_that_is_added_later"), PolicyOutcome::Refused, "{server}");
    for subject in [
        CallTarget::Resource { uri: "file:///notes/today" },
        CallTarget::Prompt { name: "summary" },
        CallTarget::Completion(CompletionReference::Prompt("summary")),
        CallTarget::Completion(CompletionReference::Resource("note://{id}")),
    ] {
        assert_eq!(decide_target(policy, subject), PolicyOutcome::Allowed, "{server}, {subject:?}");
    }
    for subject in [
        CallTarget::Resource { uri: "file:///notes/../etc/passwd" },
        CallTarget::Method { name: "sampling/createMessage" },
        CallTarget::Method { name: "vendor/reset" },
    ] {
        assert_eq!(decide_target(policy, subject), PolicyOutcome::Refused, "{server}, {subject:?}");
    }
}

/// Checks all servers of a file. Returns the number of servers, tools and tools in the category Read.
fn check_all_servers(file: &str) -> (usize, usize, usize) {
    let start = Instant::now();
    let (servers, mut tools_seen, mut reads) = (servers(file), 0, 0);
    for (server, list) in &servers {
        let documents = read_tools(list.as_bytes());
        let items = ToolListEntry::read_all(documents[0].1.as_ref().expect("JSON"), 1);
        let items: Vec<ToolListEntry<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
        let around = ServerContext::new(server, None, items.iter().map(|item| &*item.tool.name));
        let known: Vec<_> = items.iter().map(|item| (item, classify(&item.tool, &around))).collect();
        let entries: Vec<_> = known.iter().map(|(item, known)| (&item.tool, known)).collect();
        let categories = categories(&known);
        let tools = ToolList::read(list.as_bytes()).expect("tools");
        for strictness in StarterPolicyStrictness::ALL {
            let policy = starter_policy(server, &entries, strictness).expect("a policy");
            check_other_targets(server, &check_tools(server, &policy, strictness, &categories, &tools));
            let scaffold = policy_scaffold(server, &entries, strictness).expect("a policy");
            check_tools(server, &scaffold, strictness, &categories, &tools);
        }
        tools_seen += categories.len();
        reads += categories.values().filter(|category| **category == Category::Read).count();
    }
    // Takes seconds without optimization; the limit leaves room for tests that run at the same time.
    assert!(start.elapsed() < Duration::from_secs(180), "{:?}", start.elapsed());
    (servers.len(), tools_seen, reads)
}

#[test]
fn policies_of_development_servers_follow_the_categories() {
    let (servers, tools, reads) = check_all_servers("dev-facts.jsonl");
    assert!(servers >= 40 && tools >= 1_500 && reads >= 500, "{servers} servers, {tools} tools, {reads} reads");
}

#[test]
fn policies_of_held_out_servers_follow_the_categories() {
    let (servers, tools, reads) = check_all_servers("held-facts.jsonl");
    assert!(servers >= 100 && tools >= 3_000 && reads >= 1_000, "{servers} servers, {tools} tools, {reads} reads");
}
