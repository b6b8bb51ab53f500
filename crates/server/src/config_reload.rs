//! Reloads the active configuration when the store, the configuration file or a file it refers to changes, and on
//! SIGHUP.
//!
//! An invalid file changes nothing: its errors are logged and written to the status file that `status` reads.
//!
//! Reading files and compiling policies happens on a thread for blocking work: this task also accepts connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gatelodge_gateway::Gateway;
use gatelodge_store::{ChangeFeed, Clock, StateChangeNumber, Store, StoreError};
use jiff::Timestamp;
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use crate::config::{self, ConfigFileEntries, GatewayConfig, GatewaySection, StoreSection};
use crate::count_noun::count_noun;
use crate::effective_config::{EffectiveConfig, load_stored_config, merge_config};
use crate::gateway_status_file::GatewayStatusFile;
use crate::input_file::FileStamp;
use crate::policy_cache::PolicyCache;
use crate::process_environment;

/// How often files are checked for changes.
const FILE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// How long files must stay unchanged before they are assumed to be completely written.
const FILE_SETTLE_TIME: Duration = Duration::from_millis(150);
/// Maximum number of checks while files keep changing. After that, they are read even if they are still changing.
const MAX_SETTLE_POLLS: usize = 20;
/// How long to wait after a store error before watching for changes again.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Applies configuration changes to a running gateway.
pub struct ConfigReloader {
    pub gateway: Arc<Gateway>,
    pub stores: Store,
    /// Clock for the timestamps in the status file.
    pub clock: Arc<dyn Clock>,
    /// The configuration file, if there is one.
    pub file: Option<WatchedConfig>,
    /// Entries from the configuration file or, without a file, from the command that started the gateway.
    pub entries: ConfigFileEntries,
    /// Compiled policies from the store.
    pub stored_policies: PolicyCache,
    /// Data directory, which contains the status file.
    pub data: PathBuf,
    /// Content of the status file.
    pub status: GatewayStatusFile,
}

/// A configuration file that is watched for changes.
pub struct WatchedConfig {
    /// Path of the file.
    pub path: PathBuf,
    /// Metadata of the file and of all files it refers to, read just before their content.
    pub files: Vec<FileStamp>,
    /// Sections whose changes take effect only after a restart.
    pub restart_only: (GatewaySection, StoreSection),
    /// Compiled policies from the file.
    pub policies: PolicyCache,
}

impl WatchedConfig {
    /// Returns whether any of the files has changed since the last check. Each change is reported only once.
    fn has_changed(&mut self) -> bool {
        let now: Vec<FileStamp> = self.files.iter().map(|file| FileStamp::of(&file.path)).collect();
        let is_new = now != self.files;
        // Also stored if reading the file fails later, so that an invalid file is not reported at each poll.
        self.files = now;
        is_new
    }

    /// Waits until the files stop changing. A file that is read while it is being written may be valid but incomplete.
    async fn wait_until_stable(&mut self) {
        self.has_changed();
        for _ in 0..MAX_SETTLE_POLLS {
            tokio::time::sleep(FILE_SETTLE_TIME).await;
            if !self.has_changed() {
                return;
            }
        }
    }
}

impl ConfigReloader {
    /// Merges the entries from the file and the store, and applies the result to the gateway.
    pub async fn apply(&mut self) -> Result<(), StoreError> {
        let stored = load_stored_config(&self.stores).await?;
        let (entries, mut policies) = (self.entries.clone(), std::mem::take(&mut self.stored_policies));
        let (active_config, policies) = run_blocking(move || {
            let merged = merge_config(&entries, &stored, &process_environment::find_variable, &mut policies);
            (merged, policies)
        })
        .await;
        self.stored_policies = policies;
        log_effective_config(&active_config, self.clock.now());
        self.status.servers = active_config.servers.iter().map(|server| server.name.to_string()).collect();
        self.status.warnings.clone_from(&active_config.warnings);
        self.status.grants = active_config.grants.len();
        self.gateway.apply_config(active_config.servers, active_config.grants);
        self.status.loaded_at = self.clock.now();
        self.write_status();
        Ok(())
    }

    /// Applies configuration changes until the future is dropped. `seen` is the number of the last store change that is
    /// already active.
    pub async fn run(mut self, mut hangup: Signal, seen: StateChangeNumber) {
        // One slot is enough: a pending notification also covers the changes that follow it.
        let (sender, mut changes) = mpsc::channel(1);
        let watching_store = forward_store_changes(Arc::clone(&self.stores.change_feed), seen, sender);
        let reloading = async {
            let mut file_poll = tokio::time::interval(FILE_POLL_INTERVAL);
            let mut is_retry_needed = false;
            loop {
                let is_changed = tokio::select! {
                    Some(()) = changes.recv() => true,
                    _ = file_poll.tick() => self.poll_files().await,
                    Some(()) = hangup.recv() => {
                        info!("received SIGHUP: reloading the configuration");
                        if let Some(file) = &mut self.file {
                            file.wait_until_stable().await;
                        }
                        self.reload_file().await
                    }
                };
                if is_changed || is_retry_needed {
                    is_retry_needed = self.apply_change(is_retry_needed).await;
                }
            }
        };
        tokio::join!(watching_store, reloading);
    }

