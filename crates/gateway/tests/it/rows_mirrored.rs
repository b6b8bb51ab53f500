//! Row R13 at `/mcp`: heads say what the body says under the names that the client knows, and are made anew under those
//! of the server; a tool whose annotations cannot be followed is left out, with a warning.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use gatelodge_store::RecordKind;
use gatelodge_testkit::{FakeUpstream, RecordedRequest, ResponseScript, TestGateway, tool_definition};
use serde_json::{Value, json};

use super::rows_kit::{ALL, Log, answered, count, encoded, modern_answer};
use super::rows_ways::{Client, Way};

fn tools() -> Value {
    let annotated = |name: &str, header: &str| {
        let region = json!({"type": "string", "x-mcp-header": header});
        json!({"name": name, "inputSchema": {"type": "object", "properties": {"region": region, "n": {"type": "integer"}}}})
    };
    json!([annotated("query", "Region"), annotated("bent", "My Region"), tool_definition("plain")])
}

fn modern(hit: &RecordedRequest) -> Option<ResponseScript> {
    let result = match hit.method().as_str() {
        "tools/call" => json!({"resultType": "complete", "content": [{"type": "text", "text": "done"}]}),
        "resources/read" => json!({"resultType": "complete", "contents": [], "ttlMs": 0, "cacheScope": "private"}),
        "prompts/get" => json!({"resultType": "complete", "messages": []}),
        _ => {
            let able = json!({"tools": {}, "prompts": {}, "resources": {}});
            return modern_answer(hit, &tools(), &able);
        }
    };
    answered(hit, &result)
}

async fn two() -> (FakeUpstream, FakeUpstream, TestGateway) {
    let (desk, zoo) = (FakeUpstream::start(json!([]), modern).await, FakeUpstream::start(json!([]), modern).await);
    let gw = TestGateway::builder().policy(ALL).at_aggregate().with_server("zoo", &zoo.url(), ALL).start(&desk).await;
    (desk, zoo, gw)
}

#[tokio::test]
async fn r13_where_all_servers_are_one_the_name_in_the_head_is_the_clients_and_the_server_gets_its_own() {
    let (desk, zoo, gw) = two().await;
    let mut client = Client::open(&gw, Way::StatelessAtAll).await;
    let cases = [
        ("tools/call", json!({"name": "desk__plain", "arguments": {}}), "desk__plain", "plain"),
        ("resources/read", json!({"uri": "x-desk+note://1"}), "x-desk+note://1", "note://1"),
        ("resources/read", json!({"uri": "x-desk+note://\u{fc}"}), "x-desk+note://\u{fc}", "note://\u{fc}"),
        ("prompts/get", json!({"name": "desk__greet"}), "desk__greet", "greet"),
    ];
    for (method, params, known, own) in cases {
        let reached = || (count(&desk, method), zoo.requests().len());
        let before = reached();
        let misfits =
            [own, "", &known.replace("desk", "zoo"), &format!("{known}x"), &encoded(own), &known.to_uppercase()];
        for wrong in misfits.map(|name| if name.is_ascii() { name.to_owned() } else { encoded(name) }) {
            let heard = client.ask_with(&[("Mcp-Name", &wrong)], method, params.clone()).await;
            assert_eq!((heard.status, heard.code()), (Some(400), -32020), "{method} under `{wrong}`: {heard:?}");
            let row = gw.rows().await.pop().expect("a row").record;
            assert_eq!((row.kind, row.code.as_deref()), (RecordKind::Refused, Some("rejected")), "{row:?}");
        }
        let name = if known.is_ascii() { known.to_owned() } else { encoded(known) };
        for more in
            [[("Mcp-Name", name.as_str()), ("Mcp-Name", &name)], [("Mcp-Method", method), ("Mcp-Method", method)]]
        {
            let twice = client.ask_with(&more, method, params.clone()).await;
            assert_eq!((twice.status, twice.code()), (Some(400), -32020), "{method}: {twice:?}");
        }
        for wrong in ["", "tools/list"] {
            let heard = client.ask_with(&[("Mcp-Method", wrong)], method, params.clone()).await;
            assert_eq!((heard.status, heard.code()), (Some(400), -32020), "{method} as `{wrong}`: {heard:?}");
        }
        assert_eq!(reached(), before, "{method}: nothing reaches a server");
        for right in [name, encoded(known)] {
            let heard = client.ask_with(&[("Mcp-Name", &right)], method, params.clone()).await;
            assert!(heard.answer()["result"].is_object(), "{method} under `{right}`: {heard:?}");
            let hit = desk.requests().into_iter().rev().find(|hit| hit.method() == method).expect("a request");
            let in_head = if own.is_ascii() { own.to_owned() } else { encoded(own) };
            let heads = ["mcp-method", "mcp-name", "mcp-protocol-version"].map(|name| hit.header(name));
            assert_eq!(
                heads,
                [Some(method), Some(in_head.as_str()), Some("2026-07-28")],
                "made anew, under its own name"
            );
            let sent = hit.message()["params"].clone();
            assert_eq!(sent["name"].as_str().or(sent["uri"].as_str()), Some(own));
        }
        assert_eq!((reached().0, zoo.calls().len()), (before.0 + 2, 0));
    }
}

