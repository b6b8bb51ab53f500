//! `gatelodge policy …`: the real program, its two output streams and its exit code.

#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod support;

use serde_json::{Value, json};
use support::{Run, TestDir, example, gatelodge};

#[test]
fn check_reports_all_errors_at_once_with_location_code_and_help() {
    let dir = TestDir::new();
    dir.write(
        "policy.json",
        r#"{
  "version": "1",
  "defualt": "deny",
  "tools": {
    "pay": {
      "require": [{ "path": "args.amount", "op": "less", "value": 5 }],
      "limits": [{ "counter": "pay", "window": "1 mont", "max": 0 }]
    }
  }
}
"#,
    );
    let run = dir.run(&["policy", "check", "policy.json"]);
    assert_eq!(run.code, 1);
    assert_eq!(run.stdout, "");
    insta::assert_snapshot!(run.stderr);
}

#[test]
fn check_of_a_valid_policy_reports_no_errors() {
    let run = gatelodge(&["policy", "check", &example("books/policy.json"), "--tools", &example("books/tools.json")]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""));
    assert!(run.stderr.ends_with("policy.json: no errors\n"), "{}", run.stderr);
}

#[test]
fn check_as_json_has_code_location_and_help() {
    let dir = TestDir::new();
    dir.write("policy.yaml", "version: \"1\"\ndefault: deny\ntools:\n  é: {actoin: deny}\n");
    let run = dir.run(&["policy", "check", "--json", "policy.yaml"]);
    assert_eq!(run.code, 1);
    let findings: Value = serde_json::from_str(&run.stdout).unwrap();
    let finding = &findings[0];
    assert_eq!(finding["code"], "unknown-field");
    assert_eq!((finding["line"].as_u64(), finding["column"].as_u64()), (Some(4), Some(7)));
    assert_eq!(finding["help"], "did you mean `action`?");
}

#[test]
fn a_warning_fails_only_with_strict() {
    let dir = TestDir::new();
    dir.write(
        "policy.json",
        r#"{"version":"1","default":"deny","tools":{"a":{"limits":[{"counter":"c","window":"day","max":1,"scope":"session"}]}}}"#,
    );
    let run = dir.run(&["policy", "check", "policy.json"]);
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("warning[session-alone]"), "{}", run.stderr);
    assert_eq!(dir.run(&["policy", "check", "--strict", "policy.json"]).code, 1);
}

#[test]
fn a_misspelt_argument_is_found_with_the_tool_schemas() {
    let dir = TestDir::new();
    dir.write(
        "policy.json",
        r#"{"version":"1","default":"deny","tools":{"create_charge":{"deny_if":[{"path":"args.amonut","op":"gt","value":5}]}}}"#,
    );
    let run = dir.run(&["policy", "check", "policy.json", "--tools", &example("books/tools.json")]);
    assert_eq!(run.code, 0);
    assert!(run.stderr.contains("warning[unknown-argument]") && run.stderr.contains("`args.amount`"), "{}", run.stderr);
}

/// The same documents in JSON and in YAML.
#[test]
fn an_unreadable_document_gives_exactly_one_error() {
    let dir = TestDir::new();
    let documents: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty.json", Vec::new(), "the text is empty"),
        ("empty.yaml", Vec::new(), "the text is empty"),
        ("blank.yaml", b"\n\n# nothing\n".to_vec(), "the text is empty"),
        ("binary.json", vec![0x7f, b'E', b'L', b'F', 0xff, 0xfe], "not valid UTF-8"),
        ("binary.yaml", vec![0x7f, b'E', b'L', b'F', 0xff, 0xfe], "not valid UTF-8"),
        ("large.json", vec![b' '; 50 << 20], "larger than 8388608 bytes"),
        ("large.yaml", vec![b'#'; 50 << 20], "larger than 8388608 bytes"),
        ("deep.json", b"[".repeat(100_000), "nested deeper than 64 levels"),
        ("deep.yaml", b"[".repeat(100_000), "nested deeper than 64 levels"),
        ("deep_object.json", b"{\"a\":".repeat(100_000), "nested deeper than 64 levels"),
        ("deep_block.yaml", b"- ".repeat(100_000), "nested deeper than 64 levels"),
        ("list.json", b"[1, 2]".to_vec(), "a policy must be an object, not a list"),
        ("text.json", b"\"policy\"".to_vec(), "a policy must be an object, not a string"),
        ("number.yaml", b"12".to_vec(), "a policy must be an object, not a number"),
        ("null.json", b"null".to_vec(), "a policy must be an object, not null"),
        ("two.yaml", b"version: \"1\"\n---\nversion: \"1\"\n".to_vec(), "a second document follows"),
    ];
    for (name, text, message) in documents {
        dir.write_bytes(name, &text);
        let run = dir.run(&["policy", "check", name]);
        assert_eq!(run.code, 1, "{name}: {}", run.stderr);
        assert_eq!(run.stderr.matches("error[").count(), 1, "{name}: {}", run.stderr);
        assert!(run.stderr.contains(message), "{name}: {}", run.stderr);
        assert!(run.stderr.len() < 2_000, "{name}: {} bytes of output", run.stderr.len());
    }
}

