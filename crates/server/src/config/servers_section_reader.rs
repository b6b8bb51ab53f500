//! `[[servers]]`: MCP servers, each with a URL or a command.

use std::collections::HashMap;
use std::ops::Range;
use std::path::Path;
use std::time::Duration;

use crate::header_expansion;
use gatelodge_admin::header_template::{self, EnvironmentLookup, HeaderError};
use gatelodge_admin::server_url::{self, EXAMPLE_SERVER_URL};
use gatelodge_gateway::{
    InjectedHeader, MIN_SECRET_BYTES, PinningSettings, UpstreamConfig, UpstreamHttpConfig, UpstreamTransport,
};
use gatelodge_store::ServerName;
use http::Uri;

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_sections::RawServer;
use super::gateway_section_reader::set_duration;
use super::stdio_server_command;
use super::toml_reader::{ConfigReader, ConfigSecretTable, SpannedValue};

/// Parts of messages about server names: singular, plural, and a hint about what the name is used for.
const SERVER_NAME_MESSAGES: (&str, &str, &str) = ("server", "servers", "clients reach it at `/mcp/<name>`");

/// Valid servers, and the names of all servers, so that references to an invalid server do not cause further errors.
#[derive(Debug, Default)]
pub struct ServersSection {
    /// Valid servers.
    pub valid: Vec<UpstreamConfig>,
    /// The names of all servers, with their locations.
    pub name_spans: HashMap<String, Range<usize>>,
}

/// Validates the `[[servers]]` sections.
pub fn read_servers(
    raw: Vec<RawServer>,
    base_directory: &Path,
    environment: EnvironmentLookup<'_>,
    reader: &mut ConfigReader,
) -> ServersSection {
    let mut servers = ServersSection::default();
    for raw in raw {
        let name = reader.read_unique_name::<ServerName>(
            raw.name.as_ref(),
            &raw.span,
            SERVER_NAME_MESSAGES,
            &mut servers.name_spans,
        );
        let transport = read_transport(&raw, base_directory, environment, reader);
        let log_arguments = raw.log_arguments.is_some_and(|log| log.value);
        if let (Some(name), Some(transport)) = (name, transport) {
            let is_set = |flag: Option<&SpannedValue<bool>>| flag.is_some_and(|flag| flag.value);
            let (review, accept_new) = (is_set(raw.review.as_ref()), is_set(raw.accept_new.as_ref()));
            let mut pinning = PinningSettings { review, accept_new, ..PinningSettings::default() };
            match raw.check_definitions.as_ref() {
                Some(SpannedValue { value, .. }) if value.0 == "0s" => pinning.check_definitions = Duration::ZERO,
                written => set_duration(&mut pinning.check_definitions, written, reader),
            }
            servers.valid.push(UpstreamConfig { name, transport, log_arguments, pinning });
        }
    }
    servers
}

/// Reads `url` or `command`; exactly one of them is required.
fn read_transport(
    raw: &RawServer,
    base_directory: &Path,
    environment: EnvironmentLookup<'_>,
    reader: &mut ConfigReader,
) -> Option<UpstreamTransport> {
    match (&raw.url, &raw.command) {
        (Some(url), Some(_)) => {
            let diagnostic = ConfigDiagnostic::new(
                ConfigDiagnosticCode::FieldClash,
                &url.span,
                "a server has a `url` or a `command`, not both",
            );
            reader.report(diagnostic.with_help("remove one"));
            None
        }
        // It has one of them, with a value of the wrong type.
        (None, None) if raw.has_mistyped_field => None,
        (None, None) => {
            let diagnostic = ConfigDiagnostic::new(
                ConfigDiagnosticCode::MissingField,
                &raw.span,
                "a server needs a `url` or a `command`",
            );
            let help = "add `url = \"https://…\"` of its MCP endpoint, or `command = [\"…\"]` that runs it";
            reader.report(diagnostic.with_help(help));
            None
        }
        (None, Some(command)) => {
            stdio_server_command::read_child_config(raw, command, base_directory, environment, reader)
                .map(UpstreamTransport::Process)
        }
        (Some(written), None) => {
            stdio_server_command::refuse_command_fields(raw, reader);
            let headers = read_headers(raw.headers.as_ref(), environment, reader);
            let url = read_url(written, EXAMPLE_SERVER_URL, reader)?;
            warn_clear_text(&url, &written.span, &headers, reader);
            Some(UpstreamTransport::Http(UpstreamHttpConfig { url, headers }))
        }
    }
}

/// Reads a URL. `example` is a URL of its kind, for help.
pub(super) fn read_url(
    SpannedValue { value, span }: &SpannedValue<String>,
    example: &str,
    reader: &mut ConfigReader,
) -> Option<Uri> {
    if value.contains(['@', '?']) {
        // User information and query may contain credentials.
        reader.secret_spans.push(span.clone());
    }
    server_url::parse_server_url(value)
        .map_err(|error| {
            let help = error.help().replace(EXAMPLE_SERVER_URL, example);
            reader.report(ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, span, error.message()).with_help(help));
        })
        .ok()
}

pub(super) fn read_headers(
    written: Option<&SpannedValue<ConfigSecretTable>>,
    environment: EnvironmentLookup<'_>,
    reader: &mut ConfigReader,
) -> Vec<InjectedHeader> {
    let mut injected = Vec::new();
    let written = written.map(|headers| headers.value.0.as_slice()).unwrap_or_default();
    for (name, value) in written {
        match header_expansion::expand_header(&name.value, &value.value, environment) {
            Ok(header) => {
                warn_plain_secret(name, value, &header, reader);
                injected.push(header);
            }
            Err(error) => {
                let code = if matches!(error, HeaderError::MissingVariable(_)) {
                    ConfigDiagnosticCode::MissingVariable
                } else {
                    ConfigDiagnosticCode::BadValue
                };
                let span = if error == HeaderError::InvalidName || error == HeaderError::Reserved {
                    &name.span
                } else {
                    &value.span
                };
                reader.report(ConfigDiagnostic::new(code, span, error.message(&name.value)).with_help(error.help()));
            }
        }
    }
    injected
}

fn warn_plain_secret(
    name: &SpannedValue<String>,
    value: &SpannedValue<String>,
    header: &InjectedHeader,
    reader: &mut ConfigReader,
) {
    let has_variable = header_template::has_variable(&value.value);
    if !has_variable && header_template::is_credential_header(&name.value) {
        let message = format!("the credential of header `{}` is in the file", name.value);
        let help = "put it into an environment variable and write `${NAME}` here";
        reader.report(ConfigDiagnostic::new(ConfigDiagnosticCode::PlainSecret, &name.span, message).with_help(help));
    }
    if has_variable && header.secrets.iter().any(|secret| secret.len() < MIN_SECRET_BYTES) {
        let message = format!(
            "a variable in `{}` has less than {MIN_SECRET_BYTES} characters: too short to be removed from replies",
            name.value
        );
        reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::ShortSecret, &name.span, message)
                .with_help("use a longer secret"),
        );
    }
}

pub(super) fn warn_clear_text(url: &Uri, span: &Range<usize>, headers: &[InjectedHeader], reader: &mut ConfigReader) {
    let has_secret = headers.iter().any(|header| !header.secrets.is_empty());
    if has_secret && url.scheme_str() == Some("http") && !server_url::is_loopback(url) {
        let diagnostic = ConfigDiagnostic::new(
            ConfigDiagnosticCode::ClearText,
            span,
            "secrets in headers are sent to this server without encryption",
        );
        reader.report(diagnostic.with_help("use `https://`"));
    }
}
