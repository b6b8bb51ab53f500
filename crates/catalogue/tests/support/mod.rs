//! Tools for tests, classified among their siblings.
#![allow(dead_code, reason = "each test file uses some of it")]

pub mod fate;

use gatelodge_catalogue::{Classification, Item, Server, Tool, classify, read_tools};

/// Classifies all tools of a list.
pub fn all(server: &str, list: &str) -> Vec<(String, Classification)> {
    let documents = read_tools(list.as_bytes());
    let (_, document) = documents.first().expect("a document");
    let items = Item::all(document.as_ref().expect("JSON"), 1);
    let items: Vec<Item<'_>> = items.into_iter().map(|item| item.expect("a tool")).collect();
    let around = Server::new(server, None, items.iter().map(|item| &*item.tool.name));
    items.iter().map(|item| (item.tool.name.to_string(), classify(&item.tool, &around))).collect()
}

/// Classifies one tool that has no siblings.
pub fn one(entry: &str) -> Classification {
    let documents = read_tools(entry.as_bytes());
    let document = documents[0].1.as_ref().expect("JSON");
    let tool = Tool::of(document.root()).expect("a tool");
    classify(&tool, &Server::new("server", None, [&*tool.name]))
}
