//! Rows P1, P2 and P3 on every way and before every kind of server: what is hidden is not there, what is denied is a
//! result that any client can read, and the policy speaks of prompts, resources and completions as it does of tools.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use std::time::Duration;

use gatelodge_store::RecordKind;
use gatelodge_testkit::{TestGateway, tool_definition};
use serde_json::{Value, json};

use super::rows_kit::encoded;
use super::rows_ways::{Client, Heard, Server, ServerKind, Way, Words};

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

fn words() -> Words {
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

async fn desk(kind: ServerKind) -> (Server, TestGateway) {
    let server = Server::start(kind, tools(), words()).await;
    let gw = server.before(TestGateway::builder().policy(POLICY)).await;
    (server, gw)
}

/// An answer but for how long it is, which follows from the name.
fn any_length(mut heard: Heard) -> Heard {
    heard.headers.retain(|(name, _)| name != "content-length");
    heard
}

async fn is_like_one_that_is_not_there(kind: ServerKind, way: Way) {
    let (server, gw) = desk(kind).await;
    let mut client = Client::open(&gw, way).await;
    let case = format!("{way:?} before {kind:?}");
    let mut list = client.ask("tools/list", json!({})).await;
    for _ in 0..40 {
        // Where all servers are one, nobody waits for a process that is slow to start.
        if list.text().contains(&way.name("wipe")) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(250)).await;
        list = client.ask("tools/list", json!({})).await;
    }
    assert!(!list.text().contains("secret_tool") && list.text().contains(&way.name("wipe")), "{case}: {list:?}");
    let missing = client.call("nowhere_atl", json!({"n": 1})).await.with("nowhere_atl", "NAME");
    assert_eq!((missing.status.unwrap_or(200), missing.code()), (200, -32602), "{case}: {missing:?}");
    for name in ["secret_tool", "unlisted_it", "nowhere_atl"] {
        assert_eq!(client.call(name, json!({"n": 1})).await.with(name, "NAME"), missing, "{case}: {name}");
        assert_eq!(client.call(name, json!({"n": "x"})).await.with(name, "NAME"), missing, "{case}: {name}, whatever");
        let params = || json!({"name": way.name(name), "arguments": {"n": 1}});
        let heads: [&[(&str, &str)]; 2] = match (way.is_stateless(), way.has_heads()) {
            (true, true) => [&[("Mcp-Name", &encoded(&way.name(name)))], &[("Mcp-Param-N", "1")]],
            (false, true) => [&[("Mcp-Name", "read"), ("Mcp-Method", "ping")], &[("Mcp-Param-N", "2")]],
            (_, false) => [&[], &[]],
        };
        for head in heads {
            let heard = client.ask_with(head, "tools/call", params()).await.with(name, "NAME");
            assert_eq!(heard, missing, "{case}: {name} with {head:?}");
        }
    }
    let missing = any_length(missing);
    for name in
        ["Secret_tool", "s\u{435}cret_tool", "secret_tool\u{200b}", "secret\u{ff3f}tool", "secret_tool ", "WIPE"]
    {
        let heard = any_length(client.call(name, json!({"n": 1})).await.with(name, "NAME"));
        assert_eq!(heard, missing, "{case}: {name}");
    }
    if way.is_at_all() {
        for name in ["Desk__secret_tool", "desk_secret_tool", "desk____secret_tool", "d\u{435}sk__read", "secret_tool"]
        {
            let heard = client.ask("tools/call", json!({"name": name, "arguments": {"n": 1}})).await;
            assert_eq!(any_length(heard.with(name, "desk__NAME")), missing, "{case}: {name}");
        }
    }
    assert_eq!(client.call("read", json!({"n": 1})).await.said(), "1", "{case}");
    assert_eq!(server.count("tools/call"), 1, "{case}: nothing else reaches the server");
    let codes: Vec<_> = gw.rows().await.into_iter().filter_map(|row| row.record.code).collect();
    assert!(codes.iter().any(|code| code.as_ref() == "hidden"), "{case}: the log tells them apart: {codes:?}");
}

#[tokio::test]
async fn p1_on_no_way_can_a_hidden_tool_be_told_from_one_that_is_not_there() {
    for way in Way::EVERY {
        is_like_one_that_is_not_there(ServerKind::Legacy, way).await;
        is_like_one_that_is_not_there(ServerKind::Modern, way).await;
    }
}

