//! HTTP statuses of the stateless protocol: server errors, unknown methods, and unsupported revisions.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::RecordKind;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, TestResponse, event_response, json_response,
    tool_definition,
};
use serde_json::{Value, json};

use super::support::STATELESS_REVISION;

const POLICY: &str = r#"{"version":"1","default":"allow"}"#;

fn error_response(hit: &RecordedRequest, status: &str, code: i64) -> ResponseScript {
    let error = json!({"code": code, "message": "no", "data": {"requiredCapabilities": {"sampling": {}}}});
    json_response(status, "", &json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error}).to_string())
}

/// Server whose tool names give the status and code of the error, or `stream` for an error in an event stream.
fn server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let message = hit.message();
    let response = |result: Value| {
        let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        Some(json_response("200 OK", "", &reply.to_string()))
    };
    match hit.method().as_str() {
        "server/discover" => {
            response(json!({"supportedVersions": [STATELESS_REVISION, "2031-01-01", 7], "capabilities": {}}))
        }
        "tools/list" => {
            let names = ["400:-32021", "200:-32020", "404:-32601", "200:-32601", "422:-32000", "500:-32000", "stream"];
            response(json!({"tools": names.map(tool_definition), "ttlMs": 0, "cacheScope": "private"}))
        }
        "tools/call" if hit.tool() == "stream" => {
            let notification = json!({"jsonrpc": "2.0", "method": "notifications/vendor/news", "params": {}});
            let error = json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}});
            Some(event_response(&format!("data: {notification}\n\ndata: {error}\n\n")))
        }
        "tools/call" => {
            let tool = hit.tool();
            let (status, code) = tool.split_once(':')?;
            Some(error_response(hit, &format!("{status} Status"), code.parse().ok()?))
        }
        "resources/list" | "completion/complete" => Some(error_response(hit, "404 Not Found", -32601)),
        "subscriptions/listen" => Some(error_response(hit, "200 OK", -32601)),
        _ => None,
    }
}

async fn setup() -> (FakeUpstream, TestGateway) {
    let upstream = FakeUpstream::start(json!([]), server).await;
    let gateway = TestGateway::with_policy(POLICY, &upstream).await;
    (upstream, gateway)
}

fn body(method: &str, version: &str, mut params: Value) -> String {
    params["_meta"] = json!({"io.modelcontextprotocol/protocolVersion": version,
        "io.modelcontextprotocol/clientCapabilities": {}});
    json!({"jsonrpc": "2.0", "id": 3, "method": method, "params": params}).to_string()
}

async fn send(gw: &TestGateway, method: &str, params: Value) -> TestResponse {
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let mut headers = vec![("MCP-Protocol-Version", STATELESS_REVISION), ("Mcp-Method", method)];
    if !name.is_empty() {
        headers.push(("Mcp-Name", &name));
    }
    gw.post(&headers, &body(method, STATELESS_REVISION, params)).await
}

#[tokio::test]
async fn http_status_of_a_server_error_reaches_a_stateless_client() {
    let (_, gw) = setup().await;
    for (tool, status, code) in [
        ("400:-32021", 400, -32021),
        ("200:-32020", 400, -32020),
        ("404:-32601", 404, -32601),
        ("200:-32601", 404, -32601),
        ("422:-32000", 422, -32000),
        ("500:-32000", 200, -32000),
    ] {
        let response = send(&gw, "tools/call", json!({"name": tool})).await;
        assert_eq!((response.status, response.code()), (status, code), "{tool}: {}", response.body);
        assert_eq!(response.message()["id"], 3);
        assert_eq!(
            response.message()["error"]["data"]["requiredCapabilities"],
            json!({"sampling": {}}),
            "the error data is unchanged"
        );
    }
    for method in ["resources/list", "subscriptions/listen"] {
        let response = send(&gw, method, json!({})).await;
        assert_eq!((response.status, response.code()), (404, -32601), "{method}");
    }
    let streamed = send(&gw, "tools/call", json!({"name": "stream"})).await;
    assert_eq!((streamed.status, streamed.code()), (200, -32601), "the status was sent before the error");
}

