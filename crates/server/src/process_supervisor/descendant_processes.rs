//! A server's descendants: the processes in its group, and those that have left the group.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid, waitpid,
};

/// How long to keep killing remaining descendants. Each poll kills one generation, whose children may then become ours.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(3);
const CLEANUP_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Makes orphaned descendants of the server our children. On systems other than Linux they become children of init, and
/// only the server's process group can be killed.
pub fn become_subreaper() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(Pid::INIT));
}

/// Kills all descendants, and the server itself if it has not exited. The caller must reap the server.
pub fn terminate_descendants(server: Pid, grace: Duration) {
    if !other_children(server).is_empty() {
        let _ = kill_process_group(server, Signal::TERM);
        poll_until(grace, || signal_and_reap(server, |_| {}));
    }
    let _ = kill_process_group(server, Signal::KILL);
    // Its children become ours only when it has exited.
    let _ = waitid(WaitId::Pid(server), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    // A process that left the group is our child, or becomes it when its parent is killed.
    poll_until(CLEANUP_TIMEOUT, || {
        signal_and_reap(server, |child| {
            let _ = kill_process(child, Signal::KILL);
        })
    });
}

/// Calls `signal` for each running child except the server, reaps those that have exited, and returns whether there
/// were no children. The result is false even if all of them were reaped, because their own children may have become
/// ours after the list was read.
fn signal_and_reap(server: Pid, signal: impl Fn(Pid)) -> bool {
    let children = other_children(server);
    for child in children.iter().filter(|child| !has_exited(**child)) {
        signal(*child);
    }
    children.is_empty()
}

/// Returns all our children except the server, including zombies.
fn other_children(server: Pid) -> Vec<Pid> {
    let mut children = children();
    children.retain(|child| *child != server);
    children
}

fn has_exited(child: Pid) -> bool {
    !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
}

/// Returns all our children. `/proc` lists each child under the thread that started it, so all threads are read.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|number| number.parse().ok().and_then(Pid::from_raw))
        .collect()
}

fn poll_until(timeout: Duration, is_done: impl Fn() -> bool) {
    let deadline = Instant::now() + timeout;
    while !is_done() && Instant::now() < deadline {
        std::thread::sleep(CLEANUP_POLL_INTERVAL);
    }
}
