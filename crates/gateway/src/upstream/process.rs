//! A stdio server: a process with one JSON message per line on its input and output.
//!
//! The process is started through a supervisor, a small process that runs the gateway's own program. It stops the
//! server and all its descendants when its own input closes. That also works if the gateway is killed.

mod pipes;
pub(super) mod restart_backoff;
mod stderr_tail;

use std::ffi::OsString;
use std::fmt::Display;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use tokio::process::Command;
use tokio::sync::mpsc;
use tracing::{info, warn};

use self::stderr_tail::StderrTail;
use super::message_demux::{MessageDemux, UpstreamConnectionSharing};
use super::{SecretRedactor, ToolRegistry, Upstream, UpstreamSendError};

pub(crate) use self::pipes::to_line;

/// Maximum number of messages queued for a process that does not read them. When the queue is full, senders wait.
const STDIN_QUEUE_LENGTH: usize = 64;
/// How long to wait for the exit code after the output has ended.
const EXIT_CODE_TIMEOUT: Duration = Duration::from_millis(200);
/// Exit code of a supervisor that could not start the server.
const EXIT_CODE_NOT_STARTED: i32 = 127;
/// How much time a supervisor gets in addition to the server's grace periods.
const SUPERVISOR_EXTRA_TIME: Duration = Duration::from_secs(5);

/// Configuration of a stdio server.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProcessConfig {
    /// The program, which is started without a shell.
    pub program: String,
    /// The program's arguments.
    pub arguments: Vec<String>,
    /// The program's complete environment.
    pub env: Vec<(String, String)>,
    /// The values taken from the gateway's environment. They must never reach a client.
    pub secrets: Vec<String>,
    /// Working directory; `None` for the gateway's own.
    pub directory: Option<PathBuf>,
    /// How long the process may take to exit after its input is closed, and again after the termination signal.
    pub grace: Duration,
}

// The environment may hold secrets, and configurations get printed.
impl std::fmt::Debug for UpstreamProcessConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("UpstreamProcessConfig")
            .field("program", &self.program)
            .field("environment", &names)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// Starts processes through the supervisor.
#[derive(Debug, Clone)]
pub(crate) struct ProcessSpawner {
    /// The command of the supervisor: its program and the arguments before those of the server.
    pub supervisor: Vec<OsString>,
    pub max_bytes: usize,
    /// Counts lines that are not messages, and messages without a receiver.
    pub dropped_messages: Counter,
}

/// A running process. It is stopped when the last reference is dropped.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    stdin_lines: mpsc::Sender<Bytes>,
    demux: Arc<MessageDemux>,
    stderr_tail: Arc<StderrTail>,
    /// The exit status, once the process has exited by itself.
    exit_status: Arc<OnceLock<i32>>,
    /// The server's redactor. A reconfigured server has a new one, so comparing the pointers shows whether the process
    /// belongs to the current configuration.
    redactor: Arc<SecretRedactor>,
}

