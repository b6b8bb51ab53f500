//! `gatelodge catalogue classify` and `gatelodge scan`, run as commands.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use serde_json::Value;
use support::{TestDir, gatelodge};

const LINES: &str = r#"{"server": "files", "name": "delete_file", "description": "Deletes a file.", "category": "Destructive"}
{"server": "files", "name": "read_file", "description": "Gives a file.", "category": "Read"}
{"server": "files", "name": "create_file", "category": "NotReadNotDestructive"}
{"name": 7}
"#;

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn classify_prints_all_fields_of_each_tool_and_refuses_an_invalid_one() {
    let dir = TestDir::new();
    dir.write("tools.jsonl", LINES);
    let run = dir.run(&["catalogue", "classify", "--json", "tools.jsonl"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    let rows = lines(&run.stdout);
    assert_eq!(rows.len(), 4);
    for field in [
        "category",
        "level",
        "confidence",
        "rationale",
        "evidence",
        "signals",
        "flow",
        "attacks",
        "owasp",
        "recommended",
    ] {
        assert!(rows[..3].iter().all(|tool| tool.get(field).is_some()), "{field}");
    }
    assert_eq!((&rows[0]["category"], &rows[0]["level"]), (&"Destructive".into(), &"Critical".into()));
    assert_eq!(rows[0]["recommended"]["hide"][0], "delete_file");
    assert_eq!(rows[3]["line"], 4);
    assert!(run.stderr.contains("not classified: line 4: the tool's `name` is not a string"));
}

#[test]
fn classify_reads_a_tools_list_response() {
    let dir = TestDir::new();
    dir.write(
        "tools.json",
        r#"{"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "get_x"}, {"name": "run_x"}]}}"#,
    );
    let run = dir.run(&["catalogue", "classify", "tools.json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(run.stdout.starts_with("Low   Read ") && run.stdout.contains("\nHigh  maybe Execute "), "{}", run.stdout);
}

#[test]
fn a_missing_file_is_a_usage_error() {
    assert_eq!(gatelodge(&["catalogue", "classify", "nowhere.jsonl"]).code, 2);
    assert_eq!(gatelodge(&["scan"]).code, 2);
}

#[test]
fn commands_that_moved_to_the_indexer_print_the_new_command() {
    for (args, command) in [
        (&["crawl", "pypi", "--out", "a b"][..], "gatelodge-indexer crawl pypi --out 'a b'"),
        (&["eval", "labels.jsonl", "--json"], "gatelodge-indexer eval labels.jsonl --json"),
        (&["index", "facts.jsonl", "--out=i.glx"], "gatelodge-indexer index facts.jsonl --out=i.glx"),
        (&["export"], "gatelodge-indexer export"),
        (&["export", "--help"], "gatelodge-indexer export --help"),
    ] {
        let run = gatelodge(&[&["catalogue"], args].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains(&format!("run `{command}`")), "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("cargo install --path tools/indexer"), "{args:?}: {}", run.stderr);
    }
    let help = gatelodge(&["catalogue", "--help"]).stdout;
    for verb in ["crawl", "eval", "index", "export"] {
        assert!(!help.lines().any(|line| line.trim_start().starts_with(verb)), "{verb} in {help}");
    }
}

#[test]
fn scan_of_the_pharo_server_lists_22_tools_the_riskiest_first() {
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let run = gatelodge(&["scan", "--json", "--", program, "pharo"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let rows = lines(&run.stdout);
    let count = |category: &str| rows.iter().filter(|tool| tool["category"] == category).count();
    assert_eq!((rows.len(), count("Read"), count("Write"), count("Execute")), (22, 15, 3, 4));
    assert_eq!((&rows[0]["level"], &rows[21]["level"]), (&"High".into(), &"Low".into()));
}

#[test]
fn scan_writes_a_valid_policy_and_never_overwrites_a_file() {
    let dir = TestDir::new();
    let program = env!("CARGO_BIN_EXE_gatelodge");
    let scan = ["scan", "--policy", "recommended", "--out", "pharo.json", "--", program, "pharo"];
    let run = dir.run(&scan);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let text = dir.read("pharo.json");
    assert!(text.contains("// Parameters: code (string, required)."), "{text}");
    assert_eq!(dir.run(&["policy", "check", "--strict", "pharo.json"]).code, 0);
    let again = dir.run(&scan);
    assert_eq!(again.code, 2, "{}", again.stderr);
    assert_eq!(dir.read("pharo.json"), text);
}

#[test]
fn scan_of_an_unreachable_server_exits_with_4() {
    let run = gatelodge(&["scan", "--url", "http://127.0.0.1:9/mcp"]);
    assert_eq!(run.code, 4, "{}", run.stderr);
}