#[test]
fn a_regex_too_large_to_compile_is_refused_with_its_location() {
    let dir = TestDir::new();
    dir.write(
        "policy.yaml",
        "version: \"1\"\ndefault: deny\ntools:\n  a:\n    require:\n      - {path: args.x, op: regex, value: '(a{1000}){1000}'}\n",
    );
    let run = dir.run(&["policy", "check", "policy.yaml"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("error[large-regex]") && run.stderr.contains("policy.yaml:6:42"), "{}", run.stderr);
}

#[test]
fn explain_as_json_has_all_members() {
    let call = r#"{"tool": "create_charge", "arguments": {"amount": 5, "currency": "eur"}, "category": "financial",
        "server": {"name": "stripe"}, "grant": {"label": "ci", "labels": {"team": "x"}},
        "client": {"name": "c", "version": "1"}, "session": "s1", "input_schema": {"type": "object"},
        "accepted": "yes", "at": "2026-11-15T12:00:00Z"}"#;
    let explanation = explain(call);
    let keys: Vec<&String> = explanation.as_object().unwrap().keys().collect();
    assert_eq!(keys, ["decision", "code", "rule", "message", "charges", "trace"]);
    assert_eq!(explanation["decision"], "allow");
    assert_eq!((&explanation["code"], &explanation["message"]), (&Value::Null, &Value::Null));
    assert_eq!(explanation["rule"], "/tools/create_charge");
    assert_eq!(
        explanation["charges"],
        json!([
            {"rule": "/tools/create_charge/limits/0", "counter": "spend", "scope": "grant", "window": "day", "align": "calendar", "max": 1000000, "amount": 5},
            {"rule": "/all_tools/limits/0", "counter": "calls", "scope": "grant", "window": "minute", "align": "calendar", "max": 120, "amount": 1}
        ])
    );
    assert!(explanation["trace"].as_array().unwrap().len() >= 5);
}

