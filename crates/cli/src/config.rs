//! The configuration: one TOML file, read whole. All its faults come at once, and none of them tells a secret.

mod command;
mod docs;
mod fault;
mod grants;
mod listen;
mod mask;
mod policies;
mod read;
mod sections;
mod servers;
mod store;
mod telemetry;
mod words;

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
use fault::{Code, Fault};
use read::Reader;
use sections::{RawAdmin, RawGateway, RawGrant, RawPolicy, RawServer, RawStore, RawTelemetry};

pub use docs::page;
pub use fault::offer;
pub use grants::{FILE_ID, is_label, revisions};
pub use listen::{ADMIN, CALLERS, Listen};
pub use store::{StoreConfig, default_data};
pub use telemetry::TelemetryFile;
pub use words::{DURATION_FORM, duration, moment};

/// A configuration without faults.
#[derive(Debug)]
pub struct Config {
    /// Where to listen, and the bounds.
    pub listen: Listen,
    /// Where things are kept.
    pub store: StoreConfig,
    /// What is in force.
    pub entries: Entries,
    /// Every file that was read for it.
    pub files: Vec<FileStamp>,
}

/// Servers, policies and grants that a file names. They are read-only elsewhere.
#[derive(Debug, Clone, Default)]
pub struct Entries {
    /// The servers.
    pub servers: Vec<UpstreamConfig>,
    /// The policies.
    pub policies: Vec<Arc<ActivePolicy>>,
    /// The grants.
    pub grants: Vec<GrantConfig>,
}

/// What was found in a configuration and in the policies it names.
#[derive(Debug)]
pub struct Findings {
    source: NamedSource,
    faults: Vec<Fault>,
    policies: Vec<(NamedSource, Vec<gatelodge_policy::Diagnostic>)>,
    files: Vec<FileStamp>,
}

/// A configuration, if it has no errors, and what was found in it.
#[derive(Debug)]
pub struct Loaded {
    /// The configuration; none if it has errors.
    pub config: Option<Config>,
    /// Where things are kept, so far as a file with errors says it; none if it is not TOML at all.
    pub store: Option<StoreConfig>,
    /// What was found, warnings too.
    pub findings: Findings,
}

/// Reads a configuration and everything it names.
///
/// # Errors
/// The file itself cannot be read.
pub fn load(path: &Path, environment: EnvironmentLookup<'_>) -> Result<Loaded> {
    let own = FileStamp::of(path);
    let source = source_file::read_source(path)?;
    let home = path.parent().unwrap_or(Path::new(""));
    Ok(load_text(source, home, own, environment))
}

fn load_text(source: NamedSource, home: &Path, own: FileStamp, environment: EnvironmentLookup<'_>) -> Loaded {
    let text = String::from_utf8_lossy(&source.text).into_owned();
    let mut reader = Reader::default();
    if let Err(error) = str::from_utf8(&source.text) {
        let at = error.valid_up_to();
        let fault = Fault::new(Code::Syntax, &(at..at + 1), "the file is not UTF-8 here");
        reader.fault(fault.help("save it as UTF-8"));
        let shown = NamedSource { name: source.name, text: mask::only_names(&text) };
        let findings = Findings { source: shown, faults: reader.faults, policies: Vec::new(), files: vec![own] };
        return Loaded { config: None, store: None, findings };
    }
    let (root, errors) = DeTable::parse_recoverable(&text);
    for error in &errors {
        let span = error.span().unwrap_or(0..0);
        reader.fault(Fault::new(Code::Syntax, &span, error.message()).help("mend the text here; it is not TOML"));
    }
    if !errors.is_empty() {
        reader.faults.sort_by_key(|fault| fault.span.start);
        // A guess at what a broken text means would only bury the fault that matters.
        let shown = NamedSource { name: source.name, text: mask::only_names(&text) };
        let findings = Findings { source: shown, faults: reader.faults, policies: Vec::new(), files: vec![own] };
        return Loaded { config: None, store: None, findings };
    }
    let raw = sections_of(root.get_ref(), &mut reader);
    let servers = servers::servers(raw.servers, home, environment, &mut reader);
    let policies = policies::policies(raw.policies, home, &mut reader);
    let around = grants::Around { servers: &servers, policies: &policies, home, environment };
    let (grants, token_files) = grants::grants(raw.grants, around, &mut reader);
    let mut listen = listen::listen(raw.gateway, &raw.admin, &mut reader);
    listen.telemetry = telemetry::telemetry(&raw.telemetry, environment, &mut reader);
    let store = store::store(raw.store, home, &mut reader);
    let mut files = vec![own];
    files.extend(policies.files);
    files.extend(token_files);
    reader.faults.sort_by_key(|fault| fault.span.start);
    let shown = NamedSource { name: source.name, text: mask::masked(&text, &reader.secrets) };
    let findings = Findings { source: shown, faults: reader.faults, policies: policies.found, files: files.clone() };
    let entries = Entries { servers: servers.good, policies: policies.good.into_values().collect(), grants };
    let config = Config { listen, store: store.clone(), entries, files };
    Loaded { config: (findings.errors() == 0).then_some(config), store: Some(store), findings }
}

