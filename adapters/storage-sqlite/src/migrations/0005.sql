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

-- Applied after `tables.sql` of sqlite-metadata. Its tables are filled from the metadata, which is
-- derived again.
UPDATE store SET heads = 0, checksum = row_checksum('store', one, state, 0, commits);
