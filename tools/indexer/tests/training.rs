//! Training: the same labels give the same weights, and labels by reading outweigh those of authors.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use gatelodge_catalogue::{ToolListEntry, read_tools};
use gatelodge_indexer::{ClassifierEvaluation, LabelSource, LabeledTool, TrainingResult, read_labeled_tool, train};
use gatelodge_policy::Category;
use serde_json::json;

/// Forty servers with three tools each. Authors label `frob` as changing something; readers are more precise.
fn lines(read_as: &str) -> String {
    let mut lines = String::new();
    for at in 0..40 {
        let server = format!("server{at}");
        let tool = |name: &str, description: &str, category: &str| json!({"server": server, "name": name, "description": description, "category": category});
        let mut frob = tool("frob", "Frobs the gizmo.", "NotReadNotDestructive");
        if at % 2 == 0 {
            frob["category"] = json!(read_as);
            frob["read"] = json!(if at % 4 == 0 { "random" } else { "doubtful" });
        }
        for tool in
            [frob, tool("get_gizmo", "Gets a gizmo.", "Read"), tool("delete_gizmo", "Deletes it.", "Destructive")]
        {
            lines.push_str(&format!("{tool}\n"));
        }
    }
    lines
}

fn train_on(text: &str) -> TrainingResult {
    let documents = read_tools(text.as_bytes());
    let items = documents
        .iter()
        .flat_map(|(number, document)| ToolListEntry::read_all(document.as_ref().expect("JSON"), *number));
    let tools: Vec<LabeledTool<'_>> =
        items.map(|item| read_labeled_tool(item.expect("a tool")).expect("a label")).collect();
    train(&tools, "a test").expect("weights")
}

#[test]
fn the_same_labels_give_the_same_weights() {
    let text = lines("Execute");
    assert_eq!(train_on(&text).weights_json, train_on(&text).weights_json);
    let weights: serde_json::Value = serde_json::from_str(&train_on(&text).weights_json).expect("JSON");
    assert_eq!(weights["bias"].as_array().expect("a list").len(), 5);
}

#[test]
fn ambiguous_labels_are_resolved_by_labels_from_reading() {
    let TrainingResult { held_out: unseen, .. } = train_on(&lines("Execute"));
    assert_eq!(unseen.len(), 120);
    let mut frobs = unseen.iter().filter(|one| one.tool.ends_with("/ frob"));
    assert!(frobs.all(|one| one.category == Category::Execute), "{unseen:#?}");
}

#[test]
fn held_out_tools_are_counted_by_label_source() {
    let TrainingResult { held_out: unseen, .. } = train_on(&lines("Execute"));
    let count = |source| {
        let mut evaluation = ClassifierEvaluation::default();
        unseen.iter().filter(|one| one.source == source).for_each(|one| evaluation.add_held_out(one));
        evaluation.right.total
    };
    let sources = [LabelSource::Author, LabelSource::RandomSample, LabelSource::HardCases, LabelSource::ServerSample];
    assert_eq!(sources.map(count), [100, 10, 10, 0]);
}
