//! The gateway's limits and timeouts, with their defaults. Everything that could grow without bound has a limit.

mod injected_header;
mod otlp_trace_config;

use std::ffi::OsString;
use std::time::Duration;

use gatelodge_json::JsonLimits;

pub use self::injected_header::InjectedHeader;
pub use self::otlp_trace_config::OtlpTraceConfig;

/// Maximum size of the read buffer. Larger reads mean fewer chunks per body, but each connection may keep a buffer of
/// this size.
pub(crate) const MAX_READ_BYTES: usize = 256 << 10;

/// Limits, timeouts and addresses.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// Host names that clients use, in addition to the host names of the listening address.
    pub hosts: Vec<String>,
    /// Origins of web pages that may send requests, as a browser sends them: `https://app.example.com`.
    pub origins: Vec<String>,
    /// Limits for messages from clients.
    pub request_limits: JsonLimits,
    /// Limits for messages from upstreams.
    pub reply_limits: JsonLimits,
    /// Maximum number of open client connections.
    pub max_connections: usize,
    /// Maximum number of concurrent requests per grant, and also of open streams per grant: a runaway agent must not
    /// starve others.
    pub in_flight_per_grant: usize,
    /// Maximum number of concurrent requests per server: a server that hangs must not block the others.
    pub in_flight_per_server: usize,
    /// Maximum number of processes per stdio server; each session has its own. At the limit, the least recently used
    /// process is stopped; it is started again when its session is next used.
    pub processes_per_server: usize,
    /// Maximum number of sessions in memory.
    pub max_sessions: usize,
    /// Maximum number of sessions per grant.
    pub max_sessions_per_grant: usize,
    /// How long a session may be idle before it is ended.
    pub session_idle_timeout: Duration,
    /// How long receiving the request headers may take. A slower client is broken or hostile.
    pub header_timeout: Duration,
    /// How long receiving a request body may take, and how long a client may take to read the next part of a response.
    pub body_timeout: Duration,
    /// How long connecting to an upstream may take.
    pub connect_timeout: Duration,
    /// How long a whole call may take. Claude Code waits 300 s without progress.
    pub call_timeout: Duration,
    /// How long a client may take to answer a server's request during a call. The answer may have to come from a
    /// person.
    pub client_input_timeout: Duration,
    /// Interval between keep-alive comments on an event stream. Some proxies close idle connections after 30 s.
    pub keep_alive_interval: Duration,
    /// How long calls may take to finish when the gateway stops.
    pub drain_timeout: Duration,
    /// Command line of the supervisor for stdio servers. The grace period in milliseconds and the server's command line
    /// are appended. If empty, stdio servers are disabled.
    pub supervisor: Vec<OsString>,
    /// OTLP collector for telemetry, which is disabled by default.
    pub telemetry: Option<OtlpTraceConfig>,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            request_limits: JsonLimits::REQUEST,
            reply_limits: JsonLimits::REPLY,
            max_connections: 10_000,
            in_flight_per_grant: 256,
            in_flight_per_server: 512,
            processes_per_server: 64,
            max_sessions: 10_000,
            max_sessions_per_grant: 2_500,
            session_idle_timeout: Duration::from_secs(3_600),
            header_timeout: Duration::from_secs(10),
            body_timeout: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(5),
            call_timeout: Duration::from_secs(290),
            client_input_timeout: Duration::from_secs(600),
            keep_alive_interval: Duration::from_secs(15),
            drain_timeout: Duration::from_secs(10),
            supervisor: Vec::new(),
            telemetry: None,
        }
    }
}
