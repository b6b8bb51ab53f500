//! `[store]`: data directory, durability and retention.

use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy;
use gatelodge_admin::suggest_name;
use gatelodge_store::Durability;

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode};
use super::config_sections::RawStore;
use super::time_syntax::{DURATION_SYNTAX, duration_error, parse_duration};
use super::toml_reader::{ConfigReader, DurationText, SpannedValue};

/// Store settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSection {
    /// Data directory.
    pub data: PathBuf,
    /// Durability of charges: whether they survive only a killed process, or a power failure as well.
    pub durability: Durability,
    /// How long call log rows are kept; `None` keeps them forever.
    pub retention: Option<Duration>,
}

impl StoreSection {
    /// Returns default settings for a store in `data`.
    pub fn in_directory(data: PathBuf) -> Self {
        Self { data, durability: Durability::default(), retention: None }
    }
}

/// Returns the default data directory, or `None` if the user has no home directory.
pub fn default_data_directory() -> Option<PathBuf> {
    etcetera::choose_base_strategy().ok().map(|base| base.data_dir().join("gatelodge"))
}

/// Validates the section. Relative paths are resolved against `base_directory`, the directory that contains the file.
pub fn read_store_section(raw: RawStore, base_directory: &Path, reader: &mut ConfigReader) -> StoreSection {
    if let Some(SpannedValue { span, .. }) = &raw.url {
        let diagnostic = ConfigDiagnostic::new(
            ConfigDiagnosticCode::NotBuilt,
            span,
            "this build supports only SQLite, not PostgreSQL",
        );
        reader.secret_spans.push(span.clone());
        reader.report(diagnostic.with_help("remove `url`; `data` names the directory"));
    }
    let data = match raw.data {
        Some(SpannedValue { value, span }) if value.is_empty() => {
            reader.report(
                ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, &span, "`data` is empty")
                    .with_help("write a path"),
            );
            PathBuf::new()
        }
        Some(SpannedValue { value, .. }) => base_directory.join(value),
        None => default_data_directory().unwrap_or_else(|| {
            let diagnostic = ConfigDiagnostic::new(
                ConfigDiagnosticCode::MissingField,
                &raw.span,
                "there is no home directory for the data",
            );
            reader.report(diagnostic.with_help("add `data = \"/var/lib/gatelodge\"` to `[store]`"));
            PathBuf::new()
        }),
    };
    StoreSection {
        data,
        durability: read_durability(raw.durability, reader),
        retention: read_retention(raw.retention, reader),
    }
}

fn read_durability(written: Option<SpannedValue<String>>, reader: &mut ConfigReader) -> Durability {
    let Some(SpannedValue { value, span }) = written else { return Durability::default() };
    match value.as_str() {
        "process" => Durability::Process,
        "power" => Durability::Power,
        other => {
            let diagnostic = ConfigDiagnostic::new(
                ConfigDiagnosticCode::BadValue,
                &span,
                format!("`{other}` is not a valid durability"),
            );
            reader.report(diagnostic.with_help(suggest_name(other, &["process", "power"])));
            Durability::default()
        }
    }
}

fn read_retention(written: Option<SpannedValue<DurationText>>, reader: &mut ConfigReader) -> Option<Duration> {
    let SpannedValue { value: DurationText(text), span } = written?;
    let retention = parse_duration(&text);
    if retention.is_none() {
        let diagnostic = ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, &span, duration_error(&text));
        reader.report(diagnostic.with_help(format!("write {DURATION_SYNTAX}")));
    }
    retention
}
