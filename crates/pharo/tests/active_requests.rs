//! Requests in progress: progress notifications, cancellation, and limits.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::{
    FakeImage, Script, StdioClient, Step, TestHttpServer, as_stateless, call, cancelled, code, eval, request, server,
    settings, soon, success, text, with_token,
};
use gatelodge_pharo::PharoSettings;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// An image that answers once the test adds a permit.
async fn waiting_image() -> (FakeImage, Arc<Semaphore>) {
    let go_on = Arc::new(Semaphore::new(0));
    let waits: Script = [Step::Wait(Arc::clone(&go_on))].into_iter().chain(success("7")).collect();
    (FakeImage::doing(waits).await, go_on)
}

fn with_progress() -> PharoSettings {
    PharoSettings { progress_interval: Duration::from_millis(20), ..settings() }
}

/// Closes a connection, and waits until the other side has closed it, too.
async fn hang_up(mut stream: TcpStream) {
    stream.shutdown().await.expect("a connection");
    let mut rest = Vec::new();
    let _ = soon("the other side closes", stream.read_to_end(&mut rest)).await;
}

/// Returns everything up to the end of the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    soon("the connection ends", stream.read_to_end(&mut bytes)).await.expect("a connection");
    String::from_utf8(bytes).expect("UTF-8")
}

#[tokio::test]
async fn progress_increases_and_ends_with_the_reply() {
    for token in [json!("t\"1"), json!(12345678901234567890_u64)] {
        let (image, go_on) = waiting_image().await;
        let mut client = StdioClient::to(server(image.port(), with_progress()));
        client.send(&with_token(eval("call"), token.clone())).await;
        let mut last = 0;
        for _ in 0..3 {
            let said = client.next().await;
            assert_eq!(said["method"], "notifications/progress");
            assert_eq!(said["params"]["progressToken"], token);
            let message = said["params"]["message"].as_str().expect("a message");
            assert!(message.starts_with("eval has been running in the image for "), "{message}");
            let progress = said["params"]["progress"].as_u64().expect("a number");
            assert!(progress > last, "{progress} after {last}");
            last = progress;
        }
        go_on.add_permits(1);
        let mut messages = Vec::new();
        while messages.last().is_none_or(|message: &Value| message.get("id").is_none()) {
            messages.push(client.next().await);
        }
        let answer = messages.pop().unwrap();
        assert_eq!((answer["id"].as_str(), text(&answer)), (Some("call"), "7"));
        let numbers = messages.iter().map(|message| message["params"]["progress"].as_u64().expect("a number"));
        assert!(numbers.clone().zip(numbers.skip(1)).all(|(one, next)| one < next));
        // No further progress is sent.
        tokio::time::sleep(with_progress().progress_interval * 3).await;
        assert_eq!(client.end().await, [] as [Value; 0]);
    }
}

#[tokio::test]
async fn without_a_token_no_progress_is_sent() {
    let (image, go_on) = waiting_image().await;
    let mut client = StdioClient::to(server(image.port(), with_progress()));
    client.send(&eval("quiet")).await;
    client.send(&with_token(eval("loud"), "t")).await;
    image.wait_for_requests(2).await;
    for _ in 0..3 {
        assert_eq!(client.next().await["params"]["progressToken"], "t");
    }
    go_on.add_permits(2);
    for message in client.end().await {
        assert!(message.get("id").is_some() || message["params"]["progressToken"] == "t", "{message}");
    }
}

#[tokio::test]
async fn http_progress_is_sent_as_events_before_the_reply() {
    let (image, go_on) = waiting_image().await;
    let web = TestHttpServer::to(server(image.port(), with_progress())).await;
    for (at, message) in [with_token(eval(1), "t"), as_stateless(with_token(eval(1), "t"))].iter().enumerate() {
        let mut stream = web.begin(message, &[]).await;
        image.wait_for_requests(at + 1).await;
        let mut seen = String::new();
        while seen.matches("notifications/progress").count() < 3 {
            let mut bytes = [0; 4096];
            let read = soon("an event", stream.read(&mut bytes)).await.expect("an open connection");
            seen.push_str(std::str::from_utf8(&bytes[..read]).expect("UTF-8"));
        }
        assert!(seen.to_ascii_lowercase().contains("content-type: text/event-stream"), "{seen}");
        go_on.add_permits(1);
        seen.push_str(&rest(stream).await);
        let events: Vec<Value> = seen
            .lines()
            .filter_map(|line| line.strip_prefix("data: "))
            .map(|data| serde_json::from_str(data).unwrap())
            .collect();
        let (answer, progress) = events.split_last().expect("events");
        assert_eq!(text(answer), "7");
        let numbers: Vec<u64> = progress.iter().map(|event| event["params"]["progress"].as_u64().unwrap()).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "{numbers:?}");
    }
}