    /// Checks the files for changes, and reloads them if there are any. Returns whether a new, valid configuration was
    /// loaded.
    async fn poll_files(&mut self) -> bool {
        self.status.restore_if_missing(&self.data);
        let Some(file) = &mut self.file else { return false };
        if !file.has_changed() {
            return false;
        }
        file.wait_until_stable().await;
        self.reload_file().await
    }

    /// Applies a configuration change. Returns true if the store could not be read and the caller must try again.
    async fn apply_change(&mut self, is_retry: bool) -> bool {
        match self.apply().await {
            Ok(()) => false,
            Err(error) => {
                // Logged once, not at each retry.
                if !is_retry {
                    error!(error = %error, "cannot apply a configuration change yet: cannot read the store: {error}");
                }
                true
            }
        }
    }

    /// Reloads the configuration file. Returns false if it is invalid, in which case the current configuration stays
    /// active.
    async fn reload_file(&mut self) -> bool {
        let Some(file) = &mut self.file else { return true };
        let (path, mut policies) = (file.path.clone(), std::mem::take(&mut file.policies));
        let (loaded, policies) = run_blocking(move || {
            let loaded = config::load_config_file(&path, &process_environment::find_variable, &mut policies);
            (loaded, policies)
        })
        .await;
        file.policies = policies;
        let errors = match loaded {
            Ok(loaded) => {
                file.files = loaded.diagnostics.files().to_vec();
                let lines = loaded.diagnostics.log_lines();
                match loaded.config {
                    Some(config) => {
                        lines.iter().for_each(|line| warn!("{line}"));
                        warn_restart_needed(file, &config);
                        self.entries = config.entries;
                        info!("the configuration was reloaded");
                        Vec::new()
                    }
                    None => lines,
                }
            }
            Err(error) => vec![error.to_string()],
        };
        let is_valid = errors.is_empty();
        if !is_valid {
            error!("the configuration is invalid; the previous one stays active");
            // Errors that were logged before are not logged again.
            let known = std::mem::take(&mut self.status.config_errors);
            errors.iter().filter(|line| !known.contains(line)).for_each(|line| error!("{line}"));
        }
        self.status.config_errors = errors;
        self.write_status();
        is_valid
    }

    fn write_status(&self) {
        if let Err(error) = self.status.write(&self.data) {
            warn!(%error, "cannot write the status file for `gatelodge status`: {error}");
        }
    }
}

/// Runs `work` on a thread for blocking work.
async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down, and drops this future next.
            Err(_) => std::future::pending().await,
        },
    }
}

/// Sends a message for each change in the store, until the receiver is dropped.
async fn forward_store_changes(changes: Arc<dyn ChangeFeed>, mut seen: StateChangeNumber, sender: mpsc::Sender<()>) {
    loop {
        match changes.wait_for_change(seen).await {
            Ok(version) => {
                seen = version;
                if sender.send(()).await.is_err() {
                    return;
                }
            }
            Err(error) => {
                warn!("cannot watch the store for changes: {error}");
                tokio::time::sleep(STORE_RETRY_DELAY).await;
            }
        }
    }
}

fn warn_restart_needed(file: &WatchedConfig, config: &GatewayConfig) {
    let (listen, store) = &file.restart_only;
    let is_same_address = (listen.listen, listen.admin_listen) == (config.gateway.listen, config.gateway.admin_listen);
    // `GatewaySettings` does not implement `PartialEq`; its debug text contains all fields.
    let is_same_settings = format!("{:?}", (&listen.settings, &listen.telemetry))
        == format!("{:?}", (&config.gateway.settings, &config.gateway.telemetry));
    if !is_same_address || !is_same_settings || *store != config.store {
        warn!("[gateway], [admin], [store] or [telemetry] has changed: restart the gateway to apply that");
    }
}

/// Logs the warnings about a newly active configuration, its expired grants, its grants in observe mode, and the number
/// of its servers and grants.
fn log_effective_config(active_config: &EffectiveConfig, now: Timestamp) {
    for (label, expires) in active_config.expired_grants(now) {
        let expired_at = expires.strftime("%Y-%m-%dT%H:%M:%SZ");
        warn!(grant.label = label, "grant `{label}` expired at {expired_at}: its token is refused");
    }
    for warning in &active_config.warnings {
        warn!("{warning}");
    }
    for (grant, server) in active_config.observing_grants() {
        let (label, name) = (&grant, &server);
        warn!(
            grant.label = label,
            server.name = name,
            "grant `{grant}` only OBSERVES calls to `{server}`: nothing is refused"
        );
    }
    let (servers, grants) = (active_config.servers.len(), active_config.grants.len());
    info!(servers, grants, "active: {}, {}", count_noun(servers, "server"), count_noun(grants, "grant"));
}

#[cfg(test)]
mod tests;
