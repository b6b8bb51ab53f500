//! `[store]`: where things are kept, how safely, how long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy;
use gatelodge_store::Durability;

use super::config_diagnostic::{ConfigDiagnostic, ConfigDiagnosticCode, suggest_name};
use super::config_reader::{ConfigReader, SpannedValue};
use super::config_sections::RawStore;
use super::time_syntax::{DURATION_SYNTAX, parse_duration};

/// Where things are kept, how safely, how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreSection {
    /// The directory.
    pub data: PathBuf,
    /// What a charge survives.
    pub durability: Durability,
    /// How long rows of the call log are kept; none keeps all.
    pub retention: Option<Duration>,
}

impl StoreSection {
    /// A store in a directory, with the defaults.
    pub fn in_directory(data: PathBuf) -> Self {
        Self { data, durability: Durability::default(), retention: None }
    }
}

/// The directory where nothing names one; none if the user has no home.
pub fn default_data_directory() -> Option<PathBuf> {
    etcetera::choose_base_strategy().ok().map(|base| base.data_dir().join("gatelodge"))
}

/// What the section means. Relative paths begin at `home`, the file's own directory.
pub fn read_store_section(raw: RawStore, home: &Path, reader: &mut ConfigReader) -> StoreSection {
    if let Some(SpannedValue { span, .. }) = &raw.url {
        let fault = ConfigDiagnostic::new(
            ConfigDiagnosticCode::NotBuilt,
            span,
            "this build keeps everything in SQLite and has no PostgreSQL",
        );
        reader.secret_spans.push(span.clone());
        reader.report(fault.with_help("leave `url` out; `data` names the directory"));
    }
    let data = match raw.data {
        Some(SpannedValue { value, span }) if value.is_empty() => {
            reader.report(
                ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, &span, "`data` names no directory")
                    .with_help("write a path"),
            );
            PathBuf::new()
        }
        Some(SpannedValue { value, .. }) => home.join(value),
        None => default_data_directory().unwrap_or_else(|| {
            let fault = ConfigDiagnostic::new(
                ConfigDiagnosticCode::MissingField,
                &raw.span,
                "there is no home directory to keep data in",
            );
            reader.report(fault.with_help("add `data = \"/var/lib/gatelodge\"` to `[store]`"));
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
            let fault = ConfigDiagnostic::new(
                ConfigDiagnosticCode::BadValue,
                &span,
                format!("`{other}` is not a word for durability"),
            );
            reader.report(fault.with_help(suggest_name(other, &["process", "power"])));
            Durability::default()
        }
    }
}

fn read_retention(written: Option<SpannedValue<String>>, reader: &mut ConfigReader) -> Option<Duration> {
    let SpannedValue { value, span } = written?;
    let length = parse_duration(&value);
    if length.is_none() {
        let fault =
            ConfigDiagnostic::new(ConfigDiagnosticCode::BadValue, &span, format!("`{value}` is not a length of time"));
        reader.report(fault.with_help(format!("write {DURATION_SYNTAX}")));
    }
    length
}
