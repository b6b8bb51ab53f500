//! Limits and timeouts of the gateway. Everything that could grow has a limit; each default has its reason.

use std::ffi::OsString;
use std::time::Duration;

use gatelodge_json::JsonLimits;

use crate::telemetry::TelemetryConfig;

/// Limits, timeouts and addresses.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// Host names that clients use, in addition to those of the listening address.
    pub hosts: Vec<String>,
    /// Origins of web pages that may call, as a browser sends them: `https://app.example.com`.
    pub origins: Vec<String>,
    /// Limits of a client's message.
    pub request_limits: JsonLimits,
    /// Limits of an upstream's message.
    pub reply_limits: JsonLimits,
    /// Open client connections.
    pub max_connections: usize,
    /// Concurrent requests of one grant, and its open streams: a runaway agent must not starve others.
    pub in_flight_per_grant: usize,
    /// Concurrent requests to one server: one that hangs must not block all others.
    pub in_flight_per_server: usize,
    /// Processes of one stdio server; each session has its own. At the limit the least recently used one is stopped and
    /// started again when its session is used.
    pub processes_per_server: usize,
    /// Sessions in memory.
    pub max_sessions: usize,
    /// Sessions of one grant.
    pub max_sessions_per_grant: usize,
    /// A session is ended after this idle time.
    pub session_idle_timeout: Duration,
    /// Time to receive request headers. A slower client is broken or hostile.
    pub header_timeout: Duration,
    /// Time to receive a request body, and for a client to read the next part of a response.
    pub body_timeout: Duration,
    /// Time to connect to an upstream.
    pub connect_timeout: Duration,
    /// Time for a whole call. Claude Code waits 300 s without progress.
    pub call_timeout: Duration,
    /// Time for a client to answer a server's request during a call. A person may have to think.
    pub client_input_timeout: Duration,
    /// Interval of keep-alive comments on an event stream. Some proxies close idle connections after 30 s.
    pub keep_alive_interval: Duration,
    /// Time for calls to finish when the gateway stops.
    pub drain_timeout: Duration,
    /// Command line of the supervisor of stdio servers. The grace period in milliseconds and the server's command line
    /// are appended. Empty disables stdio servers.
    pub supervisor: Vec<OsString>,
    /// OTLP collector; disabled by default.
    pub telemetry: Option<TelemetryConfig>,
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
