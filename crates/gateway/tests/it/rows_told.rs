//! Row R7 where it was not shown: what a server that came later says is heard, tasks that a client listens to, and that
//! on no way anybody is told of what was not promised.
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

use super::rows_kit::{
    ALL, Caller, EXTENSION, VERSION, answered, begin_in_session, beside, chunk, event, modern_answer, open_stream,
    put_in_force, result_of, stateless, until,
};
use super::rows_ways::Way;

const TOOLS: &str = "notifications/tools/list_changed";
const PROMPTS: &str = "notifications/prompts/list_changed";
const TASKS: &str = "notifications/tasks";
const TAG: &str = "io.modelcontextprotocol/subscriptionId";
const LISTS: &str = r#"{"version":"1","default":"deny","tools":{"read":{}}}"#;

/// What a client hears, whatever it hears it by.
struct Ear {
    messages: mpsc::UnboundedReceiver<Value>,
    _input: Option<DuplexStream>,
}

impl Ear {
    fn of(stream: impl AsyncRead + Send + Unpin + 'static, input: Option<DuplexStream>) -> Self {
        let (heard, messages) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stream).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let text = line.strip_prefix("data: ").unwrap_or(&line);
                if let Ok(message @ Value::Object(_)) = serde_json::from_str(text) {
                    let _ = heard.send(message);
                }
            }
        });
        Self { messages, _input: input }
    }

    async fn next(&mut self) -> Value {
        let next = tokio::time::timeout(Duration::from_secs(5), self.messages.recv()).await;
        next.unwrap_or_else(|_| panic!("no message in time")).expect("the stream is open")
    }

    /// What comes until nothing comes for a while.
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

/// Opens the stream by which a client hears of what it wants, and waits until it does.
async fn listens(gw: &TestGateway, way: Way, wanted: &Value) -> Ear {
    let listening = || json!({"notifications": wanted});
    let mut ear = match way {
        Way::Session | Way::SessionAtAll => {
            gw.initialize().await;
            Ear::of(begin_in_session(gw, "GET", way.path(), "", "").await, None)
        }
        Way::Stateless => Ear::of(Caller::of(gw).begin("subscriptions/listen", listening()).await, None),
        Way::StatelessAtAll => Ear::of(Caller::of(gw).at_all().begin("subscriptions/listen", listening()).await, None),
        Way::Sse => by_sse(gw).await,
        Way::Lines => {
            let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "l", "version": "1"}});
            let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello});
            let mut ear = at_lines(gw, &hello.to_string()).await;
            assert_eq!(ear.next().await["id"], 0);
            ear
        }
        Way::StatelessLines => {
            let able = json!({"extensions": {EXTENSION: {}}});
            at_lines(gw, &stateless("subscriptions/listen", listening(), &able)).await
        }
    };
    if way.is_stateless() {
        let first = ear.next().await;
        assert_eq!(first["method"], "notifications/subscriptions/acknowledged", "{way:?}: {first}");
        assert_eq!(first["params"]["_meta"][TAG], 3, "{way:?}: {first}");
    }
    tokio::time::sleep(Duration::from_millis(700)).await;
    ear
}

async fn by_sse(gw: &TestGateway) -> Ear {
    let mut caller = SseTestClient::open_initialized(gw, "2025-11-25").await;
    let (heard, messages) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some((_, data)) = caller.next_event().await {
            let _ = heard.send(serde_json::from_str(&data).expect("JSON"));
        }
    });
    Ear { messages, _input: None }
}

async fn at_lines(gw: &TestGateway, first: &str) -> Ear {
    let (mut own, input) = tokio::io::duplex(64 << 10);
    let (output, answers) = tokio::io::duplex(64 << 10);
    let (gateway, token) = (gw.gateway.clone(), gw.token.hash());
    let name = "desk".parse().expect("a name");
    tokio::spawn(async move { gateway.serve_stdio(&token, &name, input, output).await });
    own.write_all(format!("{first}\n").as_bytes()).await.expect("it can be written");
    Ear::of(answers, Some(own))
}

