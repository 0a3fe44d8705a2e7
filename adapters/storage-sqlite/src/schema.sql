-- Applied after `tables.sql` of sqlite-team and of sqlite-metadata. `checksum` covers the other columns
-- of a row; bodies and earlier texts have their own hashes. Names are compared by their bytes, which is
-- what SQLite does unless told otherwise.

-- The state of this file, complete or being filled. `commits` is the random ID of this database (16
-- bytes) and the number of its commits (8 bytes, big endian): one value, so that it is found in a page
-- of the log. The file `-commits` has the same one.
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    state TEXT NOT NULL CHECK (state IN ('complete', 'filling')),
    commits BLOB NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
INSERT INTO store VALUES (1, 'complete', CAST(randomblob(16) || zeroblob(8) AS BLOB), 0);
UPDATE store SET checksum = row_checksum('store', one, state, commits);

-- `history` is the revision from which on `removed` (its rows are counted here) is complete.
CREATE TABLE projects (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL DEFAULT 0,
    history INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0,
    checksum INTEGER NOT NULL
) STRICT;

-- `modified` is in nanoseconds since 1970; `head` is the metadata of the body, which lists read.
-- `number` is the present version's place in the document's history; `user`, `tool` and `reason` say who
-- made it how. NULL if not known.
CREATE TABLE documents (
    id INTEGER PRIMARY KEY,
    project INTEGER NOT NULL REFERENCES projects (id),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    version TEXT NOT NULL,
    revision INTEGER NOT NULL,
    modified INTEGER NOT NULL,
    place TEXT,
    reference TEXT,
    head BLOB NOT NULL,
    number INTEGER NOT NULL DEFAULT 1,
    user TEXT,
    tool TEXT,
    reason TEXT,
    checksum INTEGER NOT NULL,
    UNIQUE (project, kind, name)
) STRICT;
-- Changes of all kinds in the order of commits.
CREATE INDEX documents_by_revision ON documents (project, revision);
CREATE INDEX documents_by_reference ON documents (project, kind, reference);

-- Separate, so that lists don't read over bodies.
CREATE TABLE bodies (
    document INTEGER PRIMARY KEY REFERENCES documents (id) ON DELETE CASCADE,
    body BLOB NOT NULL
) STRICT;

-- Project and kind are those of the document: who links to a target is one place in the index.
CREATE TABLE links (
    document INTEGER NOT NULL REFERENCES documents (id) ON DELETE CASCADE,
    relation TEXT NOT NULL,
    target TEXT NOT NULL,
    project INTEGER NOT NULL,
    kind TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (document, relation, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX links_by_target ON links (project, target, kind);

CREATE TABLE removed (
    project INTEGER NOT NULL REFERENCES projects (id),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (project, kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX removed_by_revision ON removed (project, revision);

-- The highest number that an item of this kind ever had; it never goes down.
CREATE TABLE marks (
    project INTEGER NOT NULL REFERENCES projects (id),
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (project, kind)
) STRICT, WITHOUT ROWID;
-- The highest number of a kind in all projects, which each commit writes to the side file.
CREATE INDEX marks_by_number ON marks (kind, number);

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
    checksum INTEGER NOT NULL,
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

-- The process that made the revisions from `first` on, up to those of the next row. `number` counts
-- the rows of a project. Revisions before the first row have the writer 0.
CREATE TABLE writers (
    project INTEGER NOT NULL,
    first INTEGER NOT NULL,
    writer INTEGER NOT NULL,
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (project, first)
) STRICT, WITHOUT ROWID;
