//! A request that resumes a suspended call and is refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use gatelodge_gateway::{GatewaySettings, PinningSettings};
use gatelodge_store::RecordKind;
use gatelodge_testkit::{FakeUpstream, RecordedRequest, ScriptStep, TestGateway, json_response, tool_definition};
use serde_json::json;

use crate::support::{
    ALLOW_ALL, StatelessTestClient, chunk, event, request_count, result_message, stream_headers, wait_until,
};

#[tokio::test]
async fn suspended_call_keeps_its_slot_when_the_request_that_resumes_it_is_refused() {
    let lists_fail = Arc::new(AtomicBool::new(false));
    let fail = Arc::clone(&lists_fail);
    let upstream = FakeUpstream::start(json!([tool_definition("ask")]), move |hit: &RecordedRequest| {
        match hit.method().as_str() {
            "tools/list" if fail.load(Ordering::Acquire) => Some(json_response("500 Internal Server Error", "", "")),
            "tools/call" => {
                let elicitation =
                    json!({"jsonrpc": "2.0", "id": 77, "method": "elicitation/create", "params": {"message": "code?"}});
                let wait = ScriptStep::Pause(Duration::from_millis(1_500));
                let end = chunk(&event(&result_message(hit, &json!({"content": [{"type": "text", "text": "done"}]}))));
                let steps = vec![ScriptStep::Write(chunk(&event(&elicitation))), wait, ScriptStep::Write(end)];
                Some([stream_headers(), steps].concat())
            }
            _ => None,
        }
    })
    .await;
    let settings = GatewaySettings { in_flight_per_server: 1, ..GatewaySettings::default() };
    let pinning = PinningSettings { check_definitions: Duration::ZERO, ..PinningSettings::default() };
    let gw = TestGateway::builder().policy(ALLOW_ALL).settings(settings).pinning(pinning).start(&upstream).await;
    let client = StatelessTestClient::new(&gw);
    let suspended = client.call("ask", json!({})).await.message()["result"].clone();
    assert_eq!(suspended["resultType"], "input_required", "{suspended}");
    let resumed = || {
        client.request(
            "tools/call",
            json!({"name": "ask", "arguments": {}, "requestState": suspended["requestState"],
            "inputResponses": {"ask": {"action": "accept"}}}),
        )
    };
    let last_code = async || {
        let rows = gw.rows().await.into_iter().filter(|row| row.record.kind == RecordKind::Refused);
        rows.last().and_then(|row| row.record.code)
    };
    lists_fail.store(true, Ordering::Release);
    resumed().await;
    assert_eq!(last_code().await.as_deref(), Some("upstream_unreachable"));
    lists_fail.store(false, Ordering::Release);
    let other = client.call("ask", json!({})).await;
    assert_eq!(last_code().await.as_deref(), Some("busy"), "the suspended call has the only slot: {}", other.body);
    assert_eq!(resumed().await.text(), "done");
    wait_until("the input is delivered", || upstream.requests().iter().any(|hit| hit.message()["id"] == 77)).await;
    assert_eq!(request_count(&upstream, "tools/call"), 1);
}
