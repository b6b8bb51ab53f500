//! Change notifications over every client transport: from servers that are added later, about tasks, and only what the
//! server declares and the client requests.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::Duration;

use gatelodge_store::RecordKind;
use gatelodge_testkit::{
    FakeUpstream, RecordedRequest, ResponseScript, ScriptStep, SseTestClient, TestGateway, json_response,
    tool_definition,
};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncWriteExt, BufReader, DuplexStream};
use tokio::sync::{Notify, mpsc};

use super::support::{
    ALLOW_ALL, STATELESS_REVISION, StatelessTestClient, TASKS_EXTENSION, activate_policy, chunk, event, result_message,
    result_response, run_concurrently, start_in_session, stateless_request, stateless_response, stream_headers,
    wait_until,
};
use super::transport_matrix::ClientTransport;

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const TASKS: &str = "notifications/tasks";
const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
const READ_ONLY_POLICY: &str = r#"{"version":"1","default":"deny","tools":{"read":{}}}"#;

/// Messages that a client receives, over any transport.
struct NotificationStream {
    messages: mpsc::UnboundedReceiver<Value>,
    _input: Option<DuplexStream>,
}

impl NotificationStream {
    fn new(stream: impl AsyncRead + Send + Unpin + 'static, input: Option<DuplexStream>) -> Self {
        let (sender, messages) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let text = line.strip_prefix("data: ").unwrap_or(&line);
                if let Ok(message @ Value::Object(_)) = serde_json::from_str(text) {
                    let _ = sender.send(message);
                }
            }
        });
        Self { messages, _input: input }
    }

    async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(Duration::from_secs(5), self.messages.recv()).await;
        next.unwrap_or_else(|_| panic!("no message within 5 s")).expect("an open stream")
    }

    /// Reads until no message has arrived for 1.3 s.
    async fn rest(&mut self) -> Vec<Value> {
        let mut rest = Vec::new();
        while let Ok(Some(message)) = tokio::time::timeout(Duration::from_millis(1_300), self.messages.recv()).await {
            rest.push(message);
        }
        rest
    }
}

fn methods(messages: &[Value]) -> Vec<&str> {
    messages.iter().filter_map(|message| message["method"].as_str()).collect()
}

/// Opens the stream that carries notifications to a client, and waits until the gateway has subscribed upstream.
async fn open_notifications(gw: &TestGateway, transport: ClientTransport, requested: &Value) -> NotificationStream {
    let listen_params = || json!({"notifications": requested});
    let mut notifications: NotificationStream = match transport {
        ClientTransport::StatefulHttp | ClientTransport::StatefulAggregate => {
            gw.initialize().await;
            NotificationStream::new(start_in_session(gw, "GET", transport.path(), "", "").await, None)
        }
        ClientTransport::StatelessHttp => NotificationStream::new(
            StatelessTestClient::new(gw).start_request("subscriptions/listen", listen_params()).await,
            None,
        ),
        ClientTransport::StatelessAggregate => NotificationStream::new(
            StatelessTestClient::new(gw).at_aggregate().start_request("subscriptions/listen", listen_params()).await,
            None,
        ),
        ClientTransport::Sse => open_sse(gw).await,
        ClientTransport::StatefulStdio => {
            let initialize = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "l", "version": "1"}});
            let initialize = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": initialize});
            let mut notifications = open_stdio(gw, &initialize.to_string()).await;
            assert_eq!(notifications.next().await["id"], 0);
            notifications
        }
        ClientTransport::StatelessStdio => {
            let capabilities = json!({"extensions": {TASKS_EXTENSION: {}}});
            open_stdio(gw, &stateless_request("subscriptions/listen", listen_params(), &capabilities)).await
        }
    };
    if transport.is_stateless() {
        let first = notifications.next().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{transport:?}: {first}");
        assert_eq!(first["params"]["_meta"][SUBSCRIPTION_ID], 3, "{transport:?}: {first}");
    }
    // No event shows that the gateway has also opened its stream upstream.
    tokio::time::sleep(Duration::from_millis(700)).await;
    notifications
}

async fn open_sse(gw: &TestGateway) -> NotificationStream {
    let mut client = SseTestClient::open_initialized(gw, "2025-11-25").await;
    let (sender, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some((_, data)) = client.next_event().await {
            let _ = sender.send(serde_json::from_str(&data).expect("JSON"));
        }
    });
    NotificationStream { messages, _input: None }
}

async fn open_stdio(gw: &TestGateway, first: &str) -> NotificationStream {
    let (mut client, input) = tokio::io::duplex(64 << 10);
    let (output, responses) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    client.write_all(format!("{first}\n").as_bytes()).await.expect("writable stream");
    NotificationStream::new(responses, Some(client))
}