#[tokio::test]
async fn stateful_client_gets_a_server_error_with_status_200() {
    let upstream = FakeUpstream::start(json!([tool_definition("404:-32601"), tool_definition("400:-32602")]), |hit| {
        match hit.method().as_str() {
            "server/discover" | "tools/list" => None,
            _ => server(hit),
        }
    });
    let upstream = upstream.await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    let response = gw.call("400:-32602", json!({})).await;
    assert_eq!((response.status, response.code()), (200, -32602));
}

#[tokio::test]
async fn removed_methods_are_unknown_whatever_their_parameters() {
    let (upstream, gw) = setup().await;
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        for params in [json!({}), json!({"uri": "note://1", "level": "info"})] {
            let response = send(&gw, method, params).await;
            assert_eq!((response.status, response.code()), (404, -32601), "{method}: {}", response.body);
            let row = gw.rows().await.pop().expect("a row").record;
            assert_eq!((row.kind, row.method.as_deref()), (RecordKind::Refused, Some(method)));
        }
    }
    for method in ["notifications/roots/list_changed", "notifications/initialized"] {
        let notification = json!({"jsonrpc": "2.0", "method": method}).to_string();
        let response =
            gw.post(&[("MCP-Protocol-Version", STATELESS_REVISION), ("Mcp-Method", method)], &notification).await;
        assert_eq!((response.status, response.code()), (404, -32601), "{method}");
        assert_eq!(gw.rows().await.pop().expect("a row").record.method.as_deref(), Some(method));
    }
    let sent: Vec<String> = upstream.requests().iter().map(RecordedRequest::method).collect();
    assert_eq!(sent, ["server/discover"], "no request is sent upstream");
    assert_eq!(
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await.status,
        200,
        "a stateful client may ping"
    );
}

#[tokio::test]
async fn differing_revisions_are_a_mismatch_and_an_unknown_one_lists_the_supported() {
    let (_, gw) = setup().await;
    let method = ("Mcp-Method", "server/discover");
    let every_revision = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
    let discover = async |header: &str, in_body: &str| {
        gw.post(&[("MCP-Protocol-Version", header), method], &body("server/discover", in_body, json!({}))).await
    };
    let unknown = discover("v999.0.0", "v999.0.0").await;
    assert_eq!((unknown.status, unknown.code()), (400, -32022));
    let data = unknown.message()["error"]["data"].clone();
    assert_eq!(
        data,
        json!({"requested": "v999.0.0", "supported": every_revision}),
        "the server's revisions are not known yet"
    );

    assert_eq!(discover(STATELESS_REVISION, STATELESS_REVISION).await.status, 200);
    let unknown = discover("v999.0.0", "v999.0.0").await;
    let data = unknown.message()["error"]["data"].clone();
    assert_eq!(
        data,
        json!({"requested": "v999.0.0", "supported": [STATELESS_REVISION]}),
        "revisions that both the server and the gateway support"
    );

    for (header, in_body) in [
        (STATELESS_REVISION, "v999.0.0"),
        ("v999.0.0", STATELESS_REVISION),
        ("2025-11-25", "v999.0.0"),
        (STATELESS_REVISION, "2025-11-25"),
    ] {
        let response = discover(header, in_body).await;
        assert_eq!((response.status, response.code()), (400, -32020), "{header} and {in_body}");
    }
    let older = discover("2025-11-25", "2025-11-25").await;
    assert_eq!((older.status, older.code()), (400, -32600), "2025-11-25 is a stateful revision");
    let long = "9".repeat(70);
    assert_eq!(
        discover(&long, &long).await.message()["error"]["data"]["requested"],
        long[..64],
        "the echoed revision is truncated"
    );
}
