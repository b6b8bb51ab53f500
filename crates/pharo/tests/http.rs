//! Streamable HTTP: both protocol generations on one URL, and which clients are accepted.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use common::{FakeImage, TestHttpServer, as_stateless, eval, initialize, request, soon};
use gatelodge_testkit::exchange;
use serde_json::{Value, json};
use tokio::io::AsyncReadExt;

async fn image_and_server() -> (FakeImage, TestHttpServer) {
    let image = FakeImage::answering(r#"{"success":true,"result":7}"#).await;
    let web = TestHttpServer::of(&image).await;
    (image, web)
}

#[tokio::test]
async fn stateful_client_initializes_and_is_served() {
    let (_image, web) = image_and_server().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let hello = web.post(&initialize(revision), &[]).await;
        assert_eq!((hello.status, hello.header("content-type")), (200, Some("application/json")));
        assert_eq!(hello.message()["result"]["protocolVersion"], revision);
        let session = hello.header("mcp-session-id").expect("a session").to_owned();
        assert!(session.len() == 32 && session.bytes().all(|byte| byte.is_ascii_hexdigit()), "{session}");
        let headers = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", revision)];
        let ready = web.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), &headers).await;
        assert_eq!((ready.status, ready.body.as_str()), (202, ""));
        assert_eq!(web.post(&request(1, "ping", json!({})), &headers).await.message()["result"], json!({}));
        let listed = web.post(&request(2, "tools/list", json!({})), &headers).await.message();
        assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(22));
        let called = web.post(&eval(3), &headers).await;
        assert_eq!((called.status, called.text().as_str()), (200, "7"));
        assert_eq!(called.header("mcp-session-id"), None);
    }
    let unknown = web.post(&initialize("2099-01-01"), &[]).await;
    assert_eq!(unknown.message()["result"]["protocolVersion"], "2025-11-25");
}

#[tokio::test]
async fn stateless_client_is_served_without_a_session() {
    let (_image, web) = image_and_server().await;
    let found = web.post(&as_stateless(request(1, "server/discover", json!({}))), &[]).await;
    assert_eq!((found.status, found.header("mcp-session-id")), (200, None));
    assert_eq!(found.message()["result"]["supportedVersions"][0], "2026-07-28");
    let listed = web.post(&as_stateless(request(2, "tools/list", json!({}))), &[]).await.message();
    assert_eq!(listed["result"]["tools"].as_array().map(Vec::len), Some(22));
    let called = web.post(&as_stateless(eval(3)), &[]).await;
    assert_eq!(called.text(), "7");
    assert_eq!(called.message()["result"]["resultType"], "complete");
}

