//! `catalogue changes`: events after a cursor, printed or posted to a webhook.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::thread::JoinHandle;

use data_encoding::BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;

use super::clients::SECRET;
use super::support::{Run, TestDir};
use super::{dir_with_index, json_output, write_newer_index};

const KEY: &str = "hunter2secret-of-the-hook";

/// A received webhook request.
struct WebhookRequest {
    id: String,
    time: String,
    signature: String,
    text: String,
}

impl WebhookRequest {
    fn cursors(&self) -> Vec<u64> {
        let body: Value = serde_json::from_str(&self.text).unwrap();
        body["events"].as_array().unwrap().iter().map(|event| event["cursor"].as_u64().unwrap()).collect()
    }
}

/// Serves one request for each status; joining the thread returns the requests.
fn serve_statuses(listener: TcpListener, statuses: &'static [u16]) -> JoinHandle<Vec<WebhookRequest>> {
    std::thread::spawn(move || {
        let mut requests = Vec::new();
        for status in statuses {
            let (stream, _) = listener.accept().unwrap();
            let mut reader = BufReader::new(&stream);
            let (mut header_lines, mut line) = (Vec::new(), String::new());
            while reader.read_line(&mut line).unwrap() > 2 {
                header_lines.push(line.trim().to_owned());
                line.clear();
            }
            let header = |name: &str| {
                let headers = header_lines.iter().filter_map(|line| line.split_once(": "));
                headers
                    .filter(|(key, _)| key.eq_ignore_ascii_case(name))
                    .map(|(_, value)| value.to_owned())
                    .next()
                    .unwrap()
            };
            let mut text = vec![0; header("content-length").parse().unwrap()];
            reader.read_exact(&mut text).unwrap();
            write!(&stream, "HTTP/1.1 {status} x\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
            let (id, time, signature) =
                (header("webhook-id"), header("webhook-timestamp"), header("webhook-signature"));
            requests.push(WebhookRequest { id, time, signature, text: String::from_utf8(text).unwrap() });
        }
        requests
    })
}

fn start_listener() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/hook?k={SECRET}", listener.local_addr().unwrap());
    (listener, url)
}

fn post_changes(dir: &TestDir, url: &str, more: &[&str]) -> Run {
    let args = ["catalogue", "changes", "--post", url, "--secret-env", "HOOK", "--data", "d", "--json"];
    let run = dir.run_with(&[("HOOK", KEY)], &[&args[..], more].concat());
    assert!(!format!("{}{}", run.stdout, run.stderr).contains(SECRET), "{}{}", run.stdout, run.stderr);
    run
}

/// A data directory `d` with `count` change events.
fn dir_with_events(count: u64) -> TestDir {
    let dir = TestDir::new();
    std::fs::create_dir(dir.path("d")).unwrap();
    let line = |cursor: u64| {
        json!({"cursor": cursor, "date": "2026-11-17", "kind": "tool_added", "source": "npm", "package": "a",
            "version": "1.0.0", "tool": format!("t{cursor}"), "level": if cursor.is_multiple_of(2) { "High" } else { "Low" }})
    };
    dir.write("d/catalogue-changes.jsonl", &(1..=count).map(|at| format!("{}\n", line(at))).collect::<String>());
    dir
}

#[test]
fn changes_after_a_cursor_are_printed() {
    let dir = dir_with_index();
    dir.run(&["catalogue", "update", "--from", "i.glx", "--data", "d", "--allow-older", "--allow-smaller"]);
    write_newer_index(&dir, "new.glx");
    dir.run(&["catalogue", "update", "--from", "new.glx", "--data", "d"]);
    let run_changes = |more: &[&str]| dir.run(&[&["catalogue", "changes", "--data", "d"], more].concat());
    let changes = json_output(&run_changes(&["--json"]));
    assert_eq!((changes["events"].as_array().unwrap().len(), &changes["cursor"]), (3, &json!(3)));
    assert_eq!(json_output(&run_changes(&["--json", "--since", "2"]))["events"][0]["cursor"], 3);
    let part = json_output(&run_changes(&["--json", "--limit", "1"]));
    assert_eq!((&part["cursor"], &part["has_more"]), (&json!(1), &json!(true)));
    assert_eq!(json_output(&run_changes(&["--json", "--level", "CRITICAL"]))["events"], json!([]));
    let run = run_changes(&[]);
    assert!(run.stdout.contains("level_raised") && run.stderr.contains("3 events; the cursor is 3"), "{run:?}");
    assert_eq!(run_changes(&["--since", "99"]).code, 1);
}

