//! Hidden and denied tools, prompts, resources and completions, for pairings of client transport and server kind: a
//! hidden tool cannot be distinguished from a missing one, and a denied call is a result that every client can read.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use gatelodge_store::RecordKind;
use gatelodge_testkit::{TestGateway, tool_definition};
use serde_json::{Value, json};

use super::support::base64_header_value;
use super::transport_matrix::{CannedResponses, ClientTransport, ScriptedServer, ServerKind, TestClient, TestReply};

const POLICY: &str = r#"{"version":"1","default":"deny","hide":["secret_tool"],"tools":{"read":{},"wipe":{"action":"deny"},
    "few":{"require":[{"conditions":[{"path":"args.n","op":"lte","value":5}]}]},
    "once":{"limits":[{"counter":"c","window":"day","max":1}]}},
    "prompts":{"greet":{},"shut":{"action":"deny","reason":"No more."}},
    "resources":{"note://*":{},"note://shut":{"action":"deny","reason":"No more."}}}"#;

fn tools() -> Value {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let all = ["read", "wipe", "few", "once", "secret_tool", "unlisted_it"].map(|name| {
        let mut tool = tool_definition(name);
        tool["outputSchema"] = schema.clone();
        tool
    });
    json!(all)
}

fn canned_responses() -> CannedResponses {
    let done =
        r#""result":{"resultType":"complete","content":[{"type":"text","text":"1"}],"structuredContent":{"n":1}}"#;
    let contents = r#""result":{"resultType":"complete","contents":[],"ttlMs":0,"cacheScope":"private"}"#;
    vec![
        ("tools/call", done.to_owned()),
        ("prompts/get", r#""result":{"resultType":"complete","messages":[]}"#.to_owned()),
        ("resources/read", contents.to_owned()),
        ("completion/complete", r#""result":{"resultType":"complete","completion":{"values":["v"]}}"#.to_owned()),
    ]
}

async fn setup(kind: ServerKind) -> (ScriptedServer, TestGateway) {
    let server = ScriptedServer::start(kind, tools(), canned_responses()).await;
    let gw = server.start_gateway(TestGateway::builder().policy(POLICY)).await;
    (server, gw)
}

/// Drops `content-length`, which depends on the length of the tool name.
fn without_content_length(mut reply: TestReply) -> TestReply {
    reply.headers.retain(|(name, _)| name != "content-length");
    reply
}

async fn assert_hidden_tool_looks_missing(kind: ServerKind, transport: ClientTransport) {
    let (server, gw) = setup(kind).await;
    let mut client = TestClient::open(&gw, transport).await;
    let case = format!("{transport:?} to {kind:?}");
    let mut list = client.request("tools/list", json!({})).await;
    for _ in 0..40 {
        // The aggregate list does not wait for a process that starts slowly.
        if list.text().contains(&transport.exposed_name("wipe")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        list = client.request("tools/list", json!({})).await;
    }
    assert!(
        !list.text().contains("secret_tool") && list.text().contains(&transport.exposed_name("wipe")),
        "{case}: {list:?}"
    );
    let missing = client.call("nowhere_atl", json!({"n": 1})).await.replacing("nowhere_atl", "NAME");
    assert_eq!((missing.status.unwrap_or(200), missing.code()), (200, -32602), "{case}: {missing:?}");
    for name in ["secret_tool", "unlisted_it", "nowhere_atl"] {
        assert_eq!(client.call(name, json!({"n": 1})).await.replacing(name, "NAME"), missing, "{case}: {name}");
        assert_eq!(
            client.call(name, json!({"n": "x"})).await.replacing(name, "NAME"),
            missing,
            "{case}: {name} with invalid arguments"
        );
        let params = || json!({"name": transport.exposed_name(name), "arguments": {"n": 1}});
        let header_sets: [&[(&str, &str)]; 2] = match (transport.is_stateless(), transport.has_headers()) {
            (true, true) => {
                [&[("Mcp-Name", &base64_header_value(&transport.exposed_name(name)))], &[("Mcp-Param-N", "1")]]
            }
            (false, true) => [&[("Mcp-Name", "read"), ("Mcp-Method", "ping")], &[("Mcp-Param-N", "2")]],
            (_, false) => [&[], &[]],
        };
        for headers in header_sets {
            let reply = client.request_with_headers(headers, "tools/call", params()).await.replacing(name, "NAME");
            assert_eq!(reply, missing, "{case}: {name} with {headers:?}");
        }
    }
    let missing = without_content_length(missing);
    for name in
        ["Secret_tool", "s\u{435}cret_tool", "secret_tool\u{200b}", "secret\u{ff3f}tool", "secret_tool ", "WIPE"]
    {
        let reply = without_content_length(client.call(name, json!({"n": 1})).await.replacing(name, "NAME"));
        assert_eq!(reply, missing, "{case}: {name}");
    }
    if transport.is_aggregate() {
        for name in ["Desk__secret_tool", "desk_secret_tool", "desk____secret_tool", "d\u{435}sk__read", "secret_tool"]
        {
            let reply = client.request("tools/call", json!({"name": name, "arguments": {"n": 1}})).await;
            assert_eq!(without_content_length(reply.replacing(name, "desk__NAME")), missing, "{case}: {name}");
        }
    }
    assert_eq!(client.call("read", json!({"n": 1})).await.tool_text(), "1", "{case}");
    assert_eq!(server.count("tools/call"), 1, "{case}: no other call is sent");
    let codes: Vec<_> = gw.rows().await.into_iter().filter_map(|row| row.record.code).collect();
    assert!(codes.iter().any(|code| code.as_ref() == "hidden"), "{case}: the log distinguishes them: {codes:?}");
}

#[tokio::test]
async fn hidden_tool_of_an_http_server_looks_missing_over_every_transport() {
    for transport in ClientTransport::ALL {
        assert_hidden_tool_looks_missing(ServerKind::StatefulHttp, transport).await;
        assert_hidden_tool_looks_missing(ServerKind::StatelessHttp, transport).await;
    }
}

#[tokio::test]
async fn hidden_tool_of_a_stdio_or_sse_server_looks_missing() {
    for kind in [ServerKind::Sse, ServerKind::StatefulStdio, ServerKind::StatelessStdio] {
        for transport in
            [ClientTransport::StatefulHttp, ClientTransport::StatelessHttp, ClientTransport::StatefulAggregate]
        {
            assert_hidden_tool_looks_missing(kind, transport).await;
        }
    }
}

#[tokio::test]
async fn denied_call_is_an_error_result_without_structured_content() {
    for kind in [ServerKind::StatefulHttp, ServerKind::StatelessHttp] {
        for transport in ClientTransport::ALL {
            let (server, gw) = setup(kind).await;
            let mut client = TestClient::open(&gw, transport).await;
            let allowed = client.call("once", json!({})).await;
            assert_eq!(
                allowed.response()["result"]["structuredContent"],
                json!({"n": 1}),
                "{transport:?}: {allowed:?}"
            );
            for (name, arguments) in [("wipe", json!({})), ("few", json!({"n": 6})), ("once", json!({}))] {
                let case = format!("{name} over {transport:?} to {kind:?}");
                let reply = client.call(name, arguments).await;
                assert_eq!(reply.status.unwrap_or(200), 200, "{case}: {reply:?}");
                let result = reply.response()["result"].clone();
                assert_eq!(result["isError"], true, "{case}: {reply:?}");
                assert!(reply.tool_text().starts_with("[POLICY DENIED] "), "{case}: {reply:?}");
                let members = result.as_object().expect("a result").keys();
                let unknown: Vec<_> = members
                    .filter(|name| !["content", "isError", "_meta", "resultType"].contains(&name.as_str()))
                    .collect();
                assert!(unknown.is_empty(), "{case}: no member that an output schema covers: {reply:?}");
                let kinds = (result["content"].as_array().map(Vec::len), &result["content"][0]["type"]);
                assert_eq!(kinds, (Some(1), &json!("text")), "{case}");
                let expected = if transport.is_stateless() { json!("complete") } else { Value::Null };
                assert_eq!(result["resultType"], expected, "{case}: {reply:?}");
            }
            assert_eq!(server.count("tools/call"), 1, "{transport:?} to {kind:?}");
        }
    }
}

/// Requests that the policy refuses: method, parameters, error code, and whether the error gives the policy's reason.
fn refused_requests(is_stateless: bool) -> Vec<(&'static str, Value, i64, bool)> {
    let completion = |kind: &str, key: &str, name: &str| json!({"ref": {"type": kind, key: name}, "argument": {"name": "a", "value": ""}});
    let not_found = if is_stateless { -32602 } else { -32002 };
    let policy = gatelodge_mcp::code::REFUSED_BY_POLICY;
    vec![
        ("prompts/get", json!({"name": "shut"}), policy, true),
        ("resources/read", json!({"uri": "note://shut"}), policy, true),
        ("completion/complete", completion("ref/prompt", "name", "shut"), policy, true),
        ("completion/complete", completion("ref/resource", "uri", "note://shut"), policy, true),
        ("prompts/get", json!({"name": "unlisted"}), -32602, false),
        ("resources/read", json!({"uri": "file:///etc"}), not_found, false),
        ("completion/complete", completion("ref/prompt", "name", "unlisted"), -32602, false),
        ("completion/complete", completion("ref/resource", "uri", "file:///etc"), -32602, false),
    ]
}

#[tokio::test]
async fn denied_prompts_resources_and_completions_are_not_sent() {
    for kind in [ServerKind::StatefulHttp, ServerKind::StatelessHttp] {
        for transport in ClientTransport::ALL {
            let (server, gw) = setup(kind).await;
            let mut client = TestClient::open(&gw, transport).await;
            for (method, params, code, gives_reason) in refused_requests(transport.is_stateless()) {
                let case = format!("{method} {params} over {transport:?} to {kind:?}");
                let reply = client.request(method, transport.exposed_params(params.clone())).await;
                assert_eq!((reply.status.unwrap_or(200), reply.code()), (200, code), "{case}: {reply:?}");
                assert_eq!(reply.text().contains("No more."), gives_reason, "{case}: {reply:?}");
                assert_eq!(server.count(method), 0, "{case}");
                let row = gw.rows().await.pop().expect("a row").record;
                assert_eq!((row.kind, row.method.as_deref()), (RecordKind::Refused, Some(method)), "{case}: {row:?}");
                assert_eq!(row.server.as_ref().map(|server| server.as_str()), Some("desk"), "{case}");
            }
            for (method, params) in [
                ("prompts/get", json!({"name": "greet"})),
                ("resources/read", json!({"uri": "note://1"})),
                ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {}})),
                ("completion/complete", json!({"ref": {"type": "ref/resource", "uri": "note://1"}, "argument": {}})),
            ] {
                let reply = client.request(method, transport.exposed_params(params)).await;
                assert!(reply.response()["result"].is_object(), "{method} over {transport:?} to {kind:?}: {reply:?}");
            }
            assert_eq!((server.count("prompts/get"), server.count("completion/complete")), (1, 2));
        }
    }
}
