//! What a server with sessions says of tasks while its client listens: what the policy in force lets it hear, and no
//! more.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use gatelodge_testkit::{FakeUpstream, RecordedRequest, ScriptStep, TestGateway, json_response, tool_definition};
use serde_json::json;

use super::rows_kit::{
    ALL, answered, begin_in_session, chunk, event, open_stream, put_in_force, read_until, result_of,
};

/// A server with sessions whose calls make tasks of their tools' names, and that tells of all of them again and again.
async fn server() -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("read"), tool_definition("wipe")]), |hit: &RecordedRequest| {
        match hit.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}, "tasks": {"requests": {"tools": {"call": {}}}}},
                "serverInfo": {"name": "s", "version": "1"}});
                Some(json_response("200 OK", "mcp-session-id: s\r\n", &result_of(hit, &result).to_string()))
            }
            "tools/call" => answered(hit, &json!({"task": {"taskId": hit.tool(), "status": "working", "ttl": 60000}})),
            _ if hit.request_line.starts_with("GET") => {
                let mut script = open_stream();
                for _ in 0..200 {
                    script.push(ScriptStep::Pause(Duration::from_millis(50)));
                    for task in ["theirs", "wipe", "read"] {
                        let params = json!({"taskId": task, "status": "working"});
                        let said = json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params});
                        script.push(ScriptStep::Write(chunk(&event(&said))));
                    }
                }
                Some(script)
            }
            _ => None,
        }
    })
    .await
}

#[tokio::test]
async fn r12_a_task_of_a_tool_that_may_not_be_called_any_more_is_not_told_of() {
    let upstream = server().await;
    let gw = TestGateway::with_policy(ALL, &upstream).await;
    gw.initialize().await;
    for name in ["read", "wipe"] {
        let params = json!({"name": name, "arguments": {}, "task": {"ttl": 60000}});
        let made = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
        assert_eq!(made.message()["result"]["task"]["taskId"], name, "{}", made.body);
    }
    let mut ear = begin_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    let heard = read_until(&mut ear, r#""taskId":"read""#, 1).await;
    assert!(heard.contains(r#""taskId":"wipe""#) && !heard.contains("theirs"), "both are its own: {heard}");
    put_in_force(&gw, r#"{"version":"1","default":"deny","tools":{"read":{},"wipe":{"action":"deny"}}}"#);
    read_until(&mut ear, "tools/list_changed", 1).await;
    // The lists of the offer are asked for anew under the new policy; until then nothing is said of any task.
    gw.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await;
    let heard = read_until(&mut ear, r#""taskId":"read""#, 1).await;
    assert!(!heard.contains("wipe") && !heard.contains("theirs"), "{heard}");
}