#[tokio::test]
async fn r13_where_all_servers_are_one_a_mirrored_argument_is_held_against_the_body_and_made_anew() {
    let (desk, zoo, gw) = two().await;
    let mut client = Client::open(&gw, Way::StatelessAtAll).await;
    let cases: [(Value, &[(&str, &str)]); 5] = [
        (json!({"region": "eu"}), &[("Mcp-Param-Region", "us")]),
        (json!({"region": "eu"}), &[]),
        (json!({}), &[("Mcp-Param-Region", "eu")]),
        (json!({"region": "eu"}), &[("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "eu")]),
        (json!({"region": "eu"}), &[("Mcp-Param-Region", "=?base64?!!!?=")]),
    ];
    for (arguments, head) in cases {
        let params = json!({"name": "zoo__query", "arguments": arguments});
        let heard = client.ask_with(head, "tools/call", params.clone()).await;
        assert_eq!((heard.status, heard.code()), (Some(400), -32020), "{params} with {head:?}: {heard:?}");
    }
    assert_eq!((desk.calls().len(), zoo.calls().len()), (0, 0));
    let head = [("Mcp-Param-Region", "=?base64?ZXU=?="), ("Mcp-Param-Other", "x y"), ("Mcp-Paramount", "no")];
    let params = json!({"name": "zoo__query", "arguments": {"region": "eu", "n": 1}});
    assert_eq!(client.ask_with(&head, "tools/call", params.clone()).await.said(), "done");
    let heads = ["mcp-param-region", "mcp-param-other", "mcp-paramount", "mcp-param-n", "mcp-name"];
    let hit = zoo.calls().pop().expect("a call");
    let got = heads.map(|name| hit.header(name));
    assert_eq!(got, [Some("eu"), Some("x y"), None, None, Some("query")], "not as the client wrote it");

    // A client with a session has no such heads; the server gets them all the same.
    let mut client = Client::open(&gw, Way::SessionAtAll).await;
    let head = [("Mcp-Param-Region", "us"), ("Mcp-Param-Other", "x y"), ("Mcp-Name", "zoo__plain")];
    assert_eq!(client.ask_with(&head, "tools/call", params).await.said(), "done");
    let hit = zoo.calls().pop().expect("a call");
    let got = heads.map(|name| hit.header(name));
    assert_eq!(
        got,
        [Some("eu"), None, None, None, Some("query")],
        "from the body that was judged, and from nothing else"
    );
}

#[tokio::test]
async fn r13_a_tool_whose_annotations_cannot_be_followed_is_left_out_and_warned_of_by_name() {
    for way in [Way::Stateless, Way::StatelessLines, Way::StatelessAtAll] {
        let (log, _logged) = Log::begin();
        let desk = FakeUpstream::start(json!([]), modern).await;
        let gw = TestGateway::with_policy(ALL, &desk).await;
        let mut client = Client::open(&gw, way).await;
        for _ in 0..2 {
            let list = client.ask("tools/list", json!({})).await;
            let names: Vec<Value> = list.answer()["result"]["tools"].as_array().expect("a list").clone();
            let names: Vec<&str> = names.iter().filter_map(|tool| tool["name"].as_str()).collect();
            let mut wanted = [way.name("query"), way.name("plain")];
            wanted.sort_unstable_by_key(|name| names.iter().position(|own| own == name));
            assert_eq!(names, wanted, "{way:?}");
        }
        let heard = client.call("bent", json!({"region": "eu"})).await;
        assert_eq!(heard.code(), -32602, "{way:?}: {heard:?}");
        assert_eq!(desk.calls().len(), 0, "{way:?}");
        let log = log.text();
        let warned: Vec<&str> =
            log.lines().filter(|line| line.contains("is left out for clients of 2026-07-28")).collect();
        assert_eq!(warned.len(), 1, "{way:?}: once: {log}");
        let line = warned[0];
        assert!(line.contains("WARN") && line.contains("`bent`") && line.contains("`desk`"), "{way:?}: {line}");
    }
}
