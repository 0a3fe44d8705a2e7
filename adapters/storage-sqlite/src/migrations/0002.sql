-- How often users and tokens changed.
ALTER TABLE store ADD COLUMN epoch INTEGER NOT NULL DEFAULT 0;

-- Nothing ever wrote to these; tokens go first because they referred to users.
DROP TABLE tokens;
DROP TABLE users;
DROP TABLE audit;

-- `key` is the name in lower case, by which users are one; `text` is all of it in JSON.
CREATE TABLE users (
    key TEXT PRIMARY KEY,
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- `user` is the key of one. `used` is no part of `text`: it is noted all the time and is no change.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    user TEXT NOT NULL,
    created INTEGER NOT NULL,
    used INTEGER,
    text TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- Each row's hash covers the row before it. Rows are never changed; the oldest may go, by `at`.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY CHECK (number > 0),
    hash BLOB NOT NULL,
    text TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is never changed');
END;

-- Writes that happened under a key. `text` is what they changed in JSON, `answer` what was told.
CREATE TABLE answers (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    at INTEGER NOT NULL,
    text TEXT NOT NULL,
    answer TEXT
) STRICT;
CREATE INDEX answers_by_age ON answers (at);
