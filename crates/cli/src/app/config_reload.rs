//! Keeps what is in force up to date: with the store, with the file and what it names, and on SIGHUP.
//!
//! A broken file changes nothing: it is said in the log and in the note that `status` reads.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gatelodge_gateway::Gateway;
use gatelodge_store::{ChangeFeed, Clock, StateVersion, StoreError};
use jiff::Timestamp;
use tokio::signal::unix::Signal;
use tokio::sync::mpsc;
use tracing::{error, info, warn};

use super::effective_config::{load_stored_config, merge_config};
use super::gateway_status_file::GatewayStatusFile;
use super::{EffectiveConfig, StoreHandles};
use crate::config::{self, ConfigEntries, GatewayConfig, GatewaySection, StoreSection};
use crate::diagnostic_report::count_noun;
use crate::process_environment;
use crate::source_file::FileStamp;

/// How often files are looked at.
const FILE_POLL_INTERVAL: Duration = Duration::from_millis(500);
/// Files that look the same after so long are whole.
const FILE_SETTLE_TIME: Duration = Duration::from_millis(150);
/// A file that is written for ever is read as it is after so many looks.
const MAX_SETTLE_POLLS: usize = 20;
/// How long to wait after the store could not be asked.
const STORE_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Keeps a gateway up to date.
pub struct ConfigReloader {
    /// The gateway.
    pub gateway: Arc<Gateway>,
    /// The store.
    pub stores: StoreHandles,
    /// The time, for the note.
    pub clock: Arc<dyn Clock>,
    /// The file, if there is one.
    pub file: Option<WatchedConfig>,
    /// What the file says now, or what is built in.
    pub entries: ConfigEntries,
    /// The data directory, where the note is.
    pub data: PathBuf,
    /// What is told of this process.
    pub status: GatewayStatusFile,
}

/// A configuration that is followed.
pub struct WatchedConfig {
    /// The file.
    pub path: PathBuf,
    /// It and all it names, as they were just before they were read.
    pub files: Vec<FileStamp>,
    /// What only a restart changes.
    pub restart_only: (GatewaySection, StoreSection),
}

impl WatchedConfig {
    /// Whether any of the files is another one than was read. Each change is told once.
    fn has_changed(&mut self) -> bool {
        let now: Vec<FileStamp> = self.files.iter().map(|file| FileStamp::of(&file.path)).collect();
        let is_new = now != self.files;
        // Kept also if reading fails: a broken file is not told of at each look.
        self.files = now;
        is_new
    }

    /// Waits until nobody writes the files any more. What is read half-written may be without faults, and say less.
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
    /// Puts what is there now in force.
    pub async fn apply(&mut self) -> Result<(), StoreError> {
        let stored = load_stored_config(&self.stores).await?;
        let picture = merge_config(&self.entries, &stored, &process_environment::find_variable);
        log_effective_config(&picture, self.clock.now());
        self.status.servers = picture.servers.iter().map(|server| server.name.to_string()).collect();
        self.status.warnings.clone_from(&picture.warnings);
        self.status.grants = picture.grants.len();
        self.gateway.apply_config(picture.servers, picture.grants);
        self.status.loaded_at = self.clock.now();
        self.write_status();
        Ok(())
    }

    /// Follows until it is dropped. `seen` is the state of the store that is in force.
    pub async fn run(mut self, mut hangup: Signal, seen: StateVersion) {
        // One place is enough: a change that waits tells of all that follow.
        let (sender, mut changes) = mpsc::channel(1);
        let listening = forward_store_changes(Arc::clone(&self.stores.notices), seen, sender);
        let following = async {
            let mut look = tokio::time::interval(FILE_POLL_INTERVAL);
            let mut is_behind = false;
            loop {
                let is_changed = tokio::select! {
                    Some(()) = changes.recv() => true,
                    _ = look.tick() => self.poll_files().await,
                    Some(()) = hangup.recv() => {
                        info!("hangup: reading the configuration again");
                        if let Some(file) = &mut self.file {
                            file.wait_until_stable().await;
                        }
                        self.reload_file()
                    }
                };
                if is_changed || is_behind {
                    is_behind = self.apply_change(is_behind).await;
                }
            }
        };
        tokio::join!(listening, following);
    }

    /// Looks at the files; true if they have changed and are good.
    async fn poll_files(&mut self) -> bool {
        self.status.restore_if_missing(&self.data);
        let Some(file) = &mut self.file else { return false };
        if !file.has_changed() {
            return false;
        }
        file.wait_until_stable().await;
        self.reload_file()
    }

    /// Puts a change in force; true if the store could not be read, and it has to be tried again.
    async fn apply_change(&mut self, is_again: bool) -> bool {
        match self.apply().await {
            Ok(()) => false,
            Err(fault) => {
                // Said once, not at each try.
                if !is_again {
                    error!(error = %fault, "a change is not in force yet, the store cannot be read: {fault}");
                }
                true
            }
        }
    }

