//! A server that we run ourselves: a process, one JSON text on each line of its input and output.
//!
//! It is started through a keeper, a small process of our own program, which ends the server and everything it
//! started when its input closes. That also happens when the gateway is killed and can do nothing about it any more.

mod pipes;
mod stderr_tail;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use prometheus_client::metrics::counter::Counter;
use tokio::process::Command;
use tokio::sync::mpsc;
use tracing::{info, warn};

pub(crate) use self::pipes::to_line;

use self::stderr_tail::StderrTail;
use super::message_demux::{ConnectionScope, MessageDemux};
use super::{SecretRedactor, SendError, ToolRegistry, Upstream};

/// Messages that wait for a process that does not read; beyond that the callers wait.
const STDIN_QUEUE_LENGTH: usize = 64;
/// How long we wait for the code after the output has ended.
const EXIT_CODE_TIMEOUT: Duration = Duration::from_millis(200);
/// The code of a keeper whose server could not be started.
const EXIT_CODE_NOT_STARTED: i32 = 127;
/// How long a keeper may take beyond what it grants the server.
const SUPERVISOR_EXTRA_TIME: Duration = Duration::from_secs(5);

/// What is configured of a server that we run.
#[derive(Clone, PartialEq, Eq)]
pub struct UpstreamProcessConfig {
    /// What is run, without a shell.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// All of its environment.
    pub env: Vec<(String, String)>,
    /// What must never be seen on the caller's side: the values that came from our environment.
    pub secrets: Vec<String>,
    /// Where it runs; none for where the gateway does.
    pub directory: Option<PathBuf>,
    /// Time to end after its input was closed, and again after it was told to.
    pub grace: Duration,
}

// The environment may hold secrets, and configurations get printed.
impl std::fmt::Debug for UpstreamProcessConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<&str> = self.env.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("ChildConfig")
            .field("program", &self.program)
            .field("environment", &names)
            .field("directory", &self.directory)
            .finish_non_exhaustive()
    }
}

/// What starts and ends processes.
#[derive(Debug, Clone)]
pub(crate) struct ProcessSpawner {
    /// The keeper's program and its first arguments.
    pub supervisor: Vec<OsString>,
    pub max_bytes: usize,
    /// Counts lines that are no messages, and messages that belong to nobody.
    pub dropped_messages: Counter,
}

/// A process that runs. It is ended when nobody has it any more.
#[derive(Debug)]
pub(crate) struct ServerProcess {
    stdin_lines: mpsc::Sender<Bytes>,
    demux: Arc<MessageDemux>,
    stderr_tail: Arc<StderrTail>,
    /// Those of its server, by which it is known.
    redactor: Arc<SecretRedactor>,
}

impl ServerProcess {
    /// Starts one, for one session or for all requests that stand alone.
    ///
    /// # Errors
    /// There are too many, it ended too often just now, or it cannot be started.
    pub fn start(
        upstream: &Upstream,
        config: &UpstreamProcessConfig,
        spawner: &ProcessSpawner,
        scope: ConnectionScope,
    ) -> Result<Arc<Self>, SendError> {
        let not_sent = |why: String| SendError::NotSent(why);
        let room = Arc::clone(&upstream.process_slots).try_acquire_owned();
        let room = room.map_err(|_| not_sent("too many processes of this server run".to_owned()))?;
        upstream.restart_backoff.check_start_allowed().map_err(not_sent)?;
        let mut process = supervisor_command(config, spawner)
            .spawn()
            .map_err(|error| not_sent(format!("the keeper of processes cannot be started: {error}")))?;
        let (Some(input), Some(output), Some(errors)) =
            (process.stdin.take(), process.stdout.take(), process.stderr.take())
        else {
            return Err(not_sent("the process has no pipes".to_owned()));
        };
        let name = upstream.name().to_string();
        info!(server.name = name, "started `{}` for `{name}`", config.program);
        let (lines, queue) = mpsc::channel(STDIN_QUEUE_LENGTH);
        // What one process offers says nothing of another: between their starts the program may have changed.
        let registry = match scope {
            ConnectionScope::Session => Arc::default(),
            ConnectionScope::Shared => Arc::clone(&upstream.tool_registry),
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
        tokio::spawn(async move {
            let broken = pipes::read_stdout(output, &reading).await;
            let is_unwanted = reading.is_closed_locally();
            // Most often it has ended by itself, and its code says whether it ever ran.
            let ended = tokio::time::timeout(EXIT_CODE_TIMEOUT, process.wait()).await;
            let code = ended.ok().and_then(Result::ok).and_then(|status| status.code());
            reading.mark_ended(code == Some(EXIT_CODE_NOT_STARTED) && !reading.has_answered());
            // Its input is closed now, so that it ends, by itself or by its keeper, which grants it the time thrice: to
            // see the end, to heed the signal, and for what it has started.
            let ended = tokio::time::timeout(grace * 3 + SUPERVISOR_EXTRA_TIME, process.wait()).await;
            if ended.is_err() {
                let _ = process.kill().await;
            }
            let _ = tokio::time::timeout(SUPERVISOR_EXTRA_TIME, tail).await;
            // It takes its place among the processes until it is gone, not just until nobody wants it.
            drop(room);
            // One that was not given the time to answer has not failed.
            if reading.has_answered() || !is_unwanted {
                restarts.record_exit(reading.has_answered());
            }
            let words = tail_lines.last().map(|line| format!(": {line}")).unwrap_or_default();
            match broken {
                Some(why) => warn!(server.name = name, "the process of `{name}` was ended: {why}"),
                None => info!(server.name = name, "the process of `{name}` has ended{words}"),
            }
        });
        Ok(Arc::new(Self { stdin_lines: lines, demux, stderr_tail, redactor: Arc::clone(&upstream.secrets) }))
    }

    /// Whether it has ended, or is about to.
    pub fn is_ended(&self) -> bool {
        self.demux.is_ended()
    }

    /// Whether it runs for this server as it is configured now.
    pub fn belongs_to(&self, upstream: &Upstream) -> bool {
        Arc::ptr_eq(&self.redactor, &upstream.secrets)
    }

    /// What it offers.
    pub fn tool_registry(&self) -> &Arc<ToolRegistry> {
        self.demux.tool_registry()
    }

    /// Ends it, for all who have it.
    pub fn stop(&self) {
        self.demux.close();
    }

    pub fn demux(&self) -> &MessageDemux {
        &self.demux
    }

    /// Sends a message.
    pub async fn send(&self, text: &Bytes) -> Result<(), SendError> {
        if self.is_ended() {
            return Err(self.not_sent_error());
        }
        self.stdin_lines.send(to_line(text)).await.map_err(|_| self.not_sent_error())
    }

    /// Sends a message that nobody waits for.
    pub fn try_send(&self, text: Bytes) {
        // One that does not even read will not hear it.
        let _ = self.stdin_lines.try_send(to_line(&text));
    }

    fn not_sent_error(&self) -> SendError {
        SendError::NotSent(self.exit_message())
    }

    pub fn exit_message(&self) -> String {
        match self.stderr_tail.last() {
            Some(line) => format!("the server's process has ended: {line}"),
            None => "the server's process has ended".to_owned(),
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        self.demux.close();
    }
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
    // What a person types at our terminal is not meant for it.
    #[cfg(unix)]
    command.process_group(0);
    command
}
