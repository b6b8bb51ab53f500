//! Hostile and malformed tool definitions are classified or refused with a reason, in bounded time, and their text
//! reaches no terminal unescaped.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::{Run, TestDir};

/// Text that reverses or hides letters, and that a terminal or a browser would interpret.
const HOSTILE: &str = "x\u{202e}\u{200b}\u{9b}31m\u{1b}[2J\r<script>alert(1)</script>\u{2028}\u{e0041}`";
/// Generous: an unoptimized build takes seconds, and other tests run in parallel.
const TIME_LIMIT: Duration = Duration::from_secs(120);

fn malformed_tools() -> Value {
    json!([
        {"name": "get_nothing"},
        {"name": "get_long", "description": "Gives notes. ".repeat(80_000)},
        {"name": format!("get_{HOSTILE}"), "description": HOSTILE, "annotations": {"title": HOSTILE},
            "inputSchema": {"type": "object", "properties": {HOSTILE: {"type": "string", "enum": [HOSTILE]}}}},
        {"name": "get_a", "description": HOSTILE},
        {"name": "get_b", "inputSchema": "no schema"},
        {"name": "get_c", "inputSchema": {"properties": {"a": 5, "b": {"type": 7, "enum": 3}}, "required": "a"}},
        {"name": "get_d", "inputSchema": {"$ref": "#"}},
        {"name": 5},
        "no tool",
        {"name": ""},
        {"name": "n".repeat(300)},
    ])
}

fn ten_thousand_tools() -> Value {
    let verbs = ["get", "create", "delete", "run"];
    let tool = |at: usize| json!({"name": format!("{}_thing_{at}", verbs[at % 4]), "description": "Does the thing."});
    (0..10_000).map(tool).collect()
}

/// Asserts that the run stays below the time limit and prints only visible characters.
fn run(dir: &TestDir, args: &[&str]) -> Run {
    let start = Instant::now();
    let run = dir.run(args);
    assert!(start.elapsed() < TIME_LIMIT, "{args:?}: {:?}", start.elapsed());
    for text in [&run.stdout, &run.stderr] {
        let hidden = text.chars().find(|letter| *letter != '\n' && gatelodge_json::is_unprintable(*letter));
        assert_eq!(hidden, None, "{args:?}: {text}");
    }
    run
}

fn fixed_tools_server() -> String {
    format!("{}/tests/servers/fixed_tools.py", env!("CARGO_MANIFEST_DIR"))
}

/// Lists the tools once through `wrap`, which pins the definitions.
fn pin_tools(dir: &TestDir, tools: &str) {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let lines = [
        initialize,
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ];
    dir.write("wrap.json", r#"{"version": "1", "default": "allow"}"#);
    let (program, server) = (env!("CARGO_BIN_EXE_gatelodge"), fixed_tools_server());
    let wrap = format!("{program} wrap --policy wrap.json --name odd --data data -- python3 {server} {tools}");
    let lines = lines.map(|line| line.to_string()).join("\n");
    // The input must stay open until both responses are read.
    let script = format!(
        "coproc W {{ {wrap} 2> log; }}; echo '{lines}' >&${{W[1]}}; read -r a <&${{W[0]}}; read -r b <&${{W[0]}}; kill $W_PID; wait"
    );
    dir.run_shell(&script);
}

#[test]
fn classify_reads_malformed_tools_as_a_list_and_as_lines() {
    let dir = TestDir::new();
    dir.write("list.json", &json!({"server": HOSTILE, "tools": malformed_tools()}).to_string());
    let lines: Vec<String> = malformed_tools().as_array().unwrap().iter().map(ToString::to_string).collect();
    dir.write("lines.jsonl", &lines.join("\n"));
    for (file, refused) in [("list.json", "line 1: tool 8 of the list: "), ("lines.jsonl", "line 8: ")] {
        let output = run(&dir, &["catalogue", "classify", file]);
        assert_eq!((output.code, output.stdout.lines().count()), (1, 7), "{}", output.stdout);
        assert!(output.stderr.contains(&format!("{refused}the tool's `name` is not a string")), "{}", output.stderr);
        assert!(output.stdout.contains("\\u{202e}\\u{200b}\\u{9b}31m"), "{}", output.stdout);
        let output = run(&dir, &["catalogue", "classify", "--json", file]);
        let rows: Vec<Value> = output.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(rows.len(), 11);
        assert_eq!(rows[2]["name"], format!("get_{HOSTILE}"), "a program gets the name itself");
        assert_eq!((&rows[1]["category"], &rows[10]["error"].is_string()), (&json!("Unknown"), &true));
    }
}

#[test]
fn scan_reads_malformed_tools_and_its_policy_loads() {
    let dir = TestDir::new();
    dir.write("tools.json", &malformed_tools().to_string());
    let server = fixed_tools_server();
    let scan = |rest: &[&str]| run(&dir, &[&["scan"], rest, &["--", "python3", &server, "tools.json"]].concat());
    let output = scan(&[]);
    assert_eq!((output.code, output.stdout.lines().count()), (1, 7), "{} {}", output.stdout, output.stderr);
    assert!(output.stderr.contains("not classified: tool 9 of the list: a tool is an object"), "{}", output.stderr);
    assert_eq!(scan(&["--json"]).stdout.lines().count(), 7);
    for strictness in ["recommended", "strict", "permissive"] {
        let output = scan(&["--policy", strictness]);
        dir.write("policy.json", &output.stdout);
        assert_eq!(run(&dir, &["policy", "check", "--strict", "policy.json"]).code, 0, "{}", output.stdout);
    }
}

#[test]
fn show_and_diff_print_malformed_tools_escaped() {
    let dir = TestDir::new();
    dir.write("tools.json", &malformed_tools().to_string());
    pin_tools(&dir, "tools.json");
    let output = run(&dir, &["server", "show", "odd", "--data", "data"]);
    for name in ["get_nothing", "get_long", "get_a", "get_b", "get_c", "get_d"] {
        assert!(output.stdout.contains(&format!(" {name} ")), "{name} in {} {}", output.stdout, dir.read("log"));
    }
    assert!(output.stdout.contains("a description that is too long to be read completely"), "{}", output.stdout);
    let json = run(&dir, &["server", "show", "odd", "--data", "data", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&json.stdout).expect("JSON")["tools"].as_array().unwrap().len(), 6);
    let diff = run(&dir, &["server", "diff", "odd", "--data", "data"]);
    assert!(diff.stdout.contains("a tool without a name: new, Unknown"), "{}", diff.stdout);
    run(&dir, &["server", "diff", "odd", "--data", "data", "--json"]);
}

#[test]
fn ten_thousand_tools_are_classified_scanned_and_shown_in_bounded_time() {
    let dir = TestDir::new();
    dir.write("tools.json", &ten_thousand_tools().to_string());
    assert_eq!(run(&dir, &["catalogue", "classify", "tools.json"]).stdout.lines().count(), 10_000);
    let server = fixed_tools_server();
    let scan = ["scan", "--policy", "recommended", "--out", "p.json", "--", "python3", &server, "tools.json"];
    assert_eq!(run(&dir, &scan).code, 0);
    assert!(dir.read("p.json").contains("\"get_thing_9996\": {}"));
    pin_tools(&dir, "tools.json");
    let output = run(&dir, &["server", "show", "odd", "--data", "data"]);
    assert_eq!(output.stdout.lines().filter(|line| line.contains("_thing_")).count(), 10_000, "{}", dir.read("log"));
    assert!(output.stdout.contains("riskiest first:\nCritical  Destructive"));
}
