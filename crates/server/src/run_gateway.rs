//! Runs a gateway from startup to shutdown: binds the addresses, loads the configuration, serves clients, reloads on
//! changes and drains running calls.

use std::io;
use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;

use gatelodge_gateway::{Gateway, GatewaySettings, WorkerThreads};
use gatelodge_store::{Clock, Store, StoreError};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use crate::config::{ConfigFileEntries, GatewaySection, StoreSection};
use crate::config_reload::{ConfigReloader, WatchedConfig};
use crate::gateway_status_file::GatewayStatusFile;
use crate::input_file::FileStamp;
use crate::policy_cache::PolicyCache;
use crate::{housekeeping, open_file_limit, otel_settings, process_environment, process_supervisor};

/// Parameters for starting a gateway.
pub struct GatewayStartup {
    /// Addresses and limits.
    pub gateway: GatewaySection,
    /// Data directory, durability and retention.
    pub store: StoreSection,
    /// Configuration entries to use in addition to those in the store.
    pub entries: ConfigFileEntries,
    /// The configuration file that defines the entries.
    pub file: Option<GatewayConfigFile>,
}

/// The configuration file that a gateway was started with.
pub struct GatewayConfigFile {
    /// Path of the file.
    pub path: PathBuf,
    /// The file and all files it refers to, as they were when they were read.
    pub files: Vec<FileStamp>,
    /// Its policies.
    pub policies: PolicyCache,
}

/// Why a gateway could not be started, or stopped serving.
#[derive(Debug, thiserror::Error)]
pub enum RunGatewayError {
    /// An address cannot be bound.
    #[error("cannot listen on {address} (set `listen` in {section} to another address; port 0 takes any free port)")]
    Bind {
        /// The address.
        address: SocketAddr,
        /// Section of the configuration file that sets it.
        section: &'static str,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The worker threads cannot be started.
    #[error("cannot start the worker threads")]
    StartWorkers(#[source] io::Error),
    /// The stored part of the configuration cannot be read.
    #[error("cannot read the store")]
    ReadStore(#[source] StoreError),
    /// A listener failed.
    #[error("cannot listen")]
    Serve(#[source] io::Error),
    /// Signals, the addresses or the program's own path cannot be determined.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Serves until SIGTERM or SIGINT. Calls `ready` with the address once clients can connect.
pub async fn run_gateway(
    startup: GatewayStartup,
    stores: Store,
    clock: Arc<dyn Clock>,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), RunGatewayError> {
    let GatewayStartup { gateway: listen, store, entries, file } = startup;
    open_file_limit::raise_limit(listen.settings.max_connections);
    let client_listener = bind_listener(listen.listen, "[gateway]").await?;
    let admin_listener = bind_listener(listen.admin_listen, "[admin]").await?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let hangup = signal(SignalKind::hangup())?;
    let telemetry = otel_settings::resolve_telemetry(&listen.telemetry, &process_environment::find_variable);
    let settings =
        GatewaySettings { supervisor: process_supervisor::supervisor_command()?, telemetry, ..listen.settings.clone() };
    // Dropped last: that ends the requests that are still in flight.
    let workers =
        WorkerThreads::start(available_parallelism().map_or(1, NonZero::get)).map_err(RunGatewayError::StartWorkers)?;
    let gateway = Gateway::with_workers(workers.round_robin(), stores.clone(), Arc::clone(&clock), settings);
    let (address, admin_address) = (client_listener.local_addr()?, admin_listener.local_addr()?);
    let status = GatewayStatusFile {
        pid: std::process::id(),
        listen: address,
        admin: admin_address,
        config: file.as_ref().map(|file| file.path.clone()),
        loaded_at: clock.now(),
        servers: Vec::new(),
        grants: 0,
        warnings: Vec::new(),
        config_errors: Vec::new(),
    };
    let (own_status, data) = (status.clone(), store.data.clone());
    let pruning = housekeeping::prune_periodically(Arc::clone(&stores.call_log), Arc::clone(&clock), store.retention);
    let watching = housekeeping::watch_ledger(Arc::clone(&stores.ledger));
    let file = file.map(|GatewayConfigFile { path, files, policies }| WatchedConfig {
        path,
        files,
        restart_only: (listen, store),
        policies,
    });
    let mut reloader = ConfigReloader {
        gateway: Arc::clone(&gateway),
        stores,
        clock,
        file,
        entries,
        stored_policies: PolicyCache::default(),
        data: data.clone(),
        status,
    };
    // Read before the entries, so that no change in between is missed.
    let seen = reloader.stores.change_feed.version().await.map_err(RunGatewayError::ReadStore)?;
    reloader.apply().await.map_err(RunGatewayError::ReadStore)?;
    info!(%address, "clients connect to http://{address}/mcp/<server>");
    info!(address = %admin_address, "health, readiness and metrics are at http://{admin_address}");
    ready(address);
    let stopping = async {
        tokio::select! {
            _ = terminate.recv() => info!("received SIGTERM: stopping"),
            _ = interrupt.recv() => info!("received SIGINT: stopping"),
        }
        gateway.stop();
    };
    // None of these tasks returns; they are dropped when the gateway has drained.
    let background = async { tokio::join!(reloader.run(hangup, seen), pruning, watching, stopping) };
    let ended = tokio::select! {
        ended = gateway.run(client_listener, Some(admin_listener)) => ended,
        _ = background => Ok(()),
    };
    own_status.remove(&data);
    ended.map_err(RunGatewayError::Serve)
}

async fn bind_listener(address: SocketAddr, section: &'static str) -> Result<TcpListener, RunGatewayError> {
    TcpListener::bind(address).await.map_err(|source| RunGatewayError::Bind { address, section, source })
}
