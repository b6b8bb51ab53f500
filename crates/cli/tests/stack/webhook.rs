//! `catalogue changes`: events behind a cursor, told and posted.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::clients::SECRET;
use super::support::{House, Run, house};
use super::{newer, told, with_index};

const KEY: &str = "hunter2secret-of-the-hook";

/// A request that was taken or not: its id, its time, its signature, its text.
struct Posted {
    id: String,
    time: String,
    signature: String,
    text: String,
}

impl Posted {
    fn cursors(&self) -> Vec<u64> {
        let body: Value = serde_json::from_str(&self.text).unwrap();
        body["events"].as_array().unwrap().iter().map(|own| own["cursor"].as_u64().unwrap()).collect()
    }
}

/// Answers one request with each of these, and gives what came.
fn receive(listener: TcpListener, statuses: &'static [u16]) -> JoinHandle<Vec<Posted>> {
    std::thread::spawn(move || {
        let mut all = Vec::new();
        for status in statuses {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let (mut head, mut line) = (Vec::new(), String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                head.push(line.trim().to_owned());
                line.clear();
            }
            let of = |name: &str| {
                let own = head.iter().filter_map(|line| line.split_once(": "));
                own.filter(|(own, _)| own.eq_ignore_ascii_case(name)).map(|(_, value)| value.to_owned()).next().unwrap()
            };
            let mut text = vec![0; of("content-length").parse().unwrap()];
            reader.read_exact(&mut text).unwrap();
            write!(&stream, "HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            let (id, time, signature) = (of("webhook-id"), of("webhook-timestamp"), of("webhook-signature"));
            all.push(Posted { id, time, signature, text: String::from_utf8(text).unwrap() });
        }
        all
    })
}

fn listen() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?k={SECRET}", listener.local_addr().unwrap());
    (listener, url)
}

fn post(house: &House, url: &str, more: &[&str]) -> Run {
    let args = ["catalogue", "changes", "--post", url, "--secret-env", "HOOK", "--data", "d", "--json"];
    let run = house.run_with(&[("HOOK", KEY)], &[&args[..], more].concat());
    assert!(!format!("{}{}", run.stdout, run.stderr).contains(SECRET), "{}{}", run.stdout, run.stderr);
    run
}

/// A house with so many events.
fn with_events(count: u64) -> House {
    let house = house();
    std::fs::create_dir(house.path("d")).unwrap();
    let line = |cursor: u64| {
        json!({"cursor": cursor, "date": "2026-11-17", "kind": "tool_added", "source": "npm", "package": "a",
            "version": "1.0.0", "tool": format!("t{cursor}"), "level": if cursor.is_multiple_of(2) { "High" } else { "Low" }})
    };
    house.write("d/catalogue-changes.jsonl", &(1..=count).map(|at| format!("{}\n", line(at))).collect::<String>());
    house
}

#[test]
fn changes_are_told_behind_a_cursor() {
    let house = with_index();
    house.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    newer(&house, "new.glx");
    house.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let ask = |more: &[&str]| house.run(&[&["catalogue", "changes", "--data", "d"], more].concat());
    let all = told(&ask(&["--json"]));
    assert_eq!((all["events"].as_array().unwrap().len(), &all["cursor"]), (3, &json!(3)));
    assert_eq!(told(&ask(&["--json", "--since", "2"]))["events"][0]["cursor"], 3);
    let part = told(&ask(&["--json", "--limit", "1"]));
    assert_eq!((&part["cursor"], &part["has_more"]), (&json!(1), &json!(true)));
    assert_eq!(told(&ask(&["--json", "--level", "CRITICAL"]))["events"], json!([]));
    let run = ask(&[]);
    assert!(run.stdout.contains("level_raised") && run.stderr.contains("3 events; the cursor is 3"), "{run:?}");
    assert_eq!(ask(&["--since", "99"]).code, 1);
}

#[test]
fn events_are_posted_signed_and_only_once_where_they_are_taken() {
    let house = with_events(3);
    let (listener, url) = listen();
    let received = receive(listener, &[204]);
    let run = post(&house, &url, &["--level", "high"]);
    assert_eq!((run.code, told(&run)), (0, json!({"posted": 1, "cursor": 3})), "{}", run.stderr);
    let posted = received.join().unwrap().remove(0);
    assert_eq!(posted.cursors(), [2]);
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).unwrap();
    mac.update(format!("{}.{}.{}", posted.id, posted.time, posted.text).as_bytes());
    assert_eq!(posted.signature, format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes())));
    // Nobody listens there any more, and nothing is new.
    let run = post(&house, &url, &[]);
    assert_eq!((run.code, told(&run)), (0, json!({"posted": 0, "cursor": 3})), "{}", run.stderr);
    assert!(!house.read("d/catalogue-posted.json").contains(SECRET));
    // Another address has taken nothing yet.
    let (listener, url) = listen();
    let received = receive(listener, &[200]);
    assert_eq!(post(&house, &url, &[]).code, 0);
    assert_eq!(received.join().unwrap()[0].cursors(), [1, 2, 3]);
}

#[test]
fn no_event_is_lost_or_skipped_where_an_address_fails() {
    let house = with_events(250);
    let (listener, url) = listen();
    let again = listener.try_clone().unwrap();
    let received = receive(listener, &[200, 500]);
    let run = post(&house, &url, &["--retries", "0"]);
    assert_eq!(run.code, 4);
    assert!(
        run.stderr.contains("after cursor 100: it responded with 500; 100 events delivered before"),
        "{}",
        run.stderr
    );
    let first = received.join().unwrap();
    let received = receive(again, &[503, 200, 200]);
    let run = post(&house, &url, &["--retries", "1"]);
    assert_eq!((run.code, told(&run)), (0, json!({"posted": 150, "cursor": 250})), "{}", run.stderr);
    let second = received.join().unwrap();
    let taken: Vec<u64> = [&first[0], &second[1], &second[2]].iter().flat_map(|own| own.cursors()).collect();
    assert_eq!(taken, (1..=250).collect::<Vec<_>>());
    // What comes again is known by its id.
    assert!(first[1].id == second[0].id && second[0].id == second[1].id && second[1].id != second[2].id);
    assert_eq!(post(&house, &url, &[]).code, 0);
}

#[test]
fn what_cannot_be_posted_is_told_and_no_event_counts_as_taken() {
    let house = with_events(2);
    for (status, says) in [(&[404][..], "it responded with 404"), (&[302], "it responded with 302")] {
        let (listener, url) = listen();
        let received = receive(listener, status);
        // It is not tried again: nobody would answer.
        let run = post(&house, &url, &[]);
        assert!(run.code == 4 && run.stderr.contains(says), "{}", run.stderr);
        assert_eq!(received.join().unwrap()[0].cursors(), [1, 2]);
    }
    let (listener, url) = listen();
    drop(listener);
    assert_eq!(post(&house, &url, &["--retries", "0"]).code, 4);
    assert!(!house.path("d/catalogue-posted.json").exists());
    assert_eq!(post(&house, "http://hooks.example.com/x", &[]).code, 2);
    let run = house.run(&["catalogue", "changes", "--post", &url, "--data", "d"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    house.write("short", "hunter2secret\n");
    let args = ["catalogue", "changes", "--post", &url, "--secret-file", "short", "--data", "d"];
    let run = house.run(&args);
    assert!(
        run.code == 2 && run.stderr.contains("shorter than 16 bytes") && !run.stderr.contains(SECRET),
        "{}",
        run.stderr
    );
}
