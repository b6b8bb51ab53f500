//! Each command exits only with the codes that its help names.

use super::support::TestDir;
use super::{dir_with_index, write_newer_index};

/// Exit codes in the help of a command.
fn documented_codes(dir: &TestDir, command: &[&str]) -> Vec<i32> {
    let help = dir.run(&[command, &["--help"]].concat()).stdout;
    let (_, codes) = help.split_once("Exit code: ").unwrap_or_else(|| panic!("{command:?} names no codes: {help}"));
    let first = |part: &str| part.trim().split(' ').next().and_then(|word| word.parse().ok());
    codes.split(',').filter_map(first).collect()
}

#[test]
fn commands_exit_with_the_codes_of_their_help() {
    let dir = dir_with_index();
    write_newer_index(&dir, "new.glx");
    dir.run(&["catalogue", "update", "--from", "new.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    dir.write_bytes("bad.glx", b"GLINDEX\n\x02");
    dir.write("read.json", r#"{"mcpServers": {"n": {"command": "uvx", "args": ["notes"]}}}"#);
    dir.write("bad.toml", "nonsense = 1\n");
    std::fs::create_dir_all(dir.path("full")).unwrap();
    dir.write("full/x", "");
    std::fs::create_dir_all(dir.path("full/catalogue-changes.jsonl")).unwrap();
    std::fs::create_dir_all(dir.path("e")).unwrap();
    dir.write("e/catalogue-changes.jsonl", "{\"cursor\":1,\"level\":\"Low\"}\n");
    dir.write("key", "0123456789abcdef");
    let index = "--index=i.glx";
    let cases: &[(&[&str], &[&str], i32)] = &[
        (&["catalogue", "search"], &["git", index], 0),
        (&["catalogue", "search"], &["nothing-has-this", index], 0),
        (&["catalogue", "search"], &["x", "--config=bad.toml"], 1),
        (&["catalogue", "search"], &["x", "--index=none.glx"], 2),
        (&["catalogue", "search"], &["x", "--index=bad.glx"], 5),
        (&["catalogue", "show"], &["mail", index], 0),
        (&["catalogue", "show"], &["not-indexed", index], 1),
        (&["catalogue", "show"], &["mail", "no_tool", index], 1),
        (&["catalogue", "show"], &["https://a/b", index], 2),
        (&["catalogue", "show"], &["mail", "--index=bad.glx"], 5),
        (&["catalogue", "attacks"], &[], 0),
        (&["catalogue", "attacks"], &["nothing"], 2),
        (&["catalogue", "update"], &["--from=new.glx", "--data=d"], 0),
        (&["catalogue", "update"], &["--from=i.glx", "--data=d"], 1),
        (&["catalogue", "update"], &["--from=bad.glx", "--data=d"], 1),
        (&["catalogue", "update"], &["--from=none.glx", "--data=d"], 2),
        // The timeout cannot exceed the limit of the whole update.
        (&["catalogue", "update"], &["--from=new.glx", "--data=d", "--timeout=601"], 2),
        (&["catalogue", "update"], &["--from=http://127.0.0.1:1/", "--data=d"], 4),
        (&["catalogue", "update"], &["--from=new.glx", "--data=read.json"], 5),
        (&["catalogue", "changes"], &["--data=d"], 0),
        (&["catalogue", "changes"], &["--data=d", "--since=99999999"], 1),
        (&["catalogue", "changes"], &["--data=d", "--post=http://127.0.0.1:1/"], 2),
        (&["catalogue", "changes"], &["--data=e", "--post=http://127.0.0.1:1/", "--secret-file=key", "--retries=0"], 4),
        (&["catalogue", "changes"], &["--data=full"], 5),
        (&["catalogue", "mcp"], &[index], 0),
        (&["catalogue", "mcp"], &["--config=bad.toml"], 1),
        (&["catalogue", "mcp"], &["--index=none.glx"], 2),
        (&["catalogue", "mcp"], &["--index=bad.glx"], 5),
        (&["precheck"], &["mail", index], 0),
        (&["precheck"], &["not-indexed", index], 1),
        (&["precheck"], &["../x", index], 2),
        (&["precheck"], &["http://127.0.0.1:1/v0.1/servers/a/versions/latest", index], 4),
        (&["precheck"], &["mail", "--index=bad.glx"], 5),
        (&["stack"], &["read.json", index], 0),
        (&["stack"], &["read.json", "--fail-on=low", index], 1),
        (&["stack"], &["none.json", index], 2),
        (&["stack"], &["--project=nowhere", index], 2),
        (&["stack"], &["--home=nowhere", index], 2),
        (&["stack"], &["read.json", "--index=bad.glx"], 5),
        (&["stack"], &["read.json", "--policies=read.json", index], 5),
    ];
    for (command, args, code) in cases {
        let run = dir.run(&[*command, *args].concat());
        assert_eq!(run.code, *code, "{command:?} {args:?}: {}{}", run.stdout, run.stderr);
        assert!(documented_codes(&dir, command).contains(code), "the help of {command:?} does not name {code}");
    }
    for (command, _, _) in cases {
        for code in documented_codes(&dir, command) {
            let is_shown = cases.iter().any(|(other, _, expected)| other == command && *expected == code);
            assert!(is_shown, "no case shows that {command:?} exits with {code}");
        }
    }
}

#[test]
fn invisible_characters_are_escaped_in_the_policy_of_one_tool() {
    let dir = dir_with_index();
    let name = "get\u{202e}_it\u{200b}";
    dir.write("facts.jsonl", &super::package("pypi", "odd", &[super::tool(name, "Write", &[])]));
    super::write_index_file(&dir, "facts.jsonl", "2026-11-16", "i.glx");
    for more in [&[][..], &["--json"], &["--policy", "recommended"], &["--policy", "strict"]] {
        let run = dir.run(&[&["catalogue", "show", "odd", name, "--index", "i.glx"], more].concat());
        assert!(run.code == 0 && run.stdout.contains(r"get\u202e_it\u200b"), "{more:?}: {}", run.stdout);
        assert!(!run.stdout.contains(['\u{202e}', '\u{200b}']), "{more:?}: {}", run.stdout);
        if more.first() == Some(&"--policy") {
            dir.write("p.json", &run.stdout);
            assert_eq!(dir.run(&["policy", "check", "p.json"]).code, 0, "{}", run.stdout);
        }
    }
}
