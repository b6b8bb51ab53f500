//! Searching an index.

use serde_json::json;

use super::{package, told, tool, with_index};

#[test]
fn an_index_is_searched() {
    let house = with_index();
    let found = told(&house.run(&["catalogue", "search", "DELETE", "github", "--json", "--index", "i.glx"]));
    assert_eq!((&found["tools"][0]["name"], &found["tool_count"]), (&json!("delete_repository"), &json!(1)));
    assert_eq!(found["index"]["outcomes"], json!({"no_tools": 2}));
    let run = house.run(&["catalogue", "search", "--level", "CRITICAL", "--index", "i.glx"]);
    assert!(run.stdout.contains("Destructive  delete_repository  npm:@example/github"), "{}", run.stdout);
    assert!(run.stderr.contains("of 4 and 5"), "{}", run.stderr);
    let run = house.run(&["catalogue", "search", "--signal", "nonsense", "--index", "i.glx"]);
    assert!(run.code == 2 && run.stderr.contains("takes_code"), "{}", run.stderr);
}

#[test]
fn search_gives_programs_whole_names() {
    let house = with_index();
    let long = "x".repeat(200);
    house.write("facts.jsonl", &package("pypi", "long", &[tool(&long, "Read", &[])]));
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
    let found = told(&house.run(&["catalogue", "search", "xxx", "--json", "--index", "i.glx"]));
    assert_eq!(found["tools"][0]["name"], json!(long));
}