#[test]
fn explain_accepts_minimal_calls_of_every_kind() {
    let decision_code_and_rule = |call: &str| {
        let explanation = explain(call);
        (explanation["decision"].clone(), explanation["code"].clone(), explanation["rule"].clone())
    };
    assert_eq!(
        decision_code_and_rule(r#"{"tool": "nothing"}"#),
        (json!("deny"), json!("not_listed"), json!("/default"))
    );
    assert_eq!(
        decision_code_and_rule(r#"{"resource": "note://x"}"#),
        (json!("deny"), json!("not_listed"), json!("/default"))
    );
    assert_eq!(
        decision_code_and_rule(r#"{"prompt": "greet"}"#),
        (json!("deny"), json!("not_listed"), json!("/default"))
    );
    assert_eq!(decision_code_and_rule(r#"{"method": "vendor/x"}"#), (json!("deny"), json!("not_listed"), Value::Null));
    assert_eq!(decision_code_and_rule(r#"{"method": "ping"}"#), (json!("allow"), Value::Null, Value::Null));
}

#[test]
fn an_invalid_call_is_refused_with_its_location() {
    for (call, message) in [
        ("{}", "the call has no target"),
        (r#"{"tool": "a", "prompt": "b"}"#, "`prompt` cannot be combined with `tool`"),
        (r#"{"tool": "a", "argumnets": {}}"#, "did you mean `arguments`?"),
        (r#"{"tool": "a", "arguments": []}"#, "`arguments` must be an object, not a list"),
        (r#"{"tool": "a", "arguments": {"n": 1e400}}"#, "exceeds 10^308"),
        (r#"{"tool": "a", "arguments": {"n": 1, "n": 2}}"#, "the key `n` is repeated"),
        (r#"{"tool": "a", "accepted": "maybe"}"#, "`maybe` is not a valid value for `accepted`"),
        (r#"{"tool": "a", "at": "noon"}"#, "`noon` is not a time"),
    ] {
        let run =
            gatelodge(&["policy", "explain", "--policy", &example("books/policy.json"), "--call", call, "--json"]);
        assert_eq!((run.code, run.stderr.as_str()), (1, ""), "{call}");
        assert!(run.stdout.contains(message), "{call}: {}", run.stdout);
    }
}

#[test]
fn the_readme_shows_the_output_of_explain() {
    let readme = std::fs::read_to_string(example("../README.md")).unwrap();
    // The workspace has more than one program, so the command must name the package.
    assert!(
        readme.contains("$ cargo run --release -p gatelodge -- policy explain --policy examples/books/policy.json")
    );
    let block = readme.split("```console\n").find(|block| block.contains("policy explain")).unwrap();
    let block = block.split("\n…").next().unwrap();
    let expected = block.split("\"eur\"}}'\n").nth(1).unwrap();
    let call = r#"{"tool": "create_charge", "arguments": {"amount": 60000, "currency": "eur"}}"#;
    let run = gatelodge(&["policy", "explain", "--policy", &example("books/policy.json"), "--call", call]);
    assert_eq!(run.code, 0);
    assert!(run.stdout.starts_with(expected), "{}\nis not\n{expected}", run.stdout);
}

#[test]
fn explain_prints_the_compared_values() {
    let call = r#"{"tool": "create_charge", "arguments": {"amount": "60000", "currency": "gbp"}, "at": "2026-11-15T12:00:00Z"}"#;
    let run = gatelodge(&["policy", "explain", "--policy", &example("books/policy.json"), "--call", call]);
    insta::assert_snapshot!(run.stdout);
}

#[test]
fn the_cases_of_the_example_pass() {
    let run = gatelodge(&["policy", "test", &example("books/books.cases.yaml")]);
    assert_eq!((run.code, run.stdout.as_str()), (0, "10 passed, 0 failed\n"), "{}", run.stderr);
}

#[test]
fn a_policy_in_place_of_a_case_file_is_recognized() {
    let run = gatelodge(&["policy", "test", &example("books/policy.json")]);
    assert_eq!((run.code, run.stdout.as_str()), (1, ""));
    assert!(run.stderr.contains("this is a policy, not a case file"), "{}", run.stderr);
    assert_eq!(run.stderr.matches("error[").count(), 1, "{}", run.stderr);
}

#[test]
fn the_policy_of_the_readme_does_what_the_text_says() {
    let readme = std::fs::read_to_string(example("../README.md")).unwrap();
    let text = readme.split("```json\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a policy");
    let dir = TestDir::new();
    dir.write("policy.json", text);
    assert_eq!(dir.run(&["policy", "check", "--strict", "policy.json"]).code, 0);
    for (arguments, decision) in [
        (r#"{"currency": "eur", "amount": 50000}"#, "allow"),
        (r#"{"currency": "eur", "amount": 50000.01}"#, "deny"),
        (r#"{"currency": "eur", "amount": 0}"#, "deny"),
        (r#"{"currency": "eur", "amount": -1}"#, "deny"),
        (r#"{"currency": "eur", "amount": null}"#, "deny"),
        (r#"{"currency": "eur"}"#, "deny"),
        (r#"{"currency": "gbp", "amount": 1}"#, "deny"),
        (r#"{"amount": 1}"#, "deny"),
    ] {
        let call = format!(r#"{{"tool": "create_charge", "arguments": {arguments}}}"#);
        let run = dir.run(&["policy", "explain", "--policy", "policy.json", "--call", &call]);
        assert!(run.stdout.starts_with(decision), "{arguments}: {}", run.stdout);
    }
    let run = dir.run(&["policy", "explain", "--policy", "policy.json", "--call", r#"{"tool": "refund"}"#]);
    assert!(run.stdout.starts_with("deny"), "{}", run.stdout);
}

#[test]
fn the_help_command_prints_the_help() {
    for words in [&["help"][..], &["help", "policy"], &["help", "policy", "check"]] {
        let (help, option) = (gatelodge(words), gatelodge(&[&words[1..], &["--help"]].concat()));
        assert_eq!((help.code, &help.stdout), (0, &option.stdout), "{words:?}: {}", help.stderr);
    }
}

#[test]
fn a_failing_case_is_printed_with_expected_and_actual_decision() {
    let dir = TestDir::new();
    dir.write("policy.yaml", "version: \"1\"\ndefault: deny\ntools: {a: {action: deny}}\n");
    dir.write(
        "cases.yaml",
        "policy: policy.yaml\ncases:\n  - {name: a passes, call: {tool: a}, expect: allow}\n  - {name: b is unknown, call: {tool: b}, expect: {decision: deny, code: not_listed}}\n",
    );
    let run = dir.run(&["policy", "test", "cases.yaml"]);
    assert_eq!(run.code, 1);
    insta::assert_snapshot!(run.stdout);
}

#[test]
fn a_case_that_cannot_fail_is_refused() {
    let dir = TestDir::new();
    dir.write(
        "cases.json",
        r#"{"policy": {"version": "1", "default": "deny"}, "cases": [{"call": {"tool": "a"}, "expect": {}}]}"#,
    );
    let run = dir.run(&["policy", "test", "cases.json"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("so the case could not fail"), "{}", run.stderr);
}

#[test]
fn fmt_keeps_comments_and_is_idempotent() {
    let dir = TestDir::new();
    dir.write("policy.json", "{\"version\":\"1\", // one\n\"default\":\"deny\"}");
    assert_eq!(dir.run(&["policy", "fmt", "--check", "policy.json"]).code, 1);
    assert_eq!(dir.run(&["policy", "fmt", "--write", "policy.json"]).code, 0);
    let text = dir.read("policy.json");
    assert!(text.contains("// one"), "{text}");
    assert_eq!(dir.run(&["policy", "fmt", "--check", "policy.json"]).code, 0);
    assert_eq!(dir.run(&["policy", "fmt", "policy.json"]).stdout, text);
}

#[test]
fn control_characters_are_escaped_in_output() {
    let dir = TestDir::new();
    dir.write(
        "policy.json",
        r#"{"version":"1","default":"deny","tools":{"a\u001b[31m":{"action":"deny","reason":"\u001b[2Jgone\nnext\u202e"}}}"#,
    );
    dir.write("call.json", r#"{"tool":"a\u001b[31m"}"#);
    let run = dir.run(&["policy", "explain", "--policy", "policy.json", "--call", "call.json"]);
    assert_eq!(run.code, 0);
    assert!(run.stdout.contains(r"\u{1b}[2Jgone\u{a}next\u{202e}"), "{}", run.stdout);
    assert!(!run.stdout.contains(['\u{1b}', '\u{202e}']), "{}", run.stdout);
    dir.write(
        "cases.json",
        r#"{"policy":"policy.json","cases":[{"name":"\u001b]0;x\u0007","call":{"tool":"b"},"expect":"allow"}]}"#,
    );
    let run = dir.run(&["policy", "test", "cases.json"]);
    assert!(run.code == 1 && !run.stdout.contains('\u{1b}'), "{}", run.stdout);
}

#[test]
fn the_report_of_ninety_thousand_errors_is_bounded() {
    let dir = TestDir::new();
    dir.write("many.json", &format!("{{{}\"b\":1}}", "\"a\":1,".repeat(90_000)));
    for verb in ["check", "fmt", "import", "test"] {
        let run = dir.run(&["policy", verb, "many.json"]);
        assert_eq!(run.code, 1, "{verb}");
        assert!(run.stderr.len() < 200_000, "{verb}: {} bytes", run.stderr.len());
    }
}

#[test]
fn an_error_in_a_long_line_is_shown_with_its_context() {
    let dir = TestDir::new();
    dir.write("long.json", &format!(r#"{{"version":"1","description":"{}","defualt":"deny"}}"#, "x".repeat(1_000)));
    let run = dir.run(&["policy", "check", "long.json"]);
    assert!(run.stderr.contains("long.json:1:1033\n") && run.stderr.contains("^^^^^^^^^"), "{}", run.stderr);
}

#[test]
fn a_failed_write_leaves_the_old_policy_intact() {
    let dir = TestDir::new();
    let text = format!(r#"{{"version":"1","default":"deny","description":"{}"}}"#, "x".repeat(5_000));
    dir.write("policy.json", &text);
    let run = dir.run_with_file_size_limit(&["policy", "fmt", "--write", "policy.json"]);
    assert_eq!(run.code, 5, "{}", run.stderr);
    assert!(run.stderr.contains("cannot write `policy.json`"), "{}", run.stderr);
    assert_eq!(dir.read("policy.json"), text);
    assert_eq!(dir.file_names(), ["policy.json"]);
}

#[test]
fn fmt_leaves_no_temporary_files() {
    let dir = TestDir::new();
    dir.write("policy.json", "{\"version\":\"1\",\"default\":\"deny\"}");
    assert_eq!(dir.run(&["policy", "fmt", "--write", "policy.json"]).code, 0);
    assert_eq!(dir.file_names(), ["policy.json"]);
}

#[test]
fn the_example_satisfies_the_schema() {
    let run = gatelodge(&["policy", "schema"]);
    assert_eq!(run.code, 0);
    let schema: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let policy = gatelodge(&["policy", "fmt", &example("books/policy.json")]).stdout;
    let plain: String = policy.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
    let call = format!(r#"{{"tool":"t","arguments":{plain},"input_schema":{}}}"#, run.stdout);
    let dir = TestDir::new();
    dir.write("call.json", &call);
    dir.write("all.json", r#"{"version":"1","default":"deny","tools":{"t":{"validate_arguments":true}}}"#);
    let explained = dir.run(&["policy", "explain", "--policy", "all.json", "--call", "call.json"]);
    assert!(explained.stdout.starts_with("allow by /tools/t"), "{}", explained.stdout);
}

#[test]
fn import_writes_a_valid_policy_and_reports_changes() {
    let dir = TestDir::new();
    dir.write(
        "intercept.yaml",
        "version: \"1\"\ndefault: deny\ntools:\n  create_refund:\n    rules:\n      - name: small\n        conditions:\n          - {path: args.amount, op: lte, value: 100}\n        on_deny: too much\n      - name: rate\n        rate_limit: 5/minute\n",
    );
    let run = dir.run(&["policy", "import", "intercept.yaml"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!run.stderr.is_empty());
    dir.write("policy.json", &run.stdout);
    assert_eq!(dir.run(&["policy", "check", "policy.json"]).code, 0);
}

#[test]
fn wrong_arguments_and_missing_files_exit_with_2() {
    for args in [
        &["policy"][..],
        &["polciy", "check"],
        &["policy", "check"],
        &["policy", "check", "/nowhere/policy.json"],
        &["policy", "explain", "--policy", "-", "--call", "-"],
        &["policy", "test", "/nowhere"],
        &["policy", "import", "/nowhere"],
        &["policy", "fmt", "/nowhere"],
        &["policy", "fmt", "--write", "--check", "x"],
    ] {
        let Run { code, stdout, stderr } = gatelodge(args);
        assert_eq!((code, stdout.as_str()), (2, ""), "{args:?}: {stderr}");
        assert!(!stderr.is_empty() && !stderr.contains("panicked"), "{args:?}: {stderr}");
    }
}

#[test]
fn the_help_of_each_command_has_an_example() {
    for verb in ["check", "test", "explain", "import", "fmt"] {
        let run = gatelodge(&["policy", verb, "--help"]);
        assert_eq!(run.code, 0);
        assert!(run.stdout.contains("Example"), "{verb}: {}", run.stdout);
    }
}

const GOOD: &str = r#"{"version":"1","default":"deny"}"#;
const BAD: &str = r#"{"version":"1","defualt":"deny"}"#;

/// Findings on standard output.
fn findings(run: &Run) -> Vec<Value> {
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{error}: {}", run.stdout))
}

#[test]
fn one_unreadable_file_does_not_hide_findings_of_others() {
    let dir = TestDir::new();
    dir.write("bad.json", BAD);
    dir.write("good.json", GOOD);
    let run = dir.run(&["policy", "check", "nowhere.json", "bad.json", "good.json"]);
    assert_eq!(run.code, 2);
    assert!(run.stderr.contains("error[unreadable-file]: cannot read `nowhere.json`"), "{}", run.stderr);
    assert!(run.stderr.contains("help: check the name"), "{}", run.stderr);
    assert!(
        run.stderr.contains("error[unknown-field]") && run.stderr.contains("good.json: no errors"),
        "{}",
        run.stderr
    );
    let run = dir.run(&["policy", "check", "--json", "nowhere.json", "bad.json", "good.json"]);
    assert_eq!((run.code, run.stderr.as_str()), (2, ""));
    let codes: Vec<Value> = findings(&run).iter().map(|finding| finding["code"].clone()).collect();
    assert_eq!(codes, ["unreadable-file", "missing-field", "unknown-field"]);
    dir.write("cases.yaml", "policy: good.json\ncases:\n  - {name: no, call: {tool: a}, expect: allow}\n");
    let run = dir.run(&["policy", "test", "nowhere.yaml", "cases.yaml"]);
    assert_eq!(run.code, 2);
    assert!(run.stdout.contains("FAILED cases.yaml:3: no"), "{}", run.stdout);
    assert!(run.stderr.contains("cannot read `nowhere.yaml`"), "{}", run.stderr);
}

#[test]
fn invalid_tools_do_not_hide_errors_of_policies() {
    let dir = TestDir::new();
    dir.write("bad.json", BAD);
    dir.write("tools.json", "{");
    let run = dir.run(&["policy", "check", "--tools", "tools.json", "bad.json"]);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("tools.json: policies are checked without these tools"), "{}", run.stderr);
    assert!(run.stderr.contains("error[unknown-field]"), "{}", run.stderr);
    let run = dir.run(&["policy", "check", "--tools", "nowhere.json", "bad.json"]);
    assert_eq!(run.code, 2);
    assert!(
        run.stderr.contains("cannot read `nowhere.json`") && run.stderr.contains("unknown-field"),
        "{}",
        run.stderr
    );
}

#[test]
fn json_findings_of_all_commands_go_to_standard_output() {
    let dir = TestDir::new();
    dir.write("good.json", GOOD);
    dir.write("bad.json", BAD);
    dir.write("call.json", r#"{"tool": "a", "x": 1}"#);
    dir.write("intercept.yaml", "version: \"1\"\ndefault: maybe\n");
    dir.write("faulty.yaml", "policy: good.json\ncases: []\n");
    let finding_locations = |args: &[&str], code: i32| {
        let run = dir.run(args);
        assert_eq!((run.code, run.stderr.as_str()), (code, ""), "{args:?}: {}", run.stdout);
        let found = findings(&run);
        // `policy test` nests the findings of each case file in a report.
        let found =
            found.iter().flat_map(|file| file["faults"].as_array().cloned().unwrap_or_else(|| vec![file.clone()]));
        found
            .map(|finding| {
                format!(
                    "{} {}:{}",
                    finding["code"].as_str().unwrap(),
                    finding["file"].as_str().unwrap(),
                    finding["line"]
                )
            })
            .collect::<Vec<_>>()
    };
    assert_eq!(
        finding_locations(&["policy", "explain", "--json", "--policy", "bad.json", "--call", "call.json"], 1),
        ["missing-field bad.json:1", "unknown-field bad.json:1", "unknown-field call.json:1"]
    );
    assert_eq!(
        finding_locations(&["policy", "explain", "--json", "--policy", "good.json", "--call", "nowhere.json"], 2),
        ["unreadable-file nowhere.json:1"]
    );
    assert_eq!(
        finding_locations(&["policy", "import", "--json", "intercept.yaml"], 1),
        ["unknown-word intercept.yaml:2"]
    );
    assert_eq!(
        finding_locations(&["policy", "import", "--json", "nowhere.yaml"], 2),
        ["unreadable-file nowhere.yaml:1"]
    );
    assert_eq!(finding_locations(&["policy", "test", "--json", "faulty.yaml"], 1), ["empty-list faulty.yaml:2"]);
    assert_eq!(finding_locations(&["policy", "test", "--json", "nowhere.yaml"], 2), ["unreadable-file nowhere.yaml:1"]);
}

#[test]
fn errors_of_case_file_calls_and_policies_are_reported_once_with_location() {
    let dir = TestDir::new();
    dir.write("bad.yaml", "version: \"1\"\ndefault: deny\ntools: {a: {actoin: deny}}\n");
    dir.write("good.json", GOOD);
    dir.write(
        "cases.yaml",
        "policy: bad.yaml
cases:
  - {name: one, call: {tool: a}, expect: allow}
  - {name: two, call: {tool: b}, expect: deny}
  - name: an invalid call
    policy: good.json
    call:
      tool: a
      argumnets: {}
    expect: deny
  - {name: nowhere, policy: nowhere.json, call: {tool: a}, expect: deny}
  - {name: a policy of its own, policy: {version: \"1\", default: maybe}, call: {tool: a}, expect: deny}
  - {name: expected, policy: {version: \"1\", default: perhaps}, expect: {faults: [unknown-word]}}
  - {name: it runs all the same, policy: good.json, call: {tool: a}, expect: deny}
",
    );
    let run = dir.run(&["policy", "test", "cases.yaml"]);
    assert_eq!(run.code, 2);
    insta::assert_snapshot!(format!("{}{}", run.stdout, run.stderr));
    let run = dir.run(&["policy", "test", "--json", "cases.yaml"]);
    assert_eq!((run.code, run.stderr.as_str()), (2, ""));
    let report = findings(&run).remove(0);
    let places: Vec<String> = report["faults"]
        .as_array()
        .unwrap()
        .iter()
        .map(|finding| format!("{}:{}", finding["file"].as_str().unwrap(), finding["line"]))
        .collect();
    assert_eq!(places, ["cases.yaml:9", "cases.yaml:11", "cases.yaml:12", "bad.yaml:3"]);
    let passed: Vec<bool> =
        report["cases"].as_array().unwrap().iter().map(|case| case["passed"].as_bool().unwrap()).collect();
    assert_eq!(passed, [false, false, false, false, false, true, true]);
}

#[test]
fn fmt_hints_are_right_for_yaml_and_standard_input() {
    let dir = TestDir::new();
    dir.write("policy.yaml", "# why\nversion: \"1\"\ndefault: deny\n");
    let run = dir.run(&["policy", "fmt", "--check", "policy.yaml"]);
    assert_eq!(run.code, 1);
    assert!(!run.stderr.contains("--write") && run.stderr.contains("1 YAML comment is lost in it"), "{}", run.stderr);
    let run = dir.run(&["policy", "fmt", "policy.yaml"]);
    assert_eq!((run.code, run.stderr.as_str()), (0, "policy.yaml: 1 YAML comment is lost in JSON\n"));
    let run = dir.run_with_input(&["policy", "fmt", "--check", "-"], "{\"version\":\"1\"}");
    assert_eq!(run.code, 1);
    assert!(!run.stderr.contains("--write") && run.stderr.contains("`gatelodge policy fmt -`"), "{}", run.stderr);
    for page in [gatelodge(&["policy", "--help"]).stdout, std::fs::read_to_string(example("../README.md")).unwrap()] {
        let line = page.lines().find(|line| line.contains("fmt")).unwrap();
        assert!(line.contains("YAML"), "{line}");
    }
}

#[test]
fn fmt_does_not_replace_a_read_only_file() {
    let dir = TestDir::new();
    let text = "{\"version\":\"1\",\"default\":\"deny\"}";
    dir.write("policy.json", text);
    dir.make_read_only("policy.json");
    let run = dir.run(&["policy", "fmt", "--write", "policy.json"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    assert!(run.stderr.contains("`policy.json` is read-only; make it writable"), "{}", run.stderr);
    assert_eq!(dir.read("policy.json"), text);
}

#[test]
fn standard_input_cannot_be_named_twice() {
    let dir = TestDir::new();
    dir.write("cases.yaml", "policy: \"-\"\ncases:\n  - {call: {tool: a}, expect: deny}\n");
    for args in [
        &["policy", "check", "-", "-"][..],
        &["policy", "check", "--tools", "-", "-"],
        &["policy", "test", "-", "-"],
        &["policy", "explain", "--policy", "-", "--call", "-"],
    ] {
        let run = dir.run_with_input(args, GOOD);
        assert_eq!(run.code, 2, "{args:?}: {}", run.stderr);
        assert!(run.stderr.contains("standard input can be read only once"), "{args:?}: {}", run.stderr);
    }
    let run = dir.run_with_input(&["policy", "test", "cases.yaml"], GOOD);
    assert_eq!(run.code, 1);
    assert!(run.stderr.contains("`-` is not a file name") && run.stderr.contains("cases.yaml:1:9"), "{}", run.stderr);
}

#[test]
fn strict_explains_why_it_failed() {
    let dir = TestDir::new();
    dir.write(
        "policy.json",
        r#"{"version":"1","default":"deny","tools":{"a":{"limits":[{"counter":"c","window":"day","max":1,"scope":"session"}]}}}"#,
    );
    let run = dir.run(&["policy", "check", "--strict", "policy.json"]);
    assert!(
        run.stderr.contains("1 warning; it can be used, but `--strict` treats warnings as errors"),
        "{}",
        run.stderr
    );
    let run = dir.run(&["policy", "check", "--strict", "--json", "policy.json"]);
    assert_eq!((run.code, &findings(&run)[0]["severity"]), (1, &json!("error")));
}

#[test]
fn check_reports_that_it_stopped_after_200_errors() {
    let dir = TestDir::new();
    let entries = vec!["1"; 300].join(",");
    dir.write("many.json", &format!(r#"{{"version":"1","default":"deny","hide":[{entries}]}}"#));
    let found = findings(&dir.run(&["policy", "check", "--json", "many.json"]));
    assert_eq!((found.len(), &found[200]["code"]), (201, &json!("more-faults")));
    let run = dir.run(&["policy", "check", "many.json"]);
    assert!(run.stderr.ends_with("many.json: 200 errors or more; it cannot be used\n"), "{}", run.stderr);
    assert!(run.stderr.contains("error[more-faults]"), "{}", run.stderr);
}

#[test]
fn yaml_in_a_json_file_gets_a_hint_for_format() {
    let dir = TestDir::new();
    dir.write("policy.json", "version: \"1\"\ndefault: deny\n");
    let run = dir.run(&["policy", "check", "policy.json"]);
    assert!(run.code == 1 && run.stderr.contains("--format yaml"), "{}", run.stderr);
    assert_eq!(dir.run(&["policy", "check", "--format", "yaml", "policy.json"]).code, 0);
    let explain = ["policy", "explain", "--policy", "policy.json", "--call", "{\"tool\": \"a\"}"];
    assert!(dir.run(&explain).stderr.contains("--format yaml"));
    let run = dir.run(&[&explain[..], &["--format", "yaml"]].concat());
    assert_eq!(run.code, 0, "{}", run.stderr);
}

#[test]
fn the_smallest_policy_is_suggested_only_for_policies() {
    let dir = TestDir::new();
    dir.write("empty.json", "");
    dir.write("good.json", GOOD);
    for args in [
        &["policy", "explain", "--policy", "good.json", "--call", "empty.json"][..],
        &["policy", "test", "empty.json"],
        &["policy", "import", "empty.json"],
        &["policy", "check", "--tools", "empty.json", "good.json"],
    ] {
        let run = dir.run(args);
        assert_eq!(run.code, 1);
        assert!(run.stderr.contains("help: ") && !run.stderr.contains("smallest policy"), "{args:?}: {}", run.stderr);
    }
    assert!(dir.run(&["policy", "check", "empty.json"]).stderr.contains("the smallest policy"));
}

#[test]
fn incomplete_output_is_reported() {
    let run = TestDir::new().run_to_full_disk(&["policy", "schema"]);
    assert_eq!(run.code, 5);
    assert!(run.stderr.contains("the output is incomplete: free disk space"), "{}", run.stderr);
}

#[test]
fn every_error_has_a_help_line() {
    let dir = TestDir::new();
    dir.write("good.json", GOOD);
    dir.write_bytes("large.json", &vec![b' '; 9 << 20]);
    dir.write_bytes("large_tools.json", &vec![b' '; 65 << 20]);
    dir.write("no_expect.yaml", "policy: good.json\ncases:\n  - {call: {tool: a}}\n");
    dir.write("null_expect.yaml", "policy: good.json\ncases:\n  - {call: {tool: a}, expect: null}\n");
    dir.write(
        "regex.yaml",
        "version: \"1\"\ntools: {a: {rules: [{name: r, conditions: [{path: args.x, op: regex, value: \"a(\"}]}]}}\n",
    );
    dir.write("hide.yaml", "version: \"1\"\nhide: [\"\"]\n");
    let explain = |call: &'static str| vec!["policy", "explain", "--policy", "good.json", "--call", call];
    for args in [
        explain(r#"{"tool": 5}"#),
        explain(r#"{"tool": "a", "arguments": {"n": 1e400}}"#),
        explain(r#"{"tool": "a", "arguments": {"n": 0e99999999999999999999}}"#),
        explain(r#"{"tool": "a""#),
        explain(r#"{"tool": "a", "level": "high"}"#),
        explain("large.json"),
        vec!["policy", "fmt", "large.json"],
        vec!["policy", "import", "large.json"],
        vec!["policy", "test", "large.json"],
        vec!["policy", "check", "--tools", "large_tools.json", "good.json"],
        vec!["policy", "test", "no_expect.yaml"],
        vec!["policy", "test", "null_expect.yaml"],
        vec!["policy", "import", "regex.yaml"],
        vec!["policy", "import", "hide.yaml"],
        vec!["policy", "fmt", "nowhere.json"],
    ] {
        let run = dir.run(&args);
        assert!(run.code == 1 || run.code == 2, "{args:?}: {}", run.stderr);
        let errors = run.stderr.matches("error[").count();
        assert!(errors > 0 && run.stderr.matches("help: ").count() == errors, "{args:?}: {}", run.stderr);
        assert!(!run.stderr.contains("did you mean `server`"), "{}", run.stderr);
    }
}

fn explain(call: &str) -> Value {
    let run = gatelodge(&["policy", "explain", "--policy", &example("books/policy.json"), "--call", call, "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    serde_json::from_str(&run.stdout).unwrap()
}