/// What a server does on the stream of whoever listens.
struct Told {
    /// What it says that it can tell of, and what it promises who listens without a session.
    able: Value,
    promises: Value,
    /// What it says when it is told to.
    says: Vec<(&'static str, Value)>,
    speak: Arc<Notify>,
}

impl Told {
    fn on_stream(&self, listener: Option<&Value>) -> ResponseScript {
        let said = |method: &str, mut params: Value| {
            if let Some(id) = listener {
                params["_meta"] = json!({TAG: id});
            }
            event(&json!({"jsonrpc": "2.0", "method": method, "params": params, "beside": 1.5}))
        };
        let first = json!({"notifications": self.promises});
        let first = listener.map(|_| said("notifications/subscriptions/acknowledged", first)).unwrap_or_default();
        let later: String = self.says.iter().map(|(method, params)| said(method, params.clone())).collect();
        let steps = vec![
            ScriptStep::Write(chunk(&first)),
            ScriptStep::WaitFor(Arc::clone(&self.speak)),
            ScriptStep::Write(chunk(&later)),
            ScriptStep::Pause(Duration::from_secs(30)),
        ];
        [open_stream(), steps].concat()
    }

    fn answer(&self, hit: &RecordedRequest, is_modern: bool) -> Option<ResponseScript> {
        match hit.method().as_str() {
            "subscriptions/listen" if is_modern => Some(self.on_stream(Some(&hit.message()["id"]))),
            "tools/call" if is_modern => {
                answered(hit, &json!({"resultType": "task", "taskId": hit.tool(), "status": "working", "ttlMs": null}))
            }
            _ if is_modern => {
                modern_answer(hit, &json!([tool_definition("read"), tool_definition("wipe")]), &self.able)
            }
            "initialize" => {
                let result = json!({"protocolVersion": "2025-11-25", "capabilities": self.able, "serverInfo": {"name": "s", "version": "1"}});
                Some(json_response("200 OK", "mcp-session-id: s\r\n", &result_of(hit, &result).to_string()))
            }
            _ if hit.request_line.starts_with("GET") => Some(self.on_stream(None)),
            _ => None,
        }
    }

