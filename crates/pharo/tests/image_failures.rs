//! Whatever goes wrong with the image is one error that says what to do next, and the call after it works.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::time::Duration;

use common::{
    FakeImage, Lines, MAX_BYTES, Script, Step, call, error_text, eval, failure, page, raw, server_for, settings,
    success, text,
};
use gatelodge_pharo::Settings;
use serde_json::{Value, json};

/// Asks an image that does this, once; then sees that the next call works. Gives the text of the error.
async fn fault(script: Script) -> String {
    fault_with(script, settings()).await
}

async fn fault_with(script: Script, settings: Settings) -> String {
    let image = FakeImage::doing(script).await;
    let mut client = Lines::to(common::server(image.port(), settings));
    let answer = client.ask(&eval(1)).await;
    let said = error_text(&answer).replace(&image.address.to_string(), "IMAGE");
    assert_eq!(image.lines(), ["POST /eval HTTP/1.1"], "asked once");
    image.now_does(success("7"));
    assert_eq!(text(&client.ask(&eval(2)).await), "7");
    assert_eq!(client.end().await, [] as [Value; 0]);
    said
}

fn json_body(body: impl AsRef<[u8]>) -> Script {
    page("200 OK", "application/json", body)
}

#[tokio::test]
async fn an_image_that_is_not_there_is_named_with_what_to_start() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let mut client = Lines::to(common::server(port, settings()));
    let answer = client.ask(&eval(1)).await;
    let said = error_text(&answer);
    assert!(said.starts_with(&format!("No image answers at 127.0.0.1:{port}: Connection refused")), "{said}");
    assert!(said.contains("Start Pharo with PharoSmalltalkInteropServer loaded"), "{said}");
}

#[tokio::test]
async fn a_dropped_connection_says_that_it_may_have_been_done_in_part() {
    let cut_head = raw("HTTP/1.1 200 OK\r\ncontent-le");
    let cut_body = raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"success\":true");
    let cut_chunk = raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\n{\"success\":true");
    for script in [vec![], cut_head, cut_body, cut_chunk] {
        assert_eq!(
            fault(script).await,
            "The image at IMAGE closed the connection before it had answered. It may have ended or been saved and quit; \
            what was asked may have been done in part. Look at the image before asking again."
        );
    }
}

#[tokio::test]
async fn an_image_that_stalls_is_given_up_and_its_connection_closed() {
    let short = Settings { time: Duration::from_secs(2), ..settings() };
    let head = Step::Write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec());
    for script in [vec![Step::Stall], vec![head, Step::Stall]] {
        let said = fault_with(script, short.clone()).await;
        assert!(said.starts_with("The image at IMAGE gave no answer within 2 s."), "{said}");
        assert!(said.contains("may still be running there") && said.contains("--timeout"), "{said}");
    }
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let mut client = Lines::to(common::server(image.port(), short));
    client.ask(&eval(1)).await;
    image.is_left(1).await;
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let elsewhere = FakeImage::answering(r#"{"success":true,"result":"elsewhere"}"#).await;
    for status in ["301 Moved Permanently", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let head =
            format!("HTTP/1.1 {status}\r\nlocation: http://{}/eval\r\ncontent-length: 0\r\n\r\n", elsewhere.address);
        let said = fault(raw(head)).await;
        assert!(said.contains(&format!("answered with HTTP status {status}")), "{said}");
        assert!(said.contains("Redirects are not followed."), "{said}");
    }
    assert_eq!(elsewhere.lines(), [""; 0]);
}

