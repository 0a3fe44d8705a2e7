-- Items in the order of all lists. `position` is the sort key as bytes: priority, age, number, name.
-- `status` and `type` are empty if an item has none.
CREATE TABLE items (
    project INTEGER NOT NULL,
    kind TEXT NOT NULL,
    position BLOB NOT NULL,
    document INTEGER NOT NULL,
    status TEXT NOT NULL,
    type TEXT NOT NULL,
    parent TEXT NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (project, kind, position)
) STRICT, WITHOUT ROWID;
CREATE INDEX items_by_group ON items (project, kind, status, type, position);
CREATE INDEX items_by_parent ON items (project, kind, parent, position);

-- Number of items in each group, so that no list counts its rows.
CREATE TABLE item_counts (
    project INTEGER NOT NULL,
    kind TEXT NOT NULL,
    status TEXT NOT NULL,
    type TEXT NOT NULL,
    priority INTEGER NOT NULL,
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (project, kind, status, type, priority)
) STRICT, WITHOUT ROWID;

-- Documents with a diagnostic.
CREATE TABLE diagnostics (
    project INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    document INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (project, kind, name)
) STRICT, WITHOUT ROWID;


-- Number of entities of a kind by tag; the empty tag counts all entities of the kind.
CREATE TABLE entity_counts (
    project INTEGER NOT NULL,
    tag TEXT NOT NULL,
    kind TEXT NOT NULL,
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (project, tag, kind)
) STRICT, WITHOUT ROWID;

-- Entities without tags.
CREATE TABLE untagged (
    project INTEGER NOT NULL,
    kind TEXT NOT NULL,
    name TEXT NOT NULL,
    document INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (project, kind, name)
) STRICT, WITHOUT ROWID;

-- IDs and names of entities in lower case: `=` and the whole, and `-` and each part of the ID.
CREATE TABLE entity_words (
    project INTEGER NOT NULL,
    word TEXT NOT NULL,
    name TEXT NOT NULL,
    document INTEGER NOT NULL,
    checksum INTEGER NOT NULL,
    PRIMARY KEY (project, word, name)
) STRICT, WITHOUT ROWID;
