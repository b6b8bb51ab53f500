//! Row A3: over whichever way a client comes, and whatever server there is, the client's token is in nothing that the
//! server gets: no head, no body, no line, no environment.
#![allow(clippy::expect_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

use data_encoding::BASE64;
use gatelodge_testkit::{TestGateway, tool_definition};
use serde_json::{Value, json};

use super::rows_kit::{ALL, Log};
use super::rows_ways::{Client, Server, ServerKind, Way, Words};

fn words() -> Words {
    let done = r#""result":{"resultType":"complete","content":[{"type":"text","text":"done"}]}"#;
    vec![
        ("tools/call", done.to_owned()),
        ("tools/call odd", r#""error":{"code":-32099,"message":"odd"}"#.to_owned()),
        ("prompts/get", r#""result":{"resultType":"complete","messages":[]}"#.to_owned()),
        ("prompts/list", r#""result":{"resultType":"complete","prompts":[]}"#.to_owned()),
        ("resources/list", r#""result":{"resultType":"complete","resources":[]}"#.to_owned()),
        ("resources/read", r#""result":{"resultType":"complete","contents":[]}"#.to_owned()),
        ("completion/complete", r#""result":{"resultType":"complete","completion":{"values":[]}}"#.to_owned()),
    ]
}

fn requests() -> Vec<(&'static str, Value)> {
    vec![
        ("tools/list", json!({})),
        ("prompts/list", json!({})),
        ("resources/list", json!({})),
        ("tools/call", json!({"name": "read", "arguments": {"n": 1}, "_meta": {"progressToken": "t"}})),
        ("tools/call", json!({"name": "odd", "arguments": {}})),
        ("prompts/get", json!({"name": "p"})),
        ("resources/read", json!({"uri": "note://1"})),
        ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {}})),
    ]
}

async fn hears_no_token(kind: ServerKind, way: Way) {
    let (log, _logged) = Log::begin();
    let case = format!("{way:?} before {kind:?}");
    let server = Server::start(kind, json!([tool_definition("read"), tool_definition("odd")]), words()).await;
    let gw = server.before(TestGateway::builder().policy(ALL).log_arguments()).await;
    let token = gw.token.reveal().to_owned();
    let mut client = Client::open(&gw, way).await;
    let mut answers = String::new();
    // Wherever else a client may have its token, it stops at the gate.
    let bearer = format!("Bearer {token}");
    let heads = [
        ("Cookie", token.as_str()),
        ("Proxy-Authorization", bearer.as_str()),
        ("X-Api-Key", token.as_str()),
        ("Forwarded", token.as_str()),
        ("Referer", token.as_str()),
        ("User-Agent", token.as_str()),
    ];
    for (method, params) in requests() {
        let heard = client.ask_with(&heads, method, way.named(params)).await;
        assert!(heard.answer()["result"].is_object() || heard.code() == -32099, "{case}: {method}: {heard:?}");
        answers += &format!("{heard:?}");
    }
    let rows: String = gw.rows().await.iter().map(|row| serde_json::to_string(row).expect("JSON")).collect();
    let raw = server.raw();
    for sent in ["tools/call", "prompts/get", "resources/read", "completion/complete"] {
        assert!(raw.contains(sent), "{case}: {sent} reached the server");
    }
    let encoded = BASE64.encode(token.as_bytes());
    let in_the_middle = &encoded[4..encoded.len() - 4];
    // It has a name that all tokens have, and that may be said.
    let random = token.rsplit('_').next().unwrap_or(&token);
    assert!(random.len() >= 16, "{}", random.len());
    let log = log.text();
    for (what, text) in [("server", &raw), ("answers", &answers), ("rows", &rows), ("log", &log)] {
        for own in [token.as_str(), random, in_the_middle] {
            assert!(!text.contains(own), "{case}: it is in what there is of {what}");
        }
    }
    if matches!(kind, ServerKind::Child | ServerKind::ModernChild) {
        only_what_is_configured(&raw, &case);
    }
}

/// A process has the environment that is configured, and what a shell adds to it; not ours.
fn only_what_is_configured(raw: &str, case: &str) {
    let environment = raw.lines().filter_map(|line| line.strip_prefix("environment "));
    let names: Vec<&str> = environment.filter_map(|line| line.split('=').next()).collect();
    assert!(names.contains(&"PATH"), "{case}: {names:?}");
    let others: Vec<_> = names.iter().filter(|name| !["PATH", "PWD", "OLDPWD", "SHLVL", "_"].contains(name)).collect();
    assert!(others.is_empty(), "{case}: {others:?}");
}

#[tokio::test]
async fn a3_a_server_that_speaks_http_and_sse_never_gets_the_clients_token() {
    for way in Way::EVERY {
        hears_no_token(ServerKind::Sse, way).await;
    }
}

#[tokio::test]
async fn a3_a_process_never_gets_the_clients_token() {
    for way in Way::EVERY {
        hears_no_token(ServerKind::Child, way).await;
        hears_no_token(ServerKind::ModernChild, way).await;
    }
}

#[tokio::test]
async fn a3_a_server_of_either_era_never_gets_the_clients_token() {
    for way in Way::EVERY {
        hears_no_token(ServerKind::Legacy, way).await;
        hears_no_token(ServerKind::Modern, way).await;
    }
}