/// Server that sends notifications on the streams of its subscribers when it is triggered.
struct NotifyingServer {
    /// Declared capabilities, and the notifications that it acknowledges to stateless subscribers.
    capabilities: Value,
    acknowledged: Value,
    /// Notifications to send once `trigger` is notified.
    messages: Vec<(&'static str, Value)>,
    trigger: Arc<Notify>,
}

impl NotifyingServer {
    fn stream_script(&self, subscriber: Option<&Value>) -> ResponseScript {
        let notification = |method: &str, mut params: Value| {
            if let Some(id) = subscriber {
                params["_meta"] = json!({SUBSCRIPTION_ID: id});
            }
            event(&json!({"jsonrpc": "2.0", "method": method, "params": params, "extra": 1.5}))
        };
        let first = json!({"notifications": self.acknowledged});
        let first =
            subscriber.map(|_| notification("notifications/subscriptions/acknowledged", first)).unwrap_or_default();
        let later: String = self.messages.iter().map(|(method, params)| notification(method, params.clone())).collect();
        let steps = vec![
            ScriptStep::Write(chunk(&first)),
            ScriptStep::WaitFor(Arc::clone(&self.trigger)),
            ScriptStep::Write(chunk(&later)),
            ScriptStep::Pause(Duration::from_secs(30)),
        ];
        [stream_headers(), steps].concat()
    }

    fn response_script(&self, hit: &RecordedRequest, is_stateless: bool) -> Option<ResponseScript> {
        match hit.method().as_str() {
            "subscriptions/listen" if is_stateless => Some(self.stream_script(Some(&hit.message()["id"]))),
            "tools/call" if is_stateless => result_response(
                hit,
                &json!({"resultType": "task", "taskId": hit.tool(), "status": "working", "ttlMs": null}),
            ),
            _ if is_stateless => {
                stateless_response(hit, &json!([tool_definition("read"), tool_definition("wipe")]), &self.capabilities)
            }
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": self.capabilities, "serverInfo": {"name": "s", "version": "1"}});
                Some(json_response("200 OK", "mcp-session-id: s\r\n", &result_message(hit, &result).to_string()))
            }
            _ if hit.request_line.starts_with("GET") => Some(self.stream_script(None)),
            _ => None,
        }
    }

    async fn start(self, is_stateless: bool) -> FakeUpstream {
        FakeUpstream::start(json!([tool_definition("read"), tool_definition("wipe")]), move |hit| {
            self.response_script(hit, is_stateless)
        })
        .await
    }
}

fn silent_server() -> NotifyingServer {
    NotifyingServer {
        capabilities: json!({"tools": {}}),
        acknowledged: json!({}),
        messages: Vec::new(),
        trigger: Arc::default(),
    }
}

/// A client at `/mcp` receives notifications of a server that was added after its stream was opened.
async fn assert_added_server_notifies(transport: ClientTransport, is_stateless: bool) {
    let case = format!("{transport:?}, stateless server: {is_stateless}");
    let upstream = silent_server().start(false).await;
    let gw = TestGateway::builder().policy(ALLOW_ALL).at_aggregate().start(&upstream).await;
    let mut notifications = open_notifications(&gw, transport, &json!({"toolsListChanged": true})).await;
    let trigger = Arc::new(Notify::new());
    let acknowledged = json!({"toolsListChanged": true});
    let messages = vec![(TOOLS, json!({"x": 1})), (TOOLS, json!({"x": 2}))];
    let server = NotifyingServer {
        capabilities: json!({"tools": {"listChanged": true}}),
        acknowledged,
        messages,
        trigger: Arc::clone(&trigger),
    };
    let zoo = server.start(is_stateless).await;
    gw.put_server("zoo", &zoo.url());
    gw.put_policy("zoo", ALLOW_ALL);
    assert_eq!(notifications.next().await["method"], TOOLS, "{case}: the tool list changed");
    let has_stream = || {
        zoo.requests().iter().any(|hit| hit.request_line.starts_with("GET") || hit.method() == "subscriptions/listen")
    };
    wait_until("the gateway subscribes to the added server", has_stream).await;
    notifications.rest().await;
    trigger.notify_waiters();
    for nth in [1, 2] {
        let message = notifications.next().await;
        assert_eq!((&message["method"], &message["params"]["x"]), (&json!(TOOLS), &json!(nth)), "{case}: {message}");
        assert_eq!(message["extra"], 1.5, "{case}: {message}");
        // For a stateful client the gateway owns the subscription, and the message carries no subscription id.
        let expected_id = if transport.is_stateless() { json!(3) } else { Value::Null };
        assert_eq!(message["params"]["_meta"][SUBSCRIPTION_ID], expected_id, "{case}: {message}");
    }
    assert!(notifications.rest().await.is_empty(), "{case}");
}

