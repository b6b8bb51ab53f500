//! The configuration file, in TOML. All errors are reported at once, and no message contains a secret.

mod config_diagnostic;
mod config_docs_page;
mod config_redaction;
mod config_sections;
mod gateway_section_reader;
mod grants_section_reader;
mod policies_section_reader;
mod servers_section_reader;
mod stdio_server_command;
mod store_section_reader;
mod telemetry_section_reader;
mod time_syntax;
mod toml_reader;

use std::path::Path;
use std::sync::Arc;

use gatelodge_admin::header_template::EnvironmentLookup;
use gatelodge_admin::{FileEntryNames, FileGrantName};
use gatelodge_gateway::{ActivePolicy, GrantConfig, UpstreamConfig};
use gatelodge_policy::Severity;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::document_diagnostic::{DiagnosticJson, DiagnosticRef};
use crate::input_file::{self, FileStamp, InputFileError, InputFileText};
use crate::policy_cache::PolicyCache;
use config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use config_sections::{RawAdmin, RawGateway, RawGrant, RawPolicy, RawServer, RawStore, RawTelemetry};
use toml_reader::ConfigReader;

pub use config_docs_page::config_page;
pub use gateway_section_reader::{DEFAULT_ADMIN_ADDRESS, DEFAULT_GATEWAY_ADDRESS, GatewaySection};
pub use grants_section_reader::revision_list;
pub use store_section_reader::{StoreSection, default_data_directory};
pub use telemetry_section_reader::TelemetrySection;
pub use time_syntax::{DURATION_SYNTAX, duration_error, parse_duration, parse_timestamp};

/// A valid configuration.
#[derive(Debug)]
pub struct GatewayConfig {
    /// Addresses and limits.
    pub gateway: GatewaySection,
    /// Data directory, durability and retention.
    pub store: StoreSection,
    /// Servers, policies and grants.
    pub entries: ConfigFileEntries,
    /// All files that were read.
    pub files: Vec<FileStamp>,
}

/// Servers, policies and grants defined in the configuration file. Commands cannot change them.
#[derive(Debug, Clone, Default)]
pub struct ConfigFileEntries {
    /// `[[servers]]`.
    pub servers: Vec<UpstreamConfig>,
    /// `[[policies]]`, parsed.
    pub policies: Vec<Arc<ActivePolicy>>,
    /// `[[grants]]`.
    pub grants: Vec<GrantConfig>,
}

impl ConfigFileEntries {
    /// Returns the names that are taken.
    pub fn names(&self) -> FileEntryNames {
        let grant_name = |grant: &GrantConfig| FileGrantName { id: grant.id.clone(), label: grant.label.to_string() };
        FileEntryNames {
            servers: self.servers.iter().map(|server| server.name.clone()).collect(),
            policies: self.policies.iter().map(|policy| policy.name.clone()).collect(),
            grants: self.grants.iter().map(grant_name).collect(),
        }
    }
}

/// Diagnostics for a configuration file and its policies.
#[derive(Debug)]
pub struct ConfigDiagnostics {
    source: InputFileText,
    diagnostics: Vec<ConfigDiagnostic>,
    policy_diagnostics: Vec<(InputFileText, Vec<gatelodge_policy::Diagnostic>)>,
    files: Vec<FileStamp>,
}

/// The result of reading a configuration file: the configuration, if it is valid, and the diagnostics.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The configuration, or `None` if it has errors.
    pub config: Option<GatewayConfig>,
    /// The `[store]` section, even if other sections have errors; `None` if the file is not TOML.
    pub store: Option<StoreSection>,
    /// Errors and warnings.
    pub diagnostics: ConfigDiagnostics,
}

/// Reads a configuration file and all files it refers to. Policies whose text is in `policies` are not compiled again;
/// afterwards it contains the policies of this file.
///
/// # Errors
/// The file itself cannot be read.
pub fn load_config_file(
    path: &Path,
    environment: EnvironmentLookup<'_>,
    policies: &mut PolicyCache,
) -> Result<LoadedConfig, InputFileError> {
    let stamp = FileStamp::of(path);
    let source = input_file::read_source(path)?;
    let base_directory = path.parent().unwrap_or(Path::new(""));
    Ok(load_config_text(source, base_directory, stamp, environment, policies))
}

