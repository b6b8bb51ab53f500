//! `catalogue show`: pages of servers and tools.

use serde_json::{Value, json};

use super::support::TestDir;
use super::{dir_with_index, json_output, package, tool};

#[test]
fn a_server_is_shown_with_grade_tools_and_a_valid_policy() {
    let dir = dir_with_index();
    let run = dir.run(&["catalogue", "show", "@example/github", "--index", "i.glx"]);
    assert!(run.stdout.contains("Grade D") && run.stdout.contains("delete_repository"), "{}", run.stdout);
    let run = dir.run(&["catalogue", "show", "@example/github", "delete_repository", "--json", "--index", "i.glx"]);
    assert_eq!(json_output(&run)["recommended"]["hide"][0], "delete_repository");
    for strictness in ["recommended", "strict", "permissive"] {
        let run = dir.run(&["catalogue", "show", "@example/github", "--policy", strictness, "--index", "i.glx"]);
        dir.write("p.json", &run.stdout);
        assert_eq!(dir.run(&["policy", "check", "p.json"]).code, 0, "{}", run.stdout);
    }
    let run = dir.run(&["catalogue", "show", "@example/gihtub", "--index", "i.glx"]);
    assert!(
        run.code == 1 && run.stderr.contains("`npm:@example/github` 1.0.0 is a different package"),
        "{}",
        run.stderr
    );
}

#[test]
fn an_optional_tool_is_shown_as_optional() {
    let dir = TestDir::new();
    let mut optional_tool = tool("burn_book", "Destructive", &[]);
    optional_tool["optional"] = json!(true);
    dir.write("facts.jsonl", &package("pypi", "books", &[tool("get_book", "Read", &[]), optional_tool]));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    let run = dir.run(&["catalogue", "show", "books", "--index", "i.glx"]);
    let marked: Vec<_> = run.stdout.lines().filter(|line| line.contains("only under a setting")).collect();
    assert!(matches!(marked.as_slice(), [line] if line.contains("burn_book")), "{}", run.stdout);
    let run = dir.run(&["catalogue", "show", "books", "burn_book", "--index", "i.glx"]);
    assert!(run.stdout.contains("only under a setting"), "{}", run.stdout);
    let all = json_output(&dir.run(&["catalogue", "show", "books", "--json", "--index", "i.glx"]));
    let optional: Vec<_> = all["tools"].as_array().unwrap().iter().map(|tool| &tool["optional"]).collect();
    assert_eq!(optional, [&json!(true), &Value::Null]);
    let found = json_output(&dir.run(&["catalogue", "search", "burn", "--json", "--index", "i.glx"]));
    assert_eq!(found["tools"][0]["optional"], true);
}

#[test]
fn show_reports_a_version_that_is_not_indexed() {
    let dir = dir_with_index();
    let message = "the indexed version is 1.0.0, not 9.9.9";
    let run = dir.run(&["catalogue", "show", "npm:@example/files@9.9.9", "--json", "--index", "i.glx"]);
    assert!(run.code == 0 && json_output(&run)["unread"] == message && run.stderr.contains(message), "{}", run.stderr);
    let run = dir.run(&["catalogue", "show", "npm:@example/files@1.0.0", "--index", "i.glx"]);
    assert!(!format!("{}{}", run.stdout, run.stderr).contains("the indexed version"), "{}", run.stderr);
}

#[test]
fn low_confidence_is_shown_as_likely_or_as_a_guess() {
    let dir = dir_with_index();
    let with_confidence =
        |confidence: f64, name: &str| tool(name, "Execute", &[]).to_string().replace("0.9", &confidence.to_string());
    let tools: Vec<Value> =
        [with_confidence(0.55, "sync_it"), with_confidence(0.7, "run_it"), with_confidence(0.39, "odd_it")]
            .iter()
            .map(|text| serde_json::from_str(text).unwrap())
            .collect();
    dir.write("facts.jsonl", &package("pypi", "odd", &tools));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    let show = |name: &str| dir.run(&["catalogue", "show", "odd", name, "--index", "i.glx"]).stdout;
    assert!(show("sync_it").contains("High risk, likely Execute, confidence 0.55"), "{}", show("sync_it"));
    assert!(show("sync_it").contains("This is likely, not certain."), "{}", show("sync_it"));
    assert!(!show("run_it").contains("likely"), "{}", show("run_it"));
    let list = dir.run(&["catalogue", "show", "odd", "--index", "i.glx"]).stdout;
    assert!(list.contains("likely Execute  0.55  sync_it"), "{list}");
    assert!(dir.run(&["catalogue", "search", "sync", "--index", "i.glx"]).stdout.contains("likely Execute"));
    // Below confidence 0.4 the category is a guess.
    let text = show("odd_it");
    assert!(text.contains("maybe Execute") && text.contains("This is a guess"), "{text}");
    assert!(!text.contains("likely Execute") && !text.contains("likely an Execute"), "{text}");
    assert!(list.contains("maybe Execute") && list.contains("0.39  odd_it"), "{list}");
}