#[tokio::test]
async fn headers_that_contradict_the_body_are_refused_and_not_sent() {
    let (image, web) = image_and_server().await;
    for headers in [
        ("mcp-protocol-version", "2025-11-25"),
        ("mcp-protocol-version", ""),
        ("mcp-method", "tools/list"),
        ("mcp-method", ""),
        ("mcp-name", "list_packages"),
        ("mcp-name", ""),
    ] {
        let answer = web.post(&as_stateless(eval(1)), &[headers]).await;
        assert_eq!((answer.status, answer.code()), (400, -32020), "{headers:?}: {}", answer.body);
        assert_eq!(answer.message()["id"], 1);
    }
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn stateless_request_without_required_members_is_refused() {
    let (image, web) = image_and_server().await;
    let mut without = as_stateless(eval(1));
    without["params"]["_meta"].as_object_mut().unwrap().remove("io.modelcontextprotocol/clientCapabilities");
    let answer = web.post(&without, &[]).await;
    assert_eq!((answer.status, answer.code()), (400, -32602));
    let headers = [("mcp-protocol-version", "2026-07-28"), ("mcp-method", "tools/call"), ("mcp-name", "eval")];
    let answer = web.post(&eval(1), &headers).await;
    assert_eq!((answer.status, answer.code()), (400, -32602));
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn unknown_revision_is_refused_with_the_supported_ones() {
    let (image, web) = image_and_server().await;
    let mut unknown = as_stateless(eval(1));
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2099-01-01");
    let supported = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
    for answer in [web.post(&unknown, &[]).await, web.post(&eval(1), &[("mcp-protocol-version", "2099-01-01")]).await] {
        assert_eq!((answer.status, answer.code()), (400, -32022));
        assert_eq!(answer.message()["error"]["data"]["supported"], supported);
    }
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn unknown_method_is_404_for_stateless_clients_and_200_for_others() {
    let (_image, web) = image_and_server().await;
    for method in ["no/such", "initialize", "ping", "resources/list"] {
        let answer = web.post(&as_stateless(request(1, method, json!({}))), &[]).await;
        assert_eq!((answer.status, answer.code()), (404, -32601), "{method}");
    }
    for method in ["no/such", "server/discover", "subscriptions/listen", "resources/read"] {
        let answer = web.post(&request(1, method, json!({})), &[]).await;
        assert_eq!((answer.status, answer.code()), (200, -32601), "{method}");
        assert_eq!(answer.header("content-type"), Some("application/json"), "{method}");
    }
}

#[tokio::test]
async fn request_that_names_a_stateful_revision_is_stateful() {
    let (_image, web) = image_and_server().await;
    let mut legacy = eval(1);
    legacy["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2025-06-18");
    for headers in [&[][..], &[("mcp-protocol-version", "")]] {
        let answer = web.post(&legacy, headers).await;
        assert_eq!((answer.status, answer.text().as_str()), (200, "7"));
        assert_eq!(answer.message()["result"].get("resultType"), None);
    }
    let answer = web.post(&legacy, &[("mcp-protocol-version", "2026-07-28")]).await;
    assert_eq!((answer.status, answer.code()), (400, -32020));
}

#[tokio::test]
async fn notifications_and_responses_are_accepted_if_their_revision_is_supported() {
    let (_image, web) = image_and_server().await;
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/of/some/later/revision", "params": {"a": 1}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "m"}}),
    ] {
        for headers in [&[][..], &[("mcp-protocol-version", "2025-11-25")], &[("mcp-protocol-version", "2026-07-28")]] {
            let answer = web.post(&message, headers).await;
            assert_eq!((answer.status, answer.body.as_str()), (202, ""), "{message} {headers:?}");
        }
        let answer = web.post(&message, &[("mcp-protocol-version", "2099-01-01")]).await;
        assert_eq!((answer.status, answer.code()), (400, -32022), "{message}");
    }
}

#[tokio::test]
async fn preflight_of_a_local_page_is_not_allowed() {
    let (image, web) = image_and_server().await;
    let page = ("origin", "http://localhost:3000");
    let asks = [("access-control-request-method", "POST"), ("access-control-request-headers", "content-type")];
    let answer = web.plain("OPTIONS", &[page, asks[0], asks[1]]).await;
    assert_eq!(answer.status, 405);
    for answer in [answer, web.post(&eval(1), &[page]).await, web.plain("GET", &[page]).await] {
        let names: Vec<&str> = answer.headers.iter().map(|(name, _)| name.as_str()).collect();
        assert!(!names.iter().any(|name| name.starts_with("access-control-")), "{names:?}");
    }
    assert_eq!(image.lines().len(), 1);
}

#[tokio::test]
async fn subscription_is_acknowledged_and_stays_open() {
    let (_image, web) = image_and_server().await;
    let listen =
        as_stateless(request("sub", "subscriptions/listen", json!({"notifications": {"toolsListChanged": true}})));
    let mut stream = web.begin(&listen, &[]).await;
    let mut seen = String::new();
    while !seen.contains("acknowledged") {
        let mut bytes = [0; 4096];
        let read = soon("an event", stream.read(&mut bytes)).await.expect("an open connection");
        assert_ne!(read, 0, "{seen}");
        seen.push_str(std::str::from_utf8(&bytes[..read]).expect("UTF-8"));
    }
    let data = seen.lines().find_map(|line| line.strip_prefix("data: ")).expect("an event");
    let said: Value = serde_json::from_str(data).expect("JSON");
    assert_eq!(said["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], "sub");
    assert_eq!(web.post(&as_stateless(eval(1)), &[]).await.text(), "7", "calls still work");
}

#[tokio::test]
async fn get_is_not_allowed_and_unknown_sessions_are_served() {
    let (_image, web) = image_and_server().await;
    let get = web.plain("GET", &[("accept", "text/event-stream")]).await;
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    for verb in ["PUT", "HEAD", "OPTIONS", "PATCH"] {
        assert_eq!(web.plain(verb, &[]).await.status, 405, "{verb}");
    }
    assert_eq!(web.plain("DELETE", &[]).await.status, 405);
    let session = web.session().await;
    for _ in 0..2 {
        assert_eq!(web.plain("DELETE", &[("mcp-session-id", &session)]).await.status, 204);
    }
    let stateless = [("mcp-session-id", session.as_str()), ("mcp-protocol-version", "2026-07-28")];
    assert_eq!(web.plain("DELETE", &stateless).await.status, 405);
    for other in ["g".repeat(32), "A".repeat(32), "0".repeat(31)] {
        assert_eq!(web.plain("DELETE", &[("mcp-session-id", &other)]).await.status, 405, "{other}");
    }
    // A session id that was never issued is accepted: a session has no state.
    let answer = web.post(&eval(1), &[("mcp-session-id", &"0".repeat(32))]).await;
    assert_eq!(answer.text(), "7");
}

#[tokio::test]
async fn page_of_another_origin_is_refused_and_nothing_is_sent() {
    let (image, web) = image_and_server().await;
    for origin in ["http://evil.example", "null", "https://localhost.evil.example", "file://"] {
        for message in [eval(1), as_stateless(eval(1)), initialize("2025-11-25")] {
            let answer = web.post(&message, &[("origin", origin)]).await;
            assert_eq!(answer.status, 403, "{origin}");
            assert_eq!(answer.header("mcp-session-id"), None);
        }
    }
    assert_eq!(web.plain("OPTIONS", &[("origin", "http://evil.example")]).await.status, 403);
    assert_eq!(image.lines(), [""; 0]);
    assert_eq!(web.post(&eval(1), &[("origin", "http://localhost:6274")]).await.text(), "7");
}

#[tokio::test]
async fn foreign_host_header_is_refused_and_nothing_is_sent() {
    let (image, web) = image_and_server().await;
    for host in ["evil.example", "localhost.evil.example:8090", "192.0.2.1"] {
        let answer = web.post(&eval(1), &[("host", host)]).await;
        assert_eq!(answer.status, 421, "{host}");
    }
    assert_eq!(exchange(web.0, b"POST /mcp HTTP/1.1\r\nconnection: close\r\n\r\n").await.status, 400);
    assert_eq!(image.lines(), [""; 0]);
    for host in ["localhost:1", "127.0.0.1", "[::1]:8090"] {
        assert_eq!(web.post(&eval(1), &[("host", host)]).await.text(), "7", "{host}");
    }
}

#[tokio::test]
async fn server_on_all_addresses_accepts_its_configured_names() {
    let image = FakeImage::answering(r#"{"success":true,"result":7}"#).await;
    let web =
        TestHttpServer::at("0.0.0.0:0", common::server(image.port(), common::settings()), &["pharo", "192.0.2.1"])
            .await;
    for host in ["pharo:8090", "PHARO", "192.0.2.1:8090"] {
        assert_eq!(web.post(&eval(1), &[("host", host)]).await.text(), "7", "{host}");
    }
    let refused = web.post(&eval(1), &[("host", "localhost")]).await;
    assert_eq!(refused.status, 421);
    assert!(refused.body.contains("--known-as"), "{}", refused.body);
    assert_eq!(web.post(&eval(1), &[("host", "pharo"), ("origin", "http://pharo")]).await.status, 403);
}

#[tokio::test]
async fn invalid_messages_are_refused() {
    let (image, web) = image_and_server().await;
    let send = async |body: &str, kind: &str, accept: &str| {
        let head = format!(
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {kind}\r\naccept: {accept}\r\n"
        );
        exchange(web.0, format!("{head}content-length: {}\r\n\r\n{body}", body.len()).as_bytes()).await
    };
    let both = "application/json, text/event-stream";
    // For a stateful client, an error of one method is not an error of the transport.
    for (body, status, code) in [
        ("", 400, -32700),
        ("garbage", 400, -32700),
        ("[]", 400, -32600),
        (&format!("[{}]", eval(1)), 400, -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"ping\"}", 400, -32600),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":[]}", 200, -32602),
        ("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"roots/list\"}", 200, -32601),
    ] {
        let answer = send(body, "application/json", both).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{body}");
    }
    let stateless = [("mcp-protocol-version", "2026-07-28")];
    let wrong = web.post(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}), &stateless).await;
    assert_eq!((wrong.status, wrong.code()), (400, -32602));
    let nameless = request(1, "tools/call", json!({}));
    for (message, status) in [(nameless.clone(), 200), (as_stateless(nameless), 400)] {
        let answer = web.post(&message, &[]).await;
        assert_eq!((answer.status, answer.code()), (status, -32602), "{message}");
    }
    let theirs = web.post(&request(1, "roots/list", json!({})), &stateless).await;
    assert_eq!((theirs.status, theirs.code()), (404, -32601));
    let call = eval(1).to_string();
    assert_eq!(send(&call, "text/plain", both).await.status, 415);
    assert_eq!(send(&call, "application/json", "application/json").await.status, 406);
    assert_eq!(send(&"x".repeat((4 << 20) + 1), "application/json", both).await.status, 413);
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn other_paths_are_not_found() {
    let (image, web) = image_and_server().await;
    for path in ["/", "/eval", "/mcp/eval", "/mcp2", "//mcp"] {
        let request =
            format!("POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        assert_eq!(exchange(web.0, request.as_bytes()).await.status, 404, "{path}");
    }
    assert_eq!(image.lines(), [""; 0]);
}

#[tokio::test]
async fn connection_carries_several_requests() {
    let (_image, web) = image_and_server().await;
    let body = eval(1).to_string();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: */*\r\ncontent-length: {}\r\n",
        body.len()
    );
    let bytes = format!("{head}\r\n{body}{head}connection: close\r\n\r\n{body}");
    let answer = exchange(web.0, bytes.as_bytes()).await;
    assert_eq!(answer.body.matches("HTTP/1.1 200").count(), 1, "the second after the first: {}", answer.body);
    assert_eq!(answer.body.matches(r#""text":"7""#).count(), 2);
}