    async fn start(self, is_modern: bool) -> FakeUpstream {
        FakeUpstream::start(json!([tool_definition("read"), tool_definition("wipe")]), move |hit| {
            self.answer(hit, is_modern)
        })
        .await
    }
}

fn silent() -> Told {
    Told { able: json!({"tools": {}}), promises: json!({}), says: Vec::new(), speak: Arc::default() }
}

/// A client at `/mcp` hears a server that was not there when it began to listen.
async fn hears_the_later_one(way: Way, is_modern: bool) {
    let case = format!("{way:?}, a server that is modern: {is_modern}");
    let desk = silent().start(false).await;
    let gw = TestGateway::builder().policy(ALL).at_aggregate().start(&desk).await;
    let mut ear = listens(&gw, way, &json!({"toolsListChanged": true})).await;
    let speak = Arc::new(Notify::new());
    let promises = json!({"toolsListChanged": true});
    let says = vec![(TOOLS, json!({"x": 1})), (TOOLS, json!({"x": 2}))];
    let told = Told { able: json!({"tools": {"listChanged": true}}), promises, says, speak: Arc::clone(&speak) };
    let zoo = told.start(is_modern).await;
    gw.put_server("zoo", &zoo.url());
    gw.put_policy("zoo", ALL);
    assert_eq!(ear.next().await["method"], TOOLS, "{case}: that it is there");
    let is_open = || {
        zoo.requests().iter().any(|hit| hit.request_line.starts_with("GET") || hit.method() == "subscriptions/listen")
    };
    until("it is listened to", is_open).await;
    ear.rest().await;
    speak.notify_waiters();
    for nth in [1, 2] {
        let said = ear.next().await;
        assert_eq!((&said["method"], &said["params"]["x"]), (&json!(TOOLS), &json!(nth)), "{case}: {said}");
        assert_eq!(said["beside"], 1.5, "{case}: {said}");
        // What is asked for in a session is asked for by us.
        let tag = if way.is_stateless() { json!(3) } else { Value::Null };
        assert_eq!(said["params"]["_meta"][TAG], tag, "{case}: {said}");
    }
    assert!(ear.rest().await.is_empty(), "{case}");
}

#[tokio::test]
async fn r7_what_a_server_says_that_came_to_the_others_arrives() {
    let ways = [Way::SessionAtAll, Way::StatelessAtAll];
    let cases = ways.into_iter().flat_map(|way| [(way, false), (way, true)]);
    beside(cases.map(|(way, is_modern)| hears_the_later_one(way, is_modern))).await;
}

async fn is_told_nothing(way: Way, is_modern: bool, able: Value) {
    let case = format!("{way:?}, {able}, a server that is modern: {is_modern}");
    let desk = Told { able, ..silent() }.start(is_modern).await;
    let gw = TestGateway::with_policy(ALL, &desk).await;
    let mut ear = listens(&gw, way, &json!({"toolsListChanged": true})).await;
    gw.put_policy("desk", LISTS);
    let rest = ear.rest().await;
    assert!(rest.is_empty(), "{case}: {rest:?}");
}

#[tokio::test]
async fn r7_on_no_way_anybody_is_told_of_what_the_server_does_not_promise() {
    let able = || [json!({"tools": {}}), json!({"tools": {"listChanged": false}})];
    let ways = [Way::Session, Way::Stateless, Way::Sse, Way::Lines, Way::StatelessLines];
    let cases = ways.into_iter().flat_map(|way| [(way, false), (way, true)]);
    let cases = cases.flat_map(|(way, is_modern)| able().map(|able| is_told_nothing(way, is_modern, able)));
    beside(cases).await;
}

async fn is_told_what_it_asked_for(way: Way, is_modern: bool) {
    let case = format!("{way:?}, a server that is modern: {is_modern}");
    let speak = Arc::new(Notify::new());
    let able = json!({"tools": {"listChanged": true}, "prompts": {"listChanged": true}});
    // More than it was asked for.
    let says = vec![(TOOLS, json!({})), (PROMPTS, json!({}))];
    let told = Told { able, promises: json!({"promptsListChanged": true}), says, speak: Arc::clone(&speak) };
    let desk = told.start(is_modern).await;
    let gw = TestGateway::with_policy(ALL, &desk).await;
    let mut ear = listens(&gw, way, &json!({"promptsListChanged": true})).await;
    speak.notify_waiters();
    let rest = ear.rest().await;
    assert_eq!(methods(&rest), [PROMPTS], "{case}: {rest:?}");
    gw.put_policy("desk", LISTS);
    let rest = ear.rest().await;
    assert_eq!(methods(&rest), [PROMPTS], "{case}: {rest:?}");
}

#[tokio::test]
async fn r7_nor_is_who_did_not_ask_for_it() {
    let ways = [Way::Stateless, Way::StatelessLines, Way::StatelessAtAll];
    let cases = ways.into_iter().flat_map(|way| [(way, false), (way, true)]);
    beside(cases.map(|(way, is_modern)| is_told_what_it_asked_for(way, is_modern))).await;
}

/// A server that tells of tasks when it is told to, a client that made two of them, and what it hears of them.
async fn hears_of_tasks(way: Way, policy: Option<&'static str>, wanted: &[&str]) {
    let speak = Arc::new(Notify::new());
    let task = |id: &str| (TASKS, json!({"taskId": id, "status": "completed"}));
    let told = Told {
        able: json!({"tools": {}, "extensions": {EXTENSION: {}}}),
        promises: json!({"taskIds": ["read", "wipe"]}),
        says: vec![task("theirs"), task("wipe"), task("read")],
        speak: Arc::clone(&speak),
    };
    let desk = told.start(true).await;
    let gw = TestGateway::with_policy(ALL, &desk).await;
    let caller = if way.is_at_all() { Caller::of(&gw).at_all() } else { Caller::of(&gw) };
    for name in ["read", "wipe"] {
        let made = caller.call(&way.name(name), json!({})).await;
        assert_eq!(made.message()["result"]["taskId"], way.name(name), "{way:?}: {}", made.body);
    }
    let mut ear = listens(&gw, way, &json!({"taskIds": [way.name("read"), way.name("wipe")]})).await;
    let sent = desk.requests().into_iter().find(|hit| hit.method() == "subscriptions/listen").expect("a request");
    assert_eq!(sent.message()["params"]["notifications"]["taskIds"], json!(["read", "wipe"]), "{way:?}");
    assert_eq!(sent.header("mcp-protocol-version"), Some(VERSION), "{way:?}");
    if let Some(policy) = policy {
        put_in_force(&gw, policy);
        tokio::time::sleep(Duration::from_millis(1_500)).await;
    }
    speak.notify_waiters();
    let rest = ear.rest().await;
    for message in &rest {
        // What ends it is tagged as well.
        let said = if message["params"].is_null() { &message["result"] } else { &message["params"] };
        assert_eq!(said["_meta"][TAG], 3, "{way:?} under {policy:?}: {message}");
    }
    let tasks: Vec<&str> = rest.iter().filter_map(|message| message["params"]["taskId"].as_str()).collect();
    let wanted: Vec<String> = wanted.iter().map(|name| way.name(name)).collect();
    assert_eq!(tasks, wanted, "{way:?} under {policy:?}: {rest:?}");
}

#[tokio::test]
async fn p3_a_task_that_waits_is_not_told_of_if_the_client_must_not_be_asked() {
    for (client_requests, wanted) in [("", 0), (r#","client_requests":{"elicitation":"allow"}"#, 1)] {
        let speak = Arc::new(Notify::new());
        let asks = json!({"e": {"method": "elicitation/create", "params": {"message": "sure?"}}});
        let told = Told {
            able: json!({"tools": {}, "extensions": {EXTENSION: {}}}),
            promises: json!({"taskIds": ["read"]}),
            says: vec![(TASKS, json!({"taskId": "read", "status": "input_required", "inputRequests": asks}))],
            speak: Arc::clone(&speak),
        };
        let desk = told.start(true).await;
        let policy = format!(r#"{{"version":"1","default":"deny","tools":{{"*":{{}}}}{client_requests}}}"#);
        let gw = TestGateway::with_policy(&policy, &desk).await;
        let made = Caller::of(&gw).call("read", json!({})).await;
        assert_eq!(made.message()["result"]["taskId"], "read", "{}", made.body);
        let mut ear = listens(&gw, Way::Stateless, &json!({"taskIds": ["read"]})).await;
        speak.notify_waiters();
        let rest = ear.rest().await;
        assert_eq!(methods(&rest).iter().filter(|method| **method == TASKS).count(), wanted, "{policy}: {rest:?}");
    }
}

#[tokio::test]
async fn p9_a_task_that_asks_what_nobody_can_be_asked_is_not_told_of_and_that_is_written() {
    let speak = Arc::new(Notify::new());
    let asks = json!({"e": {"method": "vendor/ask", "params": {}}});
    let told = Told {
        able: json!({"tools": {}, "extensions": {EXTENSION: {}}}),
        promises: json!({"taskIds": ["read"]}),
        says: vec![(TASKS, json!({"taskId": "read", "status": "input_required", "inputRequests": asks}))],
        speak: Arc::clone(&speak),
    };
    let desk = told.start(true).await;
    let gw = TestGateway::with_policy(ALL, &desk).await;
    Caller::of(&gw).call("read", json!({})).await;
    let mut ear = listens(&gw, Way::Stateless, &json!({"taskIds": ["read"]})).await;
    speak.notify_waiters();
    let rest = ear.rest().await;
    assert!(!methods(&rest).contains(&TASKS), "{rest:?}");
    let rows = gw.rows().await;
    let row = rows.iter().find(|row| row.record.method.as_deref() == Some("vendor/ask")).expect("a row");
    assert_eq!(row.record.kind, RecordKind::Refused);
}

#[tokio::test]
async fn r7_a_task_is_told_of_to_who_listens_to_it_while_its_tool_may_be_called() {
    let same = r#"{"version":"1","default":"deny","tools":{"read":{},"wipe":{}}}"#;
    let denied = r#"{"version":"1","default":"deny","tools":{"read":{},"wipe":{"action":"deny"}}}"#;
    let hidden = r#"{"version":"1","default":"deny","tools":{"read":{}}}"#;
    let cases = [Way::Stateless, Way::StatelessLines, Way::StatelessAtAll].into_iter().flat_map(|way| {
        // Whoever may not hear of one any more listens anew.
        let (both, none): (&[_], &[_]) = (&["wipe", "read"], &[]);
        let policies = [(None, both), (Some(same), both), (Some(denied), none), (Some(hidden), none)];
        policies.map(|(policy, wanted)| hears_of_tasks(way, policy, wanted))
    });
    beside(cases).await;
}
