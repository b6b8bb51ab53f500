//! All sections and fields of the configuration file. The parser and `docs/config.md` are generated from this table, so
//! they cannot disagree.

use std::ops::Range;

use toml::de::DeTable;

use super::toml_reader::{
    ConfigReader, ConfigSecretTable, ConfigStringTable, ConfigValueType, DateOrDateTime, DurationText,
    ProtocolRevisionText, SpannedValue,
};

/// Fields that had a different name in earlier builds, as (old, new) pairs. The old name still works, with a warning.
const RENAMED_FIELDS: [(&str, &str); 7] = [
    ("call_time", "call_timeout"),
    ("connect_time", "connect_timeout"),
    ("connections", "max_connections"),
    ("drain_time", "drain_timeout"),
    ("session_idle", "session_idle_timeout"),
    ("sessions", "max_sessions"),
    ("sessions_per_grant", "max_sessions_per_grant"),
];

/// Returns the current name of a renamed field.
pub fn current_name(old: &str) -> Option<&'static str> {
    RENAMED_FIELDS.iter().find(|(name, _)| *name == old).map(|(_, new)| *new)
}

/// Returns the former name of a renamed field.
pub fn former_name(new: &str) -> Option<&'static str> {
    RENAMED_FIELDS.iter().find(|(_, name)| *name == new).map(|(old, _)| *old)
}

/// A section of the configuration file, for the parser and the documentation.
#[derive(Debug)]
pub struct ConfigSection {
    /// Heading of the section in the file.
    pub heading: &'static str,
    /// Description of the section in the documentation.
    pub description: &'static str,
    /// Fields of the section.
    pub fields: &'static [ConfigField],
}

/// A field of a configuration section.
#[derive(Debug)]
pub struct ConfigField {
    /// Name of the field.
    pub name: &'static str,
    /// Type of the value, as shown in the documentation.
    pub type_name: &'static str,
    /// Default value, as shown in the documentation.
    pub default: &'static str,
    /// Description of the field in the documentation.
    pub description: &'static str,
}

