//! Calls that ended without a response: late responses of their clients and late requests of their servers reach no
//! other call.

use std::sync::Arc;

use gatelodge_testkit::json_response;

use super::*;

#[tokio::test]
async fn a_client_response_reaches_only_the_process_that_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    let suspended = suspend_call(&gw, "A").await;
    let handshakes =
        || received_messages(directory.path()).iter().filter(|message| message["method"] == "initialize").count();
    let (pid, before) = (received_calls(directory.path(), "ask")[0]["pid"].clone(), handshakes());
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.expect("a command").success());
    while handshakes() == before {
        StatelessTestClient::new(&gw).request("tools/list", json!({})).await;
    }
    let late = StatelessTestClient::new(&gw).request("tools/call", resume_params("A", &suspended, "too late")).await;
    assert!(late.body.contains("no longer knew the session"), "{}", late.body);
    assert_eq!(StatelessTestClient::new(&gw).call("read", json!({"n": 1})).await.text(), r#"{"n": 1}"#);
    let is_response = |message: &&Value| message["pid"] != pid && message["method"].is_null();
    assert_eq!(received_messages(directory.path()).iter().find(is_response), None, "the new process has not asked");
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn a_client_response_is_not_sent_in_a_replaced_http_session() {
    let upstream =
        FakeUpstream::start(json!([tool_definition("ask"), tool_definition("forget")]), |hit: &RecordedRequest| {
            let elicitation = event(&json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create",
            "params": hit.message()["params"]["arguments"]}));
            match hit.tool().as_str() {
                "ask" => Some(
                    [
                        stream_headers(),
                        vec![ScriptStep::Write(chunk(&elicitation)), ScriptStep::WaitForHangUp(Arc::default())],
                    ]
                    .concat(),
                ),
                "forget" => Some(json_response("404 Not Found", "", "")),
                _ => None,
            }
        })
        .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let suspended = suspend_call(&gw, "A").await;
    StatelessTestClient::new(&gw).call("forget", json!({})).await;
    let late = StatelessTestClient::new(&gw).request("tools/call", resume_params("A", &suspended, "too late")).await;
    assert!(late.body.contains("no longer knew the session"), "{}", late.body);
    assert!(upstream.requests().iter().all(|hit| !hit.body.contains("too late")), "the new session has not asked");
}

#[tokio::test]
async fn a_server_request_for_a_cancelled_call_is_not_sent_to_another_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    let open = start_call(&gw, "later").await;
    wait_until("the call arrives", || received_calls(directory.path(), "later").len() == 1).await;
    drop(open);
    let is_cancelled =
        || received_messages(directory.path()).iter().any(|message| message["method"] == "notifications/cancelled");
    wait_until("the call is cancelled", is_cancelled).await;
    let next = StatelessTestClient::new(&gw).call("read", json!({"n": 1})).await;
    assert_eq!(next.text(), r#"{"n": 1}"#, "{}", next.body);
    let (cancelled, next) = (received_calls(directory.path(), "later"), received_calls(directory.path(), "read"));
    assert_ne!(cancelled[0]["pid"], next[0]["pid"], "the cancelled call may still send a request");
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn a_server_request_is_declined_when_its_call_ends_before_the_client_is_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = start_gateway(directory.path(), GatewaySettings::default()).await;
    // On a slow machine the gateway asks the client before the result of the call arrives.
    let mut is_done = false;
    for _ in 0..8 {
        is_done = is_done || StatelessTestClient::new(&gw).call("both", json!({})).await.body.contains("done");
    }
    assert!(is_done, "the result of one call arrives first");
    let last =
        received_calls(directory.path(), "both").pop().expect("a call")["id"].as_str().expect("an id").to_owned();
    let is_declined = |message: &Value| {
        message["id"] == format!("q-{last}")
            && message["error"]["message"].to_string().contains("the call that this request belongs to has ended")
    };
    wait_until("the elicitation is declined", || received_messages(directory.path()).iter().any(is_declined)).await;
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn the_other_requests_of_a_call_are_declined_when_one_response_cannot_be_delivered() {
    let elicitation = |id: u32| {
        let request = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": "A"}});
        ScriptStep::Write(format!("event: message\ndata: {request}\n\n").into_bytes())
    };
    let upstream = FakeSseUpstream::start(&["ask"], move |hit: &RecordedRequest| match hit.tool().as_str() {
        "ask" => Some(SsePostReply::accept_then(vec![elicitation(1), elicitation(2)])),
        _ if !hit.message()["result"].is_null() => Some(SsePostReply::reject("500 Internal Server Error")),
        _ => None,
    })
    .await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).start_at(&upstream.url()).await;
    let mut responses = resume_params("A", &suspend_call(&gw, "A").await, "yes");
    responses["inputResponses"]["ask-2"] = json!({"action": "decline"});
    StatelessTestClient::new(&gw).request("tools/call", responses).await;
    let is_declined = |hit: &RecordedRequest| hit.message()["id"] == 2 && hit.message()["error"]["code"] == -32603;
    wait_until("the other request is declined", || upstream.requests().iter().any(is_declined)).await;
}