#[tokio::test]
async fn notifications_of_a_server_that_is_added_later_arrive() {
    let transports = [ClientTransport::StatefulAggregate, ClientTransport::StatelessAggregate];
    let cases = transports.into_iter().flat_map(|transport| [(transport, false), (transport, true)]);
    run_concurrently(cases.map(|(transport, is_stateless)| assert_added_server_notifies(transport, is_stateless)))
        .await;
}

async fn assert_no_notification(transport: ClientTransport, is_stateless: bool, capabilities: Value) {
    let case = format!("{transport:?}, {capabilities}, stateless server: {is_stateless}");
    let upstream = NotifyingServer { capabilities, ..silent_server() }.start(is_stateless).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let mut notifications = open_notifications(&gw, transport, &json!({"toolsListChanged": true})).await;
    gw.put_policy("desk", READ_ONLY_POLICY);
    let rest = notifications.rest().await;
    assert!(rest.is_empty(), "{case}: {rest:?}");
}

#[tokio::test]
async fn list_change_is_not_notified_unless_the_server_declares_it() {
    let capabilities = || [json!({"tools": {}}), json!({"tools": {"listChanged": false}})];
    let transports = [
        ClientTransport::StatefulHttp,
        ClientTransport::StatelessHttp,
        ClientTransport::Sse,
        ClientTransport::StatefulStdio,
        ClientTransport::StatelessStdio,
    ];
    let cases = transports.into_iter().flat_map(|transport| [(transport, false), (transport, true)]);
    let cases = cases.flat_map(|(transport, is_stateless)| {
        capabilities().map(|capabilities| assert_no_notification(transport, is_stateless, capabilities))
    });
    run_concurrently(cases).await;
}

async fn assert_only_requested_notifications(transport: ClientTransport, is_stateless: bool) {
    let case = format!("{transport:?}, stateless server: {is_stateless}");
    let trigger = Arc::new(Notify::new());
    let capabilities = json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}});
    // The server sends more than was requested.
    let messages = vec![(TOOLS, json!({})), (PROMPTS, json!({}))];
    let server = NotifyingServer {
        capabilities,
        acknowledged: json!({"promptsListChanged": true}),
        messages,
        trigger: Arc::clone(&trigger),
    };
    let upstream = server.start(is_stateless).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let mut notifications = open_notifications(&gw, transport, &json!({"promptsListChanged": true})).await;
    trigger.notify_waiters();
    let rest = notifications.rest().await;
    assert_eq!(methods(&rest), [PROMPTS], "{case}: {rest:?}");
    gw.put_policy("desk", READ_ONLY_POLICY);
    let rest = notifications.rest().await;
    assert_eq!(methods(&rest), [PROMPTS], "{case}: {rest:?}");
}

#[tokio::test]
async fn stateless_client_receives_only_the_notifications_it_requested() {
    let transports =
        [ClientTransport::StatelessHttp, ClientTransport::StatelessStdio, ClientTransport::StatelessAggregate];
    let cases = transports.into_iter().flat_map(|transport| [(transport, false), (transport, true)]);
    run_concurrently(
        cases.map(|(transport, is_stateless)| assert_only_requested_notifications(transport, is_stateless)),
    )
    .await;
}

