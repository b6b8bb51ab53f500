//! `catalogue update` with large, small and empty indexes, silent servers and killed updates.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use gatelodge_catalogue::{IndexMetadata, PackageFacts, ToolFacts};
use gatelodge_indexer::write_index;
use serde_json::{Value, json};

use super::support::TestDir;
use super::{dir_with_index, facts, json_output, send_lines, tool_call, tool_output};

/// Writes a large index; `number` is part of the version, the date and every tool hash.
fn write_large_index(dir: &TestDir, name: &str, servers: usize, tools: usize, number: usize) {
    let tool = |at: usize| -> ToolFacts {
        let facts = json!({"name": format!("get_item_{at}"), "parameters": [], "category": if at == 7 && number > 1 { "Execute" } else { "Read" },
            "confidence": 0.9, "signals": [], "flow": [], "hash": format!("{number:08x}{at:08x}")});
        serde_json::from_value(facts).unwrap()
    };
    let tools: Vec<ToolFacts> = (0..tools).map(tool).collect();
    let packages = (0..servers).map(|at| PackageFacts {
        source: gatelodge_catalogue::PackageRegistry::Pypi,
        package: format!("server-{at:05}"),
        version: number.to_string(),
        date: None,
        tools: tools.clone(),
    });
    let about = IndexMetadata { date: format!("2026-11-{:02}", 16 + number), ..IndexMetadata::default() };
    dir.write_bytes(name, &write_index(packages, &about).unwrap());
}

