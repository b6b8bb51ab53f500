//! Bad input over HTTP; each case stands for a class of inputs. The upstream must receive nothing but evaluated requests,
//! and the next normal call must work.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::type_complexity,
    reason = "a test that cannot go on should stop where it is"
)]

use gatelodge_store::RecordKind;
use gatelodge_testkit::{FakeUpstream, TestGateway, exchange};
use serde_json::json;

const POLICY: &str = r#"{"version":"1","default":"deny","tools":{
    "read_note":{}, "send_mail":{"action":"approve"},
    "pay":{"require":[{"path":"args.currency","op":"in","value":["eur","usd"]},
                      {"path":"args.amount","op":"lte","value":100}],
           "limits":[{"counter":"paid","window":"minute","max":500,"amount":"args.amount"}],
           "rate_limit":"5/minute"},
    "exact":{"require":[{"path":"args.amount","op":"eq","value":9007199254740992}]},
    "mail":{"require":[{"path":"args.to.address","op":"eq","value":"a@example.com"}]}}}"#;

struct Fixture {
    upstream: FakeUpstream,
    gw: TestGateway,
}

impl Fixture {
    async fn start() -> Self {
        let upstream = FakeUpstream::with_tools(&["read_note", "send_mail", "pay", "exact", "mail", "wipe"]).await;
        let gw = TestGateway::with_policy(POLICY, &upstream).await;
        gw.initialize().await;
        // From here on every call that reaches the upstream is one that a test sent.
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
        Self { upstream, gw }
    }

    fn upstream_calls(&self) -> usize {
        self.upstream.calls().len()
    }

    /// Sends a body and expects a JSON-RPC error with this code, nothing sent upstream, and a row.
    async fn assert_rejects(&self, body: &str, code: i64) {
        let (before, rows) = (self.upstream.requests().len(), self.gw.rows().await.len());
        let response = self.gw.send_text(body).await;
        assert_eq!(response.code(), code, "{body}\n{}", response.body);
        assert_eq!(self.upstream.requests().len(), before, "{body}");
        let row = self.gw.rows().await.pop().expect("a row");
        assert!(self.gw.rows().await.len() > rows && row.record.code.is_some(), "{body}");
    }

    async fn assert_still_works(&self) {
        let before = self.upstream_calls();
        assert_eq!(self.gw.call("read_note", json!({})).await.text(), "{}");
        assert_eq!(self.upstream_calls(), before + 1);
    }
}

fn call(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
}

