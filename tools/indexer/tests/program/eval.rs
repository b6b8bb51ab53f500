//! `eval` and `train`: the classifier against labels, and its weights from labels.

use serde_json::{Value, json};

use crate::support::TestDir;

const LINES: &str = r#"{"server": "files", "name": "delete_file", "description": "Deletes a file.", "category": "Destructive"}
{"server": "files", "name": "read_file", "description": "Gives a file.", "category": "Destructive"}
{"server": "files", "name": "create_file", "category": "NotReadNotDestructive"}
{"name": 7}
"#;

#[test]
fn eval_prints_figures_and_the_worst_mistakes() {
    let dir = TestDir::new();
    dir.write("labels.jsonl", LINES);
    let run = dir.run(&["eval", "labels.jsonl", "--worst", "5"]);
    assert_eq!(run.code, 1, "{}", run.stderr);
    for part in [
        "right",
        "66.7 %",
        "2 of 3",
        "not Read, but classified as Read",
        "calibration error",
        "is \\ called",
        "0.9 to 1.0",
    ] {
        assert!(run.stdout.contains(part), "{part} in {}", run.stdout);
    }
    assert!(run.stdout.contains("files / read_file: is Destructive, called Read"), "{}", run.stdout);
    assert!(run.stderr.contains("not classified: line 4: the tool's `name` is not a string"), "{}", run.stderr);
    let run = dir.run(&["eval", "labels.jsonl", "--json", "--worst", "1"]);
    let report: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert_eq!(report["figures"]["called_read"]["count"], 1);
    assert_eq!(report["worst"][0]["tool"], "read_file");
}

#[test]
fn unreadable_labels_are_a_usage_error() {
    let dir = TestDir::new();
    assert_eq!(dir.run(&["eval", "nowhere.jsonl"]).code, 2);
    assert_eq!(dir.run(&["train", "a test", "nowhere.jsonl"]).code, 2);
    let run = dir.run(&["eval", "nowhere.jsonl", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&run.stdout).expect("JSON")["error"]["exit_code"], 2);
}

#[test]
fn train_prints_weights_with_the_hash_of_the_labels() {
    let dir = TestDir::new();
    let line = |at: usize| {
        let server = format!("server{at}");
        let tool = |name: &str, category: &str| json!({"server": server, "name": name, "category": category});
        format!("{}\n{}\n", tool("get_gizmo", "Read"), tool("delete_gizmo", "Destructive"))
    };
    dir.write("labels.jsonl", (0..10).map(line).collect::<String>());
    let run = dir.run(&["train", "a test", "labels.jsonl"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    let weights: Value = serde_json::from_str(&run.stdout).expect("JSON");
    assert!(weights["origin"].as_str().unwrap().starts_with("a test; SHA-256 of the labels "), "{}", weights["origin"]);
    assert!(run.stderr.contains("labels by annotations"), "{}", run.stderr);
}
