//! Bounds of everything that could grow without end. Each has a default with its reason.

use std::ffi::OsString;
use std::time::Duration;

use gatelodge_json::JsonLimits;

use crate::telemetry::TelemetryConfig;

/// How much, how many and how long.
#[derive(Debug, Clone)]
pub struct GatewaySettings {
    /// Host names that clients use beside those of the listening address itself.
    pub hosts: Vec<String>,
    /// Origins of web pages that may call, as a browser writes them: `https://app.example.com`.
    pub origins: Vec<String>,
    /// Bounds of a caller's message.
    pub request_limits: JsonLimits,
    /// Bounds of an upstream's message.
    pub reply_limits: JsonLimits,
    /// Open connections of callers.
    pub connections: usize,
    /// Requests of one grant at a time, and its open streams: a runaway agent must not take the gateway from the
    /// others.
    pub in_flight_per_grant: usize,
    /// Requests to one upstream at a time: one that hangs must not hold all the rest.
    pub in_flight_per_server: usize,
    /// Processes of one server that we run: each session has its own. Where there are so many, the one that was not
    /// used for longest makes room, and is started again when its session is used.
    pub processes_per_server: usize,
    /// Sessions that are kept.
    pub sessions: usize,
    /// Sessions of one grant.
    pub sessions_per_grant: usize,
    /// A session that nobody uses for so long is forgotten.
    pub session_idle: Duration,
    /// Time for a request's head; a slow one is an attack or a broken client.
    pub head_time: Duration,
    /// Time for a request's body, and for a caller to take the next piece of an answer.
    pub body_time: Duration,
    /// Time to open a connection to an upstream.
    pub connect_time: Duration,
    /// Time for a whole call. Claude Code waits 300 s without progress.
    pub call_time: Duration,
    /// Time for a client to answer what a server asks in the middle of its call; a person may have to think.
    pub client_answer_time: Duration,
    /// Time between signs of life on an open event stream; some proxies cut at 30 s.
    pub keep_alive: Duration,
    /// Time for calls to end when the gateway stops.
    pub drain_time: Duration,
    /// The program that keeps servers we run, and its first arguments; it gets the grace in milliseconds, and the
    /// server's command line. Without one, no server can be run.
    pub supervisor: Vec<OsString>,
    /// Where spans are sent; nowhere by default.
    pub telemetry: Option<TelemetryConfig>,
}

impl Default for GatewaySettings {
    fn default() -> Self {
        Self {
            hosts: Vec::new(),
            origins: Vec::new(),
            request_limits: JsonLimits::REQUEST,
            reply_limits: JsonLimits::REPLY,
            connections: 10_000,
            in_flight_per_grant: 256,
            in_flight_per_server: 512,
            processes_per_server: 64,
            sessions: 10_000,
            sessions_per_grant: 2_500,
            session_idle: Duration::from_secs(3_600),
            head_time: Duration::from_secs(10),
            body_time: Duration::from_secs(30),
            connect_time: Duration::from_secs(5),
            call_time: Duration::from_secs(290),
            client_answer_time: Duration::from_secs(600),
            keep_alive: Duration::from_secs(15),
            drain_time: Duration::from_secs(10),
            supervisor: Vec::new(),
            telemetry: None,
        }
    }
}
