//! The index file: made from facts, and searched.

use serde_json::json;

use super::support::house;
use super::{facts, package, told, tool, with_index};

#[test]
fn an_index_is_made_from_facts_and_searched() {
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
fn a_line_that_is_no_fact_ends_it_and_the_file_that_was_there_stays() {
    let house = with_index();
    let before = std::fs::read(house.path("i.glx")).unwrap();
    house.write("facts.jsonl", &format!("{}\n{{\"source\": \"npm\"}}\n", facts()));
    let run = house.run(&["catalogue", "index", "facts.jsonl", "--out", "i.glx"]);
    assert!(
        run.code == 1 && run.stderr.contains("line 5") && run.stderr.contains("nothing was written"),
        "{}",
        run.stderr
    );
    assert_eq!(std::fs::read(house.path("i.glx")).unwrap(), before);
}

#[test]
fn search_gives_programs_whole_names() {
    let house = with_index();
    let long = "x".repeat(200);
    house.write("facts.jsonl", &package("pypi", "long", &[tool(&long, "Read", &[])]));
    house.run(&["catalogue", "index", "facts.jsonl", "--date", "2026-11-16", "--out", "i.glx"]);
    let found = told(&house.run(&["catalogue", "search", "xxx", "--json", "--index", "i.glx"]));
    assert_eq!(found["tools"][0]["name"], json!(long));
}

#[test]
fn a_package_that_was_read_in_part_is_not_in_the_index() {
    let house = house();
    house.write("facts.jsonl", &facts());
    let done = [
        json!({"package": "@example/github", "outcome": "tools", "skipped": {"not-text": 1}}),
        json!({"package": "notes", "outcome": "tools", "odd_names": 1}),
        json!({"package": "mail", "outcome": "tools", "tools": 1}),
    ];
    house.write("done.jsonl", &done.map(|line| format!("{line}\n")).concat());
    let run = house.run(&["catalogue", "index", "facts.jsonl", "--outcomes", "done.jsonl", "--out", "i.glx"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    for (package, is_there) in
        [("npm:@example/github", false), ("pypi:notes", false), ("pypi:mail", true), ("npm:@example/files", true)]
    {
        let run = house.run(&["catalogue", "show", package, "--index", "i.glx"]);
        assert_eq!(run.code == 0, is_there, "{package}: {}{}", run.stdout, run.stderr);
    }
}

#[test]
fn a_package_read_in_part_takes_none_of_its_name_elsewhere_with_it() {
    let house = house();
    let own = |source: &str| package(source, "mail", &[tool("get_mail", "Read", &[])]);
    house.write("facts.jsonl", &format!("{}\n{}", own("pypi"), own("npm")));
    let done = [
        json!({"source": "npm", "package": "mail", "outcome": "tools", "odd_names": 1}),
        json!({"source": "pypi", "package": "mail", "outcome": "tools", "tools": 1}),
    ];
    let show = |package: &str| house.run(&["catalogue", "show", package, "--index", "i.glx"]).code;
    for lines in [[&done[0], &done[1]], [&done[1], &done[0]]] {
        house.write("done.jsonl", &lines.map(|line| format!("{line}\n")).concat());
        let run = house.run(&["catalogue", "index", "facts.jsonl", "--outcomes", "done.jsonl", "--out", "i.glx"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
        assert_eq!((show("pypi:mail"), show("npm:mail")), (0, 1));
    }
}
