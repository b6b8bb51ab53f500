//! Tools that nobody should write: classified or refused with a reason, in bounded time, and shown as text.
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
use support::{House, Run, house};

/// What turns the order of letters, hides them, and steers a terminal or a page.
const HOSTILE: &str = "x\u{202e}\u{200b}\u{9b}31m\u{1b}[2J\r<script>alert(1)</script>\u{2028}\u{e0041}`";
/// Seconds without optimisation; other programs run beside it.
const BOUND: Duration = Duration::from_secs(120);

fn bad() -> Value {
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

fn many() -> Value {
    let verbs = ["get", "create", "delete", "run"];
    let tool = |at: usize| json!({"name": format!("{}_thing_{at}", verbs[at % 4]), "description": "Does the thing."});
    (0..10_000).map(tool).collect()
}

/// Runs within the bound, and prints nothing that a terminal would act on or not show.
fn run(house: &House, args: &[&str]) -> Run {
    let start = Instant::now();
    let run = house.run(args);
    assert!(start.elapsed() < BOUND, "{args:?}: {:?}", start.elapsed());
    for text in [&run.stdout, &run.stderr] {
        let hidden = text.chars().find(|letter| *letter != '\n' && gatelodge_json::is_unprintable(*letter));
        assert_eq!(hidden, None, "{args:?}: {text}");
    }
    run
}

fn offer() -> String {
    format!("{}/tests/servers/offer.py", env!("CARGO_MANIFEST_DIR"))
}

/// Has the tools accepted, as they are when somebody first asks.
fn accept(house: &House, tools: &str) {
    let info = json!({"name": "test", "version": "1"});
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let lines = [
        hello,
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"}),
    ];
    house.write("wrap.json", r#"{"version": "1", "default": "allow"}"#);
    let (program, server) = (env!("CARGO_BIN_EXE_gatelodge"), offer());
    let wrap = format!("{program} wrap --policy wrap.json --name odd --data data -- python3 {server} {tools}");
    let lines = lines.map(|line| line.to_string()).join("\n");
    // It goes on listening until both answers are there.
    let talk = format!(
        "coproc W {{ {wrap} 2> log; }}; echo '{lines}' >&${{W[1]}}; read -r a <&${{W[0]}}; read -r b <&${{W[0]}}; kill $W_PID; wait"
    );
    house.paste(&talk);
}

#[test]
fn classify_takes_all_of_it_as_a_list_and_as_lines() {
    let house = house();
    house.write("list.json", &json!({"server": HOSTILE, "tools": bad()}).to_string());
    let lines: Vec<String> = bad().as_array().unwrap().iter().map(ToString::to_string).collect();
    house.write("lines.jsonl", &lines.join("\n"));
    for (file, refused) in [("list.json", "line 1: tool 8 of the list: "), ("lines.jsonl", "line 8: ")] {
        let told = run(&house, &["catalogue", "classify", file]);
        assert_eq!((told.code, told.stdout.lines().count()), (1, 7), "{}", told.stdout);
        assert!(told.stderr.contains(&format!("{refused}the tool's `name` is not a string")), "{}", told.stderr);
        assert!(told.stdout.contains("\\u{202e}\\u{200b}\\u{9b}31m"), "{}", told.stdout);
        let told = run(&house, &["catalogue", "classify", "--json", file]);
        let rows: Vec<Value> = told.stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        assert_eq!(rows.len(), 11);
        assert_eq!(rows[2]["name"], format!("get_{HOSTILE}"), "a program gets the name itself");
        assert_eq!((&rows[1]["category"], &rows[10]["error"].is_string()), (&json!("Unknown"), &true));
    }
}

#[test]
fn scan_takes_all_of_it_and_its_policy_loads() {
    let house = house();
    house.write("tools.json", &bad().to_string());
    let server = offer();
    let scan = |rest: &[&str]| run(&house, &[&["scan"], rest, &["--", "python3", &server, "tools.json"]].concat());
    let told = scan(&[]);
    assert_eq!((told.code, told.stdout.lines().count()), (1, 7), "{} {}", told.stdout, told.stderr);
    assert!(told.stderr.contains("not classified: tool 9 of the list: a tool is an object"), "{}", told.stderr);
    assert_eq!(scan(&["--json"]).stdout.lines().count(), 7);
    for posture in ["recommended", "strict", "permissive"] {
        let told = scan(&["--policy", posture]);
        house.write("policy.json", &told.stdout);
        assert_eq!(run(&house, &["policy", "check", "--strict", "policy.json"]).code, 0, "{}", told.stdout);
    }
}

#[test]
fn show_and_diff_tell_all_of_it_as_text() {
    let house = house();
    house.write("tools.json", &bad().to_string());
    accept(&house, "tools.json");
    let told = run(&house, &["server", "show", "odd", "--data", "data"]);
    for name in ["get_nothing", "get_long", "get_a", "get_b", "get_c", "get_d"] {
        assert!(told.stdout.contains(&format!(" {name} ")), "{name} in {} {}", told.stdout, house.read("log"));
    }
    assert!(told.stdout.contains("a description that is too long to be read completely"), "{}", told.stdout);
    let json = run(&house, &["server", "show", "odd", "--data", "data", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&json.stdout).expect("JSON")["tools"].as_array().unwrap().len(), 6);
    let diff = run(&house, &["server", "diff", "odd", "--data", "data"]);
    assert!(diff.stdout.contains("a tool without a name: new, Unknown"), "{}", diff.stdout);
    run(&house, &["server", "diff", "odd", "--data", "data", "--json"]);
}

#[test]
fn ten_thousand_tools_are_classified_scanned_and_shown_in_bounded_time() {
    let house = house();
    house.write("tools.json", &many().to_string());
    assert_eq!(run(&house, &["catalogue", "classify", "tools.json"]).stdout.lines().count(), 10_000);
    let server = offer();
    let scan = ["scan", "--policy", "recommended", "--out", "p.json", "--", "python3", &server, "tools.json"];
    assert_eq!(run(&house, &scan).code, 0);
    assert!(house.read("p.json").contains("\"get_thing_9996\": {}"));
    accept(&house, "tools.json");
    let told = run(&house, &["server", "show", "odd", "--data", "data"]);
    assert_eq!(told.stdout.lines().filter(|line| line.contains("_thing_")).count(), 10_000, "{}", house.read("log"));
    assert!(told.stdout.contains("riskiest first:\nCritical  Destructive"));
}
