-- Applied after `tables.sql`.

-- Commits whose files may not have been replaced yet. `withdrawn`: they never will be.
CREATE TABLE pending (
    id INTEGER PRIMARY KEY,
    project TEXT NOT NULL,
    audit_number INTEGER,
    idempotency_key TEXT,
    withdrawn INTEGER NOT NULL DEFAULT 0,
    checksum INTEGER NOT NULL
) STRICT;

-- The number of write transactions, which a file next to the database repeats.
CREATE TABLE commits (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
INSERT INTO commits VALUES (1, 0, row_checksum('commits', 1, 0));
