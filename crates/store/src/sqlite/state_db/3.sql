-- What servers offered when they were accepted, and what they offer now.
CREATE TABLE tool_pins (
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL,
    accepted_at INTEGER NOT NULL,
    accepted_by TEXT NOT NULL,
    PRIMARY KEY (server, tool)
) STRICT, WITHOUT ROWID;

CREATE TABLE tool_offers (
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    definition TEXT NOT NULL,
    PRIMARY KEY (server, tool)
) STRICT, WITHOUT ROWID;

-- Servers that have been asked; one that offers nothing has no row above.
CREATE TABLE asked_servers (server TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;

-- How a server's definitions are accepted.
ALTER TABLE servers ADD COLUMN review INTEGER NOT NULL DEFAULT 0;
ALTER TABLE servers ADD COLUMN accept_new INTEGER NOT NULL DEFAULT 0;
