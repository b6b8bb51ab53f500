//! A gateway on a free port, with an in-memory store and a manual clock.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use gatelodge_gateway::{
    ActivePolicy, Gateway, GatewaySettings, GrantConfig, GrantServerAccess, InjectedHeader, PinningSettings,
    UpstreamConfig, UpstreamHttpConfig, UpstreamProcessConfig, UpstreamTransport,
};
use gatelodge_policy::{Category, DocumentFormat, parse};
use gatelodge_store::{
    AdminLogEntry, CallLogFilter, CallLogRow, CategoryOverride, Clock, EnforcementMode, GrantId, GrantToken,
    ManualClock, PolicyVersionNumber, Sessions, Store, TaskOwners, TokenHash,
};
use http::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::fake_upstream::FakeUpstream;
use crate::raw_http::{TestResponse, exchange};

/// Name of the test gateway's default server.
const SERVER: &str = "desk";

/// Builds a [`TestGateway`].
pub struct TestGatewayBuilder {
    policy: Option<String>,
    mode: EnforcementMode,
    settings: GatewaySettings,
    headers: Vec<InjectedHeader>,
    log_arguments: bool,
    pinning: PinningSettings,
    store: Store,
    clock: Arc<ManualClock>,
    /// Additional servers, each with its name, its URL and the grant's policy for it.
    more_servers: Vec<(String, String, String)>,
    endpoint_path: &'static str,
}

/// A running gateway with one grant and one upstream.
pub struct TestGateway {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// Clock that the gateway and the store use.
    pub clock: Arc<ManualClock>,
    /// Store of the gateway.
    pub store: Store,
    /// Address that clients connect to.
    pub address: SocketAddr,
    /// Address of the admin listener.
    pub admin: SocketAddr,
    /// Token of the grant.
    pub token: GrantToken,
    settings: GatewaySettings,
    session: std::sync::Mutex<Option<String>>,
    endpoint_path: &'static str,
    servers: std::sync::Mutex<Vec<UpstreamConfig>>,
    grants: std::sync::Mutex<Vec<GrantConfig>>,
    run: std::sync::Mutex<Option<tokio::task::JoinHandle<()>>>,
}

impl TestGatewayBuilder {
    /// Sets the grant's policy, as JSON.
    pub fn policy(mut self, policy: &str) -> Self {
        self.policy = Some(policy.to_owned());
        self
    }

    /// Sets how tool definitions are pinned.
    pub fn pinning(mut self, pinning: PinningSettings) -> Self {
        self.pinning = pinning;
        self
    }

    /// Sets the grant's mode to `observe`.
    pub fn observe_only(mut self) -> Self {
        self.mode = EnforcementMode::Observe;
        self
    }

    /// Sets the gateway settings.
    pub fn settings(mut self, settings: GatewaySettings) -> Self {
        self.settings = settings;
        self
    }

    /// Adds a header with a secret to requests to the upstream.
    pub fn secret_header(mut self, name: &'static str, value: &str, secret: &str) -> Self {
        self.headers.push(InjectedHeader {
            name: HeaderName::from_static(name),
            value: HeaderValue::from_str(value).expect("a value"),
            secrets: vec![secret.to_owned()],
        });
        self
    }

    /// Records arguments in the call log.
    pub fn log_arguments(mut self) -> Self {
        self.log_arguments = true;
        self
    }

    /// Uses this store and its clock instead of an in-memory one.
    pub fn store(mut self, store: Store, clock: Arc<ManualClock>) -> Self {
        self.store = store;
        self.clock = clock;
        self
    }

    /// Uses another part for sessions.
    pub fn sessions(mut self, sessions: Arc<dyn Sessions>) -> Self {
        self.store.sessions = sessions;
        self
    }

    /// Uses another part for task ownership.
    pub fn tasks(mut self, tasks: Arc<dyn TaskOwners>) -> Self {
        self.store.task_owners = tasks;
        self
    }

    /// Adds another server, which the grant can reach under a separate policy.
    pub fn with_server(mut self, name: &str, url: &str, policy: &str) -> Self {
        self.more_servers.push((name.to_owned(), url.to_owned(), policy.to_owned()));
        self
    }

    /// Sends requests to the aggregate endpoint, `/mcp`.
    pub fn at_aggregate(mut self) -> Self {
        self.endpoint_path = "/mcp";
        self
    }

    /// Starts the gateway in front of an upstream.
    pub async fn start(self, upstream: &FakeUpstream) -> TestGateway {
        self.start_at(&upstream.url()).await
    }

