//! A note in the data directory on the gateway that runs on it, for `status` and for whoever wants its address.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use serde::{Deserialize, Serialize};

const STATUS_FILE_NAME: &str = "gateway.json";

/// What a running gateway says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct GatewayStatusFile {
    /// Its process.
    pub pid: u32,
    /// Where agents connect.
    pub listen: SocketAddr,
    /// Where people and their monitoring connect.
    pub admin: SocketAddr,
    /// Its configuration, if it has a file.
    pub config: Option<PathBuf>,
    /// When what is in force was put in force.
    pub loaded_at: Timestamp,
    /// The servers in force.
    pub servers: Vec<String>,
    /// How many grants are in force.
    #[serde(default)]
    pub grants: usize,
    /// What was left out or overruled, and why.
    #[serde(rename = "remarks")]
    pub warnings: Vec<String>,
    /// Why a later change was not taken up; one line for each fault.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[serde(rename = "refused")]
    pub config_errors: Vec<String>,
}

/// Finds the note on a data directory. It may be of a process that is gone.
pub fn find_status_file(data: &Path) -> Option<GatewayStatusFile> {
    serde_json::from_slice(&std::fs::read(data.join(STATUS_FILE_NAME)).ok()?).ok()
}

/// Finds the note on a data directory, if the process it is of is there.
pub fn find_running_gateway(data: &Path) -> Option<GatewayStatusFile> {
    let is_there = |pid: u32| {
        let pid = Pid::from_raw(pid.try_into().ok()?)?;
        // A process of somebody else's is there, too.
        Some(!matches!(test_kill_process(pid), Err(Errno::SRCH)))
    };
    find_status_file(data).filter(|note| is_there(note.pid) == Some(true))
}

impl GatewayStatusFile {
    /// Puts the note back if there is none: another gateway on the same directory has taken its own away. A directory
    /// that is gone stays so.
    pub fn restore_if_missing(&self, data: &Path) {
        if data.is_dir() && !data.join(STATUS_FILE_NAME).exists() {
            // It is tried again at the next look.
            let _ = self.write(data);
        }
    }

    /// Puts the note where readers find the old one or the new one, never half of it.
    pub fn write(&self, data: &Path) -> std::io::Result<()> {
        let text = serde_json::to_vec_pretty(self)?;
        let draft = data.join(format!("{STATUS_FILE_NAME}.{}", self.pid));
        std::fs::write(&draft, text)?;
        std::fs::rename(&draft, data.join(STATUS_FILE_NAME))
    }

    /// Takes the note away, if it is still this process's.
    pub fn remove(&self, data: &Path) {
        if find_status_file(data).is_some_and(|note| note.pid == self.pid) {
            // A note that stays names an address where nobody answers, which readers find out.
            let _ = std::fs::remove_file(data.join(STATUS_FILE_NAME));
        }
    }
}
