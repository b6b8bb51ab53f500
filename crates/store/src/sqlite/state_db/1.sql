-- What people set up. Times are nanoseconds since 1970.

CREATE TABLE servers (
    name TEXT PRIMARY KEY,
    url TEXT NOT NULL,
    headers TEXT NOT NULL, -- a JSON object
    created_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE policies (
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    text TEXT NOT NULL,
    is_yaml INTEGER NOT NULL,
    restores INTEGER,
    created_at INTEGER NOT NULL,
    created_by TEXT NOT NULL,
    PRIMARY KEY (name, version)
) STRICT;

CREATE TABLE grants (
    number INTEGER PRIMARY KEY, -- the order in which they were made
    id TEXT NOT NULL UNIQUE,
    label TEXT NOT NULL,
    labels TEXT NOT NULL, -- a JSON object
    token TEXT NOT NULL UNIQUE, -- the hash
    created_at INTEGER NOT NULL,
    expires_at INTEGER,
    revoked_at INTEGER
) STRICT;

CREATE UNIQUE INDEX labels_in_use ON grants (label) WHERE revoked_at IS NULL;

-- A server may also be one of the configuration, and a policy may come later: no reference to them.
CREATE TABLE attachments (
    grant_id TEXT NOT NULL REFERENCES grants (id),
    server TEXT NOT NULL,
    policy TEXT,
    mode TEXT NOT NULL,
    PRIMARY KEY (grant_id, server)
) STRICT, WITHOUT ROWID;

CREATE TABLE admin_log (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;

-- One row, counted up by each change of what stands above the log.
CREATE TABLE version (number INTEGER NOT NULL) STRICT;
INSERT INTO version VALUES (1);
