//! Calls under way: progress, cancellation, and how many there may be.
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
    FakeImage, Lines, Script, Step, Web, call, cancelled, code, eval, modern, request, server, settings, soon, success,
    text, with_token,
};
use gatelodge_pharo::Settings;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// An image that answers once it is let go on.
async fn waiting_image() -> (FakeImage, Arc<Semaphore>) {
    let go_on = Arc::new(Semaphore::new(0));
    let waits: Script = [Step::Wait(Arc::clone(&go_on))].into_iter().chain(success("7")).collect();
    (FakeImage::doing(waits).await, go_on)
}

fn with_beat() -> Settings {
    Settings { beat: Duration::from_millis(20), ..settings() }
}

/// Closes a connection, and waits until the other side has closed it too.
async fn hang_up(mut stream: TcpStream) {
    stream.shutdown().await.expect("a connection");
    let mut rest = Vec::new();
    let _ = soon("the other side closes", stream.read_to_end(&mut rest)).await;
}

/// Everything that comes until the other side closes.
async fn rest(mut stream: TcpStream) -> String {
    let mut bytes = Vec::new();
    soon("the connection ends", stream.read_to_end(&mut bytes)).await.expect("a connection");
    String::from_utf8(bytes).expect("UTF-8")
}

#[tokio::test]
async fn progress_grows_under_its_own_token_and_ends_with_the_answer() {
    for token in [json!("t\"1"), json!(12345678901234567890_u64)] {
        let (image, go_on) = waiting_image().await;
        let mut client = Lines::to(server(image.port(), with_beat()));
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
        // A beat later there is still nothing.
        tokio::time::sleep(with_beat().beat * 3).await;
        assert_eq!(client.end().await, [] as [Value; 0]);
    }
}

#[tokio::test]
async fn without_a_token_nobody_hears_of_progress() {
    let (image, go_on) = waiting_image().await;
    let mut client = Lines::to(server(image.port(), with_beat()));
    client.send(&eval("quiet")).await;
    client.send(&with_token(eval("loud"), "t")).await;
    image.is_asked(2).await;
    for _ in 0..3 {
        assert_eq!(client.next().await["params"]["progressToken"], "t");
    }
    go_on.add_permits(2);
    for message in client.end().await {
        assert!(message.get("id").is_some() || message["params"]["progressToken"] == "t", "{message}");
    }
}

