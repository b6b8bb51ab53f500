//! Each command exits only with the codes that its help names.

use crate::support::TestDir;
use crate::test_registry::{TestRegistry, wheel};

fn documented_codes(dir: &TestDir, command: &[&str]) -> Vec<i32> {
    let help = dir.run(&[command, &["--help"]].concat()).stdout;
    let (_, codes) = help.split_once("Exit code: ").unwrap_or_else(|| panic!("{command:?} names no codes: {help}"));
    let first = |part: &str| part.trim().split(' ').next().and_then(|word| word.parse().ok());
    codes.split(',').filter_map(first).collect()
}

#[test]
fn commands_exit_with_the_codes_of_their_help() {
    let dir = TestDir::with_index();
    let registry = TestRegistry::serve([("book-mcp", wheel(&[("a.py", "x = 1\n")]))]);
    let registry_option = format!("--index={}", registry.address());
    dir.write("bad.glx", b"GLINDEX\n\x02");
    dir.write("line.jsonl", "{}");
    dir.write("label.jsonl", "{\"name\": \"get_x\", \"category\": \"Read\"}\n");
    std::fs::create_dir(dir.path("full")).unwrap();
    dir.write("full/x", "");
    let cases: &[(&[&str], &[&str], i32)] = &[
        (&["read"], &["pypi:book-mcp", &registry_option], 0),
        (&["read"], &["book-mcp", &registry_option], 2),
        (&["read"], &["pypi:book-mcp", "--index=http://127.0.0.1:1"], 4),
        (&["index"], &["facts.jsonl", "--out=o.glx"], 0),
        (&["index"], &["line.jsonl", "--out=o.glx"], 1),
        (&["index"], &["none.jsonl", "--out=o.glx"], 2),
        (&["index"], &["--listed=mail=none.json", "--out=o.glx"], 2),
        (&["index"], &["facts.jsonl", "--out=none/o.glx"], 5),
        (&["export"], &["--out=site", "--server=mail", "--index=i.glx"], 0),
        (&["export"], &["--out=site2", "--server=missing", "--index=i.glx"], 1),
        (&["export"], &["--out=full", "--index=i.glx"], 2),
        (&["export"], &["--out=line.jsonl/site", "--index=i.glx"], 5),
        (&["export"], &["--out=site3", "--index=bad.glx"], 5),
        (&["eval"], &["label.jsonl"], 0),
        (&["eval"], &["line.jsonl"], 1),
        (&["eval"], &["none.jsonl"], 2),
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
fn help_names_every_command() {
    let help = TestDir::new().run(&["--help"]).stdout;
    for command in ["crawl", "read", "index", "export", "train", "eval"] {
        assert!(help.lines().any(|line| line.trim_start().starts_with(command)), "{command} in {help}");
    }
}
