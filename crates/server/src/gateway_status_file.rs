//! The status file of a running gateway, in its data directory. `status`, `doctor` and `connect` read it.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

const STATUS_FILE_NAME: &str = "gateway.json";

/// Status of a running gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStatusFile {
    /// Process id.
    pub pid: u32,
    /// Address that clients connect to.
    pub listen: SocketAddr,
    /// Address of the health, readiness and metrics endpoints.
    pub admin: SocketAddr,
    /// The configuration file, if there is one.
    pub config: Option<PathBuf>,
    /// When the active configuration was loaded.
    pub loaded_at: Timestamp,
    /// Names of the active servers.
    pub servers: Vec<String>,
    /// Number of active grants.
    #[serde(default)]
    pub grants: usize,
    /// Warnings about configuration entries that are left out, overridden or incomplete, with reasons.
    #[serde(rename = "remarks")]
    pub warnings: Vec<String>,
    /// Errors in a newer configuration that could not be applied, one line each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "refused")]
    pub config_errors: Vec<String>,
}

/// Reads the status file in a data directory. The process that wrote it may have exited.
pub fn find_status_file(data: &Path) -> Option<GatewayStatusFile> {
    serde_json::from_slice(&std::fs::read(data.join(STATUS_FILE_NAME)).ok()?).ok()
}

/// Reads the status file in a data directory, if the process that wrote it is still running.
pub fn find_running_gateway(data: &Path) -> Option<GatewayStatusFile> {
    let is_running = |pid: u32| {
        let pid = Pid::from_raw(pid.try_into().ok()?)?;
        // EPERM means that the process runs as another user.
        Some(!matches!(test_kill_process(pid), Err(Errno::SRCH)))
    };
    find_status_file(data).filter(|status| is_running(status.pid) == Some(true))
}

impl GatewayStatusFile {
    /// Rewrites the status file if it is missing, for example after another gateway with the same data directory has
    /// removed it. Does not recreate a missing directory.
    pub fn restore_if_missing(&self, data: &Path) {
        if data.is_dir() && !data.join(STATUS_FILE_NAME).exists() {
            // Retried at the next poll.
            let _ = self.write(data);
        }
    }

    /// Replaces the status file atomically.
    pub fn write(&self, data: &Path) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        let draft = data.join(format!("{STATUS_FILE_NAME}.{}", self.pid));
        std::fs::write(&draft, text)?;
        std::fs::rename(&draft, data.join(STATUS_FILE_NAME))
    }

    /// Removes the status file if it was written by this process.
    pub fn remove(&self, data: &Path) {
        if find_status_file(data).is_some_and(|status| status.pid == self.pid) {
            // A file that cannot be removed is harmless: readers check whether its process runs.
            let _ = std::fs::remove_file(data.join(STATUS_FILE_NAME));
        }
    }
}
