//! What the stateless revision says by its statuses: whose fault it is, and which methods and revisions there are.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::RecordKind;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, TestGateway, TestResponse, event_response, json_response,
    tool_definition,
};
use serde_json::{Value, json};

const POLICY: &str = r#"{"version":"1","default":"allow"}"#;
const VERSION: &str = "2026-07-28";

fn error_response(hit: &RecordedRequest, status: &str, code: i64) -> ResponseScript {
    let error = json!({"code": code, "message": "no", "data": {"requiredCapabilities": {"sampling": {}}}});
    json_response(status, "", &json!({"jsonrpc": "2.0", "id": hit.message()["id"], "error": error}).to_string())
}

/// Tools are named by what they answer with: status and code, or in which form.
fn server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let message = hit.message();
    let answer = |result: Value| {
        let reply = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
        Some(json_response("200 OK", "", &reply.to_string()))
    };
    match hit.method().as_str() {
        "server/discover" => answer(json!({"supportedVersions": [VERSION, "2031-01-01", 7], "capabilities": {}})),
        "tools/list" => {
            let names = ["400:-32021", "200:-32020", "404:-32601", "200:-32601", "422:-32000", "500:-32000", "stream"];
            answer(json!({"tools": names.map(tool_definition), "ttlMs": 0, "cacheScope": "private"}))
        }
        "tools/call" if hit.tool() == "stream" => {
            let told = json!({"jsonrpc": "2.0", "method": "notifications/vendor/news", "params": {}});
            let error = json!({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no"}});
            Some(event_response(&format!("data: {told}\n\ndata: {error}\n\n")))
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

async fn desk() -> (FakeUpstream, TestGateway) {
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
    let mut headers = vec![("MCP-Protocol-Version", VERSION), ("Mcp-Method", method)];
    if !name.is_empty() {
        headers.push(("Mcp-Name", &name));
    }
    gw.post(&headers, &body(method, VERSION, params)).await
}

#[tokio::test]
async fn the_status_of_an_upstreams_error_reaches_a_stateless_client() {
    let (_, gw) = desk().await;
    for (tool, status, code) in [
        ("400:-32021", 400, -32021),
        ("200:-32020", 400, -32020),
        ("404:-32601", 404, -32601),
        ("200:-32601", 404, -32601),
        ("422:-32000", 422, -32000),
        ("500:-32000", 200, -32000),
    ] {
        let answer = send(&gw, "tools/call", json!({"name": tool})).await;
        assert_eq!((answer.status, answer.code()), (status, code), "{tool}: {}", answer.body);
        assert_eq!(answer.message()["id"], 3);
        assert_eq!(answer.message()["error"]["data"]["requiredCapabilities"], json!({"sampling": {}}), "as it came");
    }
    for method in ["resources/list", "subscriptions/listen"] {
        let answer = send(&gw, method, json!({})).await;
        assert_eq!((answer.status, answer.code()), (404, -32601), "{method}");
    }
    let streamed = send(&gw, "tools/call", json!({"name": "stream"})).await;
    assert_eq!((streamed.status, streamed.code()), (200, -32601), "the head was gone already");
}

#[tokio::test]
async fn a_legacy_client_gets_an_upstreams_error_with_status_200() {
    let upstream = FakeUpstream::start(json!([tool_definition("404:-32601"), tool_definition("400:-32602")]), |hit| {
        match hit.method().as_str() {
            "server/discover" | "tools/list" => None,
            _ => server(hit),
        }
    });
    let upstream = upstream.await;
    let gw = TestGateway::with_policy(POLICY, &upstream).await;
    let answer = gw.call("400:-32602", json!({})).await;
    assert_eq!((answer.status, answer.code()), (200, -32602));
}

#[tokio::test]
async fn methods_that_were_taken_away_are_unknown_before_their_parameters_are_read() {
    let (upstream, gw) = desk().await;
    for method in ["initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"] {
        for params in [json!({}), json!({"uri": "note://1", "level": "info"})] {
            let answer = send(&gw, method, params).await;
            assert_eq!((answer.status, answer.code()), (404, -32601), "{method}: {}", answer.body);
            let row = gw.rows().await.pop().expect("a row").record;
            assert_eq!((row.kind, row.method.as_deref()), (RecordKind::Refused, Some(method)));
        }
    }
    for method in ["notifications/roots/list_changed", "notifications/initialized"] {
        let said = json!({"jsonrpc": "2.0", "method": method}).to_string();
        let answer = gw.post(&[("MCP-Protocol-Version", VERSION), ("Mcp-Method", method)], &said).await;
        assert_eq!((answer.status, answer.code()), (404, -32601), "{method}");
        assert_eq!(gw.rows().await.pop().expect("a row").record.method.as_deref(), Some(method));
    }
    let sent: Vec<String> = upstream.requests().iter().map(RecordedRequest::method).collect();
    assert_eq!(sent, ["server/discover"], "the server learns of nothing");
    assert_eq!(gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await.status, 200, "a legacy one has it");
}

#[tokio::test]
async fn two_revisions_in_one_request_are_a_mismatch_and_an_unknown_one_is_told_which_there_are() {
    let (_, gw) = desk().await;
    let method = ("Mcp-Method", "server/discover");
    let all = json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]);
    let ask = async |head: &str, named: &str| {
        gw.post(&[("MCP-Protocol-Version", head), method], &body("server/discover", named, json!({}))).await
    };
    let unknown = ask("v999.0.0", "v999.0.0").await;
    assert_eq!((unknown.status, unknown.code()), (400, -32022));
    let data = unknown.message()["error"]["data"].clone();
    assert_eq!(data, json!({"requested": "v999.0.0", "supported": all}), "nobody has asked the server yet");

    assert_eq!(ask(VERSION, VERSION).await.status, 200);
    let unknown = ask("v999.0.0", "v999.0.0").await;
    let data = unknown.message()["error"]["data"].clone();
    assert_eq!(data, json!({"requested": "v999.0.0", "supported": [VERSION]}), "what the server names, and we know");

    for (head, named) in
        [(VERSION, "v999.0.0"), ("v999.0.0", VERSION), ("2025-11-25", "v999.0.0"), (VERSION, "2025-11-25")]
    {
        let answer = ask(head, named).await;
        assert_eq!((answer.status, answer.code()), (400, -32020), "{head} and {named}");
    }
    let older = ask("2025-11-25", "2025-11-25").await;
    assert_eq!((older.status, older.code()), (400, -32600), "that one has sessions");
    let long = "9".repeat(70);
    assert_eq!(ask(&long, &long).await.message()["error"]["data"]["requested"], long[..64], "not more than is needed");
}
