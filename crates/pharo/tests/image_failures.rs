//! Every failure of the image is one error that says what to do next, and the next call works.
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
    FakeImage, MAX_BYTES, Script, StdioClient, Step, call, error_text, eval, failure, page, raw, server_for, settings,
    success, text,
};
use gatelodge_pharo::PharoSettings;
use serde_json::{Value, json};

/// Sends one request to an image with this script, checks that the next call works, and returns the error text.
async fn fault(script: Script) -> String {
    fault_with(script, settings()).await
}

async fn fault_with(script: Script, settings: PharoSettings) -> String {
    let image = FakeImage::doing(script).await;
    let mut client = StdioClient::to(common::server(image.port(), settings));
    let answer = client.ask(&eval(1)).await;
    let said = error_text(&answer).replace(&image.address.to_string(), "IMAGE");
    assert_eq!(image.lines(), ["POST /eval HTTP/1.1"], "asked once");
    image.set_script(success("7"));
    assert_eq!(text(&client.ask(&eval(2)).await), "7");
    assert_eq!(client.end().await, [] as [Value; 0]);
    said
}

fn json_body(body: impl AsRef<[u8]>) -> Script {
    page("200 OK", "application/json", body)
}

#[tokio::test]
async fn unreachable_image_error_says_what_to_start() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    drop(listener);
    let mut client = StdioClient::to(common::server(port, settings()));
    let answer = client.ask(&eval(1)).await;
    let said = error_text(&answer);
    assert!(said.starts_with(&format!("No image answers at 127.0.0.1:{port}: Connection refused")), "{said}");
    assert!(said.contains("Start Pharo with PharoSmalltalkInteropServer loaded"), "{said}");
}

#[tokio::test]
async fn dropped_connection_error_says_that_the_request_may_be_half_done() {
    let cut_head = raw("HTTP/1.1 200 OK\r\ncontent-le");
    let cut_body = raw("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"success\":true");
    let cut_chunk = raw("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\n{\"success\":true");
    for script in [vec![], cut_head, cut_body, cut_chunk] {
        assert_eq!(
            fault(script).await,
            "The image at IMAGE closed the connection before it had answered. It may have crashed, or been saved and quit; \
            the request may have been done in part. Look at the image before you try again."
        );
    }
}