    /// Starts the gateway in front of the server at a URL.
    pub async fn start_at(mut self, url: &str) -> TestGateway {
        let headers = std::mem::take(&mut self.headers);
        self.start_with_transport(http_transport(url, headers)).await
    }

    /// Starts the gateway in front of a stdio server that is a shell script. The supervisor is replaced with a shell
    /// command that only starts the server.
    #[expect(clippy::disallowed_methods, reason = "the shell finds programs by the PATH of the test")]
    pub async fn start_process(mut self, script: &str) -> TestGateway {
        self.settings.supervisor = ["sh", "-c", r#"shift; exec "$@""#, "supervisor"].map(Into::into).to_vec();
        let environment = std::env::vars().filter(|(name, _)| name == "PATH").collect();
        self.start_with_transport(UpstreamTransport::Process(UpstreamProcessConfig {
            program: "sh".to_owned(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
            env: environment,
            secrets: Vec::new(),
            directory: None,
            grace: Duration::from_millis(200),
        }))
        .await
    }

    async fn start_with_transport(self, transport: UpstreamTransport) -> TestGateway {
        let Self { policy, mode, settings, log_arguments, pinning, store, clock, more_servers, endpoint_path, .. } =
            self;
        let server = |name: &str, transport| UpstreamConfig {
            name: name.parse().expect("a name"),
            transport,
            log_arguments,
            pinning,
        };
        let mut servers = vec![server(SERVER, transport)];
        servers.extend(more_servers.iter().map(|(name, url, _)| server(name, http_transport(url, Vec::new()))));
        let token = GrantToken::random().expect("randomness");
        let mut grant = grant("ci", token.hash(), policy.as_deref(), mode);
        for (name, _, policy) in &more_servers {
            grant
                .servers
                .insert(name.parse().expect("a name"), GrantServerAccess { policy: Some(shared_policy(policy)), mode });
        }
        let GatewayInstance { gateway, address, admin, run } =
            launch(&store, &clock, &settings, &servers, std::slice::from_ref(&grant)).await;
        let (session, grants) = (std::sync::Mutex::default(), std::sync::Mutex::new(vec![grant]));
        let run = std::sync::Mutex::new(Some(run));
        TestGateway {
            gateway,
            clock,
            store,
            address,
            admin,
            token,
            settings,
            session,
            endpoint_path,
            servers: std::sync::Mutex::new(servers),
            grants,
            run,
        }
    }
}

fn http_transport(url: &str, headers: Vec<InjectedHeader>) -> UpstreamTransport {
    UpstreamTransport::Http(UpstreamHttpConfig { url: url.parse().expect("a URL"), headers })
}

/// A running gateway: its addresses and its task.
struct GatewayInstance {
    gateway: Arc<Gateway>,
    address: SocketAddr,
    admin: SocketAddr,
    run: tokio::task::JoinHandle<()>,
}

async fn launch(
    store: &Store,
    clock: &Arc<ManualClock>,
    settings: &GatewaySettings,
    servers: &[UpstreamConfig],
    grants: &[GrantConfig],
) -> GatewayInstance {
    let gateway = Gateway::new(store.clone(), clock.clone(), settings.clone());
    gateway.apply_config(servers.to_vec(), grants.to_vec());
    let (clients, admin) = (bind_listener().await, bind_listener().await);
    let (address, admin_address) = (clients.local_addr().unwrap(), admin.local_addr().unwrap());
    let running = Arc::clone(&gateway);
    let run = tokio::spawn(async move { running.run(clients, Some(admin)).await.expect("listeners") });
    GatewayInstance { gateway, address, admin: admin_address, run }
}

async fn bind_listener() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").await.expect("a port")
}

/// Returns a grant that can reach only the default server.
fn grant(label: &str, token: TokenHash, policy: Option<&str>, mode: EnforcementMode) -> GrantConfig {
    let policy = policy.map(shared_policy);
    let attachments = HashMap::from([(SERVER.parse().expect("a name"), GrantServerAccess { policy, mode })]);
    let (id, label) = (GrantId(label.into()), label.into());
    GrantConfig {
        id,
        label,
        labels: BTreeMap::new(),
        token,
        expires: None,
        minimum_revision: None,
        servers: attachments,
    }
}

fn shared_policy(text: &str) -> Arc<ActivePolicy> {
    Arc::new(parse_policy(text))
}

fn parse_policy(text: &str) -> ActivePolicy {
    let policy = parse(text.as_bytes(), DocumentFormat::Json).unwrap_or_else(|diagnostics| panic!("{diagnostics:?}"));
    ActivePolicy { name: "books".parse().expect("a name"), version: PolicyVersionNumber(1), policy }
}

impl TestGateway {
    /// Returns a builder with defaults. The clock starts at noon on a Sunday.
    pub fn builder() -> TestGatewayBuilder {
        let clock = Arc::new(ManualClock::at("2026-11-15T12:00:00Z".parse().expect("a time")));
        TestGatewayBuilder {
            policy: None,
            mode: EnforcementMode::Enforce,
            settings: GatewaySettings::default(),
            headers: Vec::new(),
            log_arguments: false,
            pinning: PinningSettings::default(),
            store: Store::memory(clock.clone()),
            clock,
            more_servers: Vec::new(),
            endpoint_path: "/mcp/desk",
        }
    }

