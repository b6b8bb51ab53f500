//! `catalogue update` of large, small, empty and silent ones.

use std::io::{Read as _, Write as _};
use std::time::{Duration, Instant};

use gatelodge_catalogue::{IndexMetadata, PackageFacts, ToolFacts};
use gatelodge_indexer::write_index;
use serde_json::{Value, json};

use super::support::{House, house};
use super::{answered, called, converse, facts, told, with_index};

/// A large index: each tool of each server has the number of the index in its definition.
fn large(house: &House, name: &str, servers: usize, tools: usize, number: usize) {
    let tool = |at: usize| -> ToolFacts {
        let own = json!({"name": format!("get_item_{at}"), "parameters": [], "category": if at == 7 && number > 1 { "Execute" } else { "Read" },
            "confidence": 0.9, "signals": [], "flow": [], "hash": format!("{number:08x}{at:08x}")});
        serde_json::from_value(own).unwrap()
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
    house.write_bytes(name, &write_index(packages, &about).unwrap());
}

fn lines(house: &House) -> Vec<Value> {
    let kept = house.read("d/catalogue-changes.jsonl");
    kept.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn changes_of_a_large_index_are_told_within_bounds_and_none_is_lost_without_a_count() {
    let house = house();
    large(&house, "1.glx", 6_000, 30, 1);
    large(&house, "2.glx", 6_000, 30, 2);
    house.run(&["catalogue", "update", "--from", "1.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let begun = Instant::now();
    let program = env!("CARGO_BIN_EXE_gatelodge");
    // More memory than this it does not get.
    let run = house.paste(&format!("ulimit -v 700000; '{program}' catalogue update --from 2.glx --data d --json"));
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    let feed = told(&run)["feed"].clone();
    assert_eq!((&feed["changes"], &feed["servers"]), (&json!(180_000), &json!(6_000)));
    // The four gravest changes of each server are told, the other 26 are counted.
    assert_eq!((&feed["told"], &feed["counted"], &feed["left_out"]), (&json!(24_000), &json!(156_000), &json!(0)));
    let kept = lines(&house);
    assert_eq!(kept.len(), 30_000);
    assert_eq!((&kept[0]["kind"], &kept[0]["tool"]), (&json!("level_raised"), &json!("get_item_7")));
    assert_eq!((&kept[4]["kind"], &kept[4]["counts"]), (&json!("more_changes"), &json!({"definition_changed": 26})));
    assert!(std::fs::metadata(house.path("d/catalogue-changes.jsonl")).unwrap().len() < 8 << 20);
    let run = house.run(&["catalogue", "update", "--from", "1.glx", "--data", "d", "--allow-older"]);
    assert!(
        run.stderr.contains("180000 tools changed on 6000 servers: 24000 listed one by one, 156000 counted"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_oldest_events_make_room_and_readers_are_told_how_many_are_gone() {
    let house = house();
    large(&house, "1.glx", 6_000, 3, 1);
    large(&house, "2.glx", 6_000, 3, 2);
    for number in [1, 2, 1, 2, 1, 2] {
        let from = format!("{number}.glx");
        let run =
            house.run(&["catalogue", "update", "--from", &from, "--data", "d", "--allow-older", "--allow-smaller"]);
        assert_eq!(run.code, 0, "{}", run.stderr);
    }
    let kept = lines(&house);
    let cursors: Vec<u64> = kept.iter().map(|line| line["cursor"].as_u64().unwrap()).collect();
    // Five updates with 18,000 changes each; the last 80,000 are kept.
    assert_eq!((kept.len(), cursors[0], *cursors.last().unwrap()), (80_000, 10_001, 90_000));
    let answers = converse(
        &house,
        &[
            called(1, "get_change_events", &json!({"limit": 2})),
            called(2, "get_change_events", &json!({"cursor": 10_000, "limit": 1})),
            called(3, "get_change_events", &json!({"cursor": 90_000})),
        ],
    );
    let of = |at: usize, field: &str| answered(&answers[at])[field].clone();
    assert_eq!((of(0, "left_out"), of(0, "cursor")), (json!(10_000), json!(10_002)));
    assert_eq!((of(1, "left_out"), of(1, "cursor")), (json!(0), json!(10_001)));
    assert_eq!((of(2, "events"), of(2, "cursor")), (json!([]), json!(90_000)));
}

#[test]
fn of_changes_that_are_too_long_the_oldest_go_and_never_the_newest() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    super::newer(&house, "new.glx");
    let line = |cursor: usize| {
        let own = json!({"cursor": cursor, "date": "2026-11-01", "kind": "tool_added", "source": "npm", "package": "@example/files",
            "version": "1", "tool": "x".repeat(1_000), "level": "Low"});
        format!("{own}\n")
    };
    // More than 64 MiB.
    house.write("d/catalogue-changes.jsonl", &(1..=62_000).map(line).collect::<String>());
    assert!(std::fs::metadata(house.path("d/catalogue-changes.jsonl")).unwrap().len() > 64 << 20);
    let ask = |cursor: u64| {
        let answers = converse(&house, &[called(1, "get_change_events", &json!({"cursor": cursor}))]);
        answered(&answers[0])
    };
    assert_eq!(ask(61_999)["events"][0]["cursor"], 62_000);
    let run = house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d", "--json"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    assert!(std::fs::metadata(house.path("d/catalogue-changes.jsonl")).unwrap().len() <= 64 << 20);
    let kept = lines(&house);
    let cursors: Vec<u64> = kept.iter().map(|line| line["cursor"].as_u64().unwrap()).collect();
    assert_eq!(*cursors.last().unwrap(), 62_003);
    assert!(cursors.windows(2).all(|pair| pair[0] + 1 == pair[1]), "a gap");
    assert_eq!(
        (&ask(62_000)["events"][0]["kind"], &ask(0)["left_out"]),
        (&json!("level_raised"), &json!(cursors[0] - 1))
    );
}

#[test]
fn an_empty_or_much_smaller_index_is_taken_only_where_that_is_meant() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let before = std::fs::read(house.path("d/index.glx")).unwrap();
    let one: String = facts().lines().take(1).collect();
    for (text, says) in
        [("", "has 0 servers, and the one in use 4"), (one.as_str(), "has 1 server, and the one in use 4")]
    {
        house.write("few.jsonl", text);
        super::make_index(&house, "few.jsonl", "2026-11-18", "few.glx");
        let update = ["catalogue", "update", "--from", "few.glx", "--data", "d"];
        let run = house.run(&update);
        assert!(run.code == 1 && run.stderr.contains(says) && run.stderr.contains("--allow-smaller"), "{}", run.stderr);
        assert!(run.stderr.contains("the old index stays"), "{}", run.stderr);
        assert_eq!(std::fs::read(house.path("d/index.glx")).unwrap(), before);
    }
    let run = house.run(&["catalogue", "update", "--from", "few.glx", "--data", "d", "--allow-smaller"]);
    assert_eq!(run.code, 0, "{}", run.stderr);
    // Half as many are no reason to ask.
    let two: Vec<String> = facts().lines().take(2).map(str::to_owned).collect();
    house.write("half.jsonl", &two.join("\n"));
    super::make_index(&house, "half.jsonl", "2026-11-18", "half.glx");
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "e", "--allow-older", "--allow-smaller"]);
    assert_eq!(house.run(&["catalogue", "update", "--from", "half.glx", "--data", "e"]).code, 0);
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let before = std::fs::read(house.path("d/index.glx")).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/i.glx", listener.local_addr().unwrap());
    let ask = || house.run(&["catalogue", "update", "--from", &url, "--data", "d", "--timeout", "1"]);
    // One that takes the connection and is silent, and one that is silent in the middle of the file.
    for begins in ["", "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\nGLINDEX"] {
        let listener = listener.try_clone().unwrap();
        let serve = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 4096]);
            stream.write_all(begins.as_bytes()).unwrap();
            // Ends when the other side has gone.
            let _ = std::io::copy(&mut stream, &mut std::io::sink());
        });
        let begun = Instant::now();
        let run = ask();
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        assert!(
            run.code == 4 && run.stderr.contains("no data received for 1 s; the old one stays in use"),
            "{}",
            run.stderr
        );
        serve.join().unwrap();
    }
    assert_eq!(std::fs::read(house.path("d/index.glx")).unwrap(), before);
}

