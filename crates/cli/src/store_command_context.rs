//! Shared context of the commands that use the store: the stores, the configuration file and the changes to the store.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use gatelodge_admin::Administration;
use gatelodge_server::config::{self, ConfigFileEntries, GatewayConfig, StoreSection};
use gatelodge_server::{EffectiveConfig, PolicyCache, load_stored_config, merge_config, process_environment};
use gatelodge_store::{Clock, OpenStoreError, Store, StoreError};
use tokio::runtime::Runtime;

use crate::cli::StoreArgs;
use crate::exit_code::{CommandExitCode, ExitError, UsageError};
use crate::{diagnostic_report, mcp_client};

/// How long a gateway may take to answer the readiness check.
const READY_TIMEOUT: Duration = Duration::from_secs(1);

/// The open store, with a clock and the configuration.
pub struct StoreCommandContext {
    pub stores: Store,
    pub clock: Arc<dyn Clock>,
    /// Location and settings of the store.
    pub store_config: StoreSection,
    /// The configuration file, if `--config` names one.
    pub config: Option<GatewayConfig>,
}

/// Whether to create a store that does not exist.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreCreationMode {
    /// The store must exist.
    Existing,
    /// Create the store if it does not exist.
    CreateIfMissing,
}

/// The configuration is invalid, and its errors have been printed.
#[derive(Debug)]
pub struct InvalidConfigError;

/// Reads the configuration if `--config` names one, and prints its errors.
pub fn load_config(args: &StoreArgs) -> Result<Result<Option<GatewayConfig>, InvalidConfigError>> {
    let Some(path) = &args.config else { return Ok(Ok(None)) };
    let loaded = config::load_config_file(path, &process_environment::find_variable, &mut PolicyCache::default())?;
    match loaded.config {
        Some(config) => Ok(Ok(Some(config))),
        None => {
            diagnostic_report::print_config_diagnostics(&loaded.diagnostics);
            Ok(Err(InvalidConfigError))
        }
    }
}

/// Returns the store settings. The data directory comes from `--data`, the configuration or the default, in this order.
pub fn resolve_store_config(args: &StoreArgs, config: Option<&GatewayConfig>) -> Result<StoreSection, UsageError> {
    let mut store = match config {
        Some(config) => config.store.clone(),
        None => StoreSection::in_directory(PathBuf::new()),
    };
    if let Some(data) = &args.data {
        store.data.clone_from(data);
    } else if config.is_none() {
        store.data = config::default_data_directory().ok_or_else(|| {
            UsageError("no data directory: there is no home directory; name one with `--data`".to_owned())
        })?;
    }
    Ok(store)
}

impl StoreCommandContext {
    /// Opens the store.
    async fn open(args: &StoreArgs, mode: StoreCreationMode) -> Result<Result<Self, InvalidConfigError>> {
        let config = match load_config(args)? {
            Ok(config) => config,
            Err(error) => return Ok(Err(error)),
        };
        let store = resolve_store_config(args, config.as_ref())?;
        refuse_missing_store(&store, config.as_ref()).await?;
        let clock = gatelodge_server::system_clock();
        let opened = match mode {
            StoreCreationMode::Existing => gatelodge_server::open_existing_store(&store, &clock).await,
            StoreCreationMode::CreateIfMissing => gatelodge_server::open_store(&store, &clock).await,
        };
        match opened {
            Ok(stores) => Ok(Ok(Self { stores, clock, store_config: store, config })),
            Err(OpenStoreError::Missing { .. }) => {
                let help =
                    "`gatelodge serve` and commands that add something create it; `--data` or `--config` names another";
                Err(UsageError(format!("there is no data in `{}` yet; {help}", store.data.display())).into())
            }
            Err(error) => Err(open_store_error(error)),
        }
    }

    /// Returns the entries defined in the configuration file, or no entries if there is no file.
    pub fn config_entries(&self) -> ConfigFileEntries {
        self.config.as_ref().map(|config| config.entries.clone()).unwrap_or_default()
    }

    /// Merges the entries from the configuration file with the stored ones.
    pub async fn effective_config(&self) -> Result<EffectiveConfig, StoreError> {
        let stored = load_stored_config(&self.stores).await?;
        let environment = &process_environment::find_variable;
        Ok(merge_config(&self.config_entries(), &stored, environment, &mut PolicyCache::default()))
    }

    /// Returns the operations that change the store, on behalf of the current user.
    pub fn administration(&self) -> Administration {
        Administration {
            stores: self.stores.clone(),
            clock: Arc::clone(&self.clock),
            file_entries: self.config_entries().names(),
            author: process_environment::current_user(),
        }
    }
}

/// Builds the error for a store that cannot be opened, with a hint on how to fix it.
pub fn open_store_error(error: OpenStoreError) -> anyhow::Error {
    let help = error.help_for().map(|help| format!(" ({help})")).unwrap_or_default();
    anyhow::Error::new(error).context(format!("cannot open the data directory{help}"))
}

/// Returns an error if the store is missing while the configured gateway is running: that gateway would never see a
/// store that is created now.
async fn refuse_missing_store(store: &StoreSection, config: Option<&GatewayConfig>) -> Result<()> {
    let Some(config) = config else { return Ok(()) };
    if gatelodge_server::has_store(store).await || !is_gateway_up(config.gateway.admin_listen).await? {
        return Ok(());
    }
    let (data, admin) = (store.data.display(), config.gateway.admin_listen);
    let problem = format!("there is no store in `{data}`, but a gateway answers at {admin}");
    let help =
        "if it uses this configuration, its data was removed: stop it, restore the directory, and start it again";
    Err(ExitError(CommandExitCode::InternalError, format!("{problem}; {help}")).into())
}

/// Returns whether a gateway responds at an admin address, ready or not.
pub async fn is_gateway_up(admin: SocketAddr) -> Result<bool> {
    let url = format!("http://{admin}/readyz").parse()?;
    Ok(matches!(mcp_client::get_status(url, READY_TIMEOUT).await, Ok(200 | 503)))
}

/// Opens the store and runs `work` with it.
pub fn with_store(
    args: &StoreArgs,
    mode: StoreCreationMode,
    work: impl AsyncFnOnce(StoreCommandContext) -> Result<CommandExitCode>,
) -> Result<CommandExitCode> {
    block_on(async {
        match StoreCommandContext::open(args, mode).await? {
            Ok(ctx) => work(ctx).await,
            Err(InvalidConfigError) => Err(invalid_config_error()),
        }
    })
}

/// Builds the error for a configuration whose errors have been printed.
pub fn invalid_config_error() -> anyhow::Error {
    let help = "`gatelodge serve --check --json` prints its errors as JSON";
    ExitError(CommandExitCode::Findings, format!("the configuration is invalid, so nothing was done; {help}")).into()
}

/// Runs a future to completion on its own runtime.
pub fn block_on<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    command_runtime()?.block_on(work)
}

/// Creates a runtime for a command that waits in several places.
pub fn command_runtime() -> Result<Runtime> {
    Ok(tokio::runtime::Builder::new_current_thread().enable_all().build()?)
}

/// Builds the error for an entry that is defined in the configuration file.
pub fn defined_in_file_error(what: &str, name: &str) -> anyhow::Error {
    UsageError(format!("{what} `{name}` is defined in the configuration file; change it there")).into()
}
