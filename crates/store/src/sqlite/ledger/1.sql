-- What calls use up and what became of them. Times are nanoseconds since 1970, unless said otherwise.

CREATE TABLE counters (
    key TEXT PRIMARY KEY,
    state TEXT NOT NULL, -- stretches of time and what was used in them
    ends INTEGER NOT NULL -- the second from which on none of them counts
) STRICT, WITHOUT ROWID;

-- No further index: each would be written with every call.
CREATE TABLE log (
    seq INTEGER PRIMARY KEY,
    at INTEGER NOT NULL,
    body TEXT NOT NULL,
    hash BLOB NOT NULL
) STRICT;

-- One row each: the last row of the log that was removed, and the time before which counters were forgotten.
CREATE TABLE anchor (seq INTEGER NOT NULL, hash BLOB NOT NULL) STRICT;
INSERT INTO anchor VALUES (0, zeroblob(32));
CREATE TABLE floor (at INTEGER NOT NULL) STRICT;
INSERT INTO floor VALUES (-9223372036854775808);
