//! Helpers that classify tools.
#![allow(dead_code, reason = "each test file uses some of it")]

pub mod policy_outcome;

use gatelodge_catalogue::{Classification, ServerContext, ToolListEntry, ToolSpec, classify, read_tools};

/// Classifies all tools of a list.
pub fn classify_list(server: &str, list: &str) -> Vec<(String, Classification)> {
    let documents = read_tools(list.as_bytes());
    let (_, document) = documents.first().expect("a document");
    let items = ToolListEntry::read_all(document.as_ref().expect("JSON"), 1);
    let items: Vec<ToolListEntry<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
    let around = ServerContext::new(server, None, items.iter().map(|item| &*item.tool.name));
    items.iter().map(|item| (item.tool.name.to_string(), classify(&item.tool, &around))).collect()
}

/// Classifies one tool that has no siblings.
pub fn classify_tool(entry: &str) -> Classification {
    let documents = read_tools(entry.as_bytes());
    let document = documents[0].1.as_ref().expect("JSON");
    let tool = ToolSpec::of(document.root()).expect("a tool");
    classify(&tool, &ServerContext::new("server", None, [&*tool.name]))
}
