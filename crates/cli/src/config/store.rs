//! `[store]`: where things are kept, how safely, how long.

use std::path::{Path, PathBuf};
use std::time::Duration;

use etcetera::BaseStrategy;
use gatelodge_store::Durability;

use super::fault::{Code, Fault, offer};
use super::read::{At, Reader};
use super::sections::RawStore;
use super::words::{DURATION_FORM, duration};

/// Where things are kept, how safely, how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreConfig {
    /// The directory.
    pub data: PathBuf,
    /// What a charge survives.
    pub durability: Durability,
    /// How long rows of the call log are kept; none keeps all.
    pub retention: Option<Duration>,
}

impl StoreConfig {
    /// A store in a directory, with the defaults.
    pub fn at(data: PathBuf) -> Self {
        Self { data, durability: Durability::default(), retention: None }
    }
}

/// The directory where nothing names one; none if the user has no home.
pub fn default_data() -> Option<PathBuf> {
    etcetera::choose_base_strategy().ok().map(|base| base.data_dir().join("gatelodge"))
}

/// What the section means. Relative paths begin at `home`, the file's own directory.
pub fn store(raw: RawStore, home: &Path, reader: &mut Reader) -> StoreConfig {
    if let Some(At { span, .. }) = &raw.url {
        let fault = Fault::new(Code::NotBuilt, span, "this build keeps everything in SQLite and has no PostgreSQL");
        reader.secrets.push(span.clone());
        reader.fault(fault.help("leave `url` out; `data` names the directory"));
    }
    let data = match raw.data {
        Some(At { value, span }) if value.is_empty() => {
            reader.fault(Fault::new(Code::BadValue, &span, "`data` names no directory").help("write a path"));
            PathBuf::new()
        }
        Some(At { value, .. }) => home.join(value),
        None => default_data().unwrap_or_else(|| {
            let fault = Fault::new(Code::MissingField, &raw.span, "there is no home directory to keep data in");
            reader.fault(fault.help("add `data = \"/var/lib/gatelodge\"` to `[store]`"));
            PathBuf::new()
        }),
    };
    StoreConfig { data, durability: durability(raw.durability, reader), retention: retention(raw.retention, reader) }
}

fn durability(written: Option<At<String>>, reader: &mut Reader) -> Durability {
    let Some(At { value, span }) = written else { return Durability::default() };
    match value.as_str() {
        "process" => Durability::Process,
        "power" => Durability::Power,
        other => {
            let fault = Fault::new(Code::BadValue, &span, format!("`{other}` is not a word for durability"));
            reader.fault(fault.help(offer(other, &["process", "power"])));
            Durability::default()
        }
    }
}

fn retention(written: Option<At<String>>, reader: &mut Reader) -> Option<Duration> {
    let At { value, span } = written?;
    let length = duration(&value);
    if length.is_none() {
        let fault = Fault::new(Code::BadValue, &span, format!("`{value}` is not a length of time"));
        reader.fault(fault.help(format!("write {DURATION_FORM}")));
    }
    length
}
