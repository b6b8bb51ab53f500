//! `index`: builds the index file from facts, outcomes and lists of tools.

use gatelodge_catalogue::PackageRegistry;
use serde_json::json;

use crate::support::{TestDir, facts, package, packages, tool};

#[test]
fn index_is_built_from_facts_and_the_last_outcome_of_each_package() {
    let dir = TestDir::new();
    dir.write("facts.jsonl", facts());
    let done = [("a", "failed"), ("b", "no_tools"), ("a", "no_tools")];
    let done = done.map(|(package, outcome)| format!("{}\n", json!({"package": package, "outcome": outcome})));
    dir.write("done.jsonl", done.concat());
    let run = dir.run(&["index", "facts.jsonl", "--outcomes", "done.jsonl", "--date", "2026-11-16", "--out", "i.glx"]);
    assert!(run.code == 0 && run.stderr.contains("4 servers, 5 tools, "), "{}", run.stderr);
    let index = dir.index("i.glx");
    assert_eq!(
        (&*index.metadata().date, &index.metadata().outcomes),
        ("2026-11-16", &[("no_tools".to_owned(), 2)].into())
    );
    assert_eq!(packages(&index), ["pypi:mail", "pypi:notes", "npm:@example/files", "npm:@example/github"]);
}

#[test]
fn invalid_line_is_an_error_and_the_old_file_is_unchanged() {
    let dir = TestDir::with_index();
    let before = std::fs::read(dir.path("i.glx")).unwrap();
    dir.write("facts.jsonl", format!("{}\n{{\"source\": \"npm\"}}\n", facts()));
    let run = dir.run(&["index", "facts.jsonl", "--out", "i.glx"]);
    assert!(
        run.code == 1 && run.stderr.contains("line 5") && run.stderr.contains("nothing was written"),
        "{}",
        run.stderr
    );
    assert_eq!(std::fs::read(dir.path("i.glx")).unwrap(), before);
}

#[test]
fn incomplete_package_is_not_in_the_index() {
    let dir = TestDir::new();
    dir.write("facts.jsonl", facts());
    let done = [
        json!({"package": "@example/github", "outcome": "tools", "skipped": {"not-text": 1}}),
        json!({"package": "notes", "outcome": "tools", "odd_names": 1}),
        json!({"package": "mail", "outcome": "tools", "tools": 1}),
    ];
    dir.write("done.jsonl", done.map(|line| format!("{line}\n")).concat());
    let run = dir.run(&["index", "facts.jsonl", "--outcomes", "done.jsonl", "--out", "i.glx"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert_eq!(packages(&dir.index("i.glx")), ["pypi:mail", "npm:@example/files"]);
}

#[test]
fn incomplete_package_does_not_remove_one_of_the_same_name_elsewhere() {
    let dir = TestDir::new();
    let own = |source: &str| package(source, "mail", &[tool("get_mail", "Read")]);
    dir.write("facts.jsonl", format!("{}\n{}", own("pypi"), own("npm")));
    let done = [
        json!({"source": "npm", "package": "mail", "outcome": "tools", "odd_names": 1}),
        json!({"source": "pypi", "package": "mail", "outcome": "tools", "tools": 1}),
    ];
    for lines in [[&done[0], &done[1]], [&done[1], &done[0]]] {
        dir.write("done.jsonl", lines.map(|line| format!("{line}\n")).concat());
        let run = dir.run(&["index", "facts.jsonl", "--outcomes", "done.jsonl", "--out", "i.glx"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!(packages(&dir.index("i.glx")), ["pypi:mail"]);
    }
}

#[test]
fn server_is_added_by_its_tool_list() {
    let dir = TestDir::with_index();
    let list = r#"{"tools": [{"name": "delete_book", "description": "Deletes a book.", "inputSchema": {"type": "object",
        "properties": {"id": {"type": "integer"}}, "required": ["id"]}, "annotations": {"destructiveHint": true}}]}"#;
    dir.write("tools.json", list);
    let run = dir.run(&["index", "facts.jsonl", "--listed", "npm:mail@2.0.1=tools.json", "--out", "i.glx"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let index = dir.index("i.glx");
    let server = index.find(Some(PackageRegistry::Npm), "mail").expect("the server");
    assert_eq!(server.version(), "2.0.1");
    assert_eq!(server.tool("delete_book").expect("the tool").category().as_str(), "destructive");
    for odd in ["npm:mail=tools.json", "mail@1.0=tools.json", "npm:mail@1.0", "npm:mail@1.0=none.json"] {
        assert_eq!(dir.run(&["index", "--listed", odd, "--out", "o.glx"]).code, 2, "{odd}");
    }
    // The usual checks apply: duplicate members, overlong names and tools without a name are refused.
    let long = format!("{{\"tools\": [{{\"name\": \"{}\"}}]}}", "x".repeat(257));
    for text in
        ["{\"tools\": [{\"nam\": 1}]}", "{\"tools\": [{\"name\": \"a\", \"name\": \"b\"}]}", &long, "{\"tools\": 1}"]
    {
        dir.write("tools.json", text);
        let run = dir.run(&["index", "--listed", "npm:mail@2.0.1=tools.json", "--out", "o.glx"]);
        assert!(run.code == 1 && run.stderr.contains("nothing was written"), "{text}: {}", run.stderr);
    }
}
