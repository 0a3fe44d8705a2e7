-- Items in the order of all lists. `position` is the sort key as bytes: priority, age, number, name.
-- `status` and `type` are empty if an item has none. Filled from the metadata, which is derived again.
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

-- The highest number of a kind in all projects, which each commit writes to the side file.
CREATE INDEX marks_by_number ON marks (kind, number);

-- Changes of all kinds in the order of commits.
DROP INDEX documents_by_revision;
CREATE INDEX documents_by_revision ON documents (project, revision);

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

UPDATE store SET heads = 0, checksum = row_checksum('store', one, state, 0, commits);