fn change_events(dir: &TestDir) -> Vec<Value> {
    let text = dir.read("d/catalogue-changes.jsonl");
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn changes_of_a_large_index_are_listed_up_to_a_limit_and_counted() {
    let dir = TestDir::new();
    write_large_index(&dir, "1.glx", 6_000, 30, 1);
    write_large_index(&dir, "2.glx", 6_000, 30, 2);
    dir.run(&["catalogue", "update", "--from", "1.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let start = Instant::now();
    let program = env!("CARGO_BIN_EXE_gatelodge");
    // The update must not need more memory than this.
    let run = dir.run_shell(&format!("ulimit -v 700000; '{program}' catalogue update --from 2.glx --data d --json"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    let feed = json_output(&run)["feed"].clone();
    assert_eq!((&feed["changes"], &feed["servers"]), (&json!(180_000), &json!(6_000)));
    // The four gravest changes of each server are listed, the other 26 are counted.
    assert_eq!((&feed["told"], &feed["counted"], &feed["left_out"]), (&json!(24_000), &json!(156_000), &json!(0)));
    let events = change_events(&dir);
    assert_eq!(events.len(), 30_000);
    assert_eq!((&events[0]["kind"], &events[0]["tool"]), (&json!("level_raised"), &json!("get_item_7")));
    assert_eq!(
        (&events[4]["kind"], &events[4]["counts"]),
        (&json!("more_changes"), &json!({"definition_changed": 26}))
    );
    assert!(std::fs::metadata(dir.path("d/catalogue-changes.jsonl")).unwrap().len() < 8 << 20);
    let run = dir.run(&["catalogue", "update", "--from", "1.glx", "--data", "d", "--allow-older"]);
    assert!(
        run.stderr.contains("180000 tools changed on 6000 servers: 24000 listed one by one, 156000 counted"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_oldest_events_are_dropped_and_readers_get_their_count() {
    let dir = TestDir::new();
    write_large_index(&dir, "1.glx", 6_000, 3, 1);
    write_large_index(&dir, "2.glx", 6_000, 3, 2);
    for number in [1, 2, 1, 2, 1, 2] {
        let from = format!("{number}.glx");
        let run = dir.run(&["catalogue", "update", "--from", &from, "--data", "d", "--allow-older", "--allow-smaller"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    let events = change_events(&dir);
    let cursors: Vec<u64> = events.iter().map(|line| line["cursor"].as_u64().unwrap()).collect();
    // Five updates with 18,000 changes each; the log keeps the last 80,000.
    assert_eq!((events.len(), cursors[0], *cursors.last().unwrap()), (80_000, 10_001, 90_000));
    let responses = send_lines(
        &dir,
        &[
            tool_call(1, "get_change_events", &json!({"limit": 2})),
            tool_call(2, "get_change_events", &json!({"cursor": 10_000, "limit": 1})),
            tool_call(3, "get_change_events", &json!({"cursor": 90_000})),
        ],
    );
    let member = |at: usize, field: &str| tool_output(&responses[at])[field].clone();
    assert_eq!((member(0, "left_out"), member(0, "cursor")), (json!(10_000), json!(10_002)));
    assert_eq!((member(1, "left_out"), member(1, "cursor")), (json!(0), json!(10_001)));
    assert_eq!((member(2, "events"), member(2, "cursor")), (json!([]), json!(90_000)));
}

#[test]
fn an_oversized_change_log_drops_its_oldest_events() {
    let dir = dir_with_index();
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    super::write_newer_index(&dir, "new.glx");
    let line = |cursor: usize| {
        let event = json!({"cursor": cursor, "date": "2026-11-01", "kind": "tool_added", "source": "npm", "package": "@example/files",
            "version": "1", "tool": "x".repeat(1_000), "level": "Low"});
        format!("{event}\n")
    };
    // More than 64 MiB.
    dir.write("d/catalogue-changes.jsonl", &(1..=62_000).map(line).collect::<String>());
    assert!(std::fs::metadata(dir.path("d/catalogue-changes.jsonl")).unwrap().len() > 64 << 20);
    let ask = |cursor: u64| {
        let responses = send_lines(&dir, &[tool_call(1, "get_change_events", &json!({"cursor": cursor}))]);
        tool_output(&responses[0])
    };
    assert_eq!(ask(61_999)["events"][0]["cursor"], 62_000);
    let run = dir.run(&["catalogue", "update", "--from", "new.glx", "--data", "d", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(std::fs::metadata(dir.path("d/catalogue-changes.jsonl")).unwrap().len() <= 64 << 20);
    let events = change_events(&dir);
    let cursors: Vec<u64> = events.iter().map(|line| line["cursor"].as_u64().unwrap()).collect();
    assert_eq!(*cursors.last().unwrap(), 62_003);
    assert!(cursors.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a gap");
    assert_eq!(
        (&ask(62_000)["events"][0]["kind"], &ask(0)["left_out"]),
        (&json!("level_raised"), &json!(cursors[0] - 1))
    );
}

#[test]
fn an_empty_or_much_smaller_index_needs_an_option() {
    let dir = dir_with_index();
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let before = std::fs::read(dir.path("d/index.glx")).unwrap();
    let one: String = facts().lines().take(1).collect();
    for (text, message) in
        [("", "has 0 servers, and the one in use 4"), (one.as_str(), "has 1 server, and the one in use 4")]
    {
        dir.write("few.jsonl", text);
        super::write_index_file(&dir, "few.jsonl", "2026-11-18", "few.glx");
        let update = ["catalogue", "update", "--from", "few.glx", "--data", "d"];
        let run = dir.run(&update);
        assert!(
            run.code == 1 && run.stderr.contains(message) && run.stderr.contains("--allow-smaller"),
            "{}",
            run.stderr
        );
        assert!(run.stderr.contains("the old index stays"), "{}", run.stderr);
        assert_eq!(std::fs::read(dir.path("d/index.glx")).unwrap(), before);
    }
    let run = dir.run(&["catalogue", "update", "--from", "few.glx", "--data", "d", "--allow-smaller"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    // An index of half the size is accepted.
    let two: Vec<String> = facts().lines().take(2).map(str::to_owned).collect();
    dir.write("half.jsonl", &two.join("\n"));
    super::write_index_file(&dir, "half.jsonl", "2026-11-18", "half.glx");
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "e", "--allow-older", "--allow-smaller"]);
    assert_eq!(dir.run(&["catalogue", "update", "--from", "half.glx", "--data", "e"]).code, 0);
}

#[test]
fn an_update_from_a_silent_server_times_out() {
    let dir = dir_with_index();
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let before = std::fs::read(dir.path("d/index.glx")).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/i.glx", listener.local_addr().unwrap());
    let ask = || dir.run(&["catalogue", "update", "--from", &url, "--data", "d", "--timeout", "1"]);
    // The server is silent from the start, or stops in the middle of the file.
    for prefix in ["", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nGLINDEX"] {
        let listener = listener.try_clone().unwrap();
        let serve = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(prefix.as_bytes()).unwrap();
            // Returns when the client disconnects.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let start = Instant::now();
        let run = ask();
        assert!(start.elapsed() < Duration::from_secs(15), "{:?}", start.elapsed());
        assert!(
            run.code == 4 && run.stderr.contains("no data received for 1 s; the old one stays in use"),
            "{}",
            run.stderr
        );
        serve.join().unwrap();
    }
    assert_eq!(std::fs::read(dir.path("d/index.glx")).unwrap(), before);
}

#[test]
fn leftovers_of_a_killed_update_are_removed_or_completed_once() {
    let dir = dir_with_index();
    let update = |from: &str| dir.run(&["catalogue", "update", "--from", from, "--data", "d"]);
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    super::write_newer_index(&dir, "new.glx");
    // Killed before its index was in use: its changes belong to an unused index.
    for left in
        ["index.glx.new-999999", "catalogue-changes.jsonl.new-999999", "catalogue-changes.jsonl.for-0000000000000000"]
    {
        dir.write(&format!("d/{left}"), "{\"cursor\":1,\"level\":\"Critical\"}\n");
    }
    let ask = || tool_output(&send_lines(&dir, &[tool_call(1, "get_change_events", &json!({}))])[0])["events"].clone();
    assert_eq!(ask(), json!([]));
    assert_eq!(update("new.glx").code, 0);
    assert_eq!(change_events(&dir).len(), 3);
    let names = || {
        let all = std::fs::read_dir(dir.path("d")).unwrap().flatten();
        all.map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| name.contains(".new-") || name.contains(".for-"))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), Vec::<String>::new());
    // Killed after its index was in use, but before its changes were recorded.
    let hash = data_encoding::HEXLOWER
        .encode(&<sha2::Sha256 as sha2::Digest>::digest(std::fs::read(dir.path("d/index.glx")).unwrap())[..8]);
    std::fs::rename(dir.path("d/catalogue-changes.jsonl"), dir.path(&format!("d/catalogue-changes.jsonl.for-{hash}")))
        .unwrap();
    assert_eq!(ask().as_array().unwrap().len(), 3);
    assert_eq!((names(), change_events(&dir).len()), (Vec::new(), 3));
}

#[test]
fn a_refused_index_names_all_options_that_allow_it() {
    let dir = dir_with_index();
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let one: String = facts().lines().take(1).collect();
    dir.write("few.jsonl", &one);
    super::write_index_file(&dir, "few.jsonl", "2026-11-01", "few.glx");
    let run = dir.run(&["catalogue", "update", "--from", "few.glx", "--data", "d"]);
    assert!(run.code == 1 && run.stderr.contains("`--allow-older` and `--allow-smaller` allow it"), "{}", run.stderr);
}