#[test]
fn what_a_killed_update_left_goes_and_its_changes_are_told_once_if_its_index_is_in_use() {
    let house = with_index();
    let update = |from: &str| house.run(&["catalogue", "update", "--from", from, "--data", "d"]);
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    super::newer(&house, "new.glx");
    // Killed before its index was in use: its changes are of no index that anybody has.
    for left in
        ["index.glx.new-999999", "catalogue-changes.jsonl.new-999999", "catalogue-changes.jsonl.for-0000000000000000"]
    {
        house.write(&format!("d/{left}"), "{\"cursor\":1,\"level\":\"Critical\"}\n");
    }
    let ask = || answered(&converse(&house, &[called(1, "get_change_events", &json!({}))])[0])["events"].clone();
    assert_eq!(ask(), json!([]));
    assert_eq!(update("new.glx").code, 0);
    assert_eq!(lines(&house).len(), 3);
    let names = || {
        let all = std::fs::read_dir(house.path("d")).unwrap().flatten();
        all.map(|entry| entry.file_name().into_string().unwrap())
            .filter(|name| name.contains(".new-") || name.contains(".for-"))
            .collect::<Vec<_>>()
    };
    assert_eq!(names(), Vec::<String>::new());
    // Killed when its index was in use, and its changes not yet told.
    let hash = data_encoding::HEXLOWER
        .encode(&<sha2::Sha256 as sha2::Digest>::digest(std::fs::read(house.path("d/index.glx")).unwrap())[..8]);
    std::fs::rename(
        house.path("d/catalogue-changes.jsonl"),
        house.path(&format!("d/catalogue-changes.jsonl.for-{hash}")),
    )
    .unwrap();
    assert_eq!(ask().as_array().unwrap().len(), 3);
    assert_eq!((names(), lines(&house).len()), (Vec::new(), 3));
}

#[test]
fn what_is_told_to_do_about_an_index_that_is_refused_is_enough() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    let one: String = facts().lines().take(1).collect();
    house.write("few.jsonl", &one);
    super::make_index(&house, "few.jsonl", "2026-11-01", "few.glx");
    let run = house.run(&["catalogue", "update", "--from", "few.glx", "--data", "d"]);
    assert!(run.code == 1 && run.stderr.contains("`--allow-older` and `--allow-smaller` allow it"), "{}", run.stderr);
}
