//! The supervisor process for one stdio server: `gatelodge keep GRACE_MS PROGRAM ARGUMENTS…`.
//!
//! It copies its standard input to the server; the server inherits standard output and standard error. When the input
//! ends, because the gateway closed it or exited, the supervisor closes the server's input. A server that has not
//! exited after the grace period gets SIGTERM, and after another grace period it is killed with all its descendants.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Write};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

mod descendant_processes;

/// Name of the subcommand. Only the gateway uses it, so it is not in the help.
const SUPERVISOR_COMMAND: &str = "keep";
/// Exit code if the server could not be started.
const EXIT_NOT_STARTED: u8 = 127;
const EXIT_FAILED: u8 = 1;

/// Runs as a supervisor if the arguments request it, and returns the exit code.
pub fn run_if_requested() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != SUPERVISOR_COMMAND {
        return None;
    }
    let grace = arguments.next()?.to_str()?.parse().ok().map(Duration::from_millis)?;
    let mut command = Command::new(arguments.next()?);
    command.args(arguments).stdin(Stdio::piped());
    Some(supervise(command, grace))
}

/// Returns the command line that starts this program as a supervisor.
pub fn supervisor_command() -> io::Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe()?.into_os_string(), SUPERVISOR_COMMAND.into()])
}

enum SupervisorEvent {
    InputEnded,
    Exited,
}

fn supervise(mut command: Command, grace: Duration) -> u8 {
    // Orphaned descendants of the server become our children, so that they can be killed.
    descendant_processes::become_subreaper();
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut server = match command.spawn() {
        Ok(server) => server,
        Err(error) => {
            let name = command.get_program().to_string_lossy().into_owned();
            let _ = writeln!(io::stderr(), "cannot start `{name}`: {error}");
            return EXIT_NOT_STARTED;
        }
    };
    let (Some(input), Some(group)) = (server.stdin.take(), Pid::from_raw(server.id().cast_signed())) else {
        return EXIT_NOT_STARTED;
    };
    close_output();
    let (events, received) = mpsc::channel();
    let (exit_events, signal_events) = (events.clone(), events.clone());
    // A stop signal means that the server must stop, which takes the same steps as the end of input.
    if let Ok(mut signals) = Signals::new([SIGTERM, SIGINT, SIGHUP]) {
        thread::spawn(move || signals.forever().try_for_each(|_| signal_events.send(SupervisorEvent::InputEnded)));
    }
    thread::spawn(move || forward_stdin(input, &events));
    thread::spawn(move || {
        // `NOWAIT` leaves it a zombie, so that its process id is not reused before its group is killed.
        let _ = waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _ = exit_events.send(SupervisorEvent::Exited);
    });
    if let Ok(SupervisorEvent::InputEnded) = received.recv() {
        let _ = wait_for_exit(&received, grace) || {
            let _ = kill_process_group(group, Signal::TERM);
            wait_for_exit(&received, grace)
        };
    }
    descendant_processes::terminate_descendants(group, grace);
    match server.wait().ok().and_then(|status| status.code()) {
        // A server that was killed did start, and so did one that exits with 127 itself.
        None => EXIT_FAILED,
        Some(code) => Some(code.to_le_bytes()[0]).filter(|code| *code != EXIT_NOT_STARTED).unwrap_or(EXIT_FAILED),
    }
}

/// Closes our copy of standard output, so that the gateway notices when the server closes its own.
fn close_output() {
    if let Ok(null) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(null);
    }
}

fn forward_stdin(mut input: ChildStdin, events: &mpsc::Sender<SupervisorEvent>) {
    // An error means that the server closed its input; it is stopped as at the end of our input.
    let _ = io::copy(&mut io::stdin().lock(), &mut input);
    drop(input);
    let _ = events.send(SupervisorEvent::InputEnded);
}

/// Waits for the server to exit. Returns false on timeout.
fn wait_for_exit(received: &mpsc::Receiver<SupervisorEvent>, timeout: Duration) -> bool {
    let deadline = Instant::now() + timeout;
    loop {
        match received.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(SupervisorEvent::Exited) | Err(RecvTimeoutError::Disconnected) => return true,
            Ok(SupervisorEvent::InputEnded) => {}
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}
