-- The present version's place in the document's history, and who made it how. NULL if not known.
ALTER TABLE documents ADD COLUMN number INTEGER NOT NULL DEFAULT 1;
ALTER TABLE documents ADD COLUMN user TEXT;
ALTER TABLE documents ADD COLUMN tool TEXT;
ALTER TABLE documents ADD COLUMN reason TEXT;

-- Earlier versions, and deletions (without a hash). The present version is in `documents` only. `at`
-- is the time of the change, `ended` that of the next one.
CREATE TABLE history (
    project INTEGER NOT NULL REFERENCES projects (id),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    number INTEGER NOT NULL,
    hash BLOB CHECK (length(hash) = 32),
    at INTEGER NOT NULL,
    ended INTEGER NOT NULL,
    user TEXT,
    tool TEXT,
    reason TEXT,
    purged INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (project, kind, name, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX history_by_end ON history (ended);

-- Each earlier text of a document once, under its full SHA-256. Not shared by documents, so that a
-- text can be erased from one of them.
CREATE TABLE history_texts (
    id INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES projects (id),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    hash BLOB NOT NULL CHECK (length(hash) = 32),
    body BLOB NOT NULL,
    UNIQUE (project, kind, name, hash)
) STRICT;
