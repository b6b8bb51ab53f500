//! What a server leaves behind: processes of its group, and those that left the group.

use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, kill_process, kill_process_group, waitpid};

/// How long we look for what is left. Each round ends a generation.
const PATIENCE: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(5);

/// Makes orphans among the server's descendants our children. Elsewhere than on Linux they go to the first process,
/// and only the server's group can be ended.
pub fn adopt() {
    #[cfg(target_os = "linux")]
    let _ = rustix::process::set_child_subreaper(Some(Pid::INIT));
}

/// Ends everything. The server itself has ended, or is killed here; whoever calls reaps it.
pub fn end(server: Pid, grace: Duration) {
    if !others(server).is_empty() {
        let _ = kill_process_group(server, Signal::TERM);
        until(grace, || others(server).is_empty());
    }
    let _ = kill_process_group(server, Signal::KILL);
    // Whoever left the group is found by being our child, or becomes it when its parent is killed.
    until(PATIENCE, || {
        let left = others(server);
        for child in &left {
            let _ = kill_process(*child, Signal::KILL);
        }
        left.is_empty()
    });
}

/// Our children but the server, without those that have ended, which are reaped here.
fn others(server: Pid) -> Vec<Pid> {
    let mut children = children();
    children.retain(|child| *child != server && !has_ended(*child));
    children
}

fn has_ended(child: Pid) -> bool {
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

fn until(time: Duration, is_done: impl Fn() -> bool) {
    let end = Instant::now() + time;
    while !is_done() && Instant::now() < end {
        std::thread::sleep(PAUSE);
    }
}
