//! Task notifications of stateful servers: a client receives only those that the active policy allows.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use gatelodge_testkit::{FakeUpstream, RecordedRequest, ScriptStep, TestGateway, json_response, tool_definition};
use serde_json::json;

use super::support::{
    ALLOW_ALL, activate_policy, chunk, event, read_until, result_message, result_response, start_in_session,
    stream_headers,
};

/// Stateful server: a call creates a task with the name of its tool, and the stream reports all tasks every 50 ms.
async fn server() -> FakeUpstream {
    FakeUpstream::start(json!([tool_definition("read"), tool_definition("wipe")]), |hit: &RecordedRequest| {
        match hit.method().as_str() {
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25",
                "capabilities": {"tools": {"listChanged": true}, "tasks": {"requests": {"tools": {"call": {}}}}},
                "serverInfo": {"name": "s", "version": "1"}});
                Some(json_response("200 OK", "mcp-session-id: s\r\n", &result_message(hit, &result).to_string()))
            }
            "tools/call" => {
                result_response(hit, &json!({"task": {"taskId": hit.tool(), "status": "working", "ttl": 60000}}))
            }
            _ if hit.request_line.starts_with("GET") => {
                let mut script = stream_headers();
                for _ in 0..200 {
                    script.push(ScriptStep::Pause(Duration::from_millis(50)));
                    for task in ["theirs", "wipe", "read"] {
                        let params = json!({"taskId": task, "status": "working"});
                        let notification =
                            json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": params});
                        script.push(ScriptStep::Write(chunk(&event(&notification))));
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
async fn task_of_a_tool_that_is_denied_later_is_not_notified() {
    let upstream = server().await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    gw.initialize().await;
    for name in ["read", "wipe"] {
        let params = json!({"name": name, "arguments": {}, "task": {"ttl": 60000}});
        let created = gw.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params})).await;
        assert_eq!(created.message()["result"]["task"]["taskId"], name, "{}", created.body);
    }
    let mut stream = start_in_session(&gw, "GET", "/mcp/desk", "", "").await;
    let received = read_until(&mut stream, r#""taskId":"read""#, 1).await;
    assert!(
        received.contains(r#""taskId":"wipe""#) && !received.contains("theirs"),
        "both tasks of the client, and no other: {received}"
    );
    activate_policy(&gw, r#"{"version":"1","default":"deny","tools":{"read":{},"wipe":{"action":"deny"}}}"#);
    read_until(&mut stream, "tools/list_changed", 1).await;
    // No task is notified until the tool list has been requested again under the new policy.
    gw.send(&json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list"})).await;
    let received = read_until(&mut stream, r#""taskId":"read""#, 1).await;
    assert!(!received.contains("wipe") && !received.contains("theirs"), "{received}");
}
