-- What people say that a tool can do, where they know better than the catalogue.
CREATE TABLE tool_classes (
    server TEXT NOT NULL,
    tool TEXT NOT NULL,
    category TEXT NOT NULL,
    why TEXT NOT NULL,
    said_by TEXT NOT NULL,
    said_at INTEGER NOT NULL,
    -- The definition that it is said of; none if it holds for every later one too.
    fingerprint TEXT,
    PRIMARY KEY (server, tool)
) STRICT, WITHOUT ROWID;
