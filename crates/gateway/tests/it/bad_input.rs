//! Bad input over HTTP: each row stands for a class. The oracle is the upstream: nothing but what was judged gets there,
//! and the next normal call works.
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

struct Desk {
    upstream: FakeUpstream,
    gw: TestGateway,
}

impl Desk {
    async fn open() -> Self {
        let upstream = FakeUpstream::with_tools(&["read_note", "send_mail", "pay", "exact", "mail", "wipe"]).await;
        let gw = TestGateway::with_policy(POLICY, &upstream).await;
        gw.initialize().await;
        // From here on every call that reaches the upstream is one that a test sent.
        gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await;
        Self { upstream, gw }
    }

    fn hits(&self) -> usize {
        self.upstream.calls().len()
    }

    /// Sends a body that must be rejected: a JSON-RPC error of this code, no hit, a row, and life goes on.
    async fn rejects(&self, body: &str, code: i64) {
        let (before, rows) = (self.upstream.requests().len(), self.gw.rows().await.len());
        let answer = self.gw.send_text(body).await;
        assert_eq!(answer.code(), code, "{body}\n{}", answer.body);
        assert_eq!(self.upstream.requests().len(), before, "{body}");
        let row = self.gw.rows().await.pop().expect("a row");
        assert!(self.gw.rows().await.len() > rows && row.record.code.is_some(), "{body}");
    }

    async fn still_works(&self) {
        let before = self.hits();
        assert_eq!(self.gw.call("read_note", json!({})).await.text(), "{}");
        assert_eq!(self.hits(), before + 1);
    }
}

fn call(params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#)
}

#[tokio::test]
async fn rows_1_to_17_messages_that_two_readers_could_read_differently() {
    let desk = Desk::open().await;
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
        desk.rejects(&body, code).await;
    }
    desk.still_works().await;
}

