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

mod rest;

/// The word on the command line. It is for the gateway alone, so the help does not show it.
const WORD: &str = "keep";
/// The code of a server that could not be started.
const NOT_STARTED: u8 = 127;
const FAILED: u8 = 1;

/// Runs as a keeper if that is what was asked, and gives the code to end with.
pub fn run_if_asked() -> Option<u8> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next()? != WORD {
        return None;
    }
    let grace = arguments.next()?.to_str()?.parse().ok().map(Duration::from_millis)?;
    let mut command = Command::new(arguments.next()?);
    command.args(arguments).stdin(Stdio::piped());
    Some(keep(command, grace))
}

/// How this program is started as a keeper.
pub fn command() -> io::Result<Vec<OsString>> {
    Ok(vec![std::env::current_exe()?.into_os_string(), WORD.into()])
}

enum Event {
    InputEnded,
    Exited,
}

fn keep(mut command: Command, grace: Duration) -> u8 {
    // What the server leaves behind becomes our child, so that it can be ended.
    rest::adopt();
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut server = match command.spawn() {
        Ok(server) => server,
        Err(error) => {
            let name = command.get_program().to_string_lossy().into_owned();
            let _ = writeln!(io::stderr(), "cannot start `{name}`: {error}");
            return NOT_STARTED;
        }
    };
    let (Some(input), Some(group)) = (server.stdin.take(), Pid::from_raw(server.id().cast_signed())) else {
        return NOT_STARTED;
    };
    close_output();
    let (events, happened) = mpsc::channel();
    let (ended, told) = (events.clone(), events.clone());
    // Whoever tells us to end means the server, which is ended in order.
    if let Ok(mut signals) = Signals::new([SIGTERM, SIGINT, SIGHUP]) {
        thread::spawn(move || signals.forever().try_for_each(|_| told.send(Event::InputEnded)));
    }
    thread::spawn(move || pass_on(input, &events));
    thread::spawn(move || {
        // It stays unreaped, so that nobody else gets its number before its group is ended.
        let _ = waitid(WaitId::Pid(group), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
        let _ = ended.send(Event::Exited);
    });
    if let Ok(Event::InputEnded) = happened.recv() {
        let _ = wait(&happened, grace) || {
            let _ = kill_process_group(group, Signal::TERM);
            wait(&happened, grace)
        };
    }
    rest::end(group, grace);
    match server.wait().ok().and_then(|status| status.code()) {
        // One that was killed has run, and so has one that ends with a code of ours.
        None => FAILED,
        Some(code) => Some(code.to_le_bytes()[0]).filter(|code| *code != NOT_STARTED).unwrap_or(FAILED),
    }
}

/// Lets go of the output, which is the server's alone: the gateway has to see when the server closes it.
fn close_output() {
    if let Ok(nowhere) = File::options().write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdout(nowhere);
    }
}

fn pass_on(mut input: ChildStdin, events: &mpsc::Sender<Event>) {
    // An error means that the server takes nothing more, which ends it as well.
    let _ = io::copy(&mut io::stdin().lock(), &mut input);
    drop(input);
    let _ = events.send(Event::InputEnded);
}

/// Waits for the server to end. False if it does not in time.
fn wait(happened: &mpsc::Receiver<Event>, time: Duration) -> bool {
    let end = Instant::now() + time;
    loop {
        match happened.recv_timeout(end.saturating_duration_since(Instant::now())) {
            Ok(Event::Exited) | Err(RecvTimeoutError::Disconnected) => return true,
            Ok(Event::InputEnded) => {}
            Err(RecvTimeoutError::Timeout) => return false,
        }
    }
}
