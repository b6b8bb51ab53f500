//! Each command ends with the codes that its help names, and with no other.

use super::support::House;
use super::{newer, with_index};

/// The codes that a command's help names.
fn named(house: &House, command: &[&str]) -> Vec<i32> {
    let help = house.run(&[command, &["--help"]].concat()).stdout;
    let (_, codes) = help.split_once("Exit code: ").unwrap_or_else(|| panic!("{command:?} names no codes: {help}"));
    let first = |part: &str| part.trim().split(' ').next().and_then(|word| word.parse().ok());
    codes.split(',').filter_map(first).collect()
}

#[test]
fn exit_codes_are_those_of_the_help() {
    let house = with_index();
    newer(&house, "new.glx");
    house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    house.write_bytes("bad.glx", b"GLINDEX\n\x02");
    house.write("read.json", r#"{"mcpServers": {"n": {"command": "uvx", "args": ["notes"]}}}"#);
    house.write("bad.toml", "nonsense = 1\n");
    std::fs::create_dir_all(house.path("full")).unwrap();
    house.write("full/x", "");
    std::fs::create_dir_all(house.path("full/catalogue-changes.jsonl")).unwrap();
    std::fs::create_dir_all(house.path("e")).unwrap();
    house.write("e/catalogue-changes.jsonl", "{\"cursor\":1,\"level\":\"Low\"}\n");
    house.write("key", "0123456789abcdef");
    let index = "--index=i.glx";
    let cases: &[(&[&str], &[&str], i32)] = &[
        (&["catalogue", "search"], &["git", index], 0),
        (&["catalogue", "search"], &["nothing-has-this", index], 0),
        (&["catalogue", "search"], &["x", "--config=bad.toml"], 1),
        (&["catalogue", "search"], &["x", "--index=none.glx"], 2),
        (&["catalogue", "search"], &["x", "--index=bad.glx"], 5),
        (&["catalogue", "show"], &["mail", index], 0),
        (&["catalogue", "show"], &["nobody", index], 1),
        (&["catalogue", "show"], &["mail", "no_tool", index], 1),
        (&["catalogue", "show"], &["https://a/b", index], 2),
        (&["catalogue", "show"], &["mail", "--index=bad.glx"], 5),
        (&["catalogue", "attacks"], &[], 0),
        (&["catalogue", "attacks"], &["nothing"], 2),
        (&["catalogue", "update"], &["--from=new.glx", "--data=d"], 0),
        (&["catalogue", "update"], &["--from=i.glx", "--data=d"], 1),
        (&["catalogue", "update"], &["--from=bad.glx", "--data=d"], 1),
        (&["catalogue", "update"], &["--from=none.glx", "--data=d"], 2),
        // No server is waited for longer than the whole may take.
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
        (&["precheck"], &["nobody", index], 1),
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
        let run = house.run(&[*command, *args].concat());
        assert_eq!(run.code, *code, "{command:?} {args:?}: {}{}", run.stdout, run.stderr);
        assert!(named(&house, command).contains(code), "the help of {command:?} does not name {code}");
    }
    for (command, _, _) in cases {
        for code in named(&house, command) {
            let is_shown = cases.iter().any(|(own, _, shown)| own == command && *shown == code);
            assert!(is_shown, "nothing shows that {command:?} ends with {code}");
        }
    }
}

#[test]
fn letters_that_are_not_seen_are_written_out_in_the_policy_of_one_tool() {
    let house = with_index();
    let name = "get\u{202e}_it\u{200b}";
    house.write("facts.jsonl", &super::package("pypi", "odd", &[super::tool(name, "Write", &[])]));
    super::make_index(&house, "facts.jsonl", "2026-11-16", "i.glx");
    for more in [&[][..], &["--json"], &["--policy", "recommended"], &["--policy", "strict"]] {
        let run = house.run(&[&["catalogue", "show", "odd", name, "--index", "i.glx"], more].concat());
        assert!(run.code == 0 && run.stdout.contains(r"get\u202e_it\u200b"), "{more:?}: {}", run.stdout);
        assert!(!run.stdout.contains(['\u{202e}', '\u{200b}']), "{more:?}: {}", run.stdout);
        if more.first() == Some(&"--policy") {
            house.write("p.json", &run.stdout);
            assert_eq!(house.run(&["policy", "check", "p.json"]).code, 0, "{}", run.stdout);
        }
    }
}
