//! Responses of calls that create a task or ask for client input, in unusual spellings; and responses that do neither and
//! pass unchanged.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use gatelodge_store::CallOutcome;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, TestGateway, TestResponse, event_response, json_response, tool_definition,
};
use serde_json::{Value, json};

use super::support::{
    ALLOW_ALL, StatelessTestClient, TASKS_EXTENSION, event, result_message, result_response, stateless_response,
};

/// A policy that allows all tools, and elicitation as the only kind of client input.
const ALLOW_ELICITATION: &str =
    r#"{"version":"1","default":"deny","tools":{"*":{}},"client_requests":{"elicitation":"allow"}}"#;
const SAMPLING: &str = r#"{"q":{"method":"sampling/createMessage","params":{"messages":[]}}}"#;

/// Server whose calls have this result, as JSON. `tasks/get` has it, too; the call that asks for `start` creates a task.
async fn server_with_result(result: &str, is_stateless: bool) -> FakeUpstream {
    let result = result.to_owned();
    FakeUpstream::start(json!([tool_definition("ask")]), move |hit: &RecordedRequest| match hit.method().as_str() {
        "tools/call" if hit.body.contains("start") => {
            result_response(hit, &json!({"resultType": "task", "taskId": "t1", "status": "working"}))
        }
        "tools/call" | "tasks/get" => {
            let id = &hit.message()["id"];
            Some(json_response("200 OK", "", &format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)))
        }
        _ if is_stateless => stateless_response(
            hit,
            &json!([tool_definition("ask")]),
            &json!({"tools": {}, "extensions": {TASKS_EXTENSION: {}}}),
        ),
        _ => None,
    })
    .await
}

/// The response to a call of a stateless client.
async fn call_without_session(policy: &str, result: &str, is_stateless: bool) -> TestResponse {
    let gw = TestGateway::with_policy(policy, &server_with_result(result, is_stateless).await).await;
    StatelessTestClient::new(&gw).call("ask", json!({})).await
}

/// The response to a call of a stateful client.
async fn call_in_session(policy: &str, result: &str, is_stateless: bool) -> TestResponse {
    let gw = TestGateway::with_policy(policy, &server_with_result(result, is_stateless).await).await;
    gw.initialize().await;
    gw.call("ask", json!({})).await
}

fn assert_refused(response: &TestResponse, case: &str) {
    assert_eq!(response.message()["result"]["isError"], true, "{case}: {}", response.body);
}

