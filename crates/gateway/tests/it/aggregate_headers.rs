//! `Mcp-*` headers at the aggregate endpoint: they must match the body under the exposed names, and are rebuilt with
//! the server's names upstream. A tool with an invalid `x-mcp-header` annotation is omitted with a warning.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::RecordKind;
use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, TestGateway, tool_definition};
use serde_json::{Value, json};

use super::support::{ALLOW_ALL, CapturedLog, base64_header_value, request_count, result_response, stateless_response};
use super::transport_matrix::{ClientTransport, TestClient};

fn tools() -> Value {
    let annotated = |name: &str, header: &str| {
        let region = json!({"type": "string", "x-mcp-header": header});
        json!({"name": name, "inputSchema": {"type": "object", "properties": {"region": region, "n": {"type": "integer"}}}})
    };
    json!([annotated("query", "Region"), annotated("invalid", "My Region"), tool_definition("plain")])
}

fn stateless_server(hit: &RecordedRequest) -> Option<ResponseScript> {
    let result = match hit.method().as_str() {
        "tools/call" => json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]}),
        "resources/read" => json!({"resultType": "complete", "contents": [], "ttlMs": 0, "cacheScope": "private"}),
        "prompts/get" => json!({"resultType": "complete", "messages": []}),
        _ => {
            let capabilities = json!({"tools": {}, "prompts": {}, "resources": {}});
            return stateless_response(hit, &tools(), &capabilities);
        }
    };
    result_response(hit, &result)
}

async fn setup() -> (FakeUpstream, FakeUpstream, TestGateway) {
    let (upstream, zoo) = (
        FakeUpstream::start(json!([]), stateless_server).await,
        FakeUpstream::start(json!([]), stateless_server).await,
    );
    let gw = TestGateway::builder()
        .policy(ALLOW_ALL)
        .at_aggregate()
        .with_server("zoo", &zoo.url(), ALLOW_ALL)
        .start(&upstream)
        .await;
    (upstream, zoo, gw)
}

#[tokio::test]
async fn name_header_is_checked_and_rewritten_for_the_server() {
    let (upstream, zoo, gw) = setup().await;
    let mut client = TestClient::open(&gw, ClientTransport::StatelessAggregate).await;
    let cases = [
        ("tools/call", json!({"name": "desk__plain", "arguments": {}}), "desk__plain", "plain"),
        ("resources/read", json!({"uri": "x-desk+note://1"}), "x-desk+note://1", "note://1"),
        ("resources/read", json!({"uri": "x-desk+note://\u{fc}"}), "x-desk+note://\u{fc}", "note://\u{fc}"),
        ("prompts/get", json!({"name": "desk__greet"}), "desk__greet", "greet"),
    ];
    for (method, params, exposed, upstream_name) in cases {
        let reached = || (request_count(&upstream, method), zoo.requests().len());
        let before = reached();
        let mismatches = [
            upstream_name,
            "",
            &exposed.replace("desk", "zoo"),
            &format!("{exposed}x"),
            &base64_header_value(upstream_name),
            &exposed.to_uppercase(),
        ];
        for wrong in mismatches.map(|name| if name.is_ascii() { name.to_owned() } else { base64_header_value(name) }) {
            let reply = client.request_with_headers(&[("Mcp-Name", &wrong)], method, params.clone()).await;
            assert_eq!((reply.status, reply.code()), (Some(400), -32020), "{method} under `{wrong}`: {reply:?}");
            let row = gw.rows().await.pop().expect("a row").record;
            assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")), "{row:?}");
        }
        let name = if exposed.is_ascii() { exposed.to_owned() } else { base64_header_value(exposed) };
        for duplicates in
            [[("Mcp-Name", name.as_str()), ("Mcp-Name", &name)], [("Mcp-Method", method), ("Mcp-Method", method)]]
        {
            let twice = client.request_with_headers(&duplicates, method, params.clone()).await;
            assert_eq!((twice.status, twice.code()), (Some(400), -32020), "{method}: {twice:?}");
        }
        for wrong in ["", "tools/list"] {
            let reply = client.request_with_headers(&[("Mcp-Method", wrong)], method, params.clone()).await;
            assert_eq!((reply.status, reply.code()), (Some(400), -32020), "{method} as `{wrong}`: {reply:?}");
        }
        assert_eq!(reached(), before, "{method}: no request is sent upstream");
        for right in [name, base64_header_value(exposed)] {
            let reply = client.request_with_headers(&[("Mcp-Name", &right)], method, params.clone()).await;
            assert!(reply.response()["result"].is_object(), "{method} under `{right}`: {reply:?}");
            let hit = upstream.requests().into_iter().rev().find(|hit| hit.method() == method).expect("a request");
            let expected_name =
                if upstream_name.is_ascii() { upstream_name.to_owned() } else { base64_header_value(upstream_name) };
            let received_headers = ["mcp-method", "mcp-name", "mcp-protocol-version"].map(|name| hit.header(name));
            assert_eq!(
                received_headers,
                [Some(method), Some(expected_name.as_str()), Some("2026-07-28")],
                "rebuilt with the server's name"
            );
            let sent = hit.message()["params"].clone();
            assert_eq!(sent["name"].as_str().or(sent["uri"].as_str()), Some(upstream_name));
        }
        assert_eq!((reached().0, zoo.calls().len()), (before.0 + 2, 0));
    }
}

