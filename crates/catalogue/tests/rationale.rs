//! The rationale names facts of its tool: verb, words, parameters, related tools.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod support;

use std::path::Path;

use gatelodge_catalogue::{Classification, ServerContext, ToolListEntry, ToolSpec, classify, read_tools};
use gatelodge_policy::Category;
use support::classify_tool;

fn classify_among(name: &str, siblings: &[&str]) -> Classification {
    classify(&ToolSpec::from_name(name), &ServerContext::new("server", None, siblings.iter().copied()))
}

fn assert_says(found: &Classification, wanted: &str) {
    assert!(found.evidence.iter().any(|fact| fact.contains(wanted)), "{wanted} in {:#?}", found.evidence);
    let rationale = found.rationale.to_lowercase();
    assert!(rationale.contains(&wanted.to_lowercase()), "{wanted} in {}", found.rationale);
}

#[test]
fn a_sibling_that_runs_code_confirms_code_execution() {
    let found = classify_among("eval", &["eval", "eval_code", "list_classes"]);
    assert_eq!(found.category, Category::Execute);
    assert_says(&found, "its sibling `eval_code` says that this server runs code");
    let found = classify_among("run_test", &["run_test", "eval", "eval_code"]);
    assert_says(&found, "its siblings `eval`, `eval_code` say that this server runs code");
    let alone = classify_among("eval", &["eval", "list_classes"]);
    assert!(!alone.rationale.contains("runs code"), "{}", alone.rationale);
}

#[test]
fn siblings_about_the_same_thing_are_its_life_cycle() {
    let found = classify_among("import_package", &["import_package", "export_package", "get_settings"]);
    assert_says(&found, "its sibling `export_package` and this tool manage the life cycle of `package`");
    let found = classify_among("get_issue", &["get_issue", "create_issue", "delete_issue"]);
    assert_says(&found, "its siblings `create_issue`, `delete_issue` and this tool manage the life cycle of `issue`");
    let found = classify_among("get_issue", &["get_issue", "search_issue"]);
    assert_says(&found, "its sibling `search_issue` is about `issue` as well");
}

#[test]
fn siblings_with_the_same_verb_are_mentioned() {
    assert_says(&classify_among("create_a", &["create_a", "create_b"]), "its sibling `create_b` shares its verb");
    assert!(!classify_among("create_a", &["create_a", "get_b"]).rationale.contains("sibling"));
    assert!(!classify_among("create_a", &[]).rationale.contains("sibling"));
}

#[test]
fn the_reason_against_another_category_names_facts_of_the_tool() {
    let schema = |name: &str| {
        format!(r#""inputSchema": {{"type": "object", "properties": {{"{name}": {{"type": "string"}}, "b": {{}}}}}}"#)
    };
    let tool = |name: &str, parameter: &str| classify_tool(&format!(r#"{{"name": "{name}", {}}}"#, schema(parameter)));
    for (found, category, wanted) in [
        (tool("get_note", "title"), Category::Read, "Not Write: nothing in its name and its parameters `title`, `b`"),
        (tool("create_note", "title"), Category::Write, "Not Read: `create` does more than read."),
        (tool("create_note", "title"), Category::Write, "goes into its parameters `title`, `b`."),
        (tool("run_thing", "code"), Category::Execute, "Not Write: `code` decides what it does."),
        (classify_tool(r#"{"name": "run_test"}"#), Category::Execute, "Not Write: `run` starts something"),
        (tool("delete_note", "title"), Category::Destructive, "Not Write: the effect of `delete`"),
        (tool("pay_invoice", "title"), Category::Financial, "Not Write: `pay` is about money"),
        (tool("frobnicate_gizmo", "title"), Category::Unknown, "only the words `frobnicate`, `gizmo`."),
    ] {
        assert_eq!(found.category, category, "{}", found.rationale);
        assert!(found.rationale.contains(wanted), "{wanted} in {}", found.rationale);
    }
}

#[test]
fn an_annotation_that_raised_the_category_is_the_first_reason() {
    let raised = classify_tool(r#"{"name": "frobnicate", "annotations": {"destructiveHint": true}}"#);
    assert!(
        raised.rationale.contains("cannot be restored: the server claims `destructiveHint: true`, and"),
        "{raised:?}"
    );
    let found =
        classify_tool(r#"{"name": "delete_note", "inputSchema": {"type": "object", "properties": {"note_id": {}}}}"#);
    assert!(found.rationale.contains("cannot be restored: the verb of its name is `delete`."), "{}", found.rationale);
}

#[test]
fn too_long_description_is_reported_with_its_length() {
    let long = serde_json::json!({"name": "get_notes", "description": "Gives notes. ".repeat(10_000)}).to_string();
    let found = classify_tool(&long);
    assert!(
        found.rationale.contains("its description of 130000 bytes is too long to be read completely"),
        "{}",
        found.rationale
    );
}

#[test]
fn a_riskier_alternative_that_was_not_chosen_is_not_said_to_count() {
    for name in ["create-contact", "update_record", "frobnicate", "static_map", "merge_x", "set_state"] {
        let found = classify_tool(&format!(r#"{{"name": "{name}"}}"#));
        let counts = "It could also be Destructive; of two readings the riskier one counts.";
        assert!(!found.rationale.contains(counts), "{name}: {}", found.rationale);
    }
}

#[test]
fn every_collected_tool_has_a_fact_of_its_own_in_evidence_and_rationale() {
    for file in ["dev-facts.jsonl", "held-facts.jsonl"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../checks/catalogue").join(file);
        let text = std::fs::read(&path).expect("collected facts");
        for (number, document) in &read_tools(&text) {
            for item in ToolListEntry::read_all(document.as_ref().expect("JSON"), *number) {
                let tool = item.expect("a tool").tool;
                let found = classify(&tool, &ServerContext::new("server", None, [&*tool.name]));
                let own = |fact: &String| fact.contains('`') && !fact.starts_with("the server claims");
                let says = &found.rationale;
                assert!(found.evidence.iter().any(own) && says.contains('`'), "{}: {found:#?}", tool.name);
            }
        }
    }
}

#[test]
fn a_backtick_in_a_name_is_escaped() {
    let schema = r#""inputSchema": {"type": "object", "properties": {"a`b": {"type": "string"}}}"#;
    let found = classify_tool(&format!(r#"{{"name": "list_notes", "description": "Lists notes.", {schema}}}"#));
    for text in found.evidence.iter().chain([&found.rationale]) {
        assert!(text.matches('`').count().is_multiple_of(2), "{text}");
    }
    assert!(found.rationale.contains("`a\\u{60}b`"), "{}", found.rationale);
}