/// A client creates two tasks and subscribes to them; asserts which task notifications arrive under `policy`.
async fn assert_task_notifications(transport: ClientTransport, policy: Option<&'static str>, expected: &[&str]) {
    let trigger = Arc::new(Notify::new());
    let task = |id: &str| (TASKS, json!({"taskId": id, "status": "completed"}));
    let server = NotifyingServer {
        capabilities: json!({"tools": {}, "extensions": {TASKS_EXTENSION: {}}}),
        acknowledged: json!({"taskIds": ["read", "wipe"]}),
        messages: vec![task("theirs"), task("wipe"), task("read")],
        trigger: Arc::clone(&trigger),
    };
    let upstream = server.start(true).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    let client = if transport.is_aggregate() {
        StatelessTestClient::new(&gw).at_aggregate()
    } else {
        StatelessTestClient::new(&gw)
    };
    for name in ["read", "wipe"] {
        let created = client.call(&transport.exposed_name(name), json!({})).await;
        assert_eq!(
            created.message()["result"]["taskId"],
            transport.exposed_name(name),
            "{transport:?}: {}",
            created.body
        );
    }
    let mut notifications = open_notifications(
        &gw,
        transport,
        &json!({"taskIds": [transport.exposed_name("read"), transport.exposed_name("wipe")]}),
    )
    .await;
    let sent = upstream.requests().into_iter().find(|hit| hit.method() == "subscriptions/listen").expect("a request");
    assert_eq!(sent.message()["params"]["notifications"]["taskIds"], json!(["read", "wipe"]), "{transport:?}");
    assert_eq!(sent.header("mcp-protocol-version"), Some(STATELESS_REVISION), "{transport:?}");
    if let Some(policy) = policy {
        activate_policy(&gw, policy);
        // Streams are revalidated twice a second; wait until this one has been.
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
    trigger.notify_waiters();
    let rest = notifications.rest().await;
    for message in &rest {
        // The final result of the subscription carries the id, too.
        let message = if message["params"].is_null() { &message["result"] } else { &message["params"] };
        assert_eq!(message["_meta"][SUBSCRIPTION_ID], 3, "{transport:?} under {policy:?}: {message}");
    }
    let tasks: Vec<&str> = rest.iter().filter_map(|message| message["params"]["taskId"].as_str()).collect();
    let expected: Vec<String> = expected.iter().map(|name| transport.exposed_name(name)).collect();
    assert_eq!(tasks, expected, "{transport:?} under {policy:?}: {rest:?}");
}

#[tokio::test]
async fn task_that_needs_denied_client_input_is_not_notified() {
    for (client_requests, expected) in [("", 0), (r#","client_requests":{"elicitation":"allow"}"#, 1)] {
        let trigger = Arc::new(Notify::new());
        let input_requests = json!({"e": {"method": "elicitation/create", "params": {"message": "sure?"}}});
        let server = NotifyingServer {
            capabilities: json!({"tools": {}, "extensions": {TASKS_EXTENSION: {}}}),
            acknowledged: json!({"taskIds": ["read"]}),
            messages: vec![(
                TASKS,
                json!({"taskId": "read", "status": "input_required", "inputRequests": input_requests}),
            )],
            trigger: Arc::clone(&trigger),
        };
        let upstream = server.start(true).await;
        let policy = format!(r#"{{"version":"1","default":"deny","tools":{{"*":{{}}}}{client_requests}}}"#);
        let gw = TestGateway::with_policy(&policy, &upstream).await;
        let created = StatelessTestClient::new(&gw).call("read", json!({})).await;
        assert_eq!(created.message()["result"]["taskId"], "read", "{}", created.body);
        let mut notifications =
            open_notifications(&gw, ClientTransport::StatelessHttp, &json!({"taskIds": ["read"]})).await;
        trigger.notify_waiters();
        let rest = notifications.rest().await;
        assert_eq!(methods(&rest).iter().filter(|method| **method == TASKS).count(), expected, "{policy}: {rest:?}");
    }
}

#[tokio::test]
async fn task_with_an_unknown_input_request_is_recorded_and_not_notified() {
    let trigger = Arc::new(Notify::new());
    let input_requests = json!({"e": {"method": "vendor/ask", "params": {}}});
    let server = NotifyingServer {
        capabilities: json!({"tools": {}, "extensions": {TASKS_EXTENSION: {}}}),
        acknowledged: json!({"taskIds": ["read"]}),
        messages: vec![(TASKS, json!({"taskId": "read", "status": "input_required", "inputRequests": input_requests}))],
        trigger: Arc::clone(&trigger),
    };
    let upstream = server.start(true).await;
    let gw = TestGateway::with_policy(ALLOW_ALL, &upstream).await;
    StatelessTestClient::new(&gw).call("read", json!({})).await;
    let mut notifications =
        open_notifications(&gw, ClientTransport::StatelessHttp, &json!({"taskIds": ["read"]})).await;
    trigger.notify_waiters();
    let rest = notifications.rest().await;
    assert!(!methods(&rest).contains(&TASKS), "{rest:?}");
    let rows = gw.rows().await;
    let row = rows.iter().find(|row| row.record.method.as_deref() == Some("vendor/ask")).expect("a row");
    assert_eq!(row.record.kind, RecordKind::Refused);
}

#[tokio::test]
async fn task_is_notified_while_its_tool_may_be_called() {
    let same = r#"{"version":"1","default":"deny","tools":{"read":{},"wipe":{}}}"#;
    let denied = r#"{"version":"1","default":"deny","tools":{"read":{},"wipe":{"action":"deny"}}}"#;
    let hidden = r#"{"version":"1","default":"deny","tools":{"read":{}}}"#;
    let cases = [ClientTransport::StatelessHttp, ClientTransport::StatelessStdio, ClientTransport::StatelessAggregate]
        .into_iter()
        .flat_map(|transport| {
            // A subscription that includes a forbidden task ends, and the client has to subscribe again.
            let (both, none): (&[_], &[_]) = (&["wipe", "read"], &[]);
            let policies = [(None, both), (Some(same), both), (Some(denied), none), (Some(hidden), none)];
            policies.map(|(policy, expected)| assert_task_notifications(transport, policy, expected))
        });
    run_concurrently(cases).await;
}
