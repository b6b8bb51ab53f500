//! Standard streams: both eras on one process, and whatever else may stand on a line.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{FakeImage, Lines, cancelled, code, eval, initialize, modern, request, text};
use serde_json::{Value, json};

async fn client() -> Lines {
    Lines::of(&FakeImage::answering(r#"{"success":true,"result":7}"#).await)
}

#[tokio::test]
async fn each_revision_with_a_handshake_is_spoken_as_it_is_asked_for() {
    let mut client = client().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let answer = client.ask(&initialize(revision)).await;
        let result = &answer["result"];
        assert_eq!(result["protocolVersion"], revision);
        assert_eq!(result["capabilities"], json!({"tools": {}}));
        assert_eq!(result["serverInfo"]["name"], "pharo-smalltalk-interop");
        assert_eq!(result["serverInfo"]["version"], env!("CARGO_PKG_VERSION"));
        assert!(result["instructions"].as_str().is_some_and(|text| !text.is_empty()));
    }
}

#[tokio::test]
async fn a_handshake_of_an_unknown_revision_is_offered_the_newest_that_has_one() {
    let mut client = client().await;
    for revision in ["2023-01-01", "2099-01-01", "2026-07-28", "", "x"] {
        assert_eq!(client.ask(&initialize(revision)).await["result"]["protocolVersion"], "2025-11-25", "{revision}");
    }
    let answer = client.ask(&request(1, "initialize", json!({}))).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn a_client_with_a_handshake_is_served() {
    let mut client = client().await;
    client.ask(&initialize("2025-06-18")).await;
    client.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    assert_eq!(client.ask(&request(1, "ping", json!({}))).await, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
    assert_eq!(
        client.ask(&request(2, "tools/list", json!({}))).await["result"]["tools"].as_array().map(Vec::len),
        Some(22)
    );
    assert_eq!(text(&client.ask(&eval(3)).await), "7");
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_stateless_client_discovers_what_is_spoken() {
    let mut client = client().await;
    let answer = client.ask(&modern(request(1, "server/discover", json!({})))).await;
    let result = &answer["result"];
    assert_eq!(
        result["supportedVersions"],
        json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
    );
    assert_eq!(result["capabilities"], json!({"tools": {}}));
    assert_eq!(result["resultType"], "complete");
    assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "pharo-smalltalk-interop");
}

#[tokio::test]
async fn both_eras_are_spoken_on_one_process() {
    let mut client = client().await;
    client.ask(&initialize("2025-11-25")).await;
    assert_eq!(client.ask(&modern(eval(1))).await["result"]["resultType"], "complete");
    assert_eq!(client.ask(&eval(2)).await["result"].get("resultType"), None);
}

#[tokio::test]
async fn methods_of_the_other_era_and_of_nobody_are_unknown() {
    let mut client = client().await;
    for message in [
        request(1, "server/discover", json!({})),
        request(1, "subscriptions/listen", json!({"notifications": {}})),
        modern(request(1, "resources/list", json!({}))),
        modern(request(1, "prompts/list", json!({}))),
        request(1, "resources/read", json!({"uri": "a:b"})),
        request(1, "no/such", json!({})),
        modern(request(1, "initialize", json!({}))),
        modern(request(1, "ping", json!({}))),
        modern(request(1, "no/such", json!({}))),
    ] {
        let answer = client.ask(&message).await;
        assert_eq!((code(&answer), &answer["id"]), (-32601, &json!(1)), "{message}");
    }
}

#[tokio::test]
async fn a_stateless_request_says_its_revision_and_capabilities() {
    let mut client = client().await;
    let mut without = modern(eval(1));
    without["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    assert_eq!(code(&client.ask(&without).await), -32602);
    let mut named = modern(eval(1));
    named["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let answer = client.ask(&named).await;
    assert_eq!(code(&answer), -32022);
    assert_eq!(answer["error"]["data"]["supported"][0], "2026-07-28");
    // One that names a revision with a handshake is of that.
    named["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2025-06-18");
    let answer = client.ask(&named).await;
    assert_eq!((text(&answer), answer["result"].get("resultType")), ("7", None));
}

#[tokio::test]
async fn a_client_that_asks_for_what_nobody_offers_gets_empty_lists() {
    let mut client = client().await;
    client.ask(&initialize("2025-06-18")).await;
    for (method, member) in [
        ("resources/list", "resources"),
        ("resources/templates/list", "resourceTemplates"),
        ("prompts/list", "prompts"),
    ] {
        assert_eq!(client.ask(&request(1, method, json!({}))).await["result"], json!({ member: [] }));
    }
}

#[tokio::test]
async fn a_subscription_is_acknowledged_and_ends_with_the_input_at_once() {
    let mut client = client().await;
    let listen = modern(request("sub", "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})));
    let said = client.ask(&listen).await;
    assert_eq!(said["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub");
    assert_eq!(said["params"]["notifications"], json!({}));
    assert_eq!(text(&client.ask(&modern(eval(1))).await), "7", "calls go on beside it");
    // Without the time that calls have.
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_subscription_can_be_cancelled_and_its_id_used_again() {
    let mut client = client().await;
    let listen = modern(request("sub", "subscriptions/listen", json!({"notifications": {}})));
    client.ask(&listen).await;
    assert_eq!(code(&client.ask(&listen).await), -32600);
    client.send(&cancelled("sub")).await;
    client.ask(&request(0, "ping", json!({}))).await;
    assert_eq!(client.ask(&listen).await["method"], "notifications/subscriptions/acknowledged");
}

#[tokio::test]
async fn what_is_no_message_is_answered_and_the_next_line_works() {
    let mut client = client().await;
    for (line, expected) in [
        ("garbage", -32700),
        ("{\"jsonrpc\":\"2.0\",\"id\":1", -32700),
        ("7", -32600),
        ("null", -32600),
        ("{}", -32600),
        ("[]", -32600),
        ("{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"ping\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"ping\"}", -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\",\"params\":[]}", -32602),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", -32600),
        (
            "{\"jsonrpc\":\"2.0\",\"method\":\"tools/call\",\"params\":{\"name\":\"eval\",\"arguments\":{\"code\":\"1\"}}}",
            -32600,
        ),
    ] {
        client.send_raw(format!("{line}\n").as_bytes()).await;
        let answer = client.next().await;
        assert_eq!(code(&answer), expected, "{line}: {answer}");
        assert_eq!(client.ask(&request("p", "ping", json!({}))).await["id"], "p");
    }
    client.send_raw(b"\xff\xfe\n").await;
    assert_eq!(code(&client.next().await), -32700);
}

#[tokio::test]
async fn a_batch_is_refused_and_nothing_of_it_is_sent() {
    let image = FakeImage::answering(r#"{"success":true,"result":7}"#).await;
    let mut client = Lines::of(&image);
    client.send_raw(format!("[{},{}]\n", eval(1), eval(2)).as_bytes()).await;
    assert_eq!(code(&client.next().await), -32600);
    assert_eq!(client.end().await, [] as [Value; 0]);
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn empty_lines_and_windows_line_ends_do_no_harm() {
    let mut client = client().await;
    client.send_raw(format!("\n  \r\n{}\r\n\n", request(1, "ping", json!({}))).as_bytes()).await;
    assert_eq!(client.next().await["id"], 1);
    // The last line may end with the input.
    client.send_raw(request(2, "ping", json!({})).to_string().as_bytes()).await;
    assert_eq!(client.end().await, [json!({"jsonrpc": "2.0", "id": 2, "result": {}})]);
}

#[tokio::test]
async fn what_wants_no_answer_gets_none() {
    let mut client = client().await;
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
        json!({"jsonrpc": "2.0", "method": "notifications/of/some/later/revision", "params": {"a": 1}}),
        json!({"jsonrpc": "2.0", "id": 5, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 5, "error": {"code": 1, "message": "m"}}),
    ] {
        client.send(&message).await;
    }
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn a_line_that_is_too_long_is_answered_once_and_the_next_works() {
    const MOST: usize = 4 << 20;
    let mut client = client().await;
    for length in [MOST + 1, MOST + 2, 2 * MOST + 2, 3 * MOST + 7] {
        client.send_raw(&[vec![b'x'; length], vec![b'\n']].concat()).await;
        let answer = client.next().await;
        assert_eq!(code(&answer), -32600, "{length}");
        assert_eq!(answer["id"], Value::Null);
        assert_eq!(client.ask(&request(1, "ping", json!({}))).await["id"], 1, "{length}");
    }
    // As long as can be.
    let ping = request(1, "ping", json!({})).to_string();
    client.send_raw(format!("{}{ping}\n", " ".repeat(MOST - ping.len())).as_bytes()).await;
    assert_eq!(client.next().await["result"], json!({}));
    // One that never ends.
    client.send_raw(&vec![b'x'; MOST + 5]).await;
    let rest = client.end().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(code(&rest[0]), -32600);
}
