//! Stdio transport: both protocol generations in one process, and invalid lines.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{FakeImage, StdioClient, as_stateless, cancelled, code, eval, initialize, request, text};
use serde_json::{Value, json};

async fn client() -> StdioClient {
    StdioClient::of(&FakeImage::answering(r#"{"success":true,"result":7}"#).await)
}

#[tokio::test]
async fn each_stateful_revision_is_negotiated_as_requested() {
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
async fn unknown_revision_negotiates_the_newest_stateful_one() {
    let mut client = client().await;
    for revision in ["2023-01-01", "2099-01-01", "2026-07-28", "", "x"] {
        assert_eq!(client.ask(&initialize(revision)).await["result"]["protocolVersion"], "2025-11-25", "{revision}");
    }
    let answer = client.ask(&request(1, "initialize", json!({}))).await;
    assert_eq!(answer["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn stateful_client_is_served() {
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
async fn stateless_client_discovers_the_supported_revisions() {
    let mut client = client().await;
    let answer = client.ask(&as_stateless(request(1, "server/discover", json!({})))).await;
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
async fn one_process_serves_both_protocol_generations() {
    let mut client = client().await;
    client.ask(&initialize("2025-11-25")).await;
    assert_eq!(client.ask(&as_stateless(eval(1))).await["result"]["resultType"], "complete");
    assert_eq!(client.ask(&eval(2)).await["result"].get("resultType"), None);
}

#[tokio::test]
async fn methods_of_the_other_generation_and_unknown_ones_are_refused() {
    let mut client = client().await;
    for message in [
        request(1, "server/discover", json!({})),
        request(1, "subscriptions/listen", json!({"notifications": {}})),
        as_stateless(request(1, "resources/list", json!({}))),
        as_stateless(request(1, "prompts/list", json!({}))),
        request(1, "resources/read", json!({"uri": "a:b"})),
        request(1, "no/such", json!({})),
        as_stateless(request(1, "initialize", json!({}))),
        as_stateless(request(1, "ping", json!({}))),
        as_stateless(request(1, "no/such", json!({}))),
    ] {
        let answer = client.ask(&message).await;
        assert_eq!((code(&answer), &answer["id"]), (-32601, &json!(1)), "{message}");
    }
}

#[tokio::test]
async fn stateless_request_requires_revision_and_capabilities() {
    let mut client = client().await;
    let mut without = as_stateless(eval(1));
    without["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    assert_eq!(code(&client.ask(&without).await), -32602);
    let mut named = as_stateless(eval(1));
    named["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let answer = client.ask(&named).await;
    assert_eq!(code(&answer), -32022);
    assert_eq!(answer["error"]["data"]["supported"][0], "2026-07-28");
    // A request that names a stateful revision is stateful.
    named["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2025-06-18");
    let answer = client.ask(&named).await;
    assert_eq!((text(&answer), answer["result"].get("resultType")), ("7", None));
}

#[tokio::test]
async fn lists_of_unsupported_features_are_empty() {
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
async fn subscription_is_acknowledged_and_ends_with_the_input() {
    let mut client = client().await;
    let listen =
        as_stateless(request("sub", "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})));
    let said = client.ask(&listen).await;
    assert_eq!(said["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub");
    assert_eq!(said["params"]["notifications"], json!({}));
    assert_eq!(text(&client.ask(&as_stateless(eval(1))).await), "7", "calls still work");
    // Without the time that calls have.
    assert_eq!(client.end().await, [] as [Value; 0]);
}

#[tokio::test]
async fn subscription_can_be_cancelled_and_its_id_reused() {
    let mut client = client().await;
    let listen = as_stateless(request("sub", "subscriptions/listen", json!({"notifications": {}})));
    client.ask(&listen).await;
    assert_eq!(code(&client.ask(&listen).await), -32600);
    client.send(&cancelled("sub")).await;
    client.ask(&request(0, "ping", json!({}))).await;
    assert_eq!(client.ask(&listen).await["method"], "notifications/subscriptions/acknowledged");
}

#[tokio::test]
async fn invalid_line_gets_an_error_and_the_next_line_works() {
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
async fn batch_is_refused_and_nothing_is_sent() {
    let image = FakeImage::answering(r#"{"success":true,"result":7}"#).await;
    let mut client = StdioClient::of(&image);
    client.send_raw(format!("[{},{}]\n", eval(1), eval(2)).as_bytes()).await;
    assert_eq!(code(&client.next().await), -32600);
    assert_eq!(client.end().await, [] as [Value; 0]);
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn empty_lines_and_windows_line_ends_are_accepted() {
    let mut client = client().await;
    client.send_raw(format!("\n  \r\n{}\r\n\n", request(1, "ping", json!({}))).as_bytes()).await;
    assert_eq!(client.next().await["id"], 1);
    // The last line may end with the input.
    client.send_raw(request(2, "ping", json!({})).to_string().as_bytes()).await;
    assert_eq!(client.end().await, [json!({"jsonrpc": "2.0", "id": 2, "result": {}})]);
}

#[tokio::test]
async fn notifications_and_responses_get_no_reply() {
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
async fn overlong_line_gets_one_error_and_the_next_line_works() {
    const MAX_LINE_BYTES: usize = 4 << 20;
    let mut client = client().await;
    for length in [MAX_LINE_BYTES + 1, MAX_LINE_BYTES + 2, 2 * MAX_LINE_BYTES + 2, 3 * MAX_LINE_BYTES + 7] {
        client.send_raw(&[vec![b'x'; length], vec![b'\n']].concat()).await;
        let answer = client.next().await;
        assert_eq!(code(&answer), -32600, "{length}");
        assert_eq!(answer["id"], Value::Null);
        assert_eq!(client.ask(&request(1, "ping", json!({}))).await["id"], 1, "{length}");
    }
    // A line of the maximum length.
    let ping = request(1, "ping", json!({})).to_string();
    client.send_raw(format!("{}{ping}\n", " ".repeat(MAX_LINE_BYTES - ping.len())).as_bytes()).await;
    assert_eq!(client.next().await["result"], json!({}));
    // A line without an end.
    client.send_raw(&vec![b'x'; MAX_LINE_BYTES + 5]).await;
    let rest = client.end().await;
    assert_eq!(rest.len(), 1);
    assert_eq!(code(&rest[0]), -32600);
}
