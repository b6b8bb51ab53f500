//! What is left of calls that ended without an answer: neither what their clients say nor what is asked for them reaches
//! another call.

use std::sync::Arc;

use gatelodge_testkit::json_response;

use super::*;

#[tokio::test]
async fn what_a_client_answers_reaches_no_process_but_the_one_that_asked() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
    let asked = asked(&gw, "A").await;
    let openings = || heard(directory.path()).iter().filter(|own| own["method"] == "initialize").count();
    let (pid, before) = (calls(directory.path(), "ask")[0]["pid"].clone(), openings());
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.expect("a command").success());
    while openings() == before {
        StatelessTestClient::new(&gw).request("tools/list", json!({})).await;
    }
    let late = StatelessTestClient::new(&gw).request("tools/call", brought("A", &asked, "too late")).await;
    assert!(late.body.contains("had forgotten the session"), "{}", late.body);
    assert_eq!(StatelessTestClient::new(&gw).call("read", json!({"n": 1})).await.text(), r#"{"n": 1}"#);
    let is_answer = |own: &&Value| own["pid"] != pid && own["method"].is_null();
    assert_eq!(heard(directory.path()).iter().find(is_answer), None, "it has asked nothing");
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn what_a_client_answers_over_http_is_not_sent_in_a_session_that_was_opened_anew() {
    let upstream =
        FakeUpstream::start(json!([tool_definition("ask"), tool_definition("forget")]), |hit: &RecordedRequest| {
            let question = event(&json!({"jsonrpc": "2.0", "id": 1, "method": "elicitation/create",
            "params": hit.message()["params"]["arguments"]}));
            match hit.tool().as_str() {
                "ask" => Some(
                    [
                        stream_headers(),
                        vec![ScriptStep::Write(chunk(&question)), ScriptStep::WaitForHangUp(Arc::default())],
                    ]
                    .concat(),
                ),
                "forget" => Some(json_response("404 Not Found", "", "")),
                _ => None,
            }
        })
        .await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let asked = asked(&gw, "A").await;
    StatelessTestClient::new(&gw).call("forget", json!({})).await;
    let late = StatelessTestClient::new(&gw).request("tools/call", brought("A", &asked, "too late")).await;
    assert!(late.body.contains("had forgotten the session"), "{}", late.body);
    assert!(upstream.requests().iter().all(|hit| !hit.body.contains("too late")), "it has asked nothing");
}

#[tokio::test]
async fn what_a_server_asks_for_a_call_that_was_given_up_is_put_to_no_other_client() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
    let open = begun(&gw, "later").await;
    wait_until("a call is open", || calls(directory.path(), "later").len() == 1).await;
    drop(open);
    let is_cancelled = || heard(directory.path()).iter().any(|own| own["method"] == "notifications/cancelled");
    wait_until("it is cancelled", is_cancelled).await;
    let next = StatelessTestClient::new(&gw).call("read", json!({"n": 1})).await;
    assert_eq!(next.text(), r#"{"n": 1}"#, "{}", next.body);
    let (given_up, next) = (calls(directory.path(), "later"), calls(directory.path(), "read"));
    assert_ne!(given_up[0]["pid"], next[0]["pid"], "it may ask yet");
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn a_question_whose_call_is_answered_before_the_client_is_asked_is_declined() {
    let directory = tempfile::tempdir().expect("a directory");
    let gw = before(directory.path(), GatewaySettings::default()).await;
    // A machine that is slow asks the client before the answer is there.
    let mut is_done = false;
    for _ in 0..8 {
        is_done = is_done || StatelessTestClient::new(&gw).call("both", json!({})).await.body.contains("done");
    }
    assert!(is_done, "one of them is answered first");
    let last = calls(directory.path(), "both").pop().expect("a call")["id"].as_str().expect("an id").to_owned();
    let is_declined = |own: &Value| {
        own["id"] == format!("q-{last}")
            && own["error"]["message"].to_string().contains("the call that this request belongs to has ended")
    };
    wait_until("it is declined", || heard(directory.path()).iter().any(is_declined)).await;
    gw.assert_stops_promptly().await;
}

#[tokio::test]
async fn where_one_answer_cannot_be_told_the_other_questions_of_the_call_are_declined() {
    let question = |id: u32| {
        let asked = json!({"jsonrpc": "2.0", "id": id, "method": "elicitation/create", "params": {"message": "A"}});
        ScriptStep::Write(format!("event: message\ndata: {asked}\n\n").into_bytes())
    };
    let upstream = FakeSseUpstream::start(&["ask"], move |hit: &RecordedRequest| match hit.tool().as_str() {
        "ask" => Some(SsePostReply::accept_then(vec![question(1), question(2)])),
        _ if !hit.message()["result"].is_null() => Some(SsePostReply::reject("500 Internal Server Error")),
        _ => None,
    })
    .await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).start_at(&upstream.url()).await;
    let mut answers = brought("A", &asked(&gw, "A").await, "yes");
    answers["inputResponses"]["ask-2"] = json!({"action": "decline"});
    StatelessTestClient::new(&gw).request("tools/call", answers).await;
    let is_declined = |hit: &RecordedRequest| hit.message()["id"] == 2 && hit.message()["error"]["code"] == -32603;
    wait_until("the other is declined", || upstream.requests().iter().any(is_declined)).await;
}
