//! What is shown of servers and tools.

use serde_json::{Value, json};

use super::support::house;
use super::{package, told, tool, with_index};

#[test]
fn a_server_is_shown_with_its_grade_its_tools_and_a_policy_that_loads() {
    let house = with_index();
    let run = house.run(&["catalogue", "show", "@example/github", "--index", "i.glx"]);
    assert!(run.stdout.contains("Grade D") && run.stdout.contains("delete_repository"), "{}", run.stdout);
    let run = house.run(&["catalogue", "show", "@example/github", "delete_repository", "--json", "--index", "i.glx"]);
    assert_eq!(told(&run)["recommended"]["hide"][0], "delete_repository");
    for posture in ["recommended", "strict", "permissive"] {
        let run = house.run(&["catalogue", "show", "@example/github", "--policy", posture, "--index", "i.glx"]);
        house.write("p.json", &run.stdout);
        assert_eq!(house.run(&["policy", "check", "p.json"]).code, 0, "{}", run.stdout);
    }
    let run = house.run(&["catalogue", "show", "@example/gihtub", "--index", "i.glx"]);
    assert!(
        run.code == 1 && run.stderr.contains("`npm:@example/github` 1.0.0 is a different package"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_tool_that_is_there_only_under_a_setting_is_shown_as_such() {
    let house = house();
    let mut rare = tool("burn_book", "Destructive", &[]);
    rare["optional"] = json!(true);
    house.write("facts.jsonl", &package("pypi", "books", &[tool("get_book", "Read", &[]), rare]));
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
    let run = house.run(&["catalogue", "show", "books", "--index", "i.glx"]);
    let marked: Vec<_> = run.stdout.lines().filter(|line| line.contains("only under a setting")).collect();
    assert!(matches!(marked.as_slice(), [line] if line.contains("burn_book")), "{}", run.stdout);
    let run = house.run(&["catalogue", "show", "books", "burn_book", "--index", "i.glx"]);
    assert!(run.stdout.contains("only under a setting"), "{}", run.stdout);
    let all = told(&house.run(&["catalogue", "show", "books", "--json", "--index", "i.glx"]));
    let optional: Vec<_> = all["tools"].as_array().unwrap().iter().map(|tool| &tool["optional"]).collect();
    assert_eq!(optional, [&json!(true), &Value::Null]);
    let found = told(&house.run(&["catalogue", "search", "burn", "--json", "--index", "i.glx"]));
    assert_eq!(found["tools"][0]["optional"], true);
}

#[test]
fn a_version_that_was_not_read_is_told_by_show() {
    let house = with_index();
    let says = "the indexed version is 1.0.0, not 9.9.9";
    let run = house.run(&["catalogue", "show", "npm:@example/files@9.9.9", "--json", "--index", "i.glx"]);
    assert!(run.code == 0 && told(&run)["unread"] == says && run.stderr.contains(says), "{}", run.stderr);
    let run = house.run(&["catalogue", "show", "npm:@example/files@1.0.0", "--index", "i.glx"]);
    assert!(!format!("{}{}", run.stdout, run.stderr).contains("the indexed version"), "{}", run.stderr);
}

#[test]
fn what_is_only_likely_is_told_as_likely() {
    let house = with_index();
    let sure = |sure: f64, name: &str| tool(name, "Execute", &[]).to_string().replace("0.9", &sure.to_string());
    let tools: Vec<Value> = [sure(0.55, "sync_it"), sure(0.7, "run_it"), sure(0.39, "odd_it")]
        .iter()
        .map(|own| serde_json::from_str(own).unwrap())
        .collect();
    house.write("facts.jsonl", &package("pypi", "odd", &tools));
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
    let show = |name: &str| house.run(&["catalogue", "show", "odd", name, "--index", "i.glx"]).stdout;
    assert!(show("sync_it").contains("High risk, likely Execute, confidence 0.55"), "{}", show("sync_it"));
    assert!(show("sync_it").contains("This is likely, not certain."), "{}", show("sync_it"));
    assert!(!show("run_it").contains("likely"), "{}", show("run_it"));
    let list = house.run(&["catalogue", "show", "odd", "--index", "i.glx"]).stdout;
    assert!(list.contains("likely Execute  0.55  sync_it"), "{list}");
    assert!(house.run(&["catalogue", "search", "sync", "--index", "i.glx"]).stdout.contains("likely Execute"));
    // Where anything else is likelier, it is a guess.
    let text = show("odd_it");
    assert!(text.contains("maybe Execute") && text.contains("This is a guess"), "{text}");
    assert!(!text.contains("likely Execute") && !text.contains("likely an Execute"), "{text}");
    assert!(list.contains("maybe Execute") && list.contains("0.39  odd_it"), "{list}");
}