#[tokio::test]
async fn p1_nor_before_a_process_or_a_server_by_http_and_sse() {
    for kind in [ServerKind::Sse, ServerKind::Child, ServerKind::ModernChild] {
        for way in [Way::Session, Way::Stateless, Way::SessionAtAll] {
            is_like_one_that_is_not_there(kind, way).await;
        }
    }
}

#[tokio::test]
async fn p2_on_every_way_a_denied_call_of_a_tool_with_an_output_schema_is_a_result_without_structured_content() {
    for kind in [ServerKind::Legacy, ServerKind::Modern] {
        for way in Way::EVERY {
            let (server, gw) = desk(kind).await;
            let mut client = Client::open(&gw, way).await;
            let allowed = client.call("once", json!({})).await;
            assert_eq!(allowed.answer()["result"]["structuredContent"], json!({"n": 1}), "{way:?}: {allowed:?}");
            for (name, arguments) in [("wipe", json!({})), ("few", json!({"n": 6})), ("once", json!({}))] {
                let case = format!("{name} by {way:?} before {kind:?}");
                let heard = client.call(name, arguments).await;
                assert_eq!(heard.status.unwrap_or(200), 200, "{case}: {heard:?}");
                let result = heard.answer()["result"].clone();
                assert_eq!(result["isError"], true, "{case}: {heard:?}");
                assert!(heard.said().starts_with("[POLICY DENIED] "), "{case}: {heard:?}");
                let members = result.as_object().expect("a result").keys();
                let unknown: Vec<_> = members
                    .filter(|name| !["content", "isError", "_meta", "resultType"].contains(&name.as_str()))
                    .collect();
                assert!(unknown.is_empty(), "{case}: nothing that a schema speaks of: {heard:?}");
                let kinds = (result["content"].as_array().map(Vec::len), &result["content"][0]["type"]);
                assert_eq!(kinds, (Some(1), &json!("text")), "{case}");
                let wanted = if way.is_stateless() { json!("complete") } else { Value::Null };
                assert_eq!(result["resultType"], wanted, "{case}: {heard:?}");
            }
            assert_eq!(server.count("tools/call"), 1, "{way:?} before {kind:?}");
        }
    }
}

/// What is asked, the code of a refusal, and whether the refusal says why.
fn refused(is_stateless: bool) -> Vec<(&'static str, Value, i64, bool)> {
    let about = |kind: &str, key: &str, own: &str| json!({"ref": {"type": kind, key: own}, "argument": {"name": "a", "value": ""}});
    let not_found = if is_stateless { -32602 } else { -32002 };
    let policy = gatelodge_mcp::code::REFUSED_BY_POLICY;
    vec![
        ("prompts/get", json!({"name": "shut"}), policy, true),
        ("resources/read", json!({"uri": "note://shut"}), policy, true),
        ("completion/complete", about("ref/prompt", "name", "shut"), policy, true),
        ("completion/complete", about("ref/resource", "uri", "note://shut"), policy, true),
        ("prompts/get", json!({"name": "unlisted"}), -32602, false),
        ("resources/read", json!({"uri": "file:///etc"}), not_found, false),
        ("completion/complete", about("ref/prompt", "name", "unlisted"), -32602, false),
        ("completion/complete", about("ref/resource", "uri", "file:///etc"), -32602, false),
    ]
}

#[tokio::test]
async fn p3_on_every_way_prompts_resources_and_completions_are_refused_by_the_policy_and_not_sent() {
    for kind in [ServerKind::Legacy, ServerKind::Modern] {
        for way in Way::EVERY {
            let (server, gw) = desk(kind).await;
            let mut client = Client::open(&gw, way).await;
            for (method, params, code, says_why) in refused(way.is_stateless()) {
                let case = format!("{method} {params} by {way:?} before {kind:?}");
                let heard = client.ask(method, way.named(params.clone())).await;
                assert_eq!((heard.status.unwrap_or(200), heard.code()), (200, code), "{case}: {heard:?}");
                assert_eq!(heard.text().contains("No more."), says_why, "{case}: {heard:?}");
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
                let heard = client.ask(method, way.named(params)).await;
                assert!(heard.answer()["result"].is_object(), "{method} by {way:?} before {kind:?}: {heard:?}");
            }
            assert_eq!((server.count("prompts/get"), server.count("completion/complete")), (1, 2));
        }
    }
}