    /// Reads the file again; false if it is broken, and nothing is to be changed.
    fn reload_file(&mut self) -> bool {
        let Some(file) = &mut self.file else { return true };
        let refused = match config::load_config_file(&file.path, &process_environment::find_variable) {
            Ok(loaded) => {
                file.files = loaded.diagnostics.files().to_vec();
                let lines = loaded.diagnostics.log_lines();
                match loaded.config {
                    Some(config) => {
                        lines.iter().for_each(|line| warn!("{line}"));
                        warn_restart_needed(file, &config);
                        self.entries = config.entries;
                        info!("the configuration was read again");
                        Vec::new()
                    }
                    None => lines,
                }
            }
            Err(error) => vec![error.to_string()],
        };
        let is_good = refused.is_empty();
        if !is_good {
            error!("the configuration has faults; what was in force stays in force");
            // The same again is not told again.
            let known = std::mem::take(&mut self.status.config_errors);
            refused.iter().filter(|line| !known.contains(line)).for_each(|line| error!("{line}"));
        }
        self.status.config_errors = refused;
        self.write_status();
        is_good
    }

    fn write_status(&self) {
        if let Err(error) = self.status.write(&self.data) {
            warn!(%error, "cannot write the note for `gatelodge status`: {error}");
        }
    }
}

/// Tells of each change in the store. It ends when nobody listens.
async fn forward_store_changes(notices: Arc<dyn ChangeFeed>, mut seen: StateVersion, sender: mpsc::Sender<()>) {
    loop {
        match notices.wait_for_change(seen).await {
            Ok(version) => {
                seen = version;
                if sender.send(()).await.is_err() {
                    return;
                }
            }
            Err(fault) => {
                warn!(error = %fault, "cannot hear of changes: {fault}");
                tokio::time::sleep(STORE_RETRY_DELAY).await;
            }
        }
    }
}

fn warn_restart_needed(file: &WatchedConfig, config: &GatewayConfig) {
    let (listen, store) = &file.restart_only;
    let is_same_place = (listen.listen, listen.admin_listen) == (config.gateway.listen, config.gateway.admin_listen);
    // Settings have no equality of their own; their text has all of them.
    let is_same_bounds = format!("{:?}", (&listen.settings, &listen.telemetry))
        == format!("{:?}", (&config.gateway.settings, &config.gateway.telemetry));
    if !is_same_place || !is_same_bounds || *store != config.store {
        warn!("[gateway], [admin], [store] or [telemetry] has changed, and only a restart takes that up");
    }
}

/// Says what people should know, each time something is put in force.
fn log_effective_config(picture: &EffectiveConfig, now: Timestamp) {
    for (label, end) in picture.expired_grants(now) {
        warn!(grant.label = label, "grant `{label}` ended on {end}: its token is refused");
    }
    for remark in &picture.warnings {
        warn!("{remark}");
    }
    for (grant, server) in picture.observing_grants() {
        let (label, name) = (&grant, &server);
        warn!(
            grant.label = label,
            server.name = name,
            "grant `{grant}` only OBSERVES at `{server}`: nothing is refused"
        );
    }
    let (servers, grants) = (picture.servers.len(), picture.grants.len());
    info!(servers, grants, "in force: {}, {}", count_noun(servers, "server"), count_noun(grants, "grant"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_between_reading_and_the_first_look_is_seen_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let (path, policy) = (dir.path().join("gatelodge.toml"), dir.path().join("policy.json"));
        std::fs::write(&policy, r#"{"version": "1", "default": "deny"}"#).expect("written");
        let text = "[store]\ndata = \"data\"\n[[policies]]\nname = \"a\"\nfile = \"policy.json\"\n";
        std::fs::write(&path, text).expect("written");
        let config = config::load_config_file(&path, &|_| None).expect("a file").config.expect("a configuration");
        std::fs::write(&policy, r#"{"version": "1", "default": "allow"}"#).expect("written");
        let mut file = WatchedConfig { path, files: config.files, restart_only: (config.gateway, config.store) };
        assert!(file.has_changed());
        assert!(!file.has_changed());
    }

    #[tokio::test]
    async fn files_that_are_being_written_are_waited_for() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("gatelodge.toml");
        let whole = "[store]\ndata = \"data\"\n";
        std::fs::write(&path, whole).expect("written");
        let config = config::load_config_file(&path, &|_| None).expect("a file").config.expect("a configuration");
        let mut file =
            WatchedConfig { path: path.clone(), files: config.files, restart_only: (config.gateway, config.store) };
        // An editor that writes in place; what is there between is without faults, and names nothing.
        std::fs::write(&path, "").expect("emptied");
        assert!(file.has_changed());
        let (there, later) = (path.clone(), format!("{whole}# more\n"));
        let text = later.clone();
        let writing = tokio::spawn(async move {
            tokio::time::sleep(FILE_SETTLE_TIME / 2).await;
            std::fs::write(&there, text).expect("written");
        });
        file.wait_until_stable().await;
        assert_eq!(std::fs::read_to_string(&path).expect("a file"), later);
        writing.await.expect("a writer");
        assert!(!file.has_changed());
    }
}