macro_rules! section {
    ($(#[doc = $about:literal])+ $name:ident at $heading:literal {
        $($(#[doc = $doc:literal])+ $field:ident: $kind:ty = $default:literal,)+
    }) => {
        $(#[doc = $about])+
        #[derive(Debug, Default)]
        pub struct $name {
            /// Location of the section's heading.
            #[allow(dead_code, reason = "only sections with required fields report errors at their heading")]
            pub span: Range<usize>,
            /// Whether a field has a value of the wrong type, which is reported already.
            #[allow(dead_code, reason = "only sections with required fields look at it")]
            pub has_mistyped_field: bool,
            $($(#[doc = $doc])+ pub $field: Option<SpannedValue<$kind>>,)+
        }

        impl $name {
            /// The section's heading and fields, for the documentation.
            pub const SECTION: ConfigSection = ConfigSection {
                heading: $heading,
                description: concat!($($about, "\n"),+),
                fields: &[$(ConfigField {
                    name: stringify!($field),
                    type_name: <$kind as ConfigValueType>::TYPE_NAME,
                    default: $default,
                    description: concat!($($doc),+),
                },)+],
            };

            /// Reads the section from a TOML table.
            pub fn read(table: &DeTable<'_>, span: Range<usize>, reader: &mut ConfigReader) -> Self {
                reader.check_field_names(table, &[$(stringify!($field)),+], concat!("`", $heading, "`"));
                let mistyped_before = reader.mistyped_fields;
                let mut section =
                    Self { span, has_mistyped_field: false, $($field: reader.read_field(table, stringify!($field)),)+ };
                section.has_mistyped_field = reader.mistyped_fields > mistyped_before;
                section
            }
        }
    };
}

section! {
    /// Address for clients, and limits on their requests.
    RawGateway at "[gateway]" {
        /// Address and port for clients. An address that other machines can reach needs `hosts`.
        listen: String = "`127.0.0.1:7420`",
        /// Host names under which clients reach the gateway, in addition to its address. A request with any other
        /// `Host` is refused.
        hosts: Vec<SpannedValue<String>> = "none",
        /// Origins of web pages that may send requests, for example `https://app.example.com`.
        origins: Vec<SpannedValue<String>> = "pages on this machine",
        /// Maximum size of a request in bytes.
        max_request_bytes: u64 = "4194304",
        /// Maximum size of a server's response in bytes.
        max_reply_bytes: u64 = "67108864",
        /// Maximum number of open client connections. Each can buffer 256 KiB in each direction, in addition to the
        /// message.
        max_connections: u64 = "10000",
        /// In-flight limit for each grant: the number of concurrent requests, including calls that wait for client
        /// input. The same limit applies to its open streams.
        in_flight_per_grant: u64 = "256",
        /// In-flight limit for each server: the number of concurrent requests, including calls that wait for client
        /// input.
        in_flight_per_server: u64 = "512",
        /// Maximum number of processes for a server with a `command`; each session has its own process. Beyond that,
        /// the least recently used process is stopped, and started again when its session is used.
        processes_per_server: u64 = "64",
        /// Maximum number of sessions.
        max_sessions: u64 = "10000",
        /// Maximum number of sessions for one grant.
        max_sessions_per_grant: u64 = "2500",
        /// A session that has been idle for this long is deleted.
        session_idle_timeout: DurationText = "`1h`",
        /// Time limit for opening a connection to a server.
        connect_timeout: DurationText = "`5s`",
        /// Time limit for a whole call.
        call_timeout: DurationText = "`290s`",
        /// How long running calls may take to finish when the gateway stops.
        drain_timeout: DurationText = "`10s`",
    }
}

section! {
    /// Address of the health, readiness and metrics endpoints, for operators.
    RawAdmin at "[admin]" {
        /// Address and port. An address that other machines can reach needs `hosts` in `[gateway]`.
        listen: String = "`127.0.0.1:7421`",
    }
}

section! {
    /// Storage for counters, logs, and the servers, policies and grants that commands create.
    RawStore at "[store]" {
        /// Data directory. A relative path is resolved against the directory of this file.
        data: String = "`gatelodge` in the user's data directory",
        /// What a charge survives before its call is sent: `process` (a killed process) or `power` (a power failure).
        durability: String = "`process`",
        /// How long call log rows are kept, for example `90d`.
        retention: DurationText = "forever",
        /// URL of a PostgreSQL database. This build does not support it yet.
        url: String = "none",
    }
}

section! {
    /// OpenTelemetry collector that receives the spans of calls, as OTLP over HTTP in protobuf. Spans contain the
    /// grant, tool and decision, but never arguments, results or tokens. For fields that are missing here, `serve` and
    /// `up` read the standard OpenTelemetry variables: `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_HEADERS`,
    /// `OTEL_EXPORTER_OTLP_TIMEOUT`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`, `OTEL_BSP_SCHEDULE_DELAY`.
    /// `OTEL_SDK_DISABLED=true` and `OTEL_TRACES_EXPORTER=none` turn the export off.
    RawTelemetry at "[telemetry]" {
        /// URL of the collector, for example `http://127.0.0.1:4318`. `/v1/traces` is appended.
        endpoint: String = "none: no export",
        /// Headers to send with each request. `${NAME}` is replaced by that environment variable.
        headers: ConfigSecretTable = "none",
        /// Service name of the gateway in spans.
        service_name: String = "`gatelodge`",
    }
}

section! {
    /// An MCP server, which clients reach at `/mcp/<name>`. At `/mcp`, its tools are named `<name>__<tool>`.
    RawServer at "[[servers]]" {
        /// Name of the server: letters a-z, digits and `-`.
        name: String = "required",
        /// URL of the server, for example `https://mcp.example.com/mcp`.
        url: String = "`url` or `command` is required",
        /// Instead of `url`: a program that speaks MCP over stdio, and its arguments. It runs without a shell, as one
        /// process for each session.
        command: Vec<SpannedValue<String>> = "none",
        /// Environment variables for `command`, in addition to `HOME`, `LANG`, `LOGNAME`, `PATH`, `SHELL`, `TERM`,
        /// `TMPDIR` and `USER`. It gets no others. `${NAME}` is replaced by that environment variable.
        env: ConfigSecretTable = "none",
        /// Working directory of `command`. A relative path is resolved against the directory of this file.
        directory: String = "working directory of the gateway",
        /// How long `command` may take to exit after its input has been closed, and again after SIGTERM.
        grace: DurationText = "`2s`",
        /// Headers to send with each request. `${NAME}` is replaced by that environment variable.
        headers: ConfigSecretTable = "none",
        /// Whether the call log keeps the values of arguments, with secrets removed.
        log_arguments: bool = "`false`",
        /// Whether tools can be called only after `server accept`. Otherwise the tools in the server's first list are
        /// pinned.
        review: bool = "`false`",
        /// Whether tools that the server adds later are pinned automatically. Changed tools never are.
        accept_new: bool = "`false`",
        /// Maximum age of the server's tool list when a tool is called. An older list is fetched again, and so is a
        /// list that the server says has changed. `0s` fetches it before each call.
        check_definitions: DurationText = "`60s`",
    }
}

section! {
    /// A policy and its name.
    RawPolicy at "[[policies]]" {
        /// Name of the policy, which grants refer to.
        name: String = "required",
        /// Policy file. A relative path is resolved against the directory of this file.
        file: String = "required",
    }
}

section! {
    /// A grant: the servers that a token can reach. The token comes from one of three places, never from this file.
    RawGrant at "[[grants]]" {
        /// Label of the grant. Its counters are tied to this label.
        label: String = "required",
        /// Environment variable that holds the token.
        token_env: String = "one of the three is required",
        /// File that holds the token.
        token_file: String = "one of the three is required",
        /// SHA-256 of the token, in hexadecimal.
        token_hash: String = "one of the three is required",
        /// Server that the grant can reach, at `/mcp/<server>`.
        server: String = "`server` or `servers` is required",
        /// Policy for that server. Without one, every call is refused.
        policy: String = "none",
        /// Instead of `server` and `policy`: several servers, each with its own policy, for example
        /// `{ books = "readers", desk = "writers" }`. Each is at `/mcp/<server>`, and all of them at `/mcp`.
        servers: ConfigStringTable = "none",
        /// Values that policies can use as `grant.labels.<name>`.
        labels: ConfigStringTable = "none",
        /// When the grant expires: a date such as `2027-01-31`, optionally with a time.
        expires: DateOrDateTime = "never",
        /// Oldest protocol revision that the client may use, for example `2025-11-25`.
        minimum_revision: ProtocolRevisionText = "any",
        /// Whether the policy is only observed: refusals are recorded, not enforced.
        observe: bool = "`false`",
    }
}

/// All sections, in the order in which they are documented.
pub const CONFIG_SECTIONS: &[&ConfigSection] = &[
    &RawGateway::SECTION,
    &RawAdmin::SECTION,
    &RawStore::SECTION,
    &RawTelemetry::SECTION,
    &RawServer::SECTION,
    &RawPolicy::SECTION,
    &RawGrant::SECTION,
];