#[tokio::test]
async fn cancelled_call_gets_no_reply_and_its_connection_is_closed() {
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let mut client = StdioClient::of(&image);
    for (at, message) in [eval("a"), as_stateless(eval("a")), with_token(eval("a"), "t")].iter().enumerate() {
        client.send(message).await;
        image.wait_for_requests(at + 1).await;
        // An id of another type and an unknown id have no effect.
        client.send(&cancelled(1)).await;
        client.send(&cancelled("b")).await;
        assert_eq!(client.ask(&request(7, "ping", json!({}))).await["id"], 7);
        assert_eq!(image.disconnects(), at);
        client.send(&cancelled("a")).await;
        image.wait_for_disconnects(at + 1).await;
    }
    image.set_script(success("7"));
    assert_eq!(text(&client.ask(&eval("a")).await), "7", "the id is free again");
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn cancellation_right_after_its_call_is_not_lost() {
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let mut client = StdioClient::of(&image);
    client
        .send_raw(format!("{}\n{}\n{}\n", eval("a"), cancelled("a"), request("p", "ping", json!({}))).as_bytes())
        .await;
    assert_eq!(client.next().await["id"], "p");
    // The end of the input waits for running calls: there are none left.
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn call_cancelled_too_late_gets_its_reply() {
    let image = FakeImage::doing(success("7")).await;
    let mut client = StdioClient::of(&image);
    client.ask(&eval("a")).await;
    client.send(&cancelled("a")).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled"})).await;
    assert_eq!(text(&client.ask(&eval("a")).await), "7");
}

#[tokio::test]
async fn calls_end_after_a_grace_period_when_the_input_ends() {
    let (image, go_on) = waiting_image().await;
    let mut client = StdioClient::of(&image);
    client.send(&eval("quick")).await;
    image.wait_for_requests(1).await;
    go_on.add_permits(1);
    let rest = client.end().await;
    assert_eq!(rest.len(), 1, "what ends in time is answered");

    let hasty = PharoSettings { call_drain_timeout: Duration::from_millis(50), ..settings() };
    let mut client = StdioClient::to(server(image.port(), hasty));
    client.send(&eval("slow")).await;
    image.wait_for_requests(2).await;
    assert_eq!(client.end().await, [] as [Value; 0]);
    image.wait_for_disconnects(1).await;
}

#[tokio::test]
async fn server_ends_if_the_client_does_not_read_after_its_input_ended() {
    let image = FakeImage::doing(success(&format!("\"{}\"", "x".repeat(100_000)))).await;
    for calls in [1, 70] {
        let hasty = PharoSettings {
            call_drain_timeout: Duration::from_millis(50),
            output_drain_timeout: Duration::from_millis(50),
            ..settings()
        };
        let mut client = StdioClient::to(server(image.port(), hasty));
        for id in 0..calls {
            client.send(&eval(id)).await;
        }
        soon("the server ends", client.leave_unread()).await;
    }
}

#[tokio::test]
async fn http_session_cancels_only_its_own_call() {
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let web = TestHttpServer::of(&image).await;
    let (mine, other) = (web.session().await, web.session().await);
    assert_ne!(mine, other);
    for (at, message) in [eval("a"), with_token(eval("a"), "t")].iter().enumerate() {
        let stream = web.begin(message, &[("mcp-session-id", &mine)]).await;
        image.wait_for_requests(at + 1).await;
        for headers in [&[("mcp-session-id", other.as_str())][..], &[]] {
            assert_eq!(web.post(&cancelled("a"), headers).await.status, 202);
        }
        assert_eq!(web.post(&cancelled("b"), &[("mcp-session-id", &mine)]).await.status, 202);
        // It is in progress, so its id is taken.
        assert_eq!(web.post(&eval("a"), &[("mcp-session-id", &mine)]).await.code(), -32600);
        assert_eq!(image.disconnects(), at);
        assert_eq!(web.post(&cancelled("a"), &[("mcp-session-id", &mine)]).await.status, 202);
        image.wait_for_disconnects(at + 1).await;
        let rest = rest(stream).await;
        assert!(!rest.contains("\"id\""), "{rest}");
    }
}

#[tokio::test]
async fn two_sessions_may_use_the_same_id_at_once() {
    let (image, go_on) = waiting_image().await;
    let web = TestHttpServer::of(&image).await;
    let (one, other) = (web.session().await, web.session().await);
    let first = web.begin(&eval(1), &[("mcp-session-id", &one)]).await;
    let second = web.begin(&eval(1), &[("mcp-session-id", &other)]).await;
    image.wait_for_requests(2).await;
    let again = web.post(&eval(1), &[("mcp-session-id", &one)]).await;
    assert_eq!(again.code(), -32600, "the same one may not");
    go_on.add_permits(2);
    for stream in [first, second] {
        assert!(rest(stream).await.contains(r#""text":"7""#));
    }
}

#[tokio::test]
async fn ending_a_session_cancels_its_calls() {
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let web = TestHttpServer::of(&image).await;
    let (mine, other) = (web.session().await, web.session().await);
    let _one = web.begin(&eval(1), &[("mcp-session-id", &mine)]).await;
    let _two = web.begin(&eval(2), &[("mcp-session-id", &mine)]).await;
    let _three = web.begin(&eval(1), &[("mcp-session-id", &other)]).await;
    image.wait_for_requests(3).await;
    assert_eq!(web.plain("DELETE", &[("mcp-session-id", &mine)]).await.status, 204);
    image.wait_for_disconnects(2).await;
    assert_eq!(web.post(&request(9, "ping", json!({})), &[]).await.status, 200);
    assert_eq!(image.disconnects(), 2, "the other session's goes on");
}

#[tokio::test]
async fn stateless_client_cancels_by_disconnecting() {
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let web = TestHttpServer::of(&image).await;
    for (at, message) in [as_stateless(eval(1)), as_stateless(with_token(eval(1), "t"))].iter().enumerate() {
        let stream = web.begin(message, &[]).await;
        image.wait_for_requests(at + 1).await;
        drop(stream);
        image.wait_for_disconnects(at + 1).await;
    }
}

#[tokio::test]
async fn stateful_call_outlives_its_connection() {
    let (image, go_on) = waiting_image().await;
    let web = TestHttpServer::of(&image).await;
    let session = web.session().await;
    for (at, message) in [eval("a"), with_token(eval("a"), "t")].iter().enumerate() {
        let stream = web.begin(message, &[("mcp-session-id", &session)]).await;
        image.wait_for_requests(at + 1).await;
        hang_up(stream).await;
        // It is still in progress after the server noticed the disconnect: its id is taken.
        assert_eq!(web.post(&eval("a"), &[("mcp-session-id", &session)]).await.code(), -32600);
        assert_eq!(image.disconnects(), 0);
        go_on.add_permits(1);
        let free = async {
            while web
                .post(&request("a", "ping", json!({})), &[("mcp-session-id", &session)])
                .await
                .body
                .contains("error")
            {}
        };
        soon("it ends", free).await;
    }
    assert_eq!(image.disconnects(), 0);
}

#[tokio::test]
async fn more_than_64_requests_at_once_are_refused_and_not_sent() {
    let (image, go_on) = waiting_image().await;
    let mut client = StdioClient::of(&image);
    for id in 0..64 {
        client.send(&eval(id)).await;
    }
    image.wait_for_requests(64).await;
    let refused = client.ask(&eval(64)).await;
    assert_eq!((refused["id"].as_i64(), code(&refused)), (Some(64), -32603));
    assert_eq!(refused["error"]["message"], "too many requests are in progress; try again later");
    client.send(&cancelled(0)).await;
    image.wait_for_disconnects(1).await;
    image.set_script(success("8"));
    assert_eq!(text(&client.ask(&eval(65)).await), "8", "there is room again");
    go_on.add_permits(63);
    let mut ids: Vec<i64> = client.end().await.iter().map(|answer| answer["id"].as_i64().unwrap()).collect();
    ids.sort_unstable();
    assert_eq!(ids, (1..64).collect::<Vec<_>>());
    assert_eq!(image.asked().len(), 65);
}

#[tokio::test]
async fn more_than_64_requests_at_once_are_refused_over_http_too() {
    let (image, _go_on) = waiting_image().await;
    let web = TestHttpServer::of(&image).await;
    let mut streams = Vec::new();
    for id in 0..64 {
        streams.push(web.begin(&as_stateless(eval(id)), &[]).await);
    }
    image.wait_for_requests(64).await;
    for message in [as_stateless(eval(64)), eval(64), as_stateless(with_token(eval(64), "t"))] {
        let refused = web.post(&message, &[]).await;
        assert_eq!((refused.status, refused.code()), (503, -32603));
    }
    drop(streams);
    image.wait_for_disconnects(64).await;
    assert_eq!(image.asked().len(), 64);
}

#[tokio::test]
async fn subscriptions_have_a_limit_of_their_own_and_do_not_block_calls() {
    let image = FakeImage::doing(success("7")).await;
    let mut client = StdioClient::of(&image);
    let listen = |id: i64| as_stateless(request(id, "subscriptions/listen", json!({"notifications": {}})));
    for id in 0..64 {
        assert_eq!(client.ask(&listen(id)).await["method"], "notifications/subscriptions/acknowledged");
    }
    assert_eq!(code(&client.ask(&listen(64)).await), -32603);
    assert_eq!(text(&client.ask(&eval(65)).await), "7");
    client.send(&cancelled(0)).await;
    assert_eq!(text(&client.ask(&eval(66)).await), "7");
    assert_eq!(client.ask(&listen(67)).await["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 67);
}

#[tokio::test]
async fn http_slot_is_released_when_the_reply_is_read() {
    let big = success(&format!("\"{}\"", "x".repeat(600_000)));
    let image =
        FakeImage::start(move |asked| if asked.line.contains("/eval") { big.clone() } else { vec![Step::Stall] }).await;
    for message in [as_stateless(eval(1)), eval(1), as_stateless(with_token(eval(1), "t")), with_token(eval(1), "t")] {
        let web = TestHttpServer::narrow(server(image.port(), settings()));
        let before = image.asked().len();
        let mut streams = Vec::new();
        for id in 0..62 {
            streams.push(web.begin(&as_stateless(call(id, "list_packages", json!({}))), &[]).await);
        }
        let (one, other) = (web.begin_narrow(&message).await, web.begin_narrow(&message).await);
        image.wait_for_requests(before + 64).await;
        // Both replies are sent and not read.
        for stream in [&one, &other] {
            soon("an answer begins", stream.readable()).await.expect("a connection");
        }
        assert_eq!(web.post(&message, &[]).await.status, 503, "{message}");
        let answer = rest(one).await;
        assert!(answer.len() > 1_200_000, "{} bytes", answer.len());
        let free = async { while web.post(&request(2, "ping", json!({})), &[]).await.status != 200 {} };
        soon("there is room again", free).await;
    }
}

#[tokio::test]
async fn duplicate_id_is_refused_and_the_first_request_continues() {
    let (image, go_on) = waiting_image().await;
    let mut client = StdioClient::of(&image);
    client.send(&eval(1)).await;
    image.wait_for_requests(1).await;
    let refused = client.ask(&call(1, "list_packages", json!({}))).await;
    assert_eq!(code(&refused), -32600);
    assert_eq!(refused["error"]["message"], "a request with this id is in progress");
    go_on.add_permits(1);
    assert_eq!(text(&client.next().await), "7");
    assert_eq!(image.lines(), ["POST /eval HTTP/1.1"]);
}

#[tokio::test]
async fn client_that_does_not_read_cannot_accumulate_replies() {
    let big = format!("\"{}\"", "x".repeat(100_000));
    let image = FakeImage::doing(success(&big)).await;
    let mut client = StdioClient::of(&image);
    // The pipe holds no complete reply, the queue 64, and 64 more may be in progress; then the image gets no further
    // requests.
    for id in 0..200 {
        client.send(&eval(id)).await;
        if tokio::time::timeout(Duration::from_secs(1), image.wait_for_requests(id + 1)).await.is_err() {
            break;
        }
    }
    assert!((128..=130).contains(&image.asked().len()), "{} were asked", image.asked().len());
}