#[tokio::test]
async fn stalled_image_times_out_and_its_connection_is_closed() {
    let short = PharoSettings { timeout: Duration::from_secs(2), ..settings() };
    let head = Step::Write(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{".to_vec());
    for script in [vec![Step::Stall], vec![head, Step::Stall]] {
        let said = fault_with(script, short.clone()).await;
        assert!(said.starts_with("The image at IMAGE gave no response within 2 s."), "{said}");
        assert!(said.contains("may still be running there") && said.contains("--timeout"), "{said}");
    }
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let mut client = StdioClient::to(common::server(image.port(), short));
    client.ask(&eval(1)).await;
    image.wait_for_disconnects(1).await;
}

#[tokio::test]
async fn redirect_is_not_followed() {
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
async fn error_status_is_reported_with_its_page() {
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
    // A failure status counts even if the body says otherwise.
    let said = fault(page("500 Internal Server Error", "application/json", r#"{"success":true,"result":1}"#)).await;
    assert!(said.contains("HTTP status 500"), "{said}");
}

#[tokio::test]
async fn long_page_is_truncated() {
    let said = fault(page("500 Internal Server Error", "text/html", "é".repeat(100_000))).await;
    assert!(said.ends_with("éé…") && said.chars().count() < 2_300, "{} characters", said.chars().count());
}

#[tokio::test]
async fn foreign_body_is_reported_with_its_beginning() {
    for (body, why) in [
        (&b""[..], "not in JSON"),
        (b"<html><body>It works!</body></html>", "not in JSON"),
        (b"{\"success\":true,\"result\":", "not in JSON"),
        (b"{\"success\":true,\"result\":NaN}", "not in JSON"),
        (b"{\"success\":true,\"result\":1} trailing", "not in JSON"),
        (b"[1,2]", "not with a valid JSON object"),
        (b"7", "not with a valid JSON object"),
        (b"null", "not with a valid JSON object"),
        (b"\"text\"", "not with a valid JSON object"),
        (b"{}", "has no boolean `success`"),
        (b"{\"result\":1}", "has no boolean `success`"),
        (b"{\"success\":\"true\",\"result\":1}", "has no boolean `success`"),
        (b"{\"success\":1,\"result\":1}", "has no boolean `success`"),
        (b"{\"success\":null,\"result\":1}", "has no boolean `success`"),
        (b"{\"Success\":true,\"result\":1}", "has no boolean `success`"),
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
async fn too_deeply_nested_values_are_reported() {
    let body = format!(r#"{{"success":true,"result":{}{}}}"#, "[".repeat(500), "]".repeat(500));
    let said = fault(json_body(body)).await;
    assert!(said.contains("nested deeper than"), "{said}");
}

#[tokio::test]
async fn response_that_is_not_http_is_reported() {
    for bytes in ["SSH-2.0-OpenSSH_9.2\r\n", "\0\0\0\x01hello there\r\n\r\n"] {
        let said = fault(raw(bytes)).await;
        assert!(said.starts_with("What listens at IMAGE does not speak HTTP"), "{said}");
        assert!(said.ends_with("Name the image's port with --port."), "{said}");
    }
}

#[tokio::test]
async fn response_of_100_megabytes_is_aborted_at_the_limit() {
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
        let mut client = StdioClient::of(&image);
        let answer = client.ask(&eval(1)).await;
        let said = error_text(&answer);
        assert!(
            said.ends_with(&format!("the response has more than {MAX_BYTES} bytes. Ask for less at a time.")),
            "{said}"
        );
        image.wait_for_disconnects(1).await;
        // Bytes in socket buffers do not count.
        assert!(image.flooded() < MAX_BYTES + (16 << 20), "{} bytes were taken", image.flooded());
        image.set_script(success("7"));
        assert_eq!(text(&client.ask(&eval(2)).await), "7");
    }
}

#[tokio::test]
async fn response_at_the_limit_is_accepted() {
    let rest = MAX_BYTES - r#"{"success":true,"result":""}"#.len();
    let image = FakeImage::doing(success(&format!("\"{}\"", "x".repeat(rest)))).await;
    let mut client = StdioClient::of(&image);
    assert_eq!(text(&client.ask(&eval(1)).await).len(), rest);
    image.set_script(success(&format!("\"{}\"", "x".repeat(rest + 1))));
    assert!(error_text(&client.ask(&eval(2)).await).contains("sent too large a response"));
}

#[tokio::test]
async fn endless_headers_are_aborted() {
    let begin = Step::Write(b"HTTP/1.1 200 OK\r\n".to_vec());
    for line in [&b"x-more: and more\r\n"[..], &[b'x'; 1_000]] {
        let image = FakeImage::doing(vec![begin.clone(), Step::Flood(line.to_vec(), 100_000_000)]).await;
        let mut client = StdioClient::of(&image);
        let answer = client.ask(&eval(1)).await;
        let said = error_text(&answer);
        assert!(said.contains("does not speak HTTP"), "{said}");
        image.wait_for_disconnects(1).await;
        assert!(image.flooded() < 16 << 20, "{} bytes were taken", image.flooded());
        image.set_script(success("7"));
        assert_eq!(text(&client.ask(&eval(2)).await), "7");
    }
}

#[tokio::test]
async fn smalltalk_error_keeps_description_stack_and_other_members() {
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
async fn smalltalk_error_may_be_any_value_or_missing() {
    assert_eq!(fault(failure("\"ZeroDivide\"")).await, "Smalltalk error: ZeroDivide");
    assert_eq!(fault(failure("[1]")).await, "Smalltalk error: [1]");
    assert_eq!(fault(failure("null")).await, "Smalltalk error: null");
    assert_eq!(fault(failure("{}")).await, "Smalltalk error: no description");
    let nothing = "The image reported a failure without a reason. Look at its transcript.";
    assert_eq!(fault(json_body(r#"{"success":false}"#)).await, nothing);
    // A failure with a result is still a failure.
    assert_eq!(fault(json_body(r#"{"success":false,"result":7}"#)).await, format!("{nothing}\n\nresult:\n7"));
}

#[tokio::test]
async fn remote_host_is_refused() {
    // The second is a number that resolvers take for an address, although it does not look like one.
    for host in ["192.0.2.1", "3221225985", "::ffff:192.0.2.1", "[2001:db8::1]"] {
        let mut client = StdioClient::to(server_for(host, 8086, settings()));
        let answer = client.ask(&eval(1)).await;
        let said = error_text(&answer);
        assert!(said.starts_with(&format!("The image's host `{host}` is another machine")), "{said}");
        assert!(said.contains("--beyond-loopback"), "{said}");
    }
}

#[tokio::test]
async fn every_name_of_this_machine_is_accepted() {
    let image = FakeImage::answering(r#"{"success":true,"result":7}"#).await;
    for host in ["localhost", "127.0.0.1", "::ffff:127.0.0.1"] {
        let mut client = StdioClient::to(server_for(host, image.port(), settings()));
        let answer = client.ask(&eval(1)).await;
        assert_eq!(text(&answer), "7", "{host}");
    }
    let host = |at: usize| image.asked()[at].headers.iter().find(|line| line.starts_with("host: ")).cloned().unwrap();
    assert_eq!(host(0), format!("host: localhost:{}", image.port()));
    assert_eq!(host(2), format!("host: [::ffff:127.0.0.1]:{}", image.port()));
}

#[tokio::test]
async fn ipv6_address_is_shown_in_brackets() {
    let mut client = StdioClient::to(server_for("::1", 1, settings()));
    let answer = client.ask(&eval(1)).await;
    let said = error_text(&answer);
    assert!(said.starts_with("No image answers at [::1]:1: "), "{said}");
}

#[tokio::test]
async fn unknown_host_is_reported() {
    // A label of 64 characters is too long for a query, so the result does not depend on a resolver.
    let host = "x".repeat(64);
    let mut client = StdioClient::to(server_for(&host, 8086, settings()));
    let answer = client.ask(&eval(1)).await;
    let said = error_text(&answer);
    assert!(said.starts_with(&format!("The image's host `{host}` cannot be resolved")), "{said}");
    assert!(said.ends_with("Correct --host."), "{said}");
}

#[tokio::test]
async fn failure_of_one_call_does_not_affect_another() {
    let go_on = std::sync::Arc::new(tokio::sync::Semaphore::new(0));
    let waits = vec![Step::Wait(go_on.clone())].into_iter().chain(success("7")).collect();
    let image = FakeImage::doing(waits).await;
    let mut client = StdioClient::of(&image);
    client.send(&eval("slow")).await;
    image.wait_for_requests(1).await;
    image.set_script(vec![]);
    let answer = client.ask(&call("cut", "list_packages", json!({}))).await;
    assert_eq!(answer["id"], "cut");
    error_text(&answer);
    go_on.add_permits(1);
    let answer = client.next().await;
    assert_eq!((answer["id"].as_str(), text(&answer)), (Some("slow"), "7"));
}