    /// Starts a gateway with a policy in front of an upstream.
    pub async fn with_policy(policy: &str, upstream: &FakeUpstream) -> Self {
        Self::builder().policy(policy).start(upstream).await
    }

    /// Adds a grant with its own policy.
    pub fn add_grant(&self, label: &str, policy: &str) -> GrantToken {
        let token = GrantToken::random().expect("randomness");
        let mut grants = self.grants.lock().unwrap();
        grants.push(grant(label, token.hash(), Some(policy), EnforcementMode::Enforce));
        self.gateway.apply_config(self.servers.lock().unwrap().clone(), grants.clone());
        token
    }

    /// Changes the active grants.
    pub fn change_grants(&self, change: impl FnOnce(&mut Vec<GrantConfig>)) {
        self.change_config(|_, grants| change(grants));
    }

    /// Changes the active servers and grants.
    pub fn change_config(&self, change: impl FnOnce(&mut Vec<UpstreamConfig>, &mut Vec<GrantConfig>)) {
        let (mut servers, mut grants) = (self.servers.lock().unwrap(), self.grants.lock().unwrap());
        change(&mut servers, &mut grants);
        self.gateway.apply_config(servers.clone(), grants.clone());
    }

    /// Activates the next version of the first grant's policy for a server. Adds the server to the grant if necessary.
    pub fn put_policy(&self, server: &str, policy: &str) {
        let server = server.parse().expect("a name");
        self.change_grants(|grants| {
            let attachments = &mut grants[0].servers;
            let before = attachments.get(&server).and_then(|attachment| attachment.policy.as_ref());
            let version = PolicyVersionNumber(before.map_or(1, |policy| policy.version.0 + 1));
            let policy = Arc::new(ActivePolicy { version, ..parse_policy(policy) });
            attachments.insert(server, GrantServerAccess { policy: Some(policy), mode: EnforcementMode::Enforce });
        });
    }

    /// Activates a server, replacing any server with the same name.
    pub fn put_server(&self, name: &str, url: &str) {
        self.change_config(|servers, _| {
            let transport =
                UpstreamTransport::Http(UpstreamHttpConfig { url: url.parse().expect("a URL"), headers: Vec::new() });
            let name = name.parse().expect("a name");
            servers.retain(|server| server.name != name);
            servers.push(UpstreamConfig { name, transport, log_arguments: false, pinning: PinningSettings::default() });
        });
    }

    /// Opens a session as a client with all capabilities.
    pub async fn initialize(&self) -> TestResponse {
        let capabilities = json!({"elicitation": {"form": {}, "url": {}}, "sampling": {"tools": {}}, "roots": {}});
        self.initialize_with(capabilities).await
    }

