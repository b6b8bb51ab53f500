//! The keeper of one server that the gateway runs: `gatelodge keep GRACE_MS PROGRAM ARGUMENTS…`.
//!
//! Its input is the server's input, passed on; output and complaints go past it. When its input ends, because the
//! gateway closed it or is no more, the server's input is closed; what has not ended after the grace is told to, and
//! after another grace is killed, with everything it started.

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

mod descendants;

/// The word on the command line. It is for the gateway alone, so the help does not show it.
const SUPERVISOR_COMMAND: &str = "keep";
/// The code of a server that could not be started.
const EXIT_NOT_STARTED: u8 = 127;
const EXIT_FAILED: u8 = 1;

/// Runs as a keeper if that is what was asked, and gives the code to end with.
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

/// How this program is started as a keeper.
pub fn supervisor_command() -> io::Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe()?.into_os_string(), SUPERVISOR_COMMAND.into()])
}

enum SupervisorEvent {
    InputEnded,
    Exited,
}

fn supervise(mut command: Command, grace: Duration) -> u8 {
    // What the server leaves behind becomes our child, so that it can be ended.
    descendants::become_subreaper();
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
    let (events, happened) = mpsc::channel();
    let (ended, told) = (events.clone(), events.clone());
    // Whoever tells us to end means the server, which is ended in order.
    if let Ok(mut signals) = Signals::new([SIGTERM, SIGINT, SIGHUP]) {
        thread::spawn(move || signals.forever().try_for_each(|_| told.send(SupervisorEvent::InputEnded)));
    }
    thread::spawn(move || forward_stdin(input, &events));
    thread::spawn(move || {
        // It stays unreaped, so that nobody else gets its number before its group is ended.
        let _ = waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _ = ended.send(SupervisorEvent::Exited);
    });
    if let Ok(SupervisorEvent::InputEnded) = happened.recv() {
        let _ = wait_for_exit(&happened, grace) || {
            let _ = kill_process_group(group, Signal::TERM);
            wait_for_exit(&happened, grace)
        };
    }
    descendants::terminate_descendants(group, grace);
    match server.wait().ok().and_then(|status| status.code()) {
        // One that was killed has run, and so has one that ends with a code of ours.
        None => EXIT_FAILED,
        Some(code) => Some(code.to_le_bytes()[0]).filter(|code| *code != EXIT_NOT_STARTED).unwrap_or(EXIT_FAILED),
    }
}

/// Lets go of the output, which is the server's alone: the gateway has to see when the server closes it.
fn close_output() {
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(nowhere);
    }
}

fn forward_stdin(mut input: ChildStdin, events: &mpsc::Sender<SupervisorEvent>) {
    // An error means that the server takes nothing more, which ends it as well.
    let _ = io::copy(&mut io::stdin().lock(), &mut input);
    drop(input);
    let _ = events.send(SupervisorEvent::InputEnded);
}

/// Waits for the server to end. False if it does not in time.
fn wait_for_exit(happened: &mpsc::Receiver<SupervisorEvent>, time: Duration) -> bool {
    let end = Instant::now() + time;
    loop {
        match happened.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(SupervisorEvent::Exited) | Err(RecvTimeoutError::Disconnected) => return true,
            Ok(SupervisorEvent::InputEnded) => {}
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}
