//! `catalogue crawl` against an index that the test itself serves.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

mod index;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use index::{Index, wheel};
use serde_json::Value;

const SERVER: &str = "from fastmcp import FastMCP\nmcp = FastMCP('x')\n@mcp.tool(annotations={'readOnlyHint': True})\ndef \
                      get_book(title: str, pages: int = 0):\n    'Secret words of the author.'\n";

fn crawl(index: &Index, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge"));
    command.args(["catalogue", "crawl", "pypi", "--index", &index.address(), "--out"]).arg(out).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(index: &Index, out: &Path, more: &[&str]) -> Output {
    crawl(index, out, more).output().expect("the program runs")
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

fn outcomes(out: &Path) -> BTreeMap<String, String> {
    let of = |line: &Value, name: &str| line[name].as_str().unwrap_or_default().to_owned();
    lines(&out.join("done.jsonl")).iter().map(|line| (of(line, "package"), of(line, "outcome"))).collect()
}

#[test]
fn facts_are_written_and_nothing_that_anybody_said() {
    let index = Index::serve([("book-mcp", wheel(&[("book/server.py", SERVER)])), ("other", Vec::new())]);
    let folder = tempfile::tempdir().expect("a folder");
    let (out, definitions) = (folder.path().join("out"), folder.path().join("definitions.jsonl"));
    let told = run(&index, &out, &["--definitions", definitions.to_str().expect("text")]);
    assert!(told.status.success(), "{told:?}");
    let facts = lines(&out.join("facts.jsonl"));
    assert_eq!(facts.len(), 1);
    assert_eq!(facts[0]["package"], "book-mcp");
    assert_eq!((&facts[0]["version"], &facts[0]["date"]), (&"1.0".into(), &"2026-01-02".into()));
    let tool = &facts[0]["tools"][0];
    assert_eq!((&tool["name"], &tool["category"]), (&"get_book".into(), &"Read".into()));
    assert_eq!(tool["claims"], serde_json::json!({"readOnly": true}));
    let parameters = serde_json::json!([{"name": "title", "type": "string", "required": true}, {"name": "pages", "type": "integer"}]);
    assert_eq!(tool["parameters"], parameters);
    for file in ["facts.jsonl", "done.jsonl"] {
        assert!(!fs::read_to_string(out.join(file)).expect("written").contains("Secret words"));
    }
    let kept = lines(&definitions);
    assert_eq!((&kept[0]["category"], &kept[0]["package"]), (&"Read".into(), &"pypi:book-mcp==1.0".into()));
    assert!(kept[0]["description"].as_str().expect("text").contains("Secret words"));
    let progress = String::from_utf8(told.stderr).expect("text");
    assert!(progress.contains("1 of 1 packages (100.0 %)") && progress.contains("a second, done"), "{progress}");
}

#[test]
fn each_package_has_an_outcome() {
    let mut broken = wheel(&[("a.py", SERVER)]);
    let middle = broken.len() / 2;
    broken.truncate(middle);
    let index = Index::serve([
        ("a-mcp-none", wheel(&[("a.py", "x = 1\n")])),
        ("b-mcp-client", wheel(&[("a.py", "from mcp import ClientSession\n")])),
        ("c-mcp-empty", wheel(&[("readme.txt", "nothing")])),
        ("d-mcp-broken", broken),
        ("e-mcp-out", wheel(&[("../a.py", SERVER)])),
        ("f-mcp-good", wheel(&[("a.py", SERVER), ("../b.py", SERVER)])),
        ("g-mcp-gone", Vec::new()),
        ("h-mcp-changed", wheel(&[("a.py", SERVER)])),
        ("i-mcp-missing", wheel(&[("a.py", SERVER)])),
    ]);
    index.change("h-mcp-changed");
    index.forget("i-mcp-missing");
    let folder = tempfile::tempdir().expect("a folder");
    assert!(run(&index, folder.path(), &[]).status.success());
    let wanted = [
        ("a-mcp-none", "no-mcp"),
        ("b-mcp-client", "no-tools"),
        ("c-mcp-empty", "no-sources"),
        ("d-mcp-broken", "hostile"),
        ("e-mcp-out", "hostile"),
        ("f-mcp-good", "tools"),
        ("g-mcp-gone", "no-files"),
        ("h-mcp-changed", "wrong-hash"),
        ("i-mcp-missing", "not-found"),
    ];
    let wanted = wanted.map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(folder.path()), BTreeMap::from(wanted));
    let good = lines(&folder.path().join("done.jsonl"));
    let good = good.iter().find(|line| line["package"] == "f-mcp-good").expect("a line");
    assert_eq!(good["skipped"], serde_json::json!({"bad-path": 1}));
}

/// Waits until a file has so many lines.
fn wait_for(path: &Path, count: usize, child: &mut Child) {
    let start = Instant::now();
    while fs::read_to_string(path).unwrap_or_default().lines().count() < count {
        assert!(start.elapsed() < Duration::from_secs(60), "too slow");
        assert!(child.try_wait().expect("a child").is_none(), "it ended too early");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_run_goes_on_where_it_was() {
    let packages: Vec<(String, Vec<u8>)> = (0..40)
        .map(|at| (format!("p{at:02}-mcp"), wheel(&[("a.py", &SERVER.replace("get_book", &format!("get_{at}")))])))
        .collect();
    let index = Index::serve(packages.iter().map(|(name, wheel)| (name.as_str(), wheel.clone())));
    index.slow_down(Duration::from_millis(40));
    let folder = tempfile::tempdir().expect("a folder");
    let (whole, cut) = (folder.path().join("whole"), folder.path().join("cut"));
    assert!(run(&index, &whole, &[]).status.success());
    let asked_once = index.asked();

    let done = cut.join("done.jsonl");
    let mut child = crawl(&index, &cut, &["--connections", "2"]).spawn().expect("the program runs");
    wait_for(&done, 10, &mut child);
    child.kill().expect("killed");
    child.wait().expect("ended");
    let before = fs::read_to_string(&done).expect("a journal").lines().count();
    assert!((10..40).contains(&before));
    // A line that was cut off, in each file.
    for file in ["done.jsonl", "facts.jsonl"] {
        let text = fs::read_to_string(cut.join(file)).expect("written");
        let line = text.lines().last().expect("a line");
        fs::write(cut.join(file), format!("{text}{}", &line[..line.len() / 2])).expect("written");
    }
    assert!(run(&index, &cut, &[]).status.success());
    for file in ["done.jsonl", "facts.jsonl"] {
        let read = |folder: &Path| fs::read_to_string(folder.join(file)).expect("written");
        assert_eq!(read(&cut), read(&whole), "{file}");
    }
    // What was done was not asked for again: two requests for each of the others, and a few that were under way.
    let asked_again = index.asked() - asked_once;
    assert!(asked_again <= 2 * 40 + 1 + 1 + 2 * 4, "{asked_again} requests for 40 packages");
    // Nothing is left to do, and nothing is asked but the list.
    let before = index.asked();
    assert!(run(&index, &cut, &[]).status.success());
    assert_eq!(index.asked() - before, 1);
    let left: Vec<_> = fs::read_dir(&cut).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn sources_that_are_kept_are_not_fetched_again() {
    let index = Index::serve([("book-mcp", wheel(&[("a.py", SERVER)]))]);
    let folder = tempfile::tempdir().expect("a folder");
    let cache = folder.path().join("cache");
    let more = ["--cache", cache.to_str().expect("text")];
    let (one, other) = (folder.path().join("one"), folder.path().join("other"));
    assert!(run(&index, &one, &more).status.success());
    let before = index.asked();
    assert!(run(&index, &other, &more).status.success());
    assert_eq!(index.asked() - before, 2, "the list and the page, not the file");
    let facts = |out: &Path| fs::read_to_string(out.join("facts.jsonl")).expect("written");
    assert_eq!(facts(&one), facts(&other));
}

#[test]
fn a_busy_index_is_asked_again() {
    let index = Index::serve([("book-mcp", wheel(&[("a.py", SERVER)]))]);
    index.refuse_next(2);
    let folder = tempfile::tempdir().expect("a folder");
    assert!(run(&index, folder.path(), &[]).status.success());
    assert_eq!(outcomes(folder.path())["book-mcp"], "tools");
}

#[test]
fn the_index_is_the_one_that_pip_uses() {
    let index = Index::serve([("book-mcp", wheel(&[("a.py", SERVER)]))]);
    let folder = tempfile::tempdir().expect("a folder");
    let ask = |name: &str, value: &str| {
        let out = folder.path().join(name.to_lowercase());
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge"));
        command.args(["catalogue", "crawl", "pypi", "--out"]).arg(&out).env_remove("PIP_INDEX_URL").env(name, value);
        let told = command.output().expect("the program runs");
        assert!(told.status.success(), "{told:?}");
        assert_eq!(outcomes(&out)["book-mcp"], "tools");
    };
    ask("PIP_INDEX_URL", &index.address());
    let programs = folder.path().join("programs");
    fs::create_dir(&programs).expect("made");
    let pip = programs.join("pip");
    fs::write(&pip, format!("#!/bin/sh\n[ \"$*\" = 'config get global.index-url' ] && echo {}\n", index.address()))
        .expect("written");
    let mut rights = fs::metadata(&pip).expect("there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
    fs::set_permissions(&pip, rights).expect("set");
    ask("PATH", &format!("{}:/usr/bin:/bin", programs.display()));
}

#[test]
fn an_index_that_does_not_answer_is_said_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("out");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge"));
    command.args(["catalogue", "crawl", "npm", "--index", "nonsense", "--out"]).arg(&out);
    let told = command.output().expect("the program runs");
    assert_eq!(told.status.code(), Some(2), "{told:?}");
    let index = Index::serve([("book-mcp", Vec::new())]);
    index.forget_all();
    let told = run(&index, &out, &[]);
    assert_eq!(told.status.code(), Some(4), "{told:?}");
    assert!(!out.exists());
}

#[test]
fn a_line_that_is_no_name_is_an_outcome_and_stops_nothing() {
    let index = Index::serve([("Book-MCP", wheel(&[("a.py", SERVER)]))]);
    let folder = tempfile::tempdir().expect("a folder");
    let (names, out) = (folder.path().join("names.txt"), folder.path().join("out"));
    fs::write(&names, "actionkit-(slack)\nBook-MCP\n@scope/name/tree/main\n").expect("written");
    let more = ["--names", names.to_str().expect("text")];
    let told = run(&index, &out, &more);
    assert!(told.status.success(), "{told:?}");
    let wanted = [("@scope/name/tree/main", "not-a-name"), ("Book-MCP", "tools"), ("actionkit-(slack)", "not-a-name")];
    let wanted = wanted.map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(&out), BTreeMap::from(wanted.clone()));
    assert!(String::from_utf8(told.stdout).expect("text").contains("not-a-name  2"));
    // A second run has nothing to add.
    assert!(run(&index, &out, &more).status.success());
    assert_eq!(lines(&out.join("done.jsonl")).len(), 3);
}

#[test]
fn memory_is_bounded_for_large_packages() {
    let module: String = (0..4_000)
        .map(|at| format!("@mcp.tool()\ndef tool_{at}(a: int, b: str = 'x' * {at}) -> dict:\n    'Does it {at}.'\n    return {{'a': [a, {at}, (a + {at}) * 2], 'b': b}}\n\n"))
        .collect();
    let module = format!("from fastmcp import FastMCP\nmcp = FastMCP('x')\n{module}");
    let names: Vec<String> = (0..40).map(|at| format!("big/m{at}.py")).collect();
    let files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), module.as_str())).collect();
    let large = wheel(&files);
    let packages: Vec<(String, Vec<u8>)> = (0..4).map(|at| (format!("big{at}-mcp"), large.clone())).collect();
    let index = Index::serve(packages.iter().map(|(name, wheel)| (name.as_str(), wheel.clone())));
    let folder = tempfile::tempdir().expect("a folder");
    let mut child = crawl(&index, folder.path(), &["--connections", "8"]).spawn().expect("the program runs");
    let mut most = 0;
    while child.try_wait().expect("a child").is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|line| line.split_whitespace().next()).and_then(|count| count.parse::<u64>().ok());
        most = most.max(peak.unwrap_or_default());
        std::thread::sleep(Duration::from_millis(20));
    }
    let outcomes = outcomes(folder.path());
    assert_eq!(outcomes.values().filter(|outcome| *outcome == "tools").count(), 4, "{outcomes:?}");
    assert!(most < 500 << 10, "{most} KiB");
}