#[tokio::test]
async fn ambiguous_and_malformed_messages_are_rejected_and_not_sent() {
    let fixture = Fixture::start().await;
    for (body, code) in [
        (call(r#"{"name":"read_note","name":"wipe"}"#), -32600),
        (call(r#"{"name":"read_note","n\u0061me":"wipe"}"#), -32600),
        (call(r#"{"name":"read_note","Name":"wipe"}"#), -32600),
        (call(r#"{"name":"read_note","arguments":{},"Arguments":{"a":1}}"#), -32600),
        (call(r#"{"name":"pay","arguments":{"amount":1,"amount":999,"currency":"eur"}}"#), -32600),
        (format!("[{}]", call(r#"{"name":"wipe"}"#)), -32600),
        (r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"wipe"}}"#.to_owned(), -32600),
        (r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"read_note"}}"#.to_owned(), -32600),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"tools/call","params":{"name":"read_note"}}"#.to_owned(), -32600),
        (r#"{"jsonrpc":"2.0","id":{},"method":"tools/call","params":{"name":"read_note"}}"#.to_owned(), -32600),
        (r#"{"jsonrpc":"2.0","id":true,"method":"tools/call","params":{"name":"read_note"}}"#.to_owned(), -32600),
        (call(r#"["wipe",{}]"#), -32602),
        (call(r#"{"name":"read_note","arguments":[1]}"#), -32602),
        (call(r#"{"name":"read_note","arguments":"{}"}"#), -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call ","params":{"name":"read_note"}}"#.to_owned(), -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"Tools/Call","params":{"name":"read_note"}}"#.to_owned(), -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools//call","params":{"name":"read_note"}}"#.to_owned(), -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call\u0000","params":{"name":"read_note"}}"#.to_owned(), -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read_note"},"result":{}}"#.to_owned(), -32600),
        (r#"{"jsonrpc":"2.0 ","id":1,"method":"tools/call","params":{"name":"read_note"}}"#.to_owned(), -32600),
        (r#"{"id":1,"method":"tools/call","params":{"name":"read_note"}}"#.to_owned(), -32600),
        (r#"{"jsonrpc":2.0,"id":1,"method":"tools/call","params":{"name":"read_note"}}"#.to_owned(), -32600),
        (call(r#"{"name":"pay","arguments":{"amount":1e400,"currency":"eur"}}"#), -32600),
        (call(r#"{"name":"read_note","arguments":{"a":"\ud800"}}"#), -32600),
        (format!("{} {{}}", call(r#"{"name":"read_note"}"#)), -32700),
        (format!("{}\0", call(r#"{"name":"read_note"}"#)), -32700),
        (format!("{} // x", call(r#"{"name":"read_note"}"#)), -32700),
        (call(r#"{"name":"read_note",}"#), -32700),
        (format!("\u{feff}{}", call(r#"{"name":"read_note"}"#)), -32700),
        (call(&format!(r#"{{"name":"read_note","arguments":{{"a":{}1{}}}}}"#, "[".repeat(100_000), "]".repeat(100_000))), -32600),
        (r#"{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"file:///etc/passwd"}}"#.to_owned(), -32002),
        (r#"{"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}}"#.to_owned(), -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"a","value":""}}}"#.to_owned(), -32602),
        (r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"x"}}"#.to_owned(), -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}"#.to_owned(), -32601),
        (r#"{"jsonrpc":"2.0","id":1,"method":"vendor/anything","params":{}}"#.to_owned(), -32601),
    ] {
        fixture.assert_rejects(&body, code).await;
    }
    fixture.assert_still_works().await;
}

#[tokio::test]
async fn disallowed_values_are_denied_and_allowed_values_are_forwarded_unchanged() {
    let fixture = Fixture::start().await;
    for (tool, arguments) in [
        ("pay", r#"{"amount":"50","currency":"eur"}"#),
        ("pay", r#"{"amount":[50],"currency":"eur"}"#),
        ("pay", r#"{"amount":{"$gt":0},"currency":"eur"}"#),
        ("pay", r#"{"amount":true,"currency":"eur"}"#),
        ("pay", r#"{"amount":null,"currency":"eur"}"#),
        ("pay", r#"{"amount":-5,"currency":"eur"}"#),
        ("pay", r#"{"amount":5,"currency":"EUR"}"#),
        ("pay", r#"{"amount":5,"currency":"eur "}"#),
        ("pay", "null"),
        ("exact", r#"{"amount":9007199254740993}"#),
        ("mail", r#"{"to.address":"a@example.com"}"#),
    ] {
        let response = fixture.gw.send_text(&call(&format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))).await;
        assert!(response.text().starts_with("[POLICY DENIED]"), "{arguments}: {}", response.body);
    }
    assert_eq!(fixture.upstream_calls(), 0);
    assert!(fixture.gw.store.counter_usage.usage().await.expect("a store").is_empty(), "a denied call costs nothing");
    for name in ["read_note\\u200b", "r\\u0435ad_note", "\\uff52ead_note", "READ_NOTE", "wipe"] {
        assert_eq!(fixture.gw.send_text(&call(&format!(r#"{{"name":"{name}"}}"#))).await.code(), -32602, "{name}");
    }
    assert_eq!(fixture.upstream_calls(), 0);
    for (sent, arguments) in [
        (1, r#"{"amount":1E2,"currency":"eur"}"#),
        (2, r#"{"amount":100.0,"currency":"e\u0075r"}"#),
        (3, r#"{"amount":1.0e+2,"currency":"usd"}"#),
    ] {
        fixture.gw.send_text(&call(&format!(r#"{{"name":"pay","arguments":{arguments}}}"#))).await;
        assert_eq!(fixture.upstream_calls(), sent);
        assert!(
            fixture.upstream.calls().last().expect("a call").body.contains(arguments),
            "forwarded as the client wrote them"
        );
    }
    fixture.assert_still_works().await;
}

#[tokio::test]
async fn bodies_that_are_too_large_or_not_utf8_are_rejected() {
    let fixture = Fixture::start().await;
    let large = call(&format!(r#"{{"name":"read_note","arguments":{{"a":"{}"}}}}"#, "x".repeat(5 << 20)));
    assert_eq!(fixture.gw.send_text(&large).await.status, 413);
    let many: Vec<String> = (0..20_000).map(|at| format!("\"k{at}\":1")).collect();
    let many = call(&format!(r#"{{"name":"read_note","arguments":{{{}}}}}"#, many.join(",")));
    assert_eq!(fixture.gw.send_text(&many).await.code(), -32600);
    let session = fixture.gw.session();
    let bearer = format!("Bearer {}", fixture.gw.token.reveal());
    let send = |content_type: &'static str, encoding: Option<&'static str>, body: Vec<u8>| {
        let (fixture, session, bearer) = (&fixture, session.clone(), bearer.clone());
        async move {
            let mut headers = vec![
                ("Authorization", bearer.as_str()),
                ("Mcp-Session-Id", session.as_str()),
                ("Accept", "application/json, text/event-stream"),
                ("Content-Type", content_type),
            ];
            headers.extend(encoding.map(|encoding| ("Content-Encoding", encoding)));
            fixture.gw.send_raw("POST", "/mcp/desk", &headers, &body).await.status
        }
    };
    let good = call(r#"{"name":"read_note"}"#);
    let utf16: Vec<u8> = good.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let not_utf8 = good.clone().into_bytes().into_iter().chain([0xff]).collect();
    assert_eq!(send("application/json", None, not_utf8).await, 400);
    assert_eq!(send("application/json", None, utf16.clone()).await, 400);
    assert_eq!(send("application/json; charset=utf-16", None, utf16).await, 415);
    assert_eq!(send("application/json", Some("gzip"), vec![0x1f, 0x8b, 8, 0]).await, 415);
    assert_eq!(send("application/json", Some("gzip, gzip"), vec![0x1f, 0x8b, 8, 0]).await, 415);
    assert_eq!(send("application/json", Some("zzz"), good.clone().into_bytes()).await, 415);
    assert_eq!(send("text/plain", None, good.into_bytes()).await, 415);
    assert_eq!(fixture.upstream_calls(), 0);
    fixture.assert_still_works().await;
}

#[tokio::test]
async fn large_meta_is_rejected_and_control_characters_of_a_client_name_are_removed() {
    let fixture = Fixture::start().await;
    fixture
        .assert_rejects(&call(&format!(r#"{{"name":"read_note","_meta":{{"x":"{}"}}}}"#, "x".repeat(3 << 20))), -32600)
        .await;
    let name = r"evil\u001b[2J\u000d\u000aforged";
    let initialize = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"{name}","version":"1"}}}}}}"#
    );
    let opened = fixture.gw.post(&[], &initialize).await;
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    fixture.gw.post(&[("Mcp-Session-Id", &session)], &call(r#"{"name":"read_note"}"#)).await;
    let row = fixture.gw.rows().await.into_iter().rev().find_map(|row| row.record.client).expect("a client");
    assert_eq!(row.as_ref(), "evil[2Jforged 1");
    fixture.assert_still_works().await;
}

#[tokio::test]
async fn requests_with_an_ambiguous_length_are_rejected() {
    let fixture = Fixture::start().await;
    let body = call(r#"{"name":"read_note"}"#);
    let head = |lengths: &str| {
        format!(
            "POST /mcp/desk HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: */*\r\nMcp-Session-Id: {}\r\n{lengths}\r\n\r\n",
            fixture.gw.address,
            fixture.gw.token.reveal(),
            fixture.gw.session()
        )
    };
    let chunked = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let smuggled = format!("{}{body}", head(&format!("Content-Length: {}", body.len())));
    for (lengths, rest) in [
        (format!("Content-Length: {}\r\nTransfer-Encoding: chunked", body.len()), &chunked),
        (format!("Transfer-Encoding: chunked\r\nContent-Length: {}", body.len()), &chunked),
        (format!("Content-Length: {}\r\nContent-Length: 5", body.len()), &body),
        ("Content-Length: +5".to_owned(), &body),
        ("Transfer-Encoding: chunked, identity".to_owned(), &chunked),
        ("Transfer-Encoding: chunked".to_owned(), &format!("zz\r\n{body}\r\n0\r\n\r\n")),
    ] {
        let response = exchange(fixture.gw.address, format!("{}{rest}{smuggled}", head(&lengths)).as_bytes()).await;
        assert_eq!(response.status, 400, "{lengths}");
        assert_eq!(fixture.upstream_calls(), 0, "{lengths}");
    }
    let chunked_only = format!("{}{chunked}", head("Transfer-Encoding: chunked\r\nConnection: close"));
    assert_eq!(exchange(fixture.gw.address, chunked_only.as_bytes()).await.status, 200, "a chunked body is accepted");
    assert_eq!(fixture.upstream_calls(), 1);
    fixture.assert_still_works().await;
}

#[tokio::test]
async fn bad_headers_are_rejected_and_unknown_ones_are_not_forwarded() {
    let fixture = Fixture::start().await;
    let (token, session) = (fixture.gw.token.reveal().to_owned(), fixture.gw.session());
    let bearer = format!("Bearer {token}");
    let accept = ("Accept", "application/json, text/event-stream");
    let content_type = ("Content-Type", "application/json");
    let session_header = ("Mcp-Session-Id", session.as_str());
    let auth = ("Authorization", bearer.as_str());
    let body = call(r#"{"name":"read_note"}"#);
    let meta = call(&format!(r#"{{"name":"read_note","_meta":{{"token":"{token}"}}}}"#));
    let joined = format!("{bearer}, {bearer}");
    let in_url = format!("/mcp/desk?token={token}");
    let cases: Vec<(&str, Vec<(&str, &str)>, &str, &[u16])> = vec![
        ("/mcp/desk", vec![auth, auth, accept, content_type, session_header], &body, &[400]),
        ("/mcp/desk", vec![auth, ("Authorization", "Bearer x"), accept, content_type, session_header], &body, &[400]),
        ("/mcp/desk", vec![("Authorization", &joined), accept, content_type, session_header], &body, &[401]),
        (&in_url, vec![accept, content_type, session_header], &body, &[401]),
        (&in_url, vec![auth, accept, content_type, session_header], &body, &[400]),
        ("/mcp/desk", vec![("Cookie", &bearer), accept, content_type, session_header], &body, &[401]),
        ("/mcp/desk", vec![accept, content_type, session_header], &meta, &[401]),
        ("/mcp/desk", vec![auth, content_type, session_header], &body, &[406]),
        ("/mcp/desk", vec![auth, ("Accept", "text/html"), content_type, session_header], &body, &[406]),
        ("/mcp/desk", vec![auth, ("Accept", "*/*;q=0"), content_type, session_header], &body, &[406]),
        (
            "/mcp/desk",
            vec![auth, accept, ("Content-Type", "text/plain"), session_header, ("Origin", "http://evil.example")],
            &body,
            &[403],
        ),
        ("/mcp/desk", vec![auth, accept, content_type, session_header, ("Origin", "null")], &body, &[403]),
        ("/mcp/desk", vec![auth, accept, content_type, session_header, ("Host", "localhost")], &body, &[400]),
        ("http://evil.example/mcp/desk", vec![auth, accept, content_type, session_header], &body, &[400]),
        ("/mcp/other", vec![auth, accept, content_type, session_header], &body, &[404]),
        ("/mcp/desk", vec![auth, accept, content_type], &body, &[400]),
        ("/mcp/desk", vec![auth, accept, content_type, ("Mcp-Session-Id", "guessed")], &body, &[404]),
        (
            "/mcp/desk",
            vec![auth, accept, content_type, session_header, ("MCP-Protocol-Version", "1999-01-01")],
            &body,
            &[400],
        ),
        (
            "/mcp/desk",
            vec![auth, accept, content_type, session_header, ("Upgrade", "websocket"), ("Connection", "upgrade")],
            &body,
            &[400],
        ),
    ];
    for (path, headers, body, statuses) in cases {
        let response = fixture.gw.send_raw("POST", path, &headers, body.as_bytes()).await;
        assert!(statuses.contains(&response.status), "{path} {headers:?}: {}", response.status);
        assert!(!response.body.contains(&token), "the response does not contain the token");
        assert_eq!(fixture.upstream_calls(), 0, "{path} {headers:?}");
    }
    let evil = format!("POST /mcp/desk HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(exchange(fixture.gw.address, evil.as_bytes()).await.status, 421);
    let unknown = [
        ("X-Forwarded-Host", "evil.example"),
        ("X-Original-URL", "/x"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("Mcp-Name", "wipe"),
        ("Cookie", "a=b"),
        ("Proxy-Authorization", "Basic eA=="),
        ("X-Api-Key", "k"),
    ];
    let headers: Vec<_> = [auth, accept, content_type, session_header].into_iter().chain(unknown).collect();
    assert_eq!(fixture.gw.send_raw("POST", "/mcp/desk", &headers, body.as_bytes()).await.status, 200);
    let forwarded = fixture.upstream.calls().pop().expect("a call");
    for (name, _) in unknown {
        assert_eq!(forwarded.header(&name.to_ascii_lowercase()), None, "{name} is not forwarded");
    }
    assert_eq!(forwarded.header("authorization"), None);
    fixture.assert_still_works().await;
}

#[tokio::test]
async fn an_older_revision_does_not_bypass_rules() {
    let fixture = Fixture::start().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let initialize = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
        );
        let opened = fixture.gw.post(&[], &initialize).await;
        let session = opened.header("mcp-session-id").expect("a session").to_owned();
        for headers in [
            vec![("Mcp-Session-Id", session.as_str())],
            vec![("Mcp-Session-Id", &session), ("MCP-Protocol-Version", revision)],
        ] {
            assert_eq!(fixture.gw.post(&headers, &call(r#"{"name":"wipe"}"#)).await.code(), -32602, "{revision}");
            let batch = format!("[{}]", call(r#"{"name":"read_note"}"#));
            assert_eq!(
                fixture.gw.post(&headers, &batch).await.code(),
                -32600,
                "{revision}: batches are refused in every revision"
            );
        }
    }
    assert_eq!(fixture.upstream_calls(), 0);
    fixture.assert_still_works().await;
}

#[tokio::test]
async fn a_session_of_another_grant_is_not_found_and_keeps_working() {
    let fixture = Fixture::start().await;
    let other = fixture.gw.add_grant("other", POLICY);
    let bearer = format!("Bearer {}", other.reveal());
    let session = fixture.gw.session();
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Mcp-Session-Id", session.as_str()),
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
    ];
    for (verb, body) in [("POST", call(r#"{"name":"read_note"}"#)), ("GET", String::new()), ("DELETE", String::new())] {
        for path in ["/mcp/desk", "/mcp"] {
            let before = fixture.gw.rows().await.len();
            assert_eq!(fixture.gw.send_raw(verb, path, &headers, body.as_bytes()).await.status, 404, "{verb} {path}");
            let rows = fixture.gw.rows().await;
            let [row] = &rows[before..] else { panic!("{verb} {path}: one row: {:?}", &rows[before..]) };
            assert_eq!(
                (row.record.kind, row.record.label.as_deref()),
                (RecordKind::Refused, Some("other")),
                "{verb} {path}"
            );
            assert_eq!(row.record.code.as_deref(), Some("rejected"), "{verb} {path}");
        }
    }
    assert_eq!(fixture.upstream_calls(), 0);
    fixture.assert_still_works().await;
}

#[tokio::test]
async fn a_request_that_is_rejected_for_its_headers_or_size_leaves_a_row() {
    let fixture = Fixture::start().await;
    let bearer = format!("Bearer {}", fixture.gw.token.reveal());
    let auth = ("Authorization", bearer.as_str());
    let (content_type, accept) =
        (("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"));
    let large = "x".repeat(gatelodge_gateway::GatewaySettings::default().request_limits.max_bytes + 1);
    for path in ["/mcp/desk", "/mcp"] {
        for (verb, headers, body, status) in [
            ("POST", vec![auth, content_type], "{}", 406),
            ("POST", vec![auth, accept, ("Content-Type", "text/plain")], "{}", 415),
            ("POST", vec![auth, accept, content_type], large.as_str(), 413),
            ("GET", vec![auth, ("Accept", "application/json")], "", 406),
        ] {
            let before = fixture.gw.rows().await.len();
            assert_eq!(
                fixture.gw.send_raw(verb, path, &headers, body.as_bytes()).await.status,
                status,
                "{verb} {path}"
            );
            let rows = fixture.gw.rows().await;
            let [row] = &rows[before..] else { panic!("{verb} {path} {status}: one row: {:?}", &rows[before..]) };
            assert_eq!(
                (row.record.kind, row.record.method.as_deref()),
                (RecordKind::Refused, Some(verb)),
                "{path} {status}"
            );
        }
    }
    fixture.assert_still_works().await;
}

#[tokio::test]
async fn get_or_delete_with_another_revision_than_the_session_is_rejected_and_the_session_goes_on() {
    for path in ["/mcp/desk", "/mcp"] {
        let upstream = FakeUpstream::with_tools(&["read_note"]).await;
        let builder = TestGateway::builder().policy(POLICY);
        let builder = if path == "/mcp" { builder.at_aggregate() } else { builder };
        let gw = builder.start(&upstream).await;
        gw.initialize().await;
        let (bearer, session) = (format!("Bearer {}", gw.token.reveal()), gw.session());
        for verb in ["GET", "DELETE"] {
            for revision in ["2025-06-18", "1999-01-01", "no revision"] {
                let headers = [
                    ("Authorization", bearer.as_str()),
                    ("Mcp-Session-Id", &session),
                    ("Accept", "text/event-stream"),
                    ("MCP-Protocol-Version", revision),
                ];
                let sending = gw.send_raw(verb, path, &headers, b"");
                let response = tokio::time::timeout(std::time::Duration::from_secs(2), sending).await;
                assert_eq!(response.expect("no stream").status, 400, "{verb} {path} {revision}");
            }
        }
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(gw.send(&list).await.status, 200, "{path}: the session goes on");
    }
}