impl ServerProcess {
    /// Starts a process for one session or for all stateless requests.
    ///
    /// # Errors
    /// Too many processes are running, the process exited too often recently, or it cannot be started.
    pub fn start(
        upstream: &Upstream,
        config: &UpstreamProcessConfig,
        spawner: &ProcessSpawner,
        scope: UpstreamConnectionSharing,
    ) -> Result<Arc<Self>, UpstreamSendError> {
        let not_sent = |why: String| UpstreamSendError::NotSent(why);
        let slot = Arc::clone(&upstream.process_slots).try_acquire_owned();
        let slot = slot.map_err(|_| not_sent("too many processes of this server are running".to_owned()))?;
        upstream.restart_backoff.check_start_allowed().map_err(not_sent)?;
        let mut process = supervisor_command(config, spawner)
            .spawn()
            .map_err(|error| not_sent(format!("cannot start the process supervisor: {error}")))?;
        let (Some(input), Some(output), Some(errors)) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            return Err(not_sent("the process has no pipes".to_owned()));
        };
        let name = upstream.name().to_string();
        info!(server.name = name, "started `{}` for `{name}`", config.program);
        let (lines, queue) = mpsc::channel(STDIN_QUEUE_LENGTH);
        // Each session process has its own registry: the program may have changed between two starts.
        let registry = match scope {
            UpstreamConnectionSharing::Session => Arc::default(),
            UpstreamConnectionSharing::Shared => Arc::clone(&upstream.tool_registry),
        };
        let demux = Arc::new(MessageDemux::new(registry, spawner.max_bytes, spawner.dropped_messages.clone(), scope));
        let stderr_tail = Arc::new(StderrTail::default());
        let tail = tokio::spawn(pipes::read_stderr(
            errors,
            Arc::clone(&stderr_tail),
            Arc::clone(&upstream.secrets),
            name.clone(),
        ));
        tokio::spawn(pipes::write_stdin(input, queue, Arc::clone(&demux)));
        let (reading, restarts) = (Arc::clone(&demux), Arc::clone(&upstream.restart_backoff));
        let (tail_lines, grace) = (Arc::clone(&stderr_tail), config.grace);
        let exit_status = Arc::new(OnceLock::new());
        let own_status = Arc::clone(&exit_status);
        tokio::spawn(async move {
            let broken = pipes::read_stdout(output, &reading).await;
            let is_closed_locally = reading.is_closed_locally();
            // It has usually exited by itself, and the exit code says whether it ever ran.
            let ended = tokio::time::timeout(EXIT_CODE_TIMEOUT, process.wait()).await;
            let code = ended.ok().and_then(Result::ok).and_then(|status| status.code());
            if let Some(code) = code {
                let _ = own_status.set(code);
            }
            reading.mark_ended(code == Some(EXIT_CODE_NOT_STARTED) && !reading.has_answered());
            // Its input is closed now, so it exits by itself or is stopped by the supervisor. That takes up to three
            // grace periods: after the end of input, after the signal, and for the descendants.
            let ended = tokio::time::timeout(grace * 3 + SUPERVISOR_EXTRA_TIME, process.wait()).await;
            if ended.is_err() {
                let _ = process.kill().await;
            }
            let _ = tokio::time::timeout(SUPERVISOR_EXTRA_TIME, tail).await;
            // The slot is held until the process is gone.
            drop(slot);
            // A process that was stopped before it could answer has not failed.
            if reading.has_answered() || !is_closed_locally {
                restarts.record_exit(reading.has_answered());
            }
            match broken {
                Some(why) => warn!(server.name = name, "stopped the process of `{name}`: {why}"),
                None => {
                    let how = exit_text(code, tail_lines.last());
                    info!(server.name = name, "the process of `{name}` has exited{how}");
                }
            }
        });
        let redactor = Arc::clone(&upstream.secrets);
        Ok(Arc::new(Self { stdin_lines: lines, demux, stderr_tail, exit_status, redactor }))
    }

    /// Returns whether the process has exited or is being stopped.
    pub fn is_ended(&self) -> bool {
        self.demux.is_ended()
    }

    /// Returns whether the process was started for the current configuration of a server.
    pub fn belongs_to(&self, upstream: &Upstream) -> bool {
        Arc::ptr_eq(&self.redactor, &upstream.secrets)
    }

    /// Returns the registry of the server's tools.
    pub fn tool_registry(&self) -> &Arc<ToolRegistry> {
        self.demux.tool_registry()
    }

    /// Stops the process for all its users.
    pub fn stop(&self) {
        self.demux.close();
    }

    pub fn demux(&self) -> &MessageDemux {
        &self.demux
    }

    /// Queues a message, waiting for space in the queue.
    pub async fn send(&self, text: &Bytes) -> Result<(), UpstreamSendError> {
        if self.is_ended() {
            return Err(self.not_sent_error());
        }
        self.stdin_lines.send(to_line(text)).await.map_err(|_| self.not_sent_error())
    }

    /// Queues a message without waiting.
    pub fn try_send(&self, text: Bytes) {
        // If the queue is full, the process does not read and the message is dropped.
        let _ = self.stdin_lines.try_send(to_line(&text));
    }

    fn not_sent_error(&self) -> UpstreamSendError {
        UpstreamSendError::NotSent(self.exit_message())
    }

    pub fn exit_message(&self) -> String {
        match self.stderr_tail.last() {
            // Written by the supervisor.
            Some(line) if !self.demux.has_started() => format!("the server process did not start: {line}"),
            line => format!("the server process has exited{}", exit_text(self.exit_status.get().copied(), line)),
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.demux.close();
    }
}

/// Says how a process exited, for the end of a sentence.
fn exit_text(status: Option<i32>, last_line: Option<impl Display>) -> String {
    let status = status.map(|status| format!(" with status {status}")).unwrap_or_default();
    let last_line = last_line.map(|line| format!("; last line on standard error: {line}")).unwrap_or_default();
    status + &last_line
}

fn supervisor_command(config: &UpstreamProcessConfig, spawner: &ProcessSpawner) -> Command {
    let mut supervisor = spawner.supervisor.iter();
    let mut command = Command::new(supervisor.next().cloned().unwrap_or_default());
    command
        .args(supervisor)
        .arg(config.grace.as_millis().to_string())
        .arg(&config.program)
        .args(&config.arguments)
        .env_clear()
        .envs(config.env.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if let Some(directory) = &config.directory {
        command.current_dir(directory);
    }
    // Signals from our terminal are not meant for the server.
    #[cfg(unix)]
    command.process_group(0);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_is_described_with_its_status_and_the_last_line() {
        assert_eq!(exit_text(Some(3), Some("no key")), " with status 3; last line on standard error: no key");
        assert_eq!(exit_text(None, Some("no key")), "; last line on standard error: no key");
        assert_eq!(exit_text(Some(0), None::<String>), " with status 0");
    }
}
