-- `checksum` covers the other columns of a row, except for row ids.

-- Counts changes of users and tokens.
CREATE TABLE identity_epoch (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
INSERT INTO identity_epoch VALUES (1, 0, row_checksum('identity_epoch', 1, 0));

-- `key` is the lower-case name; `text` is the whole user in JSON.
CREATE TABLE users (
    key TEXT PRIMARY KEY,
    text TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `user` is a key of `users`. `used` is not in `text`, because recording it is not a change.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    user TEXT NOT NULL,
    created INTEGER NOT NULL,
    used INTEGER,
    text TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The hash of a row covers the row before it. Rows never change; pruning removes the oldest.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY CHECK (number > 0),
    hash BLOB NOT NULL,
    text TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is never changed');
END;

-- Idempotency records: `text` is the record in JSON, `answer` the response.
CREATE TABLE answers (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    text TEXT NOT NULL,
    answer TEXT,
    checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX answers_by_age ON answers (at);
