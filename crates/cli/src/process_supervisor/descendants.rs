//! What a server leaves behind: processes of its group, and those that left the group.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitOptions, kill_process, kill_process_group, waitid, waitpid,
};

/// How long we look for what is left. Each round ends a generation.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(3);
const CLEANUP_POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Makes orphans among the server's descendants our children. Elsewhere than on Linux they go to the first process,
/// and only the server's group can be ended.
pub fn become_subreaper() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(Pid::INIT));
}

/// Ends everything. The server itself has ended, or is killed here; whoever calls reaps it.
pub fn terminate_descendants(server: Pid, grace: Duration) {
    if !other_children(server).is_empty() {
        let _ = kill_process_group(server, Signal::TERM);
        poll_until(grace, || signal_and_reap(server, |_| {}));
    }
    let _ = kill_process_group(server, Signal::KILL);
    // What it started is ours only when it has ended.
    let _ = waitid(WaitId::Pid(server), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT);
    // Whoever left the group is found by being our child, or becomes it when its parent is killed.
    poll_until(CLEANUP_TIMEOUT, || {
        signal_and_reap(server, |child| {
            let _ = kill_process(child, Signal::KILL);
        })
    });
}

/// Whether nothing is left. What has ended is reaped, and counts once more: it may have left children of its own, which
/// came to us only after the list was read.
fn signal_and_reap(server: Pid, to_the_living: impl Fn(Pid)) -> bool {
    let others = other_children(server);
    for child in others.iter().filter(|child| !has_exited(**child)) {
        to_the_living(*child);
    }
    others.is_empty()
}

/// Our children but the server, those that have ended and are not yet reaped among them.
fn other_children(server: Pid) -> Vec<Pid> {
    let mut children = children();
    children.retain(|child| *child != server);
    children
}

fn has_exited(child: Pid) -> bool {
    !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
}

/// All our children, as the system lists them. A child is listed under the thread that started it.
fn children() -> Vec<Pid> {
    let threads = fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    lists
        .flat_map(|list| list.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>())
        .filter_map(|number| number.parse().ok().and_then(Pid::from_raw))
        .collect()
}

fn poll_until(time: Duration, is_done: impl Fn() -> bool) {
    let end = Instant::now() + time;
    while !is_done() && Instant::now() < end {
        std::thread::sleep(CLEANUP_POLL_INTERVAL);
    }
}
