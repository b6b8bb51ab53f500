//! The configuration: one TOML file, read whole. All its faults come at once, and none of them tells a secret.

mod config_diagnostic;
mod config_page;
mod config_reader;
mod config_redaction;
mod config_sections;
mod gateway_section;
mod grants_section;
mod policies_section;
mod server_command;
mod servers_section;
mod store_section;
mod telemetry_section;
mod time_syntax;

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use gatelodge_gateway::{ActivePolicy, GrantConfig, UpstreamConfig};
use gatelodge_policy::Severity;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::diagnostic_report::{self, DiagnosticJson, DiagnosticRef};
use crate::header_template::EnvironmentLookup;
use crate::source_file::{self, FileStamp, NamedSource};
use config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use config_reader::ConfigReader;
use config_sections::{RawAdmin, RawGateway, RawGrant, RawPolicy, RawServer, RawStore, RawTelemetry};

pub use config_diagnostic::suggest_name;
pub use config_page::config_page;
pub use gateway_section::{DEFAULT_ADMIN_ADDRESS, DEFAULT_GATEWAY_ADDRESS, GatewaySection};
pub use grants_section::{FILE_GRANT_ID_PREFIX, is_valid_label, revision_list};
pub use store_section::{StoreSection, default_data_directory};
pub use telemetry_section::TelemetrySection;
pub use time_syntax::{DURATION_SYNTAX, parse_duration, parse_timestamp};

/// A configuration without faults.
#[derive(Debug)]
pub struct GatewayConfig {
    /// Where to listen, and the bounds.
    pub gateway: GatewaySection,
    /// Where things are kept.
    pub store: StoreSection,
    /// What is in force.
    pub entries: ConfigEntries,
    /// Every file that was read for it.
    pub files: Vec<FileStamp>,
}

/// Servers, policies and grants that a file names. They are read-only elsewhere.
#[derive(Debug, Clone, Default)]
pub struct ConfigEntries {
    /// The servers.
    pub servers: Vec<UpstreamConfig>,
    /// The policies.
    pub policies: Vec<Arc<ActivePolicy>>,
    /// The grants.
    pub grants: Vec<GrantConfig>,
}

/// What was found in a configuration and in the policies it names.
#[derive(Debug)]
pub struct ConfigDiagnostics {
    source: NamedSource,
    diagnostics: Vec<ConfigDiagnostic>,
    policy_diagnostics: Vec<(NamedSource, Vec<gatelodge_policy::Diagnostic>)>,
    files: Vec<FileStamp>,
}

/// A configuration, if it has no errors, and what was found in it.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The configuration; none if it has errors.
    pub config: Option<GatewayConfig>,
    /// Where things are kept, so far as a file with errors says it; none if it is not TOML at all.
    pub store: Option<StoreSection>,
    /// What was found, warnings too.
    pub diagnostics: ConfigDiagnostics,
}

/// Reads a configuration and everything it names.
///
/// # Errors
/// The file itself cannot be read.
pub fn load_config_file(path: &Path, environment: EnvironmentLookup<'_>) -> Result<LoadedConfig> {
    let own = FileStamp::of(path);
    let source = source_file::read_source(path)?;
    let home = path.parent().unwrap_or(Path::new(""));
    Ok(load_config_text(source, home, own, environment))
}

fn load_config_text(
    source: NamedSource,
    home: &Path,
    own: FileStamp,
    environment: EnvironmentLookup<'_>,
) -> LoadedConfig {
    let text = String::from_utf8_lossy(&source.text).into_owned();
    let mut reader = ConfigReader::default();
    if let Err(error) = str::from_utf8(&source.text) {
        let at = error.valid_up_to();
        let fault = ConfigDiagnostic::new(ConfigDiagnosticCode::Syntax, &(at..at + 1), "the file is not UTF-8 here");
        reader.report(fault.with_help("save it as UTF-8"));
        let shown = NamedSource { name: source.name, text: config_redaction::redact_values(&text) };
        let findings = ConfigDiagnostics {
            source: shown,
            diagnostics: reader.diagnostics,
            policy_diagnostics: Vec::new(),
            files: vec![own],
        };
        return LoadedConfig { config: None, store: None, diagnostics: findings };
    }
    let (root, errors) = DeTable::parse_recoverable(&text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::Syntax, &span, error.message())
                .with_help("mend the text here; it is not TOML"),
        );
    }
    if !errors.is_empty() {
        reader.diagnostics.sort_by_key(|fault| fault.span.start);
        // A guess at what a broken text means would only bury the fault that matters.
        let shown = NamedSource { name: source.name, text: config_redaction::redact_values(&text) };
        let findings = ConfigDiagnostics {
            source: shown,
            diagnostics: reader.diagnostics,
            policy_diagnostics: Vec::new(),
            files: vec![own],
        };
        return LoadedConfig { config: None, store: None, diagnostics: findings };
    }
    let raw = read_sections(root.get_ref(), &mut reader);
    let servers = servers_section::read_servers(raw.servers, home, environment, &mut reader);
    let policies = policies_section::read_policies(raw.policies, home, &mut reader);
    let around =
        grants_section::GrantContext { servers: &servers, policies: &policies, base_directory: home, environment };
    let (grants, token_files) = grants_section::read_grants(raw.grants, around, &mut reader);
    let mut listen = gateway_section::read_gateway_section(raw.gateway, &raw.admin, &mut reader);
    listen.telemetry = telemetry_section::read_telemetry_section(&raw.telemetry, environment, &mut reader);
    let store = store_section::read_store_section(raw.store, home, &mut reader);
    let mut files = vec![own];
    files.extend(policies.files);
    files.extend(token_files);
    reader.diagnostics.sort_by_key(|fault| fault.span.start);
    let shown = NamedSource { name: source.name, text: config_redaction::redact_spans(&text, &reader.secret_spans) };
    let findings = ConfigDiagnostics {
        source: shown,
        diagnostics: reader.diagnostics,
        policy_diagnostics: policies.diagnostics,
        files: files.clone(),
    };
    let entries = ConfigEntries { servers: servers.valid, policies: policies.valid.into_values().collect(), grants };
    let config = GatewayConfig { gateway: listen, store: store.clone(), entries, files };
    LoadedConfig { config: (findings.error_count() == 0).then_some(config), store: Some(store), diagnostics: findings }
}

