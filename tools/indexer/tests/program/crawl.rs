//! `crawl` against a registry that the test serves.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::test_registry::{TestRegistry, tarball, wheel};

const SERVER: &str = "from fastmcp import FastMCP\nmcp = FastMCP('x')\n@mcp.tool(annotations={'readOnlyHint': True})\ndef \
                      get_book(title: str, pages: int = 0):\n    'Secret words of the author.'\n";

fn crawl(registry: &TestRegistry, out: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge-indexer"));
    command.args(["crawl", "pypi", "--index", &registry.address(), "--out"]).arg(out).args(more);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(registry: &TestRegistry, out: &Path, more: &[&str]) -> Output {
    crawl(registry, out, more).output().expect("the program runs")
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
fn facts_contain_no_text_of_the_authors() {
    let registry = TestRegistry::serve([("book-mcp", wheel(&[("book/server.py", SERVER)])), ("other", Vec::new())]);
    let dir = tempfile::tempdir().expect("a folder");
    let (out, definitions) = (dir.path().join("out"), dir.path().join("definitions.jsonl"));
    let output = run(&registry, &out, &["--definitions", definitions.to_str().expect("text")]);
    assert!(output.status.success(), "{output:?}");
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
    let definition_lines = lines(&definitions);
    assert_eq!(
        (&definition_lines[0]["category"], &definition_lines[0]["package"]),
        (&"Read".into(), &"pypi:book-mcp==1.0".into())
    );
    assert!(definition_lines[0]["description"].as_str().expect("text").contains("Secret words"));
    let progress = String::from_utf8(output.stderr).expect("text");
    assert!(progress.contains("1 of 1 packages (100.0 %)") && progress.contains("a second, done"), "{progress}");
}

#[test]
fn each_package_has_an_outcome() {
    let mut broken = wheel(&[("a.py", SERVER)]);
    let middle = broken.len() / 2;
    broken.truncate(middle);
    let many: String = (0..4_001).map(|at| format!("@mcp.tool()\ndef get_{at}(): 'x'\n")).collect();
    let many = format!("{SERVER}{many}");
    let registry = TestRegistry::serve([
        ("a-mcp-none", wheel(&[("a.py", "x = 1\n")])),
        ("b-mcp-client", wheel(&[("a.py", "from mcp import ClientSession\n")])),
        ("c-mcp-empty", wheel(&[("readme.txt", "nothing")])),
        ("d-mcp-broken", broken),
        ("e-mcp-out", wheel(&[("../a.py", SERVER)])),
        ("f-mcp-partly", wheel(&[("a.py", SERVER), ("../b.py", SERVER)])),
        ("g-mcp-gone", Vec::new()),
        ("h-mcp-changed", wheel(&[("a.py", SERVER)])),
        ("i-mcp-missing", wheel(&[("a.py", SERVER)])),
        ("j-mcp-large", wheel(&[("a.py", SERVER), ("b.py", &"#".repeat((2 << 20) + 1))])),
        ("k-mcp-good", wheel(&[("a.py", SERVER)])),
        ("l-mcp-letters", wheel(&[("a.py", SERVER), ("b.py", "# coding: utf-7\n")])),
        ("m-mcp-names", wheel(&[("a.py", SERVER), ("b.py", &SERVER.replace("get_book", &"get_".repeat(100)))])),
        ("n-mcp-many", wheel(&[("a.py", &many)])),
    ]);
    registry.change("h-mcp-changed");
    registry.remove_page("i-mcp-missing");
    let dir = tempfile::tempdir().expect("a folder");
    assert!(run(&registry, dir.path(), &[]).status.success());
    let expected = [
        ("a-mcp-none", "no-mcp"),
        ("b-mcp-client", "no-tools"),
        ("c-mcp-empty", "no-sources"),
        ("d-mcp-broken", "hostile"),
        ("e-mcp-out", "hostile"),
        ("f-mcp-partly", "hostile"),
        ("g-mcp-gone", "no-files"),
        ("h-mcp-changed", "wrong-hash"),
        ("i-mcp-missing", "not-found"),
        ("j-mcp-large", "too-large"),
        ("k-mcp-good", "tools"),
        ("l-mcp-letters", "too-large"),
        ("m-mcp-names", "too-large"),
        ("n-mcp-many", "too-large"),
    ];
    let expected = expected.map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(dir.path()), BTreeMap::from(expected));
    // A package that was read in part is not reported as complete, and the skipped parts are counted.
    let facts = lines(&dir.path().join("facts.jsonl"));
    assert_eq!(facts.iter().map(|line| &line["package"]).collect::<Vec<_>>(), ["k-mcp-good"]);
    let done = lines(&dir.path().join("done.jsonl"));
    let skipped = |name: &str| done.iter().find(|line| line["package"] == name).expect("a line")["skipped"].clone();
    assert_eq!(skipped("f-mcp-partly"), serde_json::json!({"bad-path": 1}));
    assert_eq!(skipped("j-mcp-large"), serde_json::json!({"large-file": 1}));
    assert_eq!(skipped("l-mcp-letters"), serde_json::json!({"not-text": 1}));
    let odd_names = |name: &str| done.iter().find(|line| line["package"] == name).expect("a line")["odd_names"].clone();
    assert_eq!((odd_names("m-mcp-names"), odd_names("n-mcp-many")), (1.into(), 2.into()));
}

/// Waits until a file has this many lines.
fn wait_for(path: &Path, count: usize, child: &mut Child) {
    let start = Instant::now();
    while fs::read_to_string(path).unwrap_or_default().lines().count() < count {
        assert!(start.elapsed() < Duration::from_secs(60), "too slow");
        assert!(child.try_wait().expect("a child").is_none(), "it ended too early");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn killed_run_continues_where_it_stopped() {
    let packages: Vec<(String, Vec<u8>)> = (0..40)
        .map(|at| (format!("p{at:02}-mcp"), wheel(&[("a.py", &SERVER.replace("get_book", &format!("get_{at}")))])))
        .collect();
    let registry = TestRegistry::serve(packages.iter().map(|(name, wheel)| (name.as_str(), wheel.clone())));
    registry.slow_down(Duration::from_millis(40));
    let dir = tempfile::tempdir().expect("a folder");
    let (complete, interrupted) = (dir.path().join("whole"), dir.path().join("cut"));
    assert!(run(&registry, &complete, &[]).status.success());
    let requests_once = registry.request_count();

    let done = interrupted.join("done.jsonl");
    let mut child = crawl(&registry, &interrupted, &["--connections", "2"]).spawn().expect("the program runs");
    wait_for(&done, 10, &mut child);
    child.kill().expect("killed");
    child.wait().expect("ended");
    let before = fs::read_to_string(&done).expect("a journal").lines().count();
    assert!((10..40).contains(&before));
    fs::write(interrupted.join(".archive-1-1"), "").expect("written");
    // An incomplete last line in each file.
    for file in ["done.jsonl", "facts.jsonl"] {
        let text = fs::read_to_string(interrupted.join(file)).expect("written");
        let line = text.lines().last().expect("a line");
        fs::write(interrupted.join(file), format!("{text}{}", &line[..line.len() / 2])).expect("written");
    }
    assert!(run(&registry, &interrupted, &[]).status.success());
    for file in ["done.jsonl", "facts.jsonl"] {
        let read = |dir: &Path| fs::read_to_string(dir.join(file)).expect("written");
        assert_eq!(read(&interrupted), read(&complete), "{file}");
    }
    // Finished packages are not requested again: two requests for each of the others, and a few that were running.
    let requests_again = registry.request_count() - requests_once;
    assert!(requests_again <= 2 * 40 + 1 + 1 + 2 * 4, "{requests_again} requests for 40 packages");
    // Nothing is left to read, so only the list is requested.
    let before = registry.request_count();
    assert!(run(&registry, &interrupted, &[]).status.success());
    assert_eq!(registry.request_count() - before, 1);
    let left: Vec<_> = fs::read_dir(&interrupted).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn cached_sources_are_not_fetched_again() {
    let registry = TestRegistry::serve([("book-mcp", wheel(&[("a.py", SERVER)]))]);
    let dir = tempfile::tempdir().expect("a folder");
    let cache = dir.path().join("cache");
    let more = ["--cache", cache.to_str().expect("text")];
    let (one, other) = (dir.path().join("one"), dir.path().join("other"));
    assert!(run(&registry, &one, &more).status.success());
    let before = registry.request_count();
    assert!(run(&registry, &other, &more).status.success());
    assert_eq!(registry.request_count() - before, 2, "the list and the page, not the file");
    let facts = |out: &Path| fs::read_to_string(out.join("facts.jsonl")).expect("written");
    assert_eq!(facts(&one), facts(&other));
}

#[test]
fn entry_points_of_a_package_are_read() {
    let films = SERVER.replace("get_book", "get_film");
    let points = "[console_scripts]\nbook-mcp = shelf:main\n";
    let files = [("shelf.py", SERVER), ("films.py", &films), ("book_mcp-1.0.dist-info/entry_points.txt", points)];
    let only_points = wheel(&[("x-1.0.dist-info/entry_points.txt", points)]);
    let registry = TestRegistry::serve([("book-mcp", wheel(&files)), ("a-mcp-empty", only_points)]);
    let dir = tempfile::tempdir().expect("a folder");
    assert!(run(&registry, dir.path(), &[]).status.success());
    let facts = fs::read_to_string(dir.path().join("facts.jsonl")).expect("written");
    let facts: Value = serde_json::from_str(facts.trim()).expect("one line");
    let tools = facts["tools"].as_array().expect("tools").iter();
    let optional: Vec<_> = tools.map(|tool| (tool["name"].as_str(), tool["optional"].as_bool())).collect();
    assert_eq!(optional, [(Some("get_book"), None), (Some("get_film"), Some(true))]);
    assert_eq!(outcomes(dir.path())["a-mcp-empty"], "no-sources");
}

#[test]
fn incomplete_package_is_not_cached() {
    let mut broken = wheel(&[("a.py", SERVER)]);
    broken.truncate(broken.len() - 4);
    let registry = TestRegistry::serve([("book-mcp", broken)]);
    let dir = tempfile::tempdir().expect("a folder");
    let cache = dir.path().join("cache");
    for out in ["one", "other"] {
        let before = registry.request_count();
        let out = dir.path().join(out);
        assert!(run(&registry, &out, &["--cache", cache.to_str().expect("text")]).status.success());
        assert_eq!(outcomes(&out)["book-mcp"], "hostile");
        assert_eq!(registry.request_count() - before, 3, "the list, the page and the file");
    }
}

#[test]
fn busy_registry_is_retried() {
    let registry = TestRegistry::serve([("book-mcp", wheel(&[("a.py", SERVER)]))]);
    registry.refuse_next(2);
    let dir = tempfile::tempdir().expect("a folder");
    assert!(run(&registry, dir.path(), &[]).status.success());
    assert_eq!(outcomes(dir.path())["book-mcp"], "tools");
}

#[test]
fn redirect_is_followed_with_its_trailing_slash() {
    let registry =
        TestRegistry::serve([("old-mcp", wheel(&[("a.py", SERVER)])), ("round-mcp", wheel(&[("a.py", SERVER)]))]);
    registry.move_page("old-mcp", "/simple/old-mcp-2/");
    registry.move_page("round-mcp", "/simple/round-mcp/");
    let dir = tempfile::tempdir().expect("a folder");
    assert!(run(&registry, dir.path(), &[]).status.success());
    let lines = lines(&dir.path().join("done.jsonl"));
    let why = |name: &str| lines.iter().find(|line| line["package"] == name).expect("a line")["why"].clone();
    // The new location does not exist, and a redirect loop ends.
    assert_eq!(outcomes(dir.path())["old-mcp"], "not-found");
    assert_eq!((&*outcomes(dir.path())["round-mcp"], why("round-mcp")), ("failed", "status 508".into()));
    assert!(registry.request_count() < 12, "{}", registry.request_count());
}

#[test]
fn invalid_tool_names_do_not_prevent_an_index() {
    let long = format!(
        "from fastmcp import FastMCP\nmcp = FastMCP('x')\n@mcp.tool()\ndef f({}, b: int): 'x'\n",
        "p".repeat(300)
    );
    let registry = TestRegistry::serve([("long-mcp", wheel(&[("a.py", &long)]))]);
    let dir = tempfile::tempdir().expect("a folder");
    assert!(run(&registry, dir.path(), &[]).status.success());
    let facts = lines(&dir.path().join("facts.jsonl"));
    assert_eq!(
        facts[0]["tools"][0]["parameters"],
        serde_json::json!([{"name": "b", "type": "integer", "required": true}])
    );
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge-indexer"));
    command.args(["index"]).arg(dir.path().join("facts.jsonl")).arg("--out").arg(dir.path().join("i.glx"));
    assert!(command.output().expect("the program runs").status.success());
}

#[test]
fn page_that_is_not_a_package_list_is_reported() {
    let registry = TestRegistry::serve([("a-mcp", wheel(&[("a.py", SERVER)]))]);
    registry.list("<html><form>Sign in</form></html>");
    let dir = tempfile::tempdir().expect("a folder");
    let output = run(&registry, dir.path(), &[]);
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(!output.status.success() && text.contains("check that the URL is that of a package index"), "{text}");
}

#[test]
fn npm_requires_names_and_a_folder_holds_one_source() {
    let registry = TestRegistry::serve([("a-mcp", wheel(&[("a.py", SERVER)]))]);
    let dir = tempfile::tempdir().expect("a folder");
    assert!(run(&registry, dir.path(), &[]).status.success());
    let names = dir.path().join("names.txt");
    fs::write(&names, "b-mcp\n").expect("written");
    let npm = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge-indexer"));
        command.args(["crawl", "npm", "--index", &registry.address(), "--out"]).arg(dir.path());
        let output = command.args(more).output().expect("the program runs");
        (output.status.code(), String::from_utf8(output.stderr).expect("text"))
    };
    let (code, text) = npm(&[]);
    assert!(code == Some(2) && text.contains("--names"), "{text}");
    // The same holds if no package had tools.
    for facts in [None, Some("")] {
        facts.iter().for_each(|facts| fs::write(dir.path().join("facts.jsonl"), facts).expect("written"));
        let (code, text) = npm(&["--names", names.to_str().expect("text")]);
        assert!(code == Some(2) && text.contains("another source"), "{text}");
    }
}

#[test]
fn output_folder_is_locked_and_an_invalid_line_is_reported() {
    let registry = TestRegistry::serve([("a-mcp", wheel(&[("a.py", SERVER)]))]);
    let dir = tempfile::tempdir().expect("a folder");
    assert!(run(&registry, dir.path(), &[]).status.success());
    let path = dir.path().join("done.jsonl");
    let locked = fs::File::open(&path).expect("a file");
    locked.lock().expect("held");
    let output = run(&registry, dir.path(), &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && text.contains("another run writes"), "{text}");
    locked.unlock().expect("let go");
    let complete = fs::read_to_string(&path).expect("lines");
    fs::write(&path, format!("{complete}garbage\n")).expect("written");
    let output = run(&registry, dir.path(), &[]);
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("line 2: cannot read the line"), "{text}");
}

#[test]
fn facts_are_removed_when_a_package_has_no_tools_any_more() {
    let registry = TestRegistry::serve([("a-mcp", wheel(&[("a.py", SERVER)]))]);
    let dir = tempfile::tempdir().expect("a folder");
    assert!(run(&registry, dir.path(), &[]).status.success());
    // A package that failed in the last run is read again.
    fs::write(dir.path().join("done.jsonl"), "{\"package\":\"a-mcp\",\"outcome\":\"failed\"}\n").expect("written");
    registry.remove_page("a-mcp");
    assert!(run(&registry, dir.path(), &[]).status.success());
    assert_eq!(outcomes(dir.path())["a-mcp"], "not-found");
    assert!(lines(&dir.path().join("facts.jsonl")).is_empty());
}

#[test]
fn default_registry_is_the_one_of_pip() {
    let registry = TestRegistry::serve([("book-mcp", wheel(&[("a.py", SERVER)]))]);
    let dir = tempfile::tempdir().expect("a folder");
    let ask = |name: &str, value: &str| {
        let out = dir.path().join(name.to_lowercase());
        let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge-indexer"));
        command.args(["crawl", "pypi", "--out"]).arg(&out).env_remove("PIP_INDEX_URL").env(name, value);
        let output = command.output().expect("the program runs");
        assert!(output.status.success(), "{output:?}");
        assert_eq!(outcomes(&out)["book-mcp"], "tools");
    };
    ask("PIP_INDEX_URL", &registry.address());
    let programs = dir.path().join("programs");
    fs::create_dir(&programs).expect("made");
    let pip = programs.join("pip");
    fs::write(&pip, format!("#!/bin/sh\n[ \"$*\" = 'config get global.index-url' ] && echo {}\n", registry.address()))
        .expect("written");
    let mut rights = fs::metadata(&pip).expect("there").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut rights, 0o755);
    fs::set_permissions(&pip, rights).expect("set");
    ask("PATH", &format!("{}:/usr/bin:/bin", programs.display()));
}

#[test]
fn unreachable_registry_is_reported() {
    let dir = tempfile::tempdir().expect("a folder");
    let out = dir.path().join("out");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge-indexer"));
    command.args(["crawl", "npm", "--index", "nonsense", "--out"]).arg(&out);
    let output = command.output().expect("the program runs");
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let registry = TestRegistry::serve([("book-mcp", Vec::new())]);
    registry.remove_all();
    let output = run(&registry, &out, &[]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert!(!out.exists());
}

#[test]
fn invalid_name_is_an_outcome_and_the_run_continues() {
    let registry = TestRegistry::serve([("book-mcp", wheel(&[("a.py", SERVER)]))]);
    let dir = tempfile::tempdir().expect("a folder");
    let (names, out) = (dir.path().join("names.txt"), dir.path().join("out"));
    // A file may start with a byte order mark, and a name may have several spellings.
    fs::write(&names, "\u{feff}Book_MCP\nactionkit-(slack)\nBook-MCP\n@scope/name/tree/main\n").expect("written");
    let more = ["--names", names.to_str().expect("text")];
    let output = run(&registry, &out, &more);
    assert!(output.status.success(), "{output:?}");
    let expected =
        [("@scope/name/tree/main", "not-a-name"), ("book-mcp", "tools"), ("actionkit-(slack)", "not-a-name")];
    let expected = expected.map(|(name, outcome)| (name.to_owned(), outcome.to_owned()));
    assert_eq!(outcomes(&out), BTreeMap::from(expected.clone()));
    let table = String::from_utf8(output.stdout).expect("text");
    assert!(table.lines().any(|row| row.split_whitespace().eq(["not-a-name", "2"])), "{table}");
    // A second run adds nothing.
    assert!(run(&registry, &out, &more).status.success());
    assert_eq!(lines(&out.join("done.jsonl")).len(), 3);
}

#[test]
fn run_ends_when_the_registry_stops_responding_and_keeps_its_results() {
    // No process listens at this address any more.
    let port = std::net::TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let dir = tempfile::tempdir().expect("a folder");
    let (names, out) = (dir.path().join("names.txt"), dir.path().join("out"));
    let many: String = (0..500).map(|at| format!("p{at}-mcp\n")).collect();
    fs::write(&names, many).expect("written");
    fs::create_dir(&out).expect("made");
    fs::write(out.join("done.jsonl"), "{\"package\":\"a-mcp\",\"outcome\":\"no-mcp\"}\n").expect("written");
    let started_at = Instant::now();
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge-indexer"));
    command.args(["crawl", "npm", "--index", &format!("http://127.0.0.1:{port}"), "--names"]).arg(&names);
    let output = command.arg("--out").arg(&out).output().expect("the program runs");
    let text = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(4), "{text}");
    assert!(text.contains("the index does not answer: ") && text.contains("finished packages are kept"), "{text}");
    assert!(started_at.elapsed() < Duration::from_secs(30), "{:?}", started_at.elapsed());
    assert_eq!(outcomes(&out), BTreeMap::from([("a-mcp".to_owned(), "no-mcp".to_owned())]));
}

#[test]
fn registry_without_any_package_page_is_reported() {
    let registry = TestRegistry::serve([("a-mcp", wheel(&[("a.py", SERVER)]))]);
    registry.move_page("a-mcp", "/simple/a-mcp/");
    let dir = tempfile::tempdir().expect("a folder");
    let output = run(&registry, dir.path(), &[]);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(outcomes(dir.path())["a-mcp"], "failed");
}

#[test]
fn next_run_gets_past_packages_that_failed_in_a_row() {
    let mut packages: Vec<(String, Vec<u8>)> = (0..25).map(|at| (format!("a{at:02}-mcp"), Vec::new())).collect();
    packages.push(("b-mcp".to_owned(), wheel(&[("a.py", SERVER)])));
    let registry = TestRegistry::serve(packages.iter().map(|(name, wheel)| (name.as_str(), wheel.clone())));
    for (name, _) in packages.iter().filter(|(name, _)| name.starts_with('a')) {
        registry.move_page(name, &format!("/simple/{name}/"));
    }
    let dir = tempfile::tempdir().expect("a folder");
    let more = ["--connections", "1"];
    let output = run(&registry, dir.path(), &more);
    assert_eq!(output.status.code(), Some(4), "{output:?}");
    assert_eq!(outcomes(dir.path()).len(), 20);
    let output = run(&registry, dir.path(), &more);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let outcomes = outcomes(dir.path());
    assert_eq!((outcomes.len(), outcomes["b-mcp"].as_str()), (26, "tools"));
}

#[test]
fn large_package_is_cached_once() {
    let text = |own: &str| format!("{SERVER}# {own}\n{}", "# some words ".repeat(140_000));
    let large = |own: &str| {
        let texts: Vec<String> = (0..3).map(|at| text(&format!("{own}{at}"))).collect();
        wheel(&[("a.py", &texts[0]), ("b.py", &texts[1]), ("c.py", &texts[2])])
    };
    let registry = TestRegistry::serve([("a-mcp", large("a")), ("b-mcp", large("b"))]);
    let dir = tempfile::tempdir().expect("a folder");
    let sizes = |limit: &str| {
        let (out, cache) = (dir.path().join(format!("out{limit}")), dir.path().join(format!("cache{limit}")));
        let more = ["--connections", "1", "--cache", cache.to_str().expect("text"), "--cache-limit", limit];
        let output = run(&registry, &out, &more);
        assert!(output.status.success(), "{output:?}");
        let folders = fs::read_dir(&cache).expect("a folder").flatten();
        let files = folders.flat_map(|inner| fs::read_dir(inner.path()).expect("a folder").flatten());
        files.map(|file| file.metadata().expect("there").len()).collect::<Vec<_>>()
    };
    let all: u64 = sizes("100000000").iter().sum();
    assert_eq!(sizes(&(all + 100).to_string()).len(), 2);
}

#[test]
fn npm_programs_without_an_extension_are_read_but_not_other_files() {
    let program = "#!/usr/bin/env node\nimport { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';\n\
                   server.tool('get_book', {}, f);\n";
    let package = tarball(&[
        ("package/package.json", r#"{"name": "book-mcp", "bin": {"book-mcp": "bin/start"}}"#),
        ("package/bin/start", program),
        ("package/bin/native", &"\u{7f}".repeat(5 << 20)),
        ("package/LICENSE", "node"),
    ]);
    let registry = TestRegistry::serve([("book-mcp", package)]);
    let dir = tempfile::tempdir().expect("a folder");
    let (names, out) = (dir.path().join("names.txt"), dir.path().join("out"));
    fs::write(&names, "book-mcp\n").expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge-indexer"));
    command.args(["crawl", "npm", "--index", &registry.npm_address(), "--names"]).arg(&names);
    assert!(command.arg("--out").arg(&out).output().expect("the program runs").status.success());
    assert_eq!(outcomes(&out)["book-mcp"], "tools");
}

#[test]
fn another_version_is_read_into_the_same_folder() {
    let registry = TestRegistry::serve([("book-mcp", wheel(&[("a.py", SERVER)]))]);
    let dir = tempfile::tempdir().expect("a folder");
    let (names, out) = (dir.path().join("names.txt"), dir.path().join("out"));
    let ask = |text: &str| {
        fs::write(&names, text).expect("written");
        let before = registry.request_count();
        assert!(run(&registry, &out, &["--names", names.to_str().expect("text")]).status.success());
        (registry.request_count() - before, outcomes(&out)["book-mcp"].clone())
    };
    assert_eq!(ask("book-mcp==9.0\n"), (1, "no-files".to_owned()));
    assert_eq!(ask("book-mcp==9.0\n"), (0, "no-files".to_owned()));
    assert_eq!(ask("Book_MCP==1.0\n"), (2, "tools".to_owned()));
    assert_eq!(ask("book-mcp==1.0\n"), (0, "tools".to_owned()));
    assert_eq!(ask("book-mcp\n").0, 2);
    assert_eq!(lines(&out.join("facts.jsonl")).len(), 1);
}

#[test]
fn waiting_run_reports_progress() {
    let registry = TestRegistry::serve([("book-mcp", wheel(&[("a.py", SERVER)]))]);
    registry.slow_down(Duration::from_secs(3));
    let dir = tempfile::tempdir().expect("a folder");
    let output = run(&registry, dir.path(), &[]);
    let text = String::from_utf8(output.stderr).expect("text");
    assert!(text.matches("0 of 1 packages (0.0 %)").count() > 1, "{text}");
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
    let registry = TestRegistry::serve(packages.iter().map(|(name, wheel)| (name.as_str(), wheel.clone())));
    let dir = tempfile::tempdir().expect("a folder");
    let child = crawl(&registry, dir.path(), &["--connections", "8"]).spawn().expect("the program runs");
    let most = peak_memory(child);
    let outcomes = outcomes(dir.path());
    assert_eq!(outcomes.values().filter(|outcome| *outcome == "too-large").count(), 4, "{outcomes:?}");
    assert!(most < 500 << 10, "{most} KiB");
}

#[test]
fn memory_is_bounded_for_large_packages_of_npm_and_their_definitions() {
    let line = |at: usize| {
        format!("var a{at}=function(b,c){{return b?{{d:[c,{at},(b+{at})*2],e:b.f(c,{at})}}:g(h({at}),b&&c||[{at}])}};")
    };
    let tools: String = (0..2_000)
        .map(|at| format!("server.registerTool('tool_{at}',{{description:'Does it {at}.',inputSchema:{{a:z.string(),b:z.number()}}}},a{at});"))
        .collect();
    let bundle: String = (0..30_000).map(line).collect();
    let first = format!("import {{ McpServer }} from '@modelcontextprotocol/sdk/server/mcp.js';\n{tools}{bundle}");
    // As many different bundles as are read of a package.
    let rest: Vec<(String, String)> =
        (0..6).map(|at| (format!("package/dist/part{at}.js"), format!("{bundle}var last={at};"))).collect();
    let mut files =
        vec![("package/package.json", r#"{"name": "x", "bin": "dist/index.js"}"#), ("package/dist/index.js", &first)];
    files.extend(rest.iter().map(|(path, text)| (path.as_str(), text.as_str())));
    let large = tarball(&files);
    let small: Vec<(String, Vec<u8>)> = (0..8)
        .map(|at| {
            let text =
                first.get(..600_000).and_then(|text| text.rfind(';')).and_then(|end| first.get(..=end)).expect("text");
            (format!("small{at}-mcp"), tarball(&[("package/index.js", &format!("{text}var own={at};"))]))
        })
        .collect();
    let large: Vec<(String, Vec<u8>)> = (0..2).map(|at| (format!("big{at}-mcp"), large.clone())).collect();
    // One dense bundle is read completely.
    let dense: Vec<(String, Vec<u8>)> =
        (0..2).map(|at| (format!("dense{at}-mcp"), tarball(&[("package/index.js", &first)]))).collect();
    let all: Vec<(String, Vec<u8>)> = small.into_iter().chain(large).chain(dense).collect();
    let registry = TestRegistry::serve(all.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())));
    let dir = tempfile::tempdir().expect("a folder");
    let (names, out) = (dir.path().join("names.txt"), dir.path().join("out"));
    fs::write(&names, all.iter().map(|(name, _)| format!("{name}\n")).collect::<String>()).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_gatelodge-indexer"));
    command.args(["crawl", "npm", "--index", &registry.npm_address(), "--names"]).arg(&names).arg("--out").arg(&out);
    command.arg("--definitions").arg(dir.path().join("definitions.jsonl")).stdout(Stdio::null()).stderr(Stdio::null());
    let most = peak_memory(command.spawn().expect("the program runs"));
    let outcomes = outcomes(&out);
    assert_eq!(outcomes.values().filter(|outcome| *outcome == "tools").count(), 10, "{outcomes:?}");
    // A package over the limit is reported as incomplete.
    let done = lines(&out.join("done.jsonl"));
    let big = done.iter().find(|line| line["package"] == "big0-mcp").expect("a line");
    assert_eq!((&big["outcome"], &big["skipped"]), (&"too-large".into(), &serde_json::json!({"large-whole": 6})));
    assert!(most < 500 << 10, "{most} KiB");
}

/// Returns the peak memory of a program in KiB.
fn peak_memory(mut child: Child) -> u64 {
    let mut most = 0;
    while child.try_wait().expect("a child").is_none() {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let peak = peak.and_then(|line| line.split_whitespace().next()).and_then(|count| count.parse::<u64>().ok());
        most = most.max(peak.unwrap_or_default());
        std::thread::sleep(Duration::from_millis(20));
    }
    most
}
