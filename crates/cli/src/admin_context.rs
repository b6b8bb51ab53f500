//! Where commands on the store are done: the stores, what the file says, and the admin log.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use gatelodge_store::{AdminEntry, Clock, OpenStoreError};
use serde_json::Value;

use crate::app::{self, StoreHandles};
use crate::cli::StoreArgs;
use crate::config::{self, ConfigEntries, GatewayConfig, StoreSection};
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use crate::{mcp_client, process_environment};

/// How long a gateway may take to say that it is there.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// An opened store, with all around it.
pub struct AdminContext {
    /// The stores.
    pub stores: StoreHandles,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Where they are.
    pub store_config: StoreSection,
    /// The file, if there is one.
    pub config: Option<GatewayConfig>,
}

/// Whether a store that is not there is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreMode {
    /// It must be there.
    Existing,
    /// It is made if it is not.
    CreateIfMissing,
}

/// Why there is no desk: the configuration has faults, which have been told.
#[derive(Debug)]
pub struct InvalidConfigError;

/// Reads the configuration if one is named; its faults are told.
pub fn load_config(args: &StoreArgs) -> Result<Result<Option<GatewayConfig>, InvalidConfigError>> {
    let Some(path) = &args.config else { return Ok(Ok(None)) };
    let loaded = config::load_config_file(path, &process_environment::find_variable)?;
    match loaded.config {
        Some(config) => Ok(Ok(Some(config))),
        None => {
            loaded.diagnostics.print();
            Ok(Err(InvalidConfigError))
        }
    }
}

/// Where the store is, by what was asked and what the configuration says.
pub fn resolve_store_config(args: &StoreArgs, config: Option<&GatewayConfig>) -> Result<StoreSection, UsageError> {
    let mut store = match config {
        Some(config) => config.store.clone(),
        None => StoreSection::in_directory(PathBuf::new()),
    };
    if let Some(data) = &args.data {
        store.data.clone_from(data);
    } else if config.is_none() {
        store.data = config::default_data_directory().ok_or_else(|| {
            UsageError("there is no home directory to keep data in; name one with `--data`".to_owned())
        })?;
    }
    Ok(store)
}

impl AdminContext {
    /// Opens the store.
    pub fn open(args: &StoreArgs, need: StoreMode) -> Result<Result<Self, InvalidConfigError>> {
        let config = match load_config(args)? {
            Ok(config) => config,
            Err(faulty) => return Ok(Err(faulty)),
        };
        let store = resolve_store_config(args, config.as_ref())?;
        refuse_missing_store(&store, config.as_ref())?;
        let clock = app::system_clock();
        let opened = match need {
            StoreMode::Existing => app::open_existing(&store, &clock),
            StoreMode::CreateIfMissing => app::open(&store, &clock),
        };
        match opened {
            Ok(stores) => Ok(Ok(Self { stores, clock, store_config: store, config })),
            Err(OpenStoreError::Missing { .. }) => {
                let help =
                    "`gatelodge serve` and commands that add something make it; `--data` or `--config` names another";
                Err(UsageError(format!("there is nothing in `{}` yet; {help}", store.data.display())).into())
            }
            Err(fault) => Err(open_store_error(fault)),
        }
    }

    /// What the file says; nothing where there is none.
    pub fn config_entries(&self) -> ConfigEntries {
        self.config.as_ref().map(|config| config.entries.clone()).unwrap_or_default()
    }

    /// What the admin log is to say of a change. Never a secret.
    pub fn admin_log_entry(&self, action: &str, subject: &str, detail: Value) -> AdminEntry {
        AdminEntry {
            at: self.clock.now(),
            by: process_environment::current_user(),
            action: action.to_owned(),
            subject: subject.to_owned(),
            detail,
        }
    }
}

/// The error for a store that cannot be opened, with what to do.
pub fn open_store_error(fault: OpenStoreError) -> anyhow::Error {
    let help = fault.help_for().map(|help| format!(" ({help})")).unwrap_or_default();
    anyhow::Error::new(fault).context(format!("cannot open the data directory{help}"))
}

/// Refuses where there is no store although the gateway of the configuration runs: whatever is made here, it would
/// never see.
fn refuse_missing_store(store: &StoreSection, config: Option<&GatewayConfig>) -> Result<()> {
    let Some(config) = config else { return Ok(()) };
    if store.data.join("state.db").exists() || !block_on(is_gateway_up(config.gateway.admin_listen))? {
        return Ok(());
    }
    let (data, admin) = (store.data.display(), config.gateway.admin_listen);
    let what = format!("there is no store in `{data}`, but a gateway answers at {admin}");
    let help = "if it is this configuration's, its data is gone: stop it, restore the directory, and start it again";
    Err(ExitError(CommandExitCode::InternalError, format!("{what}; {help}")).into())
}

/// Whether a gateway answers at an admin address, ready or not.
pub async fn is_gateway_up(admin: SocketAddr) -> Result<bool> {
    let url = format!("http://{admin}/readyz").parse()?;
    Ok(matches!(mcp_client::get_status(url, READY_TIMEOUT).await, Ok(200 | 503)))
}

/// Opens the store and does one thing at it.
pub fn with_store(
    args: &StoreArgs,
    need: StoreMode,
    work: impl AsyncFnOnce(AdminContext) -> Result<CommandExitCode>,
) -> Result<CommandExitCode> {
    match AdminContext::open(args, need)? {
        Ok(desk) => block_on(work(desk)),
        Err(InvalidConfigError) => Err(invalid_config_error()),
    }
}

/// The error for a configuration whose faults have been told.
pub fn invalid_config_error() -> anyhow::Error {
    let help = "`gatelodge serve --check --json` tells them to programs";
    ExitError(CommandExitCode::Findings, format!("the configuration has faults; nothing was done; {help}")).into()
}

/// Waits for something asynchronous.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// The error for what stands in the file and is to be changed there.
pub fn defined_in_file_error(what: &str, name: &str) -> anyhow::Error {
    UsageError(format!("{what} `{name}` stands in the configuration, and is changed there")).into()
}
