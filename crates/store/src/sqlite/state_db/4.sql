-- Sessions of clients, so that they survive a restart of the gateway.
CREATE TABLE sessions (
    id BLOB PRIMARY KEY, -- the hash
    grant_id TEXT NOT NULL, -- may be one of the configuration: no reference
    server TEXT NOT NULL,
    revision TEXT NOT NULL,
    client_name TEXT,
    client_version TEXT,
    handshake TEXT NOT NULL,
    is_far_stateless INTEGER NOT NULL,
    used_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX sessions_by_use ON sessions (used_at);

-- Whose tasks are: which grant's call of which tool made them.
CREATE TABLE tasks (
    id BLOB PRIMARY KEY, -- the hash
    grant_id TEXT NOT NULL, -- may be one of the configuration: no reference
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tasks_by_grant ON tasks (grant_id, expires_at);
CREATE INDEX tasks_by_end ON tasks (expires_at);