/// The file, section by section, as it is written.
#[derive(Debug, Default)]
struct RawFile {
    gateway: RawGateway,
    admin: RawAdmin,
    store: RawStore,
    telemetry: RawTelemetry,
    servers: Vec<RawServer>,
    policies: Vec<RawPolicy>,
    grants: Vec<RawGrant>,
}

fn sections_of(root: &DeTable<'_>, reader: &mut Reader) -> RawFile {
    let mut raw = RawFile::default();
    reader.check_names(root, &["gateway", "admin", "store", "telemetry", "servers", "policies", "grants"], "the file");
    let one = |name: &str, reader: &mut Reader| section(root.get(name), name, reader);
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
    let many =
        |name: &str, reader: &mut Reader| root.get(name).map(|value| reader.tables(value, name)).unwrap_or_default();
    raw.servers = many("servers", reader).into_iter().map(|at| RawServer::read(at.value, at.span, reader)).collect();
    raw.policies = many("policies", reader).into_iter().map(|at| RawPolicy::read(at.value, at.span, reader)).collect();
    raw.grants = many("grants", reader).into_iter().map(|at| RawGrant::read(at.value, at.span, reader)).collect();
    raw
}

fn section<'t, 'i>(
    value: Option<&'t Spanned<DeValue<'i>>>,
    name: &str,
    reader: &mut Reader,
) -> Option<(&'t DeTable<'i>, std::ops::Range<usize>)> {
    let value = value?;
    let table = value.get_ref().as_table();
    if table.is_none() {
        reader.hide(value);
        let fault = Fault::new(Code::WrongType, &value.span(), format!("`{name}` is written as one `[{name}]`"));
        reader.fault(fault.help(format!("begin it with a line `[{name}]`")));
    }
    table.map(|table| (table, value.span()))
}

impl Findings {
    /// How many errors there are, in the file and in its policies.
    pub fn errors(&self) -> usize {
        let own = self.faults.iter().filter(|fault| fault.code.severity() == Severity::Error).count();
        let of_policy = |(_, faults): &(_, Vec<gatelodge_policy::Diagnostic>)| {
            faults.iter().filter(|fault| fault.severity == Severity::Error).count()
        };
        own + self.policies.iter().map(of_policy).sum::<usize>()
    }

    /// Prints all with the text they are about.
    pub fn print(&self) {
        diagnostic_report::print_diagnostics(&self.source, &self.faults);
        for (source, faults) in &self.policies {
            diagnostic_report::print_diagnostics(source, faults);
        }
    }

    /// All, for programs.
    pub fn told(&self) -> Vec<DiagnosticJson<'_>> {
        let own = self.faults.iter().map(|fault| DiagnosticJson::new(&self.source, fault));
        let of_policies = self.policies.iter();
        let of_policies = of_policies.flat_map(|(source, faults)| {
            faults.iter().map(|fault| DiagnosticJson::new(source, DiagnosticRef::from(fault)))
        });
        own.chain(of_policies).collect()
    }

    /// Each in one line, with its place, for logs.
    pub fn lines(&self) -> Vec<String> {
        self.told().iter().map(DiagnosticJson::log_line).collect()
    }

    /// Every file that was looked at.
    pub fn files(&self) -> &[FileStamp] {
        &self.files
    }
}