/// The file, section by section, as it is written.
#[derive(Debug, Default)]
struct RawConfig {
    gateway: RawGateway,
    admin: RawAdmin,
    store: RawStore,
    telemetry: RawTelemetry,
    servers: Vec<RawServer>,
    policies: Vec<RawPolicy>,
    grants: Vec<RawGrant>,
}

fn read_sections(root: &DeTable<'_>, reader: &mut ConfigReader) -> RawConfig {
    let mut raw = RawConfig::default();
    reader.check_field_names(
        root,
        &["gateway", "admin", "store", "telemetry", "servers", "policies", "grants"],
        "the file",
    );
    let one = |name: &str, reader: &mut ConfigReader| find_section(root.get(name), name, reader);
    if let Some((table, span)) = one("gateway", reader) {
        raw.gateway = RawGateway::read(table, span, reader);
    }
    if let Some((table, span)) = one("admin", reader) {
        raw.admin = RawAdmin::read(table, span, reader);
    }
    if let Some((table, span)) = one("store", reader) {
        raw.store = RawStore::read(table, span, reader);
    }
    if let Some((table, span)) = one("telemetry", reader) {
        raw.telemetry = RawTelemetry::read(table, span, reader);
    }
    let many = |name: &str, reader: &mut ConfigReader| {
        root.get(name).map(|value| reader.read_tables(value, name)).unwrap_or_default()
    };
    raw.servers = many("servers", reader).into_iter().map(|at| RawServer::read(at.value, at.span, reader)).collect();
    raw.policies = many("policies", reader).into_iter().map(|at| RawPolicy::read(at.value, at.span, reader)).collect();
    raw.grants = many("grants", reader).into_iter().map(|at| RawGrant::read(at.value, at.span, reader)).collect();
    raw
}

fn find_section<'t, 'i>(
    value: Option<&'t Spanned<DeValue<'i>>>,
    name: &str,
    reader: &mut ConfigReader,
) -> Option<(&'t DeTable<'i>, std::ops::Range<usize>)> {
    let value = value?;
    let table = value.get_ref().as_table();
    if table.is_none() {
        reader.hide_value(value);
        let fault = ConfigDiagnostic::new(
            ConfigDiagnosticCode::WrongType,
            &value.span(),
            format!("`{name}` is written as one `[{name}]`"),
        );
        reader.report(fault.with_help(format!("begin it with a line `[{name}]`")));
    }
    table.map(|table| (table, value.span()))
}

impl ConfigDiagnostics {
    /// How many errors there are, in the file and in its policies.
    pub fn error_count(&self) -> usize {
        let own = self.diagnostics.iter().filter(|fault| fault.code.severity() == Severity::Error).count();
        let of_policy = |(_, faults): &(_, Vec<gatelodge_policy::Diagnostic>)| {
            faults.iter().filter(|fault| fault.severity == Severity::Error).count()
        };
        own + self.policy_diagnostics.iter().map(of_policy).sum::<usize>()
    }

    /// Prints all with the text they are about.
    pub fn print(&self) {
        diagnostic_report::print_diagnostics(&self.source, &self.diagnostics);
        for (source, faults) in &self.policy_diagnostics {
            diagnostic_report::print_diagnostics(source, faults);
        }
    }

    /// All, for programs.
    pub fn to_json_diagnostics(&self) -> Vec<DiagnosticJson<'_>> {
        let own = self.diagnostics.iter().map(|fault| DiagnosticJson::new(&self.source, fault));
        let of_policies = self.policy_diagnostics.iter();
        let of_policies = of_policies.flat_map(|(source, faults)| {
            faults.iter().map(|fault| DiagnosticJson::new(source, DiagnosticRef::from(fault)))
        });
        own.chain(of_policies).collect()
    }

    /// Each in one line, with its place, for logs.
    pub fn log_lines(&self) -> Vec<String> {
        self.to_json_diagnostics().iter().map(DiagnosticJson::log_line).collect()
    }

    /// Every file that was looked at.
    pub fn files(&self) -> &[FileStamp] {
        &self.files
    }
}
