//! How many files may be open. Each connection is one.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::warn;

/// What a gateway needs beside the connections of agents: databases, logs, a few connections to servers.
pub const RESERVED_FILE_DESCRIPTORS: usize = 256;

/// How many files this process may open now; none if there is no bound.
pub fn current_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// How many it may open once it asks for more; none if there is no bound.
pub fn maximum_limit() -> Option<u64> {
    getrlimit(Resource::Nofile).maximum
}

/// Whether a bound is too low for so many connections.
pub fn is_too_low(bound: Option<u64>, connections: usize) -> bool {
    bound.is_some_and(|bound| bound < connections.saturating_add(RESERVED_FILE_DESCRIPTORS) as u64)
}

/// Asks for as many as there may be, and warns if they are too few.
pub fn raise_limit(connections: usize) {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    // Where it is refused, the bound stays as it is, and that is told below.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
    let files = current_limit();
    if is_too_low(files, connections) {
        let files = files.unwrap_or_default();
        warn!(
            files,
            connections,
            "only {files} files may be open, too few for {connections} connections: raise the limit (`LimitNOFILE=` \
             in a unit, `ulimit -Hn` in a shell), or lower `max_connections` in `[gateway]`"
        );
    }
}
