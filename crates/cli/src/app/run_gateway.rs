//! A gateway from start to stop: bind, put in force, serve, follow changes, drain.

use std::net::SocketAddr;
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::available_parallelism;

use anyhow::{Context, Result};
use gatelodge_gateway::{Gateway, GatewaySettings, WorkerThreads};
use gatelodge_store::Clock;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tracing::info;

use super::config_reload::{ConfigReloader, WatchedConfig};
use super::gateway_status_file::GatewayStatusFile;
use super::{StoreHandles, housekeeping, open_file_limit};
use crate::config::{ConfigEntries, GatewaySection, StoreSection};
use crate::source_file::FileStamp;
use crate::{otel_settings, process_environment};

/// What to run.
pub struct GatewayStartup {
    /// Where, and the bounds.
    pub gateway: GatewaySection,
    /// Where things are kept.
    pub store: StoreSection,
    /// What is in force beside what the store has.
    pub entries: ConfigEntries,
    /// The file that the entries come from, with all it names.
    pub file: Option<(PathBuf, Vec<FileStamp>)>,
}

/// Serves until SIGTERM or SIGINT. `ready` hears the address when callers can come.
pub async fn run_gateway(
    plan: GatewayStartup,
    stores: StoreHandles,
    clock: Arc<dyn Clock>,
    ready: impl FnOnce(SocketAddr),
) -> Result<()> {
    let GatewayStartup { gateway: listen, store, entries, file } = plan;
    open_file_limit::raise_limit(listen.settings.max_connections);
    let callers = bind_listener(listen.listen, "[gateway]").await?;
    let admin = bind_listener(listen.admin_listen, "[admin]").await?;
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let hangup = signal(SignalKind::hangup())?;
    let telemetry = otel_settings::resolve_telemetry(&listen.telemetry, &process_environment::find_variable);
    let settings = GatewaySettings {
        supervisor: crate::process_supervisor::supervisor_command()?,
        telemetry,
        ..listen.settings.clone()
    };
    // Dropped last: what is still under way then, ends.
    let lanes = WorkerThreads::start(available_parallelism().map_or(1, NonZero::get)).context("cannot start")?;
    let gateway = Gateway::with_workers(lanes.round_robin(), stores.gateway_stores(), Arc::clone(&clock), settings);
    let (address, admin_address) = (callers.local_addr()?, admin.local_addr()?);
    let note = GatewayStatusFile {
        pid: std::process::id(),
        listen: address,
        admin: admin_address,
        config: file.as_ref().map(|(path, _)| path.clone()),
        loaded_at: clock.now(),
        servers: Vec::new(),
        grants: 0,
        warnings: Vec::new(),
        config_errors: Vec::new(),
    };
    let (own_note, data) = (note.clone(), store.data.clone());
    let pruning = housekeeping::prune_periodically(Arc::clone(&stores.ledger), Arc::clone(&clock), store.retention);
    let watching = housekeeping::watch_ledger(Arc::clone(&stores.sqlite_ledger));
    let file = file.map(|(path, files)| WatchedConfig { path, files, restart_only: (listen, store) });
    let mut follower = ConfigReloader {
        gateway: Arc::clone(&gateway),
        stores,
        clock,
        file,
        entries,
        data: data.clone(),
        status: note,
    };
    // Asked before anything is read, so that no change falls between.
    let seen = follower.stores.notices.version().await.context("cannot read the store")?;
    follower.apply().await.context("cannot read the store")?;
    info!(%address, "agents connect to http://{address}/mcp/<server>");
    info!(address = %admin_address, "health, readiness and figures are at http://{admin_address}");
    ready(address);
    let stopping = async {
        tokio::select! {
            _ = terminate.recv() => info!("told to stop"),
            _ = interrupt.recv() => info!("interrupted"),
        }
        gateway.stop();
    };
    // None of the others ends by itself; what they do is dropped when the gateway has drained.
    let others = async { tokio::join!(follower.run(hangup, seen), pruning, watching, stopping) };
    let ended = tokio::select! {
        ended = gateway.run(callers, Some(admin)) => ended,
        _ = others => Ok(()),
    };
    own_note.remove(&data);
    ended.context("cannot listen")
}

async fn bind_listener(address: SocketAddr, section: &str) -> Result<TcpListener> {
    let help = format!("`listen` of {section} names another address; port 0 takes any free one");
    TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address} ({help})"))
}