#[tokio::test]
async fn parameter_header_is_checked_against_the_body_and_rebuilt() {
    let (upstream, zoo, gw) = setup().await;
    let mut client = TestClient::open(&gw, ClientTransport::StatelessAggregate).await;
    let cases: [(Value, &[(&str, &str)]); 5] = [
        (json!({"region": "eu"}), &[("Mcp-Param-Region", "us")]),
        (json!({"region": "eu"}), &[]),
        (json!({}), &[("Mcp-Param-Region", "eu")]),
        (json!({"region": "eu"}), &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "eu")]),
        (json!({"region": "eu"}), &[("Mcp-Param-Region", "=?base64?!!!?=")]),
    ];
    for (arguments, headers) in cases {
        let params = json!({"name": "zoo__query", "arguments": arguments});
        let reply = client.request_with_headers(headers, "tools/call", params.clone()).await;
        assert_eq!((reply.status, reply.code()), (Some(400), -32020), "{params} with {headers:?}: {reply:?}");
    }
    assert_eq!((upstream.calls().len(), zoo.calls().len()), (0, 0));
    let headers = [("Mcp-Param-Region", "=?base64?ZXU=?="), ("Mcp-Param-Other", "x y"), ("Mcp-Paramount", "no")];
    let params = json!({"name": "zoo__query", "arguments": {"region": "eu", "n": 1}});
    assert_eq!(client.request_with_headers(&headers, "tools/call", params.clone()).await.tool_text(), "done");
    let received_headers = ["mcp-param-region", "mcp-param-other", "mcp-paramount", "mcp-param-n", "mcp-name"];
    let hit = zoo.calls().pop().expect("a call");
    let received = received_headers.map(|name| hit.header(name));
    assert_eq!(received, [Some("eu"), Some("x y"), None, None, Some("query")], "decoded, not copied");

    // A stateful client sends no such headers; the server receives them nevertheless.
    let mut client = TestClient::open(&gw, ClientTransport::StatefulAggregate).await;
    let headers = [("Mcp-Param-Region", "us"), ("Mcp-Param-Other", "x y"), ("Mcp-Name", "zoo__plain")];
    assert_eq!(client.request_with_headers(&headers, "tools/call", params).await.tool_text(), "done");
    let hit = zoo.calls().pop().expect("a call");
    let received = received_headers.map(|name| hit.header(name));
    assert_eq!(received, [Some("eu"), None, None, None, Some("query")], "only from the body that was evaluated");
}

#[tokio::test]
async fn tool_with_an_invalid_header_annotation_is_omitted_with_one_warning() {
    for transport in
        [ClientTransport::StatelessHttp, ClientTransport::StatelessStdio, ClientTransport::StatelessAggregate]
    {
        let (log, _logged) = CapturedLog::start();
        let upstream = FakeUpstream::start(json!([]), stateless_server).await;
        let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
        let mut client = TestClient::open(&gw, transport).await;
        for _ in 0..2 {
            let list = client.request("tools/list", json!({})).await;
            let names: Vec<Value> = list.response()["result"]["tools"].as_array().expect("a list").clone();
            let names: Vec<&str> = names.iter().filter_map(|tool| tool["name"].as_str()).collect();
            let mut expected = [transport.exposed_name("query"), transport.exposed_name("plain")];
            expected.sort_unstable_by_key(|name| names.iter().position(|listed| listed == name));
            assert_eq!(names, expected, "{transport:?}");
        }
        let reply = client.call("invalid", json!({"region": "eu"})).await;
        assert_eq!(reply.code(), -32602, "{transport:?}: {reply:?}");
        assert_eq!(upstream.calls().len(), 0, "{transport:?}");
        let log = log.text();
        let warnings: Vec<&str> =
            log.lines().filter(|line| line.contains("is left out for clients of 2026-07-28")).collect();
        assert_eq!(warnings.len(), 1, "{transport:?}: once: {log}");
        let line = warnings[0];
        assert!(
            line.contains("WARN") && line.contains("`invalid`") && line.contains("`desk`"),
            "{transport:?}: {line}"
        );
    }
}