#[tokio::test]
async fn translated_result_with_repeated_nested_members_is_passed_on() {
    let result = r#"{"content":[{"type":"text","text":"ok"}],"structuredContent":{"id":1,"id":1}}"#;
    for response in
        [call_without_session(ALLOW_ALL, result, false).await, call_in_session(ALLOW_ALL, result, true).await]
    {
        assert!(response.body.contains(r#""structuredContent":{"id":1,"id":1}"#), "{}", response.body);
    }
}

#[tokio::test]
async fn unreadable_result_that_names_a_task_is_refused() {
    let many: String = (0..260).map(|at| format!(r#""m{at}":{at},"#)).collect();
    let long = "x".repeat(70_000);
    for (result, is_stateless) in [
        (r#"{"task":{"taskId":"secret-task"},"z":1,"z":2}"#.to_owned(), false),
        (r#"{"task":{"taskId":"secret-task","z":1,"z":2}}"#.to_owned(), false),
        (format!(r#"{{"task":{{"taskId":"secret-task{long}"}}}}"#), false),
        (r#"{"resultType":"task","taskId":"secret-task","z":1,"z":2}"#.to_owned(), true),
        (format!(r#"{{{many}"resultType":"task","taskId":"secret-task"}}"#), true),
        (format!(r#"{{"resultType":"task","taskId":"secret-task{long}"}}"#), true),
    ] {
        let response = if is_stateless {
            call_without_session(ALLOW_ALL, &result, true).await
        } else {
            call_in_session(ALLOW_ALL, &result, false).await
        };
        let case = result.get(..80).unwrap_or(&result);
        assert_refused(&response, case);
        assert!(!response.body.contains("secret-task"), "{case}");
        assert!(response.text().contains("cannot be read"), "{case}: {}", response.text());
    }
}

#[tokio::test]
async fn input_requests_are_evaluated_whatever_the_type_of_the_result() {
    for result in [
        format!(r#"{{"content":[],"inputRequests":{SAMPLING}}}"#),
        format!(r#"{{"resultType":"complete","content":[],"inputRequests":{SAMPLING}}}"#),
        format!(r#"{{"content":[],"input\u0052equests":{SAMPLING}}}"#),
    ] {
        for is_stateless in [false, true] {
            let response = call_without_session(ALLOW_ELICITATION, &result, is_stateless).await;
            assert_refused(&response, &result);
            assert!(!response.body.contains("createMessage"), "{result}: {}", response.body);
            let gw = TestGateway::with_policy(ALLOW_ALL, &server_with_result(&result, is_stateless).await).await;
            let refused = StatelessTestClient::new(&gw)
                .request_with_capabilities("tools/call", json!({"name": "ask", "arguments": {}}), &json!({}))
                .await;
            assert_eq!((refused.status, refused.code()), (400, -32021), "{result}: {}", refused.body);
        }
    }
}

#[tokio::test]
async fn input_requests_of_a_working_task_are_evaluated() {
    let task = format!(r#"{{"resultType":"complete","taskId":"t1","status":"working","inputRequests":{SAMPLING}}}"#);
    let upstream = server_with_result(&task, true).await;
    for (policy, may_ask) in [(ALLOW_ALL, true), (ALLOW_ELICITATION, false)] {
        let gw = TestGateway::with_policy(policy, &upstream).await;
        let client = StatelessTestClient::new(&gw);
        assert_eq!(client.call("ask", json!({"start": 1})).await.message()["result"]["taskId"], "t1");
        let response = client.request("tasks/get", json!({"taskId": "t1"})).await;
        assert_eq!(response.body.contains("createMessage"), may_ask, "{}", response.body);
    }
}

#[tokio::test]
async fn result_with_a_confusable_member_is_refused() {
    for result in [
        format!(r#"{{"resultType":"input_required","InputRequests":{SAMPLING},"requestState":"s"}}"#),
        format!(r#"{{"resultType":"complete","content":[],"INPUTREQUESTS":{SAMPLING}}}"#),
        format!(r#"{{"resultType":"complete","content":[],"input_requests":{SAMPLING}}}"#),
        format!(r#"{{"resultType":"complete","content":[],"inputReque\u017ft\u017f":{SAMPLING}}}"#),
        r#"{"ResultType":"input_required","requestState":"s"}"#.to_owned(),
        r#"{"resultType":"input_required","inputRequests":{},"request_state":"s"}"#.to_owned(),
        r#"{"result_type":"task","taskId":"t1"}"#.to_owned(),
        r#"{"resultType":"task","task_id":"t1"}"#.to_owned(),
    ] {
        let response = call_without_session(ALLOW_ALL, &result, true).await;
        assert_refused(&response, &result);
        assert!(response.text().contains("could be mistaken"), "{result}: {}", response.text());
    }
    let nested = r#"{"resultType":"complete","content":[],"structuredContent":{"task_id":"t1","InputRequests":{}}}"#;
    let response = call_without_session(ALLOW_ALL, nested, true).await;
    assert!(response.body.contains(nested), "only the members of the result count: {}", response.body);
}

#[tokio::test]
async fn stateless_client_gets_no_input_required_result_without_input_requests() {
    for result in [
        r#"{"resultType":"input_required"}"#,
        r#"{"resultType":"input_required","inputRequests":[1]}"#,
        r#"{"resultType":"input_required","requestState":7}"#,
    ] {
        let response = call_without_session(ALLOW_ALL, result, true).await;
        assert_refused(&response, result);
        assert!(response.text().contains("does not say which"), "{result}: {}", response.text());
    }
}

#[tokio::test]
async fn stateless_notifications_of_a_stateful_server_are_dropped() {
    let upstream = FakeUpstream::start(json!([tool_definition("ask")]), |hit: &RecordedRequest| {
        let notification =
            |method: &str| event(&json!({"jsonrpc": "2.0", "method": method, "params": {"taskId": "t"}}));
        let methods = ["notifications/subscriptions/acknowledged", "notifications/tasks"];
        let events = methods.map(notification).concat() + &event(&result_message(hit, &json!({"content": []})));
        (hit.method() == "tools/call").then(|| event_response(&events))
    })
    .await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).observe_only().start(&upstream).await;
    let messages = StatelessTestClient::new(&gw).call("ask", json!({})).await.messages();
    assert_eq!(messages.len(), 1, "{messages:?}");
}

#[tokio::test]
async fn tool_error_with_an_escaped_member_name_is_recorded_as_a_tool_error() {
    let upstream = server_with_result(r#"{"resultType":"complete","content":[],"is\u0045rror":true}"#, true).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    StatelessTestClient::new(&gw).call("ask", json!({})).await;
    let outcomes: Vec<_> = gw.rows().await.into_iter().filter_map(|row| row.record.outcome).collect();
    assert!(outcomes.contains(&CallOutcome::ToolError), "{outcomes:?}");
}

#[tokio::test]
async fn rejected_log_level_of_a_local_session_is_recorded_as_an_error() {
    let gw = TestGateway::with_policy(ALLOW_ALL, &server_with_result("{}", true).await).await;
    gw.initialize().await;
    let set_level = |params: Value| json!({"jsonrpc": "2.0", "id": 5, "method": "logging/setLevel", "params": params});
    assert_eq!(gw.send(&set_level(json!({}))).await.code(), -32602);
    assert_eq!(gw.send(&set_level(json!({"level": "info"}))).await.message()["result"], json!({}));
    let rows = gw.rows().await.into_iter().map(|row| row.record);
    let outcomes = rows.filter(|row| row.method.as_deref() == Some("logging/setLevel")).filter_map(|row| row.outcome);
    assert_eq!(outcomes.collect::<Vec<_>>(), [CallOutcome::Error, CallOutcome::Ok]);
}
