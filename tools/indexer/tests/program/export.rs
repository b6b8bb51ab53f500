//! `export`: the static site, and the changes that `gatelodge catalogue update` recorded.

use gatelodge_catalogue::{CHANGES_FILE, INDEX_FILE, index_hash, pending_changes_file};
use serde_json::{Value, json};

use crate::support::{TestDir, package, tool};

#[test]
fn site_is_written_to_an_empty_folder() {
    let dir = TestDir::with_index();
    let run = dir.run(&["export", "--out", "site", "--index", "i.glx"]);
    assert!(run.code == 0 && run.stderr.contains("files in"), "{}", run.stderr);
    assert!(dir.read("site/servers/npm/@example/github/tools/delete_repository.html").contains("Critical"));
    assert!(dir.read("site/llms.txt").contains("4 servers and 5 tools"));
    let run = dir.run(&["export", "--out", "site", "--index", "i.glx"]);
    assert!(run.code == 2 && run.stderr.contains("not empty"), "{}", run.stderr);
    let run = dir.run(&["export", "--out", "part", "--server", "mail", "--index", "i.glx"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(!dir.path("part/servers/npm").exists() && dir.path("part/servers/pypi/mail/index.html").exists());
    let run = dir.run(&["export", "--out", "none", "--server", "missing", "--index", "i.glx"]);
    assert!(run.code == 1 && run.stderr.contains("`missing` is not in the index"), "{}", run.stderr);
}

#[test]
fn server_named_twice_is_exported_once() {
    let dir = TestDir::with_index();
    let once = dir.run(&["export", "--out", "one", "--server", "pypi:mail", "--index", "i.glx"]);
    let twice = ["--server", "mail", "--server", "pypi:mail", "--server", "Mail==1.0.0"];
    let run = dir.run(&[&["export", "--out", "two", "--index", "i.glx"], &twice[..]].concat());
    assert_eq!((run.code, once.code), (0, 0), "{}", run.stderr);
    let files = |text: &str| text.split(" files").next().map(str::to_owned);
    assert_eq!(files(&run.stderr), files(&once.stderr));
    assert_eq!(dir.read("one/servers/index.md"), dir.read("two/servers/index.md"));
}

#[test]
fn version_missing_in_the_index_is_reported() {
    let dir = TestDir::with_index();
    let run = dir.run(&["export", "--out", "s", "--server", "@example/files@9.9.9", "--index", "i.glx"]);
    let says = "the index has read version 1.0.0, not 9.9.9";
    assert!(run.code == 0 && run.stderr.contains(says), "{}", run.stderr);
}

#[test]
fn url_in_place_of_a_package_is_not_repeated() {
    let dir = TestDir::with_index();
    let run = dir.run(&["export", "--out", "o", "--server", "https://a.example.com/?k=hunter2", "--index", "i.glx"]);
    assert!(run.code == 2 && !run.stderr.contains("hunter2"), "{}", run.stderr);
}

#[test]
fn a_likely_category_is_shown_as_likely() {
    let dir = TestDir::new();
    let sure = |sure: f64, name: &str| -> Value {
        let mut tool = tool(name, "Execute");
        tool["confidence"] = json!(sure);
        tool
    };
    dir.write(
        "facts.jsonl",
        package("pypi", "odd", &[sure(0.55, "sync_it"), sure(0.7, "run_it"), sure(0.39, "odd_it")]),
    );
    assert_eq!(dir.run(&["index", "facts.jsonl", "--out", "i.glx"]).code, 0);
    assert_eq!(dir.run(&["export", "--out", "site", "--index", "i.glx"]).code, 0);
    let page = dir.read("site/servers/pypi/odd/tools/sync_it.md");
    assert!(
        page.contains("It is likely an Execute tool (confidence 0.55)") && page.contains("likely, not certain"),
        "{page}"
    );
    assert!(!dir.read("site/servers/pypi/odd/tools/run_it.md").contains("likely"));
    assert!(dir.read("site/servers/pypi/odd/index.md").contains("likely Execute"));
    let guess = dir.read("site/servers/pypi/odd/tools/odd_it.md");
    assert!(guess.contains("maybe Execute") && guess.contains("This is a guess"), "{guess}");
    assert!(!guess.contains("likely Execute") && !guess.contains("likely an Execute"), "{guess}");
}

#[test]
fn single_items_are_counted_in_the_singular() {
    let dir = TestDir::new();
    dir.write("facts.jsonl", package("pypi", "odd", &[tool("run_it", "Execute")]));
    let run = dir.run(&["index", "facts.jsonl", "--out", "i.glx"]);
    assert!(run.stderr.contains("1 server, 1 tool, "), "{}", run.stderr);
    assert_eq!(dir.run(&["export", "--out", "site", "--index", "i.glx"]).code, 0);
    for page in ["llms.txt", "index.md", "risk/high.md", "servers/pypi/odd/index.md"] {
        let text = dir.read(&format!("site/{page}"));
        assert!(text.contains("1 tool") && !text.contains("1 tools") && !text.contains("1 servers"), "{page}: {text}");
        assert!(!text.contains(".:"), "{page}: {text}");
    }
}

#[test]
fn a_verdict_is_shown_with_its_reasons() {
    let dir = TestDir::new();
    let mut all = tool("do_all", "Write");
    all["flow"] = json!(["reads_private", "reads_untrusted", "sends_outward"]);
    dir.write("facts.jsonl", package("npm", "all", &[all]));
    assert_eq!(dir.run(&["index", "facts.jsonl", "--out", "i.glx"]).code, 0);
    assert_eq!(dir.run(&["export", "--out", "site", "--index", "i.glx"]).code, 0);
    let page = dir.read("site/servers/npm/all/index.md");
    let why = "by itself it reads private data, reads untrusted text, and can send data out";
    assert!(page.contains(&format!("ask-first: {why}")), "{page}");
}

/// A data directory `d` with an index and one change of it, which is in the file of this name.
fn dir_with_change(log: &str) -> TestDir {
    let dir = TestDir::with_index();
    std::fs::create_dir(dir.path("d")).unwrap();
    std::fs::copy(dir.path("i.glx"), dir.path("d").join(INDEX_FILE)).unwrap();
    let change = json!({"cursor": 1, "date": "2026-11-17", "kind": "level_raised", "level": "High", "source": "npm",
        "package": "@example/files", "version": "1.0.1", "tool": "list_files"});
    dir.write(&format!("d/{log}"), format!("{change}\n"));
    dir
}

const PAGE: &str = "servers/npm/@example/files/index.md";
const CHANGE: &str = "2026-11-17: `list_files` can do more harm than before";

#[test]
fn changes_of_the_data_directory_are_on_the_pages() {
    let dir = dir_with_change(CHANGES_FILE);
    let run = dir.run(&["export", "--out", "site", "--data", "d"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(dir.read(&format!("site/{PAGE}")).contains(CHANGE));
    // They are changes of the index in the data directory, not of one that is named.
    assert_eq!(dir.run(&["export", "--out", "named", "--index", "i.glx", "--data", "d"]).code, 0);
    assert!(dir.read(&format!("named/{PAGE}")).contains("No changes are known"));
}

#[test]
fn changes_of_an_update_that_was_killed_are_on_the_pages() {
    let index = std::fs::read(TestDir::with_index().path("i.glx")).unwrap();
    let pending = pending_changes_file(&index_hash(&index));
    let dir = dir_with_change(&pending);
    assert_eq!(dir.run(&["export", "--out", "site", "--data", "d"]).code, 0);
    assert!(dir.read(&format!("site/{PAGE}")).contains(CHANGE));
    // The directory belongs to the gateway; nothing in it is changed.
    assert!(dir.path("d").join(pending).exists());
}

#[test]
fn changes_that_cannot_be_read_are_an_error() {
    let dir = dir_with_change("other");
    std::fs::create_dir(dir.path("d").join(CHANGES_FILE)).unwrap();
    let run = dir.run(&["export", "--out", "site", "--data", "d"]);
    assert!(run.code == 5 && run.stderr.contains("cannot read the changes"), "{}", run.stderr);
    assert!(!dir.path("site").exists());
}
