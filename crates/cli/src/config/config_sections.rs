//! The table of all sections and fields. It drives the reader and `docs/config.md`, so that they cannot disagree.

use std::ops::Range;

use toml::de::DeTable;

use super::config_reader::{
    ConfigReader, ConfigSecretTable, ConfigStringTable, ConfigValue, DateOrDateTime, SpannedValue,
};

/// Fields that had another name in version 0.1, as (old, new). The old name still works and gives a warning.
const RENAMED_FIELDS: [(&str, &str); 7] = [
    ("call_time", "call_timeout"),
    ("connect_time", "connect_timeout"),
    ("connections", "max_connections"),
    ("drain_time", "drain_timeout"),
    ("session_idle", "session_idle_timeout"),
    ("sessions", "max_sessions"),
    ("sessions_per_grant", "max_sessions_per_grant"),
];

/// Returns the current name of a field that was renamed.
pub fn current_name(old: &str) -> Option<&'static str> {
    RENAMED_FIELDS.iter().find(|(name, _)| *name == old).map(|(_, new)| *new)
}

/// Returns the former name of a field that was renamed.
pub fn former_name(new: &str) -> Option<&'static str> {
    RENAMED_FIELDS.iter().find(|(_, name)| *name == new).map(|(old, _)| *old)
}

/// A section, for the reader and for the documentation.
#[derive(Debug)]
pub struct ConfigSection {
    /// How it begins in a file.
    pub heading: &'static str,
    /// What it is.
    pub description: &'static str,
    /// Its fields.
    pub fields: &'static [ConfigField],
}

/// A field of a section.
#[derive(Debug)]
pub struct ConfigField {
    /// Its name.
    pub name: &'static str,
    /// What may be written.
    pub type_name: &'static str,
    /// What holds where it is not written.
    pub default: &'static str,
    /// What it means.
    pub description: &'static str,
}