#[test]
fn events_are_signed_and_posted_once_per_url() {
    let dir = dir_with_events(3);
    let (listener, url) = start_listener();
    let received = serve_statuses(listener, &[204]);
    let run = post_changes(&dir, &url, &["--level", "high"]);
    assert_eq!((run.code, json_output(&run)), (0, json!({"posted": 1, "cursor": 3})), "{}", run.stderr);
    let request = received.join().unwrap().remove(0);
    assert_eq!(request.cursors(), [2]);
    let mut mac = Hmac::<Sha256>::new_from_slice(KEY.as_bytes()).unwrap();
    mac.update(format!("{}.{}.{}", request.id, request.time, request.text).as_bytes());
    assert_eq!(request.signature, format!("v1,{}", BASE64.encode(&mac.finalize().into_bytes())));
    // The receiver is gone, but there is nothing new to send.
    let run = post_changes(&dir, &url, &[]);
    assert_eq!((run.code, json_output(&run)), (0, json!({"posted": 0, "cursor": 3})), "{}", run.stderr);
    assert!(!dir.read("d/catalogue-posted.json").contains(SECRET));
    // A different URL has received nothing yet.
    let (listener, url) = start_listener();
    let received = serve_statuses(listener, &[200]);
    assert_eq!(post_changes(&dir, &url, &[]).code, 0);
    assert_eq!(received.join().unwrap()[0].cursors(), [1, 2, 3]);
}

#[test]
fn no_event_is_lost_or_skipped_when_a_delivery_fails() {
    let dir = dir_with_events(250);
    let (listener, url) = start_listener();
    let again = listener.try_clone().unwrap();
    let received = serve_statuses(listener, &[200, 500]);
    let run = post_changes(&dir, &url, &["--retries", "0"]);
    assert_eq!(run.code, 4);
    assert!(
        run.stderr.contains("after cursor 100: it responded with 500; 100 events delivered before"),
        "{}",
        run.stderr
    );
    let first = received.join().unwrap();
    let received = serve_statuses(again, &[503, 200, 200]);
    let run = post_changes(&dir, &url, &["--retries", "1"]);
    assert_eq!((run.code, json_output(&run)), (0, json!({"posted": 150, "cursor": 250})), "{}", run.stderr);
    let second = received.join().unwrap();
    let delivered: Vec<u64> =
        [&first[0], &second[1], &second[2]].iter().flat_map(|request| request.cursors()).collect();
    assert_eq!(delivered, (1..=250).collect::<Vec<_>>());
    // A repeated delivery has the same id.
    assert!(first[1].id == second[0].id && second[0].id == second[1].id && second[1].id != second[2].id);
    assert_eq!(post_changes(&dir, &url, &[]).code, 0);
}

#[test]
fn a_failed_delivery_is_reported_and_not_recorded_as_delivered() {
    let dir = dir_with_events(2);
    for (status, message) in [(&[404][..], "it responded with 404"), (&[302], "it responded with 302")] {
        let (listener, url) = start_listener();
        let received = serve_statuses(listener, status);
        // It is not retried; the receiver serves only one request.
        let run = post_changes(&dir, &url, &[]);
        assert!(run.code == 4 && run.stderr.contains(message), "{}", run.stderr);
        assert_eq!(received.join().unwrap()[0].cursors(), [1, 2]);
    }
    let (listener, url) = start_listener();
    drop(listener);
    assert_eq!(post_changes(&dir, &url, &["--retries", "0"]).code, 4);
    assert!(!dir.path("d/catalogue-posted.json").exists());
    assert_eq!(post_changes(&dir, "http://hooks.example.com/x", &[]).code, 2);
    let run = dir.run(&["catalogue", "changes", "--post", &url, "--data", "d"]);
    assert_eq!(run.code, 2, "{}", run.stderr);
    dir.write("short", "hunter2secret\n");
    let args = ["catalogue", "changes", "--post", &url, "--secret-file", "short", "--data", "d"];
    let run = dir.run(&args);
    assert!(
        run.code == 2 && run.stderr.contains("shorter than 16 bytes") && !run.stderr.contains(SECRET),
        "{}",
        run.stderr
    );
}