fn load_config_text(
    source: InputFileText,
    base_directory: &Path,
    stamp: FileStamp,
    environment: EnvironmentLookup<'_>,
    policy_cache: &mut PolicyCache,
) -> LoadedConfig {
    let text = String::from_utf8_lossy(&source.text).into_owned();
    let mut reader = ConfigReader::default();
    if let Err(error) = str::from_utf8(&source.text) {
        let at = error.valid_up_to();
        let diagnostic =
            ConfigDiagnostic::new(ConfigDiagnosticCode::Syntax, &(at..at + 1), "the file is not UTF-8 here");
        reader.report(diagnostic.with_help("save it as UTF-8"));
        let shown = InputFileText { name: source.name, text: config_redaction::redact_values(&text) };
        let diagnostics = ConfigDiagnostics {
            source: shown,
            diagnostics: reader.diagnostics,
            policy_diagnostics: Vec::new(),
            files: vec![stamp],
        };
        return LoadedConfig { config: None, store: None, diagnostics };
    }
    let (root, errors) = DeTable::parse_recoverable(&text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        reader.report(
            ConfigDiagnostic::new(ConfigDiagnosticCode::Syntax, &span, error.message())
                .with_help("correct the TOML syntax here"),
        );
    }
    if !errors.is_empty() {
        reader.diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
        // Further diagnostics, based on a guess at the meaning, would only hide the syntax error.
        let shown = InputFileText { name: source.name, text: config_redaction::redact_values(&text) };
        let diagnostics = ConfigDiagnostics {
            source: shown,
            diagnostics: reader.diagnostics,
            policy_diagnostics: Vec::new(),
            files: vec![stamp],
        };
        return LoadedConfig { config: None, store: None, diagnostics };
    }
    let raw = read_sections(root.get_ref(), &mut reader);
    let servers = servers_section_reader::read_servers(raw.servers, base_directory, environment, &mut reader);
    let policies = policies_section_reader::read_policies(raw.policies, base_directory, policy_cache, &mut reader);
    let context = grants_section_reader::GrantsSectionContext {
        servers: &servers,
        policies: &policies,
        base_directory,
        environment,
    };
    let (grants, token_files) = grants_section_reader::read_grants(raw.grants, context, &mut reader);
    let mut listen = gateway_section_reader::read_gateway_section(raw.gateway, &raw.admin, &mut reader);
    listen.telemetry = telemetry_section_reader::read_telemetry_section(&raw.telemetry, environment, &mut reader);
    let store = store_section_reader::read_store_section(raw.store, base_directory, &mut reader);
    let mut files = vec![stamp];
    files.extend(policies.files);
    files.extend(token_files);
    reader.diagnostics.sort_by_key(|diagnostic| diagnostic.span.start);
    let shown = InputFileText { name: source.name, text: config_redaction::redact_spans(&text, &reader.secret_spans) };
    let diagnostics = ConfigDiagnostics {
        source: shown,
        diagnostics: reader.diagnostics,
        policy_diagnostics: policies.diagnostics,
        files: files.clone(),
    };
    let entries =
        ConfigFileEntries { servers: servers.valid, policies: policies.valid.into_values().collect(), grants };
    let config = GatewayConfig { gateway: listen, store: store.clone(), entries, files };
    LoadedConfig { config: (diagnostics.error_count() == 0).then_some(config), store: Some(store), diagnostics }
}

/// The sections of the file, not yet validated.
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
    let single = |name: &str, reader: &mut ConfigReader| find_section(root.get(name), name, reader);
    if let Some((table, span)) = single("gateway", reader) {
        raw.gateway = RawGateway::read(table, span, reader);
    }
    if let Some((table, span)) = single("admin", reader) {
        raw.admin = RawAdmin::read(table, span, reader);
    }
    if let Some((table, span)) = single("store", reader) {
        raw.store = RawStore::read(table, span, reader);
    }
    if let Some((table, span)) = single("telemetry", reader) {
        raw.telemetry = RawTelemetry::read(table, span, reader);
    }
    let repeated = |name: &str, reader: &mut ConfigReader| {
        root.get(name).map(|value| reader.read_tables(value, name)).unwrap_or_default()
    };
    raw.servers =
        repeated("servers", reader).into_iter().map(|at| RawServer::read(at.value, at.span, reader)).collect();
    raw.policies =
        repeated("policies", reader).into_iter().map(|at| RawPolicy::read(at.value, at.span, reader)).collect();
    raw.grants = repeated("grants", reader).into_iter().map(|at| RawGrant::read(at.value, at.span, reader)).collect();
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
        let diagnostic = ConfigDiagnostic::new(
            ConfigDiagnosticCode::WrongType,
            &value.span(),
            format!("`{name}` must be one section `[{name}]`"),
        );
        reader.report(diagnostic.with_help(format!("start it with a line `[{name}]`")));
    }
    table.map(|table| (table, value.span()))
}

impl ConfigDiagnostics {
    /// Returns the number of errors in the file and its policies.
    pub fn error_count(&self) -> usize {
        self.count(Severity::Error)
    }

    /// Returns the number of warnings about the file and its policies.
    pub fn warning_count(&self) -> usize {
        self.count(Severity::Warning)
    }

    fn count(&self, severity: Severity) -> usize {
        let own = self.diagnostics.iter().filter(|diagnostic| diagnostic.code.severity() == severity).count();
        let in_policy = |(_, diagnostics): &(_, Vec<gatelodge_policy::Diagnostic>)| {
            diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity).count()
        };
        own + self.policy_diagnostics.iter().map(in_policy).sum::<usize>()
    }

    /// Returns the file and the policies that have diagnostics, each with its diagnostics. Secrets are redacted.
    pub fn documents(&self) -> Vec<(&InputFileText, Vec<DiagnosticRef<'_>>)> {
        let own = self.diagnostics.iter().map(DiagnosticRef::from).collect();
        let mut documents = vec![(&self.source, own)];
        let in_policies = self.policy_diagnostics.iter();
        documents.extend(in_policies.map(|(source, all)| (source, all.iter().map(DiagnosticRef::from).collect())));
        documents
    }

    /// Returns all diagnostics for JSON output.
    pub fn to_json_diagnostics(&self) -> Vec<DiagnosticJson<'_>> {
        let documents = self.documents().into_iter();
        documents
            .flat_map(|(source, all)| all.into_iter().map(|diagnostic| DiagnosticJson::new(source, diagnostic)))
            .collect()
    }

    /// Returns each diagnostic on one line with its location, for logs.
    pub fn log_lines(&self) -> Vec<String> {
        self.to_json_diagnostics().iter().map(DiagnosticJson::log_line).collect()
    }

    /// Returns all files that were read.
    pub fn files(&self) -> &[FileStamp] {
        &self.files
    }
}
