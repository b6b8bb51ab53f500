//! Another index in place of the one in use.

use std::io::{Read, Write};

use serde_json::{Value, json};

use super::support::House;
use super::{answered, called, newer, told, with_index};

#[test]
fn an_update_takes_what_is_an_index_and_keeps_the_old_one_otherwise() {
    let house = with_index();
    let servers = |house: &House| {
        told(&house.run(&["catalogue", "search", "x", "--json", "--data", "d"]))["index"]["servers"].clone()
    };
    let good = std::fs::read(house.path("i.glx")).unwrap();
    let run = house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    assert_eq!((run.code, servers(&house)), (0, json!(4)), "{}", run.stderr);
    let mut newer = good.clone();
    newer[8] = 9;
    let mut damaged = good.clone();
    *damaged.last_mut().unwrap() ^= 1;
    for (bytes, says) in [
        (&good[..good.len() / 2], "cut off"),
        (&b"PK\x03\x04 not an index"[..], "not a catalogue index"),
        (&newer, "format 9"),
        (&damaged, "checksum"),
    ] {
        house.write_bytes("bad.glx", bytes);
        let run = house.run(&["catalogue", "update", "--from", "bad.glx", "--data", "d"]);
        assert!(
            run.code == 1 && run.stderr.contains(says) && run.stderr.contains("the old index stays"),
            "{}",
            run.stderr
        );
        assert_eq!(servers(&house), 4);
    }
    super::make_index(&house, "facts.jsonl", "2001-01-01", "old.glx");
    let run = house.run(&["catalogue", "update", "--from", "old.glx", "--data", "d"]);
    assert!(run.code == 1 && run.stderr.contains("--allow-older"), "{}", run.stderr);
    // A file that rots in its place is told, and an update mends it.
    house.write_bytes("d/index.glx", b"rotten");
    let run = house.run(&["catalogue", "search", "x", "--data", "d"]);
    assert!(run.code == 5 && run.stderr.contains("catalogue update"), "{}", run.stderr);
    assert_eq!(
        house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]).code,
        0
    );
}

#[test]
fn an_update_is_fetched_and_its_changes_are_kept() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    newer(&house, "new.glx");
    let bytes = std::fs::read(house.path("new.glx")).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/new.glx", listener.local_addr().unwrap());
    let serve = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.read(&mut [0; 4096]);
        write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", bytes.len()).unwrap();
        stream.write_all(&bytes).unwrap();
    });
    let run = house.run(&["catalogue", "update", "--from", &url, "--data", "d", "--json"]);
    serve.join().unwrap();
    assert_eq!((run.code, &told(&run)["changes"]), (0, &json!(3)), "{}", run.stderr);
    let kept = house.read("d/catalogue-changes.jsonl");
    let last: Value = serde_json::from_str(kept.lines().last().unwrap()).unwrap();
    assert_eq!((&last["kind"], &last["cursor"], &last["level"]), (&json!("level_raised"), &json!(3), &json!("High")));
    let run = house.run(&["catalogue", "update", "--from", "http://127.0.0.1:1/x", "--data", "d"]);
    assert!(run.code == 4 && run.stderr.contains("the old one stays"), "{}", run.stderr);
}

#[test]
fn two_updates_at_once_lose_no_change() {
    let house = with_index();
    newer(&house, "new.glx");
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let told: u64 = std::thread::scope(|scope| {
        let runs: Vec<_> = (0..8)
            .map(|at| {
                let (house, from) = (&house, if at % 2 == 0 { "new.glx" } else { "i.glx" });
                scope.spawn(move || {
                    told(&house.run(&["catalogue", "update", "--from", from, "--data", "d", "--json", "--allow-older"]))
                })
            })
            .collect();
        runs.into_iter().map(|run| run.join().unwrap()["changes"].as_u64().unwrap()).sum()
    });
    let lines = |house: &House| -> Vec<u64> {
        let kept = house.read("d/catalogue-changes.jsonl");
        let cursor = |line: &str| serde_json::from_str::<Value>(line).unwrap()["cursor"].as_u64().unwrap();
        kept.lines().map(cursor).collect()
    };
    assert_eq!(lines(&house), (1..=told).collect::<Vec<_>>());
    // A last line that is broken does not begin the numbers anew.
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let before = lines(&house).len() as u64;
    let kept = house.read("d/catalogue-changes.jsonl");
    house.write("d/catalogue-changes.jsonl", &format!("{kept}{{}}\n"));
    house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let last = house.read("d/catalogue-changes.jsonl").lines().last().unwrap().to_owned();
    let last: Value = serde_json::from_str(&last).unwrap();
    assert_eq!(last["cursor"], json!(before + 3));
}

#[test]
fn changes_that_cannot_be_read_or_are_of_another_index_are_told_as_such() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    newer(&house, "new.glx");
    house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let program = env!("CARGO_BIN_EXE_gatelodge");
    house.write("lines", &format!("{}\n", called(1, "get_change_events", &json!({}))));
    let ask = |more: &str| {
        let run = house.paste(&format!("'{program}' catalogue mcp --data d {more} < lines"));
        serde_json::from_str::<Value>(&run.stdout).unwrap()["result"].clone()
    };
    assert_eq!(answered(&json!({"result": ask("")}))["events"].as_array().unwrap().len(), 3);
    let named = ask("--index i.glx");
    assert!(named["isError"] == true && named.to_string().contains("changes are not recorded for an index"), "{named}");
    // A folder in the log's place cannot be read.
    std::fs::remove_file(house.path("d/catalogue-changes.jsonl")).unwrap();
    assert_eq!(answered(&json!({"result": ask("")}))["events"], json!([]));
    std::fs::create_dir(house.path("d/catalogue-changes.jsonl")).unwrap();
    assert!(ask("")["isError"] == true, "{}", ask(""));
}
