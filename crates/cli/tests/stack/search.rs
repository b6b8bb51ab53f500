//! `catalogue search`.

use serde_json::json;

use super::{dir_with_index, json_output, package, tool};

#[test]
fn search_filters_by_words_level_and_signal() {
    let dir = dir_with_index();
    let found = json_output(&dir.run(&["catalogue", "search", "DELETE", "github", "--json", "--index", "i.glx"]));
    assert_eq!((&found["tools"][0]["name"], &found["tool_count"]), (&json!("delete_repository"), &json!(1)));
    assert_eq!(found["index"]["outcomes"], json!({"no_tools": 2}));
    let run = dir.run(&["catalogue", "search", "--level", "CRITICAL", "--index", "i.glx"]);
    assert!(run.stdout.contains("Destructive  delete_repository  npm:@example/github"), "{}", run.stdout);
    assert!(run.stderr.contains("of 4 and 5"), "{}", run.stderr);
    let run = dir.run(&["catalogue", "search", "--signal", "nonsense", "--index", "i.glx"]);
    assert!(run.code == 2 && run.stderr.contains("takes_code"), "{}", run.stderr);
}

#[test]
fn search_as_json_does_not_shorten_names() {
    let dir = dir_with_index();
    let long = "x".repeat(200);
    dir.write("facts.jsonl", &package("pypi", "long", &[tool(&long, "Read", &[])]));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    let found = json_output(&dir.run(&["catalogue", "search", "xxx", "--json", "--index", "i.glx"]));
    assert_eq!(found["tools"][0]["name"], json!(long));
}