#[tokio::test]
async fn rows_14_to_30_values_that_are_denied_and_values_that_pass_unchanged() {
    let desk = Desk::open().await;
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
        let answer = desk.gw.send_text(&call(&format!(r#"{{"name":"{tool}","arguments":{arguments}}}"#))).await;
        assert!(answer.text().starts_with("[POLICY DENIED]"), "{arguments}: {}", answer.body);
    }
    assert_eq!(desk.hits(), 0);
    assert!(desk.gw.ledger.usage().await.expect("a store").is_empty(), "a denied call costs nothing");
    for name in ["read_note\\u200b", "r\\u0435ad_note", "\\uff52ead_note", "READ_NOTE", "wipe"] {
        assert_eq!(desk.gw.send_text(&call(&format!(r#"{{"name":"{name}"}}"#))).await.code(), -32602, "{name}");
    }
    assert_eq!(desk.hits(), 0);
    for (sent, arguments) in [
        (1, r#"{"amount":1E2,"currency":"eur"}"#),
        (2, r#"{"amount":100.0,"currency":"e\u0075r"}"#),
        (3, r#"{"amount":1.0e+2,"currency":"usd"}"#),
    ] {
        desk.gw.send_text(&call(&format!(r#"{{"name":"pay","arguments":{arguments}}}"#))).await;
        assert_eq!(desk.hits(), sent);
        assert!(desk.upstream.calls().last().expect("a hit").body.contains(arguments), "as it was written");
    }
    desk.still_works().await;
}

#[tokio::test]
async fn rows_34_to_37_bodies_that_are_too_large_or_no_text() {
    let desk = Desk::open().await;
    let large = call(&format!(r#"{{"name":"read_note","arguments":{{"a":"{}"}}}}"#, "x".repeat(5 << 20)));
    assert_eq!(desk.gw.send_text(&large).await.status, 413);
    let many: Vec<String> = (0..20_000).map(|at| format!("\"k{at}\":1")).collect();
    let many = call(&format!(r#"{{"name":"read_note","arguments":{{{}}}}}"#, many.join(",")));
    assert_eq!(desk.gw.send_text(&many).await.code(), -32600);
    let session = desk.gw.session();
    let bearer = format!("Bearer {}", desk.gw.token.reveal());
    let send = |kind: &'static str, encoding: Option<&'static str>, body: Vec<u8>| {
        let (desk, session, bearer) = (&desk, session.clone(), bearer.clone());
        async move {
            let mut headers = vec![
                ("Authorization", bearer.as_str()),
                ("Mcp-Session-Id", session.as_str()),
                ("Accept", "application/json, text/event-stream"),
                ("Content-Type", kind),
            ];
            headers.extend(encoding.map(|encoding| ("Content-Encoding", encoding)));
            desk.gw.send_raw("POST", "/mcp/desk", &headers, &body).await.status
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
    assert_eq!(desk.hits(), 0);
    desk.still_works().await;
}

#[tokio::test]
async fn row_76_meta_is_bounded_and_what_a_client_calls_itself_breaks_no_line() {
    let desk = Desk::open().await;
    desk.rejects(&call(&format!(r#"{{"name":"read_note","_meta":{{"x":"{}"}}}}"#, "x".repeat(3 << 20))), -32600).await;
    let name = r"evil\u001b[2J\u000d\u000aforged";
    let hello = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{{}},"clientInfo":{{"name":"{name}","version":"1"}}}}}}"#
    );
    let opened = desk.gw.post(&[], &hello).await;
    let session = opened.header("mcp-session-id").expect("a session").to_owned();
    desk.gw.post(&[("Mcp-Session-Id", &session)], &call(r#"{"name":"read_note"}"#)).await;
    let row = desk.gw.rows().await.into_iter().rev().find_map(|row| row.record.client).expect("a client");
    assert_eq!(row.as_ref(), "evil[2Jforged 1");
    desk.still_works().await;
}

#[tokio::test]
async fn row_38_requests_whose_length_two_servers_could_read_differently() {
    let desk = Desk::open().await;
    let body = call(r#"{"name":"read_note"}"#);
    let head = |lengths: &str| {
        format!(
            "POST /mcp/desk HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Accept: */*\r\nMcp-Session-Id: {}\r\n{lengths}\r\n\r\n",
            desk.gw.address,
            desk.gw.token.reveal(),
            desk.gw.session()
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
        let answer = exchange(desk.gw.address, format!("{}{rest}{smuggled}", head(&lengths)).as_bytes()).await;
        assert_eq!(answer.status, 400, "{lengths}");
        assert_eq!(desk.hits(), 0, "{lengths}");
    }
    let alone = format!("{}{chunked}", head("Transfer-Encoding: chunked\r\nConnection: close"));
    assert_eq!(exchange(desk.gw.address, alone.as_bytes()).await.status, 200, "chunks alone are fine");
    assert_eq!(desk.hits(), 1);
    desk.still_works().await;
}

#[tokio::test]
async fn rows_40_to_48_heads() {
    let desk = Desk::open().await;
    let (token, session) = (desk.gw.token.reveal().to_owned(), desk.gw.session());
    let bearer = format!("Bearer {token}");
    let both = ("Accept", "application/json, text/event-stream");
    let kind = ("Content-Type", "application/json");
    let own = ("Mcp-Session-Id", session.as_str());
    let auth = ("Authorization", bearer.as_str());
    let body = call(r#"{"name":"read_note"}"#);
    let meta = call(&format!(r#"{{"name":"read_note","_meta":{{"token":"{token}"}}}}"#));
    let joined = format!("{bearer}, {bearer}");
    let in_url = format!("/mcp/desk?token={token}");
    let cases: Vec<(&str, Vec<(&str, &str)>, &str, &[u16])> = vec![
        ("/mcp/desk", vec![auth, auth, both, kind, own], &body, &[400]),
        ("/mcp/desk", vec![auth, ("Authorization", "Bearer x"), both, kind, own], &body, &[400]),
        ("/mcp/desk", vec![("Authorization", &joined), both, kind, own], &body, &[401]),
        (&in_url, vec![both, kind, own], &body, &[401]),
        (&in_url, vec![auth, both, kind, own], &body, &[400]),
        ("/mcp/desk", vec![("Cookie", &bearer), both, kind, own], &body, &[401]),
        ("/mcp/desk", vec![both, kind, own], &meta, &[401]),
        ("/mcp/desk", vec![auth, kind, own], &body, &[406]),
        ("/mcp/desk", vec![auth, ("Accept", "text/html"), kind, own], &body, &[406]),
        ("/mcp/desk", vec![auth, ("Accept", "*/*;q=0"), kind, own], &body, &[406]),
        (
            "/mcp/desk",
            vec![auth, both, ("Content-Type", "text/plain"), own, ("Origin", "http://evil.example")],
            &body,
            &[403],
        ),
        ("/mcp/desk", vec![auth, both, kind, own, ("Origin", "null")], &body, &[403]),
        ("/mcp/desk", vec![auth, both, kind, own, ("Host", "localhost")], &body, &[400]),
        ("http://evil.example/mcp/desk", vec![auth, both, kind, own], &body, &[400]),
        ("/mcp/other", vec![auth, both, kind, own], &body, &[404]),
        ("/mcp/desk", vec![auth, both, kind], &body, &[400]),
        ("/mcp/desk", vec![auth, both, kind, ("Mcp-Session-Id", "guessed")], &body, &[404]),
        ("/mcp/desk", vec![auth, both, kind, own, ("MCP-Protocol-Version", "1999-01-01")], &body, &[400]),
        ("/mcp/desk", vec![auth, both, kind, own, ("Upgrade", "websocket"), ("Connection", "upgrade")], &body, &[400]),
    ];
    for (path, headers, body, statuses) in cases {
        let answer = desk.gw.send_raw("POST", path, &headers, body.as_bytes()).await;
        assert!(statuses.contains(&answer.status), "{path} {headers:?}: {}", answer.status);
        assert!(!answer.body.contains(&token), "the token is not repeated");
        assert_eq!(desk.hits(), 0, "{path} {headers:?}");
    }
    let evil = format!("POST /mcp/desk HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    assert_eq!(exchange(desk.gw.address, evil.as_bytes()).await.status, 421);
    let odd = [
        ("X-Forwarded-Host", "evil.example"),
        ("X-Original-URL", "/x"),
        ("X-HTTP-Method-Override", "DELETE"),
        ("Mcp-Name", "wipe"),
        ("Cookie", "a=b"),
        ("Proxy-Authorization", "Basic eA=="),
        ("X-Api-Key", "k"),
    ];
    let headers: Vec<_> = [auth, both, kind, own].into_iter().chain(odd).collect();
    assert_eq!(desk.gw.send_raw("POST", "/mcp/desk", &headers, body.as_bytes()).await.status, 200);
    let hit = desk.upstream.calls().pop().expect("a hit");
    for (name, _) in odd {
        assert_eq!(hit.header(&name.to_ascii_lowercase()), None, "{name} is not passed on");
    }
    assert_eq!(hit.header("authorization"), None);
    desk.still_works().await;
}

#[tokio::test]
async fn row_44_an_older_revision_skips_no_rule() {
    let desk = Desk::open().await;
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let hello = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{revision}","capabilities":{{}},"clientInfo":{{"name":"t","version":"1"}}}}}}"#
        );
        let opened = desk.gw.post(&[], &hello).await;
        let session = opened.header("mcp-session-id").expect("a session").to_owned();
        for headers in [
            vec![("Mcp-Session-Id", session.as_str())],
            vec![("Mcp-Session-Id", &session), ("MCP-Protocol-Version", revision)],
        ] {
            assert_eq!(desk.gw.post(&headers, &call(r#"{"name":"wipe"}"#)).await.code(), -32602, "{revision}");
            let batch = format!("[{}]", call(r#"{"name":"read_note"}"#));
            assert_eq!(
                desk.gw.post(&headers, &batch).await.code(),
                -32600,
                "{revision}: batches are refused everywhere"
            );
        }
    }
    assert_eq!(desk.hits(), 0);
    desk.still_works().await;
}

#[tokio::test]
async fn row_49_a_session_of_another_grant_is_not_there_and_stays_undisturbed() {
    let desk = Desk::open().await;
    let other = desk.gw.add_grant("other", POLICY);
    let bearer = format!("Bearer {}", other.reveal());
    let session = desk.gw.session();
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Mcp-Session-Id", session.as_str()),
        ("Accept", "application/json, text/event-stream"),
        ("Content-Type", "application/json"),
    ];
    for (verb, body) in [("POST", call(r#"{"name":"read_note"}"#)), ("GET", String::new()), ("DELETE", String::new())] {
        for path in ["/mcp/desk", "/mcp"] {
            let before = desk.gw.rows().await.len();
            assert_eq!(desk.gw.send_raw(verb, path, &headers, body.as_bytes()).await.status, 404, "{verb} {path}");
            let rows = desk.gw.rows().await;
            let [row] = &rows[before..] else { panic!("{verb} {path}: one row: {:?}", &rows[before..]) };
            assert_eq!(
                (row.record.kind, row.record.label.as_deref()),
                (RecordKind::Refused, Some("other")),
                "{verb} {path}"
            );
            assert_eq!(row.record.code.as_deref(), Some("rejected"), "{verb} {path}");
        }
    }
    assert_eq!(desk.hits(), 0);
    desk.still_works().await;
}

#[tokio::test]
async fn a_request_that_is_turned_away_by_its_head_or_its_size_leaves_a_row() {
    let desk = Desk::open().await;
    let bearer = format!("Bearer {}", desk.gw.token.reveal());
    let own = ("Authorization", bearer.as_str());
    let (json, both) = (("Content-Type", "application/json"), ("Accept", "application/json, text/event-stream"));
    let large = "x".repeat(gatelodge_gateway::GatewaySettings::default().request_limits.max_bytes + 1);
    for path in ["/mcp/desk", "/mcp"] {
        for (verb, headers, body, status) in [
            ("POST", vec![own, json], "{}", 406),
            ("POST", vec![own, both, ("Content-Type", "text/plain")], "{}", 415),
            ("POST", vec![own, both, json], large.as_str(), 413),
            ("GET", vec![own, ("Accept", "application/json")], "", 406),
        ] {
            let before = desk.gw.rows().await.len();
            assert_eq!(desk.gw.send_raw(verb, path, &headers, body.as_bytes()).await.status, status, "{verb} {path}");
            let rows = desk.gw.rows().await;
            let [row] = &rows[before..] else { panic!("{verb} {path} {status}: one row: {:?}", &rows[before..]) };
            assert_eq!(
                (row.record.kind, row.record.method.as_deref()),
                (RecordKind::Refused, Some(verb)),
                "{path} {status}"
            );
        }
    }
    desk.still_works().await;
}

#[tokio::test]
async fn t6_a_stream_or_an_end_that_names_another_revision_than_the_sessions_is_400_and_ends_nothing() {
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
                let asking = gw.send_raw(verb, path, &headers, b"");
                let answer = tokio::time::timeout(std::time::Duration::from_secs(2), asking).await;
                assert_eq!(answer.expect("no stream").status, 400, "{verb} {path} {revision}");
            }
        }
        let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
        assert_eq!(gw.send(&list).await.status, 200, "{path}: the session goes on");
    }
}
