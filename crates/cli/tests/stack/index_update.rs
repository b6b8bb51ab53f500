//! `catalogue update`: replacing the index in use.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::support::TestDir;
use super::{dir_with_index, json_output, tool_call, tool_output, write_newer_index};

#[test]
fn an_invalid_index_is_refused_and_the_old_one_stays() {
    let dir = dir_with_index();
    let servers = |dir: &TestDir| {
        json_output(&dir.run(&["catalogue", "search", "x", "--json", "--data", "d"]))["index"]["servers"].clone()
    };
    let good = std::fs::read(dir.path("i.glx")).unwrap();
    let run = dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    assert_eq!((run.code, servers(&dir)), (0, json!(4)), "{}", run.stderr);
    let mut other_format = good.clone();
    other_format[8] = 9;
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for (bytes, message) in [
        (&good[..good.len() / 2], "truncated"),
        (&b"PK\x03\x04 not an index"[..], "not a catalogue index"),
        (&other_format, "format 9"),
        (&damaged, "checksum"),
    ] {
        dir.write_bytes("bad.glx", bytes);
        let run = dir.run(&["catalogue", "update", "--from", "bad.glx", "--data", "d"]);
        assert!(
            run.code == 1 && run.stderr.contains(message) && run.stderr.contains("the old index stays"),
            "{}",
            run.stderr
        );
        assert_eq!(servers(&dir), 4);
    }
    super::write_index_file(&dir, "facts.jsonl", "2001-01-01", "old.glx");
    let run = dir.run(&["catalogue", "update", "--from", "old.glx", "--data", "d"]);
    assert!(run.code == 1 && run.stderr.contains("--allow-older"), "{}", run.stderr);
    // A damaged index in use is reported, and an update replaces it.
    dir.write_bytes("d/index.glx", b"rotten");
    let run = dir.run(&["catalogue", "search", "x", "--data", "d"]);
    assert!(run.code == 5 && run.stderr.contains("catalogue update"), "{}", run.stderr);
    assert_eq!(
        dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]).code,
        0
    );
}

#[test]
fn an_update_is_fetched_and_its_changes_are_recorded() {
    let dir = dir_with_index();
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    write_newer_index(&dir, "new.glx");
    let bytes = std::fs::read(dir.path("new.glx")).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/new.glx", listener.local_addr().unwrap());
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len()).unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let run = dir.run(&["catalogue", "update", "--from", &url, "--data", "d", "--json"]);
    serve.join().unwrap();
    assert_eq!((run.code, &json_output(&run)["changes"]), (0, &json!(3)), "{}", run.stderr);
    let change_log = dir.read("d/catalogue-changes.jsonl");
    let last: Value = serde_json::from_str(change_log.lines().last().unwrap()).unwrap();
    assert_eq!((&last["kind"], &last["cursor"], &last["level"]), (&json!("level_raised"), &json!(3), &json!("High")));
    let run = dir.run(&["catalogue", "update", "--from", "http://127.0.0.1:1/x", "--data", "d"]);
    assert!(run.code == 4 && run.stderr.contains("the old one stays"), "{}", run.stderr);
}

#[test]
fn concurrent_updates_lose_no_change() {
    let dir = dir_with_index();
    write_newer_index(&dir, "new.glx");
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let change_count: u64 = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|at| {
                let (dir, from) = (&dir, if at % 2 == 0 { "new.glx" } else { "i.glx" });
                scope.spawn(move || {
                    json_output(&dir.run(&[
                        "catalogue",
                        "update",
                        "--from",
                        from,
                        "--data",
                        "d",
                        "--json",
                        "--allow-older",
                    ]))
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()["changes"].as_u64().unwrap()).sum()
    });
    let cursors = |dir: &TestDir| -> Vec<u64> {
        let change_log = dir.read("d/catalogue-changes.jsonl");
        let cursor = |line: &str| serde_json::from_str::<Value>(line).unwrap()["cursor"].as_u64().unwrap();
        change_log.lines().map(cursor).collect()
    };
    assert_eq!(cursors(&dir), (1..=change_count).collect::<Vec<_>>());
    // An invalid last line does not restart the numbering.
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let before = cursors(&dir).len() as u64;
    let change_log = dir.read("d/catalogue-changes.jsonl");
    dir.write("d/catalogue-changes.jsonl", &format!("{change_log}{{}}\n"));
    dir.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let last = dir.read("d/catalogue-changes.jsonl").lines().last().unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["cursor"], json!(before + 3));
}

#[test]
fn an_unreadable_change_log_is_an_error() {
    let dir = dir_with_index();
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    write_newer_index(&dir, "new.glx");
    dir.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let program = env!("CARGO_BIN_EXE_gatelodge");
    dir.write("lines", &format!("{}\n", tool_call(1, "get_change_events", &json!({}))));
    let ask = |more: &str| {
        let run = dir.run_shell(&format!("'{program}' catalogue mcp --data d {more} < lines"));
        serde_json::from_str::<Value>(&run.stdout).unwrap()["result"].clone()
    };
    assert_eq!(tool_output(&json!({"result": ask("")}))["events"].as_array().unwrap().len(), 3);
    let named = ask("--index i.glx");
    assert!(named["isError"] == true && named.to_string().contains("changes are not recorded for an index"), "{named}");
    // A directory in place of the log cannot be read.
    std::fs::remove_file(dir.path("d/catalogue-changes.jsonl")).unwrap();
    assert_eq!(tool_output(&json!({"result": ask("")}))["events"], json!([]));
    std::fs::create_dir(dir.path("d/catalogue-changes.jsonl")).unwrap();
    assert!(ask("")["isError"] == true, "{}", ask(""));
}
