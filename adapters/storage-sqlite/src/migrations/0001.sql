-- Names are compared by their bytes, which is what SQLite does unless told otherwise.

-- What this file is: complete or being filled, and which program made its heads.
CREATE TABLE store (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    state TEXT NOT NULL CHECK (state IN ('complete', 'filling')),
    heads INTEGER NOT NULL
) STRICT;
INSERT INTO store (one, state, heads) VALUES (1, 'complete', 0);

-- `history` is the revision from which on `removed` (its rows are counted here) is complete.
CREATE TABLE projects (
    id INTEGER PRIMARY KEY,
    key TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL DEFAULT 0,
    history INTEGER NOT NULL DEFAULT 0,
    removed INTEGER NOT NULL DEFAULT 0
) STRICT;

-- `modified` is in nanoseconds since 1970; `head` is derived from the body, and what lists need.
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
    UNIQUE (project, kind, name)
) STRICT;
CREATE INDEX documents_by_revision ON documents (project, kind, revision);
CREATE INDEX documents_by_reference ON documents (project, kind, reference);

-- Apart, so that lists don't read over bodies.
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
    PRIMARY KEY (document, relation, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX links_by_target ON links (project, target, kind);

CREATE TABLE removed (
    project INTEGER NOT NULL REFERENCES projects (id),
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    revision INTEGER NOT NULL,
    PRIMARY KEY (project, kind, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX removed_by_revision ON removed (project, revision);

-- The highest number that an item of this kind ever had; it never goes down.
CREATE TABLE marks (
    project INTEGER NOT NULL REFERENCES projects (id),
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (project, kind)
) STRICT, WITHOUT ROWID;

CREATE TABLE users (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    role TEXT NOT NULL CHECK (role IN ('administrator', 'user', 'commenter')),
    created INTEGER NOT NULL,
    disabled INTEGER
) STRICT;

-- The secret itself is nowhere. `projects` is a JSON list of keys; NULL for all.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    user INTEGER NOT NULL REFERENCES users (id),
    digest BLOB NOT NULL,
    scope TEXT NOT NULL CHECK (scope IN ('read', 'write')),
    projects TEXT,
    created INTEGER NOT NULL,
    expires INTEGER NOT NULL,
    revoked INTEGER,
    used INTEGER,
    successor TEXT REFERENCES tokens (id)
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_user ON tokens (user);

-- Each row's digest covers the row before it. Rows are never changed; old ones may go.
CREATE TABLE audit (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    at INTEGER NOT NULL,
    entry BLOB NOT NULL,
    digest BLOB NOT NULL
) STRICT;
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is never changed');
END;