macro_rules! section {
    ($(#[doc = $about:literal])+ $name:ident at $heading:literal {
        $($(#[doc = $doc:literal])+ $field:ident: $kind:ty = $default:literal,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Default)]
        pub struct $name {
            /// Where the section begins.
            #[allow(dead_code, reason = "sections without required fields have no fault at their beginning")]
            pub span: Range<usize>,
            $($(#[doc = $doc])+ pub $field: Option<SpannedValue<$kind>>,)+
        }

        impl $name {
            /// What there is to know of it.
            pub const SECTION: ConfigSection = ConfigSection {
                heading: $heading,
                description: concat!($($about, "\n"),+),
                fields: &[$(ConfigField {
                    name: stringify!($field),
                    type_name: <$kind as ConfigValue>::WORDS,
                    default: $default,
                    description: concat!($($doc),+),
                },)+],
            };

            /// Takes what is written.
            pub fn read(table: &DeTable<'_>, span: Range<usize>, reader: &mut ConfigReader) -> Self {
                reader.check_field_names(table, &[$(stringify!($field)),+], concat!("`", $heading, "`"));
                Self { span, $($field: reader.read_field(table, stringify!($field)),)+ }
            }
        }
    };
}

section! {
    /// Where agents connect, and how much they may ask at a time.
    RawGateway at "[gateway]" {
        /// Address and port for agents. Anything but this machine needs `hosts`.
        listen: String = "`127.0.0.1:7420`",
        /// Names under which clients reach the gateway beside its address; a request that names another host is refused.
        hosts: Vec<SpannedValue<String>> = "none",
        /// Web pages that may call, as browsers write them: `https://app.example.com`.
        origins: Vec<SpannedValue<String>> = "pages on this machine",
        /// The largest request, in bytes.
        max_request_bytes: u64 = "4194304",
        /// The largest reply of a server, in bytes.
        max_reply_bytes: u64 = "67108864",
        /// Open connections of agents. Each may hold 256 KiB of what it reads and as much of what it writes, beside the message.
        max_connections: u64 = "10000",
        /// Requests of one grant at a time, calls that wait for an answer of their client among them; and its open
        /// streams.
        in_flight_per_grant: u64 = "256",
        /// Requests to one server at a time, calls that wait for an answer of their client among them.
        in_flight_per_server: u64 = "512",
        /// Processes of one server with a `command`: each session has its own. Beyond that, the one that was not used for
        /// longest is ended, and started again when its session is used.
        processes_per_server: u64 = "64",
        /// Sessions that are kept.
        max_sessions: u64 = "10000",
        /// Sessions of one grant.
        max_sessions_per_grant: u64 = "2500",
        /// A session that nobody uses for so long is forgotten.
        session_idle_timeout: String = "`1h`",
        /// Time to open a connection to a server.
        connect_timeout: String = "`5s`",
        /// Time for a whole call.
        call_timeout: String = "`290s`",
        /// Time for calls to end when the gateway stops.
        drain_timeout: String = "`10s`",
    }
}

section! {
    /// Health, readiness and figures, for those who run the gateway.
    RawAdmin at "[admin]" {
        /// Address and port. Anything but this machine needs `hosts` in `[gateway]`.
        listen: String = "`127.0.0.1:7421`",
    }
}

section! {
    /// Where counters, logs and what people set up are kept.
    RawStore at "[store]" {
        /// A directory, from the file's own if it is relative.
        data: String = "`gatelodge` in the user's data directory",
        /// What a charge survives before its call is sent: `process` (a kill) or `power` (a power cut).
        durability: String = "`process`",
        /// How long rows of the call log are kept: `90d`.
        retention: String = "for ever",
        /// A PostgreSQL database. This build has none yet.
        url: String = "none",
    }
}

section! {
    /// Where spans of calls are sent, if anybody wants them: an OpenTelemetry collector that takes OTLP over HTTP, in
    /// protobuf. They tell who called what and what was decided, never arguments, results or tokens. What is not written
    /// here, the variables of OpenTelemetry may say to `serve` and `up`: `OTEL_EXPORTER_OTLP_ENDPOINT`,
    /// `OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
    /// `OTEL_BSP_SCHEDULE_DELAY`; `OTEL_SDK_DISABLED=true` and `OTEL_TRACES_EXPORTER=none` turn it off.
    RawTelemetry at "[telemetry]" {
        /// Where the collector is: `http://127.0.0.1:4318`. `/v1/traces` is added.
        endpoint: String = "none: nothing is sent",
        /// Headers to send with each request. `${NAME}` stands for a variable of the environment.
        headers: ConfigSecretTable = "none",
        /// What the gateway calls itself.
        service_name: String = "`gatelodge`",
    }
}

section! {
    /// An MCP server that agents may reach at `/mcp/<name>`. At `/mcp` its tools are called `<name>__<tool>`.
    RawServer at "[[servers]]" {
        /// Its name: letters a-z, digits and `-`.
        name: String = "required",
        /// Where it listens: `https://mcp.example.com/mcp`.
        url: String = "this or `command`",
        /// In place of `url`: a program and its arguments, which speaks MCP over its standard streams. It is run without
        /// a shell, once for each session.
        command: Vec<SpannedValue<String>> = "none",
        /// Variables for `command`, which gets no others but `HOME`, `LANG`, `LOGNAME`, `MCP_PATH`, `SHELL`, `TERM`, `TMPDIR`
        /// and `USER`. `${NAME}` stands for a variable of the environment.
        env: ConfigSecretTable = "none",
        /// Where `command` runs, from the file's own directory if it is relative.
        directory: String = "where the gateway runs",
        /// How long `command` may take to end after its input was closed, and again after it was told to.
        grace: String = "`2s`",
        /// Headers to send with each request. `${NAME}` stands for a variable of the environment.
        headers: ConfigSecretTable = "none",
        /// Whether the call log keeps the values of arguments, secrets cut.
        log_arguments: bool = "`false`",
        /// Whether no tool can be called before `server accept`. Else what the server offers at first is accepted.
        review: bool = "`false`",
        /// Whether tools that come later are accepted as they come. A tool that changes never is.
        accept_new: bool = "`false`",
        /// How old what the server offers may be when a tool is called; it is asked again then, and when it says that
        /// its tools changed. `0s` asks before each call.
        check_definitions: String = "`60s`",
    }
}

section! {
    /// A policy, by the name that grants use.
    RawPolicy at "[[policies]]" {
        /// Its name.
        name: String = "required",
        /// The document, from the configuration's own directory if it is relative.
        file: String = "required",
    }
}

section! {
    /// What a token lets its bearer reach. The token comes from one of three places, never from the file itself.
    RawGrant at "[[grants]]" {
        /// What people call it. Counters follow it.
        label: String = "required",
        /// The variable of the environment that holds the token.
        token_env: String = "one of three",
        /// The file that holds the token.
        token_file: String = "one of three",
        /// The token's SHA-256, in hexadecimal digits.
        token_hash: String = "one of three",
        /// The server it may reach, at `/mcp/<server>`.
        server: String = "this or `servers`",
        /// By which policy. Without one, every call is refused.
        policy: String = "none",
        /// In place of `server` and `policy`: several servers, each with its own policy, as in
        /// `{ books = "readers", desk = "writers" }`. Each is at `/mcp/<server>`, and all of them together at `/mcp`.
        servers: ConfigStringTable = "none",
        /// Facts that policies may look at, as `grant.labels.<name>`.
        labels: ConfigStringTable = "none",
        /// When it ends: `2027-01-31`, or with a time.
        expires: DateOrDateTime = "never",
        /// The oldest revision of the protocol that its bearer may speak: `2025-11-25`.
        minimum_revision: DateOrDateTime = "any",
        /// Whether the policy only records what it would refuse.
        observe: bool = "`false`",
    }
}

/// All sections, in the order of the documentation.
pub const CONFIG_SECTIONS: &[&ConfigSection] = &[
    &RawGateway::SECTION,
    &RawAdmin::SECTION,
    &RawStore::SECTION,
    &RawTelemetry::SECTION,
    &RawServer::SECTION,
    &RawPolicy::SECTION,
    &RawGrant::SECTION,
];