#[tokio::test]
async fn progress_over_http_comes_as_events_before_the_answer() {
    let (image, go_on) = waiting_image().await;
    let web = Web::to(server(image.port(), with_beat())).await;
    for (at, message) in [with_token(eval(1), "t"), modern(with_token(eval(1), "t"))].iter().enumerate() {
        let mut stream = web.begin(message, &[]).await;
        image.is_asked(at + 1).await;
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
async fn a_cancelled_call_is_not_answered_and_its_connection_is_closed() {
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let mut client = Lines::of(&image);
    for (at, message) in [eval("a"), modern(eval("a")), with_token(eval("a"), "t")].iter().enumerate() {
        client.send(message).await;
        image.is_asked(at + 1).await;
        // The id of another type, and one that nobody has, mean nothing.
        client.send(&cancelled(1)).await;
        client.send(&cancelled("b")).await;
        assert_eq!(client.ask(&request(7, "ping", json!({}))).await["id"], 7);
        assert_eq!(image.hung_up(), at);
        client.send(&cancelled("a")).await;
        image.is_left(at + 1).await;
    }
    image.now_does(success("7"));
    assert_eq!(text(&client.ask(&eval("a")).await), "7", "the id is free again");
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_cancellation_right_behind_its_call_is_not_lost() {
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let mut client = Lines::of(&image);
    client
        .send_raw(format!("{}\n{}\n{}\n", eval("a"), cancelled("a"), request("p", "ping", json!({}))).as_bytes())
        .await;
    assert_eq!(client.next().await["id"], "p");
    // The end of the input waits for calls under way: there is none.
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_call_cancelled_too_late_has_its_answer() {
    let image = FakeImage::doing(success("7")).await;
    let mut client = Lines::of(&image);
    client.ask(&eval("a")).await;
    client.send(&cancelled("a")).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {}})).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled"})).await;
    assert_eq!(text(&client.ask(&eval("a")).await), "7");
}

#[tokio::test]
async fn when_the_client_is_done_calls_have_a_little_time_and_then_end() {
    let (image, go_on) = waiting_image().await;
    let mut client = Lines::of(&image);
    client.send(&eval("quick")).await;
    image.is_asked(1).await;
    go_on.add_permits(1);
    let rest = client.end().await;
    assert_eq!(rest.len(), 1, "what ends in time is answered");

    let hasty = Settings { last_calls: Duration::from_millis(50), ..settings() };
    let mut client = Lines::to(server(image.port(), hasty));
    client.send(&eval("slow")).await;
    image.is_asked(2).await;
    assert_eq!(client.end().await, [] as [Value; 0]);
    image.is_left(1).await;
}

#[tokio::test]
async fn a_client_that_is_done_and_does_not_read_is_left() {
    let image = FakeImage::doing(success(&format!("\"{}\"", "x".repeat(100_000)))).await;
    for calls in [1, 70] {
        let hasty =
            Settings { last_calls: Duration::from_millis(50), last_words: Duration::from_millis(50), ..settings() };
        let mut client = Lines::to(server(image.port(), hasty));
        for id in 0..calls {
            client.send(&eval(id)).await;
        }
        soon("the server ends", client.leave_unread()).await;
    }
}

#[tokio::test]
async fn over_http_a_session_cancels_its_own_call_and_no_other() {
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let web = Web::of(&image).await;
    let (mine, other) = (web.session().await, web.session().await);
    assert_ne!(mine, other);
    for (at, message) in [eval("a"), with_token(eval("a"), "t")].iter().enumerate() {
        let stream = web.begin(message, &[("mcp-session-id", &mine)]).await;
        image.is_asked(at + 1).await;
        for headers in [&[("mcp-session-id", other.as_str())][..], &[]] {
            assert_eq!(web.post(&cancelled("a"), headers).await.status, 202);
        }
        assert_eq!(web.post(&cancelled("b"), &[("mcp-session-id", &mine)]).await.status, 202);
        // It is under way: its id is taken.
        assert_eq!(web.post(&eval("a"), &[("mcp-session-id", &mine)]).await.code(), -32600);
        assert_eq!(image.hung_up(), at);
        assert_eq!(web.post(&cancelled("a"), &[("mcp-session-id", &mine)]).await.status, 202);
        image.is_left(at + 1).await;
        let rest = rest(stream).await;
        assert!(!rest.contains("\"id\""), "{rest}");
    }
}

#[tokio::test]
async fn two_sessions_may_use_the_same_id_at_once() {
    let (image, go_on) = waiting_image().await;
    let web = Web::of(&image).await;
    let (one, other) = (web.session().await, web.session().await);
    let first = web.begin(&eval(1), &[("mcp-session-id", &one)]).await;
    let second = web.begin(&eval(1), &[("mcp-session-id", &other)]).await;
    image.is_asked(2).await;
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
    let web = Web::of(&image).await;
    let (mine, other) = (web.session().await, web.session().await);
    let _one = web.begin(&eval(1), &[("mcp-session-id", &mine)]).await;
    let _two = web.begin(&eval(2), &[("mcp-session-id", &mine)]).await;
    let _three = web.begin(&eval(1), &[("mcp-session-id", &other)]).await;
    image.is_asked(3).await;
    assert_eq!(web.plain("DELETE", &[("mcp-session-id", &mine)]).await.status, 204);
    image.is_left(2).await;
    assert_eq!(web.post(&request(9, "ping", json!({})), &[]).await.status, 200);
    assert_eq!(image.hung_up(), 2, "the other session's goes on");
}

#[tokio::test]
async fn a_stateless_caller_cancels_by_hanging_up() {
    let image = FakeImage::doing(vec![Step::Stall]).await;
    let web = Web::of(&image).await;
    for (at, message) in [modern(eval(1)), modern(with_token(eval(1), "t"))].iter().enumerate() {
        let stream = web.begin(message, &[]).await;
        image.is_asked(at + 1).await;
        drop(stream);
        image.is_left(at + 1).await;
    }
}

#[tokio::test]
async fn a_legacy_call_outlives_its_connection() {
    let (image, go_on) = waiting_image().await;
    let web = Web::of(&image).await;
    let session = web.session().await;
    for (at, message) in [eval("a"), with_token(eval("a"), "t")].iter().enumerate() {
        let stream = web.begin(message, &[("mcp-session-id", &session)]).await;
        image.is_asked(at + 1).await;
        hang_up(stream).await;
        // It is still under way after the server has seen the end of the connection: its id is taken.
        assert_eq!(web.post(&eval("a"), &[("mcp-session-id", &session)]).await.code(), -32600);
        assert_eq!(image.hung_up(), 0);
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
    assert_eq!(image.hung_up(), 0);
}

#[tokio::test]
async fn more_than_64_requests_at_once_are_refused_and_not_sent() {
    let (image, go_on) = waiting_image().await;
    let mut client = Lines::of(&image);
    for id in 0..64 {
        client.send(&eval(id)).await;
    }
    image.is_asked(64).await;
    let refused = client.ask(&eval(64)).await;
    assert_eq!((refused["id"].as_i64(), code(&refused)), (Some(64), -32603));
    assert_eq!(refused["error"]["message"], "too many requests are under way; ask again when some have ended");
    client.send(&cancelled(0)).await;
    image.is_left(1).await;
    image.now_does(success("8"));
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
    let web = Web::of(&image).await;
    let mut streams = Vec::new();
    for id in 0..64 {
        streams.push(web.begin(&modern(eval(id)), &[]).await);
    }
    image.is_asked(64).await;
    for message in [modern(eval(64)), eval(64), modern(with_token(eval(64), "t"))] {
        let refused = web.post(&message, &[]).await;
        assert_eq!((refused.status, refused.code()), (503, -32603));
    }
    drop(streams);
    image.is_left(64).await;
    assert_eq!(image.asked().len(), 64);
}

#[tokio::test]
async fn subscriptions_keep_no_call_out_and_have_a_bound_of_their_own() {
    let image = FakeImage::doing(success("7")).await;
    let mut client = Lines::of(&image);
    let listen = |id: i64| modern(request(id, "subscriptions/listen", json!({"notifications": {}})));
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
async fn over_http_a_place_is_given_back_when_the_answer_was_taken() {
    let big = success(&format!("\"{}\"", "x".repeat(600_000)));
    let image =
        FakeImage::start(move |asked| if asked.line.contains("/eval") { big.clone() } else { vec![Step::Stall] }).await;
    for message in [modern(eval(1)), eval(1), modern(with_token(eval(1), "t")), with_token(eval(1), "t")] {
        let web = Web::narrow(server(image.port(), settings()));
        let before = image.asked().len();
        let mut streams = Vec::new();
        for id in 0..62 {
            streams.push(web.begin(&modern(call(id, "list_packages", json!({}))), &[]).await);
        }
        let (one, other) = (web.begin_narrow(&message).await, web.begin_narrow(&message).await);
        image.is_asked(before + 64).await;
        // Both have what they asked for, and have not read it.
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
async fn an_id_that_is_under_way_is_refused_and_the_first_goes_on() {
    let (image, go_on) = waiting_image().await;
    let mut client = Lines::of(&image);
    client.send(&eval(1)).await;
    image.is_asked(1).await;
    let refused = client.ask(&call(1, "list_packages", json!({}))).await;
    assert_eq!(code(&refused), -32600);
    assert_eq!(refused["error"]["message"], "a request with this id is under way");
    go_on.add_permits(1);
    assert_eq!(text(&client.next().await), "7");
    assert_eq!(image.lines(), ["POST /eval HTTP/1.1"]);
}

#[tokio::test]
async fn a_client_that_does_not_read_cannot_pile_up_answers() {
    let big = format!("\"{}\"", "x".repeat(100_000));
    let image = FakeImage::doing(success(&big)).await;
    let mut client = Lines::of(&image);
    // The pipe takes no whole answer, the queue 64, and 64 more may be under way; then nothing more is asked.
    for id in 0..200 {
        client.send(&eval(id)).await;
        if tokio::time::timeout(Duration::from_secs(1), image.is_asked(id + 1)).await.is_err() {
            break;
        }
    }
    assert!((128..=130).contains(&image.asked().len()), "{} were asked", image.asked().len());
}