#[tokio::test]
async fn a_status_that_is_no_success_is_told_with_its_page() {
    let said = fault(page("404 Not Found", "text/plain", "Not Found: /eval")).await;
    assert_eq!(
        said,
        "The image at IMAGE answered with HTTP status 404 Not Found. The image does not know this endpoint. Its \
        PharoSmalltalkInteropServer may be older than the tool, or something else listens there.\n\nIt begins:\nNot Found: \
        /eval"
    );
    let said = fault(page("500 Internal Server Error", "text/html", "<h1>MessageNotUnderstood</h1>")).await;
    assert!(said.contains("HTTP status 500 Internal Server Error. Look at the image's transcript"), "{said}");
    assert!(said.ends_with("<h1>MessageNotUnderstood</h1>"), "{said}");
    // A failure is a failure even if its body says otherwise.
    let said = fault(page("500 Internal Server Error", "application/json", r#"{"success":true,"result":1}"#)).await;
    assert!(said.contains("HTTP status 500"), "{said}");
}

#[tokio::test]
async fn of_a_long_page_only_the_beginning_is_told() {
    let said = fault(page("500 Internal Server Error", "text/html", "é".repeat(100_000))).await;
    assert!(said.ends_with("éé…") && said.chars().count() < 2_300, "{} characters", said.chars().count());
}

#[tokio::test]
async fn a_body_that_is_not_the_interop_servers_is_told_with_how_it_begins() {
    for (body, why) in [
        (&b""[..], "not in JSON"),
        (b"<html><body>It works!</body></html>", "not in JSON"),
        (b"{\"success\":true,\"result\":", "not in JSON"),
        (b"{\"success\":true,\"result\":NaN}", "not in JSON"),
        (b"{\"success\":true,\"result\":1} trailing", "not in JSON"),
        (b"[1,2]", "not with a JSON object"),
        (b"7", "not with a JSON object"),
        (b"null", "not with a JSON object"),
        (b"\"text\"", "not with a JSON object"),
        (b"{}", "does not say whether it was a success"),
        (b"{\"result\":1}", "does not say whether it was a success"),
        (b"{\"success\":\"true\",\"result\":1}", "does not say whether it was a success"),
        (b"{\"success\":1,\"result\":1}", "does not say whether it was a success"),
        (b"{\"success\":null,\"result\":1}", "does not say whether it was a success"),
        (b"{\"Success\":true,\"result\":1}", "does not say whether it was a success"),
        (b"{\"success\":true,\"result\":\"\xff\"}", "not in UTF-8"),
        (b"{\"success\":true,\"result\":1,\"success\":false}", "the key `success` is repeated"),
    ] {
        let said = fault(json_body(body)).await;
        assert!(said.starts_with("The image at IMAGE answered, but "), "{said}");
        assert!(said.contains(why), "{said}");
        assert!(said.contains("name the port of PharoSmalltalkInteropServer with --port"), "{said}");
        let begin = String::from_utf8_lossy(body);
        let shown = if body.is_empty() { "The body is empty." } else { &begin };
        assert!(said.ends_with(shown), "{said}");
    }
}

#[tokio::test]
async fn values_nested_too_deep_are_told_as_such() {
    let body = format!(r#"{{"success":true,"result":{}{}}}"#, "[".repeat(500), "]".repeat(500));
    let said = fault(json_body(body)).await;
    assert!(said.contains("nested deeper than"), "{said}");
}

#[tokio::test]
async fn what_is_no_http_is_told_as_such() {
    for bytes in ["SSH-2.0-OpenSSH_9.2\r\n", "\0\0\0\x01hello there\r\n\r\n"] {
        let said = fault(raw(bytes)).await;
        assert!(said.starts_with("What listens at IMAGE does not speak HTTP"), "{said}");
        assert!(said.ends_with("Name the image's port with --port."), "{said}");
    }
}

#[tokio::test]
async fn an_answer_of_a_hundred_megabytes_is_given_up_at_the_limit() {
    let head = |how: &str| Step::Write(format!("HTTP/1.1 200 OK\r\n{how}\r\n").into_bytes());
    let mut chunk = b"10000\r\n".to_vec();
    chunk.extend([b' '; 0x10000]);
    chunk.extend(b"\r\n");
    for script in [
        vec![head("content-length: 100000000\r\n"), Step::Flood(vec![b' '; 1 << 16], 100_000_000)],
        vec![head("transfer-encoding: chunked\r\n"), Step::Flood(chunk, 100_000_000)],
        vec![head(""), Step::Flood(vec![b' '; 1 << 16], 100_000_000)],
    ] {
        let image = FakeImage::doing(script).await;
        let mut client = Lines::of(&image);
        let answer = client.ask(&eval(1)).await;
        let said = error_text(&answer);
        assert!(
            said.ends_with(&format!("the answer has more than {MAX_BYTES} bytes. Ask for less at a time.")),
            "{said}"
        );
        image.is_left(1).await;
        // What lies in the buffers of the sockets is not ours.
        assert!(image.flooded() < MAX_BYTES + (16 << 20), "{} bytes were taken", image.flooded());
        image.now_does(success("7"));
        assert_eq!(text(&client.ask(&eval(2)).await), "7");
    }
}

#[tokio::test]
async fn an_answer_at_the_limit_is_given() {
    let rest = MAX_BYTES - r#"{"success":true,"result":""}"#.len();
    let image = FakeImage::doing(success(&format!("\"{}\"", "x".repeat(rest)))).await;
    let mut client = Lines::of(&image);
    assert_eq!(text(&client.ask(&eval(1)).await).len(), rest);
    image.now_does(success(&format!("\"{}\"", "x".repeat(rest + 1))));
    assert!(error_text(&client.ask(&eval(2)).await).contains("answered too much"));
}

#[tokio::test]
async fn a_head_that_never_ends_is_given_up() {
    let begin = Step::Write(b"HTTP/1.1 200 OK\r\n".to_vec());
    for line in [&b"x-more: and more\r\n"[..], &[b'x'; 1_000]] {
        let image = FakeImage::doing(vec![begin.clone(), Step::Flood(line.to_vec(), 100_000_000)]).await;
        let mut client = Lines::of(&image);
        let answer = client.ask(&eval(1)).await;
        let said = error_text(&answer);
        assert!(said.contains("does not speak HTTP"), "{said}");
        image.is_left(1).await;
        assert!(image.flooded() < 16 << 20, "{} bytes were taken", image.flooded());
        image.now_does(success("7"));
        assert_eq!(text(&client.ask(&eval(2)).await), "7");
    }
}

#[tokio::test]
async fn a_smalltalk_error_keeps_its_description_its_stack_and_all_else() {
    let error = r#"{"stack_trace":"SmallInteger(Object)>>doesNotUnderstand: #foo\rUndefinedObject>>DoIt","description":"Instance of SmallInteger did not understand #foo","receiver":{"class":"SmallInteger","self":"3","variables":{}},"later":12345678901234567890}"#;
    assert_eq!(
        fault(failure(error)).await,
        "Smalltalk error: Instance of SmallInteger did not understand #foo\n\n\
        stack_trace:\nSmallInteger(Object)>>doesNotUnderstand: #foo\rUndefinedObject>>DoIt\n\n\
        receiver:\n{\"class\":\"SmallInteger\",\"self\":\"3\",\"variables\":{}}\n\n\
        later:\n12345678901234567890"
    );
}

#[tokio::test]
async fn a_smalltalk_error_may_be_a_text_or_anything_or_nothing() {
    assert_eq!(fault(failure("\"ZeroDivide\"")).await, "Smalltalk error: ZeroDivide");
    assert_eq!(fault(failure("[1]")).await, "Smalltalk error: [1]");
    assert_eq!(fault(failure("null")).await, "Smalltalk error: null");
    assert_eq!(fault(failure("{}")).await, "Smalltalk error: no description");
    let nothing = "The image says that it failed, and not why. Look at its transcript.";
    assert_eq!(fault(json_body(r#"{"success":false}"#)).await, nothing);
    // A failure with a result is still a failure.
    assert_eq!(fault(json_body(r#"{"success":false,"result":7}"#)).await, format!("{nothing}\n\nresult:\n7"));
}

#[tokio::test]
async fn a_name_that_leads_beyond_this_machine_is_refused() {
    // The second is a name for whoever resolves it, and an address for nobody who only looks at it.
    for host in ["192.0.2.1", "3221225985", "::ffff:192.0.2.1", "[2001:db8::1]"] {
        let mut client = Lines::to(server_for(host, 8086, settings()));
        let answer = client.ask(&eval(1)).await;
        let said = error_text(&answer);
        assert!(said.starts_with(&format!("The image's host `{host}` leads to another machine")), "{said}");
        assert!(said.contains("--beyond-loopback"), "{said}");
    }
}

#[tokio::test]
async fn every_name_of_this_machine_is_taken() {
    let image = FakeImage::answering(r#"{"success":true,"result":7}"#).await;
    for host in ["localhost", "127.0.0.1", "::ffff:127.0.0.1"] {
        let mut client = Lines::to(server_for(host, image.port(), settings()));
        let answer = client.ask(&eval(1)).await;
        assert_eq!(text(&answer), "7", "{host}");
    }
    let host = |at: usize| image.asked()[at].headers.iter().find(|line| line.starts_with("host: ")).cloned().unwrap();
    assert_eq!(host(0), format!("host: localhost:{}", image.port()));
    assert_eq!(host(2), format!("host: [::ffff:127.0.0.1]:{}", image.port()));
}

#[tokio::test]
async fn an_address_with_colons_is_told_in_brackets() {
    let mut client = Lines::to(server_for("::1", 1, settings()));
    let answer = client.ask(&eval(1)).await;
    let said = error_text(&answer);
    assert!(said.starts_with("No image answers at [::1]:1: "), "{said}");
}

#[tokio::test]
async fn a_name_that_nobody_knows_is_told_as_such() {
    // A label of 64 letters is too long to be asked for, so no resolver out there decides this.
    let host = "x".repeat(64);
    let mut client = Lines::to(server_for(&host, 8086, settings()));
    let answer = client.ask(&eval(1)).await;
    let said = error_text(&answer);
    assert!(said.starts_with(&format!("The image's host `{host}` is not known")), "{said}");
    assert!(said.ends_with("Correct --host."), "{said}");
}

#[tokio::test]
async fn a_fault_of_one_call_does_not_touch_another() {
    let go_on = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let waits = vec![Step::Wait(go_on.clone())].into_iter().chain(success("7")).collect();
    let image = FakeImage::doing(waits).await;
    let mut client = Lines::of(&image);
    client.send(&eval("slow")).await;
    image.is_asked(1).await;
    image.now_does(vec![]);
    let answer = client.ask(&call("cut", "list_packages", json!({}))).await;
    assert_eq!(answer["id"], "cut");
    error_text(&answer);
    go_on.add_permits(1);
    let answer = client.next().await;
    assert_eq!((answer["id"].as_str(), text(&answer)), (Some("slow"), "7"));
}