    /// Opens a session as a client with the given capabilities.
    pub async fn initialize_with(&self, capabilities: Value) -> TestResponse {
        let body = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "test", "version": "1"}}});
        let response = self.post(&[], &body.to_string()).await;
        *self.session.lock().unwrap() = response.header("mcp-session-id").map(str::to_owned);
        self.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        response
    }

    /// Returns the session id.
    pub fn session(&self) -> String {
        self.session.lock().unwrap().clone().expect("a session")
    }

    /// Sends a message in the current session, opening a session first if necessary.
    pub async fn send(&self, message: &Value) -> TestResponse {
        self.send_text(&message.to_string()).await
    }

    /// Sends a message body unchanged in the current session, opening a session first if necessary.
    pub async fn send_text(&self, body: &str) -> TestResponse {
        if self.session.lock().unwrap().is_none() {
            Box::pin(self.initialize()).await;
        }
        let session = self.session();
        self.post(&[("Mcp-Session-Id", &session), ("MCP-Protocol-Version", "2025-11-25")], body).await
    }

    /// Calls a tool.
    pub async fn call(&self, tool: &str, arguments: Value) -> TestResponse {
        let params = json!({"name": tool, "arguments": arguments});
        self.send(&json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params})).await
    }

    /// Sends a message body with additional headers and the grant's token.
    pub async fn post(&self, headers: &[(&str, &str)], body: &str) -> TestResponse {
        let bearer = format!("Bearer {}", self.token.reveal());
        let mut all = vec![
            ("Authorization", bearer.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
        ];
        all.extend_from_slice(headers);
        self.send_raw("POST", self.endpoint_path, &all, body.as_bytes()).await
    }

    /// Sends a request with only the given headers and those that HTTP requires.
    pub async fn send_raw(&self, verb: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> TestResponse {
        let mut head = format!("{verb} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        for (name, value) in headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        exchange(self.address, &[head.as_bytes(), body].concat()).await
    }

    /// Stops the gateway, and checks that all its tasks end immediately.
    pub async fn assert_stops_promptly(&self) {
        self.gateway.stop();
        let run = self.run.lock().unwrap().take().expect("the gateway runs");
        let ended = tokio::time::timeout(Duration::from_secs(2), run).await;
        ended.expect("all tasks end in time").expect("no task panics");
    }

    /// Stops the gateway and starts another one on the same store, with the same servers and grants.
    pub async fn restart(&mut self) {
        self.assert_stops_promptly().await;
        let grants = self.grants.lock().unwrap().clone();
        let servers = self.servers.lock().unwrap().clone();
        let instance = launch(&self.store, &self.clock, &self.settings, &servers, &grants).await;
        (self.gateway, self.address, self.admin) = (instance.gateway, instance.address, instance.admin);
        self.run = std::sync::Mutex::new(Some(instance.run));
    }

    /// Starts a second gateway on the same store. The returned test gateway continues in the same client session.
    pub async fn second_gateway(&self) -> Self {
        let grants = self.grants.lock().unwrap().clone();
        let servers = self.servers.lock().unwrap().clone();
        let instance = launch(&self.store, &self.clock, &self.settings, &servers, &grants).await;
        Self {
            gateway: instance.gateway,
            clock: self.clock.clone(),
            store: self.store.clone(),
            address: instance.address,
            admin: instance.admin,
            token: self.token.clone(),
            settings: self.settings.clone(),
            session: std::sync::Mutex::new(self.session.lock().unwrap().clone()),
            endpoint_path: self.endpoint_path,
            servers: std::sync::Mutex::new(servers),
            grants: std::sync::Mutex::new(grants),
            run: std::sync::Mutex::new(Some(instance.run)),
        }
    }

    /// Accepts all tool definitions in the upstream's most recent tool list.
    pub async fn accept_all(&self) {
        let server = SERVER.parse().expect("a name");
        let known = self.store.tool_pins.server_tools(&server).await.expect("a store").expect("the tools were listed");
        let tools = known.offered.into_iter().map(|tool| (tool.name, tool.fingerprint)).collect();
        self.store.tool_pins.accept(&server, tools, self.admin_log_entry("server.accept")).await.expect("accepted");
        self.change_grants(|_| ());
    }

    /// Sets the category of a tool, either for its pinned definition only or for future definitions as well.
    pub async fn classify_tool(&self, tool: &str, category: Category, even_if_changed: bool) {
        let server = SERVER.parse().expect("a name");
        let known = self.store.tool_pins.server_tools(&server).await.expect("a store").expect("the tools were listed");
        let pin = known.pinned.into_iter().find(|pin| pin.definition.name == tool).expect("the tool is pinned");
        let entry = self.admin_log_entry("server.classify");
        let category_override = CategoryOverride {
            tool: tool.to_owned(),
            category,
            reason: "we looked".to_owned(),
            fingerprint: (!even_if_changed).then_some(pin.definition.fingerprint),
            set_at: entry.at,
            set_by: entry.by.clone(),
        };
        self.store.tool_pins.set_category(&server, category_override, entry).await.expect("stored");
        self.change_grants(|_| ());
    }

    fn admin_log_entry(&self, action: &str) -> AdminLogEntry {
        AdminLogEntry {
            at: self.clock.now(),
            by: "tester".to_owned(),
            action: action.to_owned(),
            subject: SERVER.to_owned(),
            detail: Value::Null,
        }
    }

    /// Returns all call log rows.
    pub async fn rows(&self) -> Vec<CallLogRow> {
        self.store.ledger.flush().await.expect("a store");
        self.store.call_log.rows(CallLogFilter { limit: usize::MAX, ..CallLogFilter::default() }).await.expect("rows")
    }
}
