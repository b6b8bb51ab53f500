//! The limit on open files. Each connection uses one file descriptor.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// File descriptors reserved for uses other than client connections: databases, logs and connections to servers.
pub const RESERVED_FILE_DESCRIPTORS: usize = 256;

/// Returns the current (soft) limit, or `None` if there is no limit.
pub fn current_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Returns the hard limit, up to which this process can raise its soft limit, or `None` if there is no limit.
pub fn maximum_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// Returns whether `limit` is too low for `connections` client connections.
pub fn is_too_low(limit: Option<u64>, connections: usize) -> bool {
    limit.is_some_and(|limit| limit < connections.saturating_add(RESERVED_FILE_DESCRIPTORS) as u64)
}

/// Raises the soft limit to the hard limit, and warns if that is too low for the given number of connections.
pub fn raise_limit(connections: usize) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // If this fails the limit stays as it is, which is checked below.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let files = current_limit();
    if is_too_low(files, connections) {
        let files = files.unwrap_or_default();
        warn!(
            files,
            connections,
            "the open file limit is {files}, too low for {connections} connections: raise it (`LimitNOFILE=` \
             in a systemd unit, `ulimit -Hn` in a shell), or lower `max_connections` in `[gateway]`"
        );
    }
}
