-- Applied after `add_checksums.sql` of sqlite-team, which copied the column.
ALTER TABLE store DROP COLUMN epoch;

-- The random ID of this database (16 bytes) and the number of its commits (8 bytes, big endian). One
-- value, so that it is found in a page of the log. The file `-commits` has the same one.
ALTER TABLE store ADD COLUMN commits BLOB NOT NULL DEFAULT x'';
UPDATE store SET commits = CAST(randomblob(16) || zeroblob(8) AS BLOB);

-- `checksum` covers the other columns of a row; bodies and earlier texts have their own hashes. The
-- metadata is derived again, so that the checksums cover verified bytes.
ALTER TABLE store ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE store SET heads = 0, checksum = row_checksum('store', one, state, 0, commits);

ALTER TABLE projects ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE OR FAIL projects SET checksum = row_checksum('projects', key, id, revision, history, removed);

ALTER TABLE documents ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE OR FAIL documents SET checksum = row_checksum('documents', name, kind, project, version, revision,
    modified, place, reference, head, number, user, tool, reason);

ALTER TABLE links ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE OR FAIL links SET checksum = row_checksum('links', target, document, relation, project, kind);

ALTER TABLE removed ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE OR FAIL removed SET checksum = row_checksum('removed', name, kind, project, revision);

ALTER TABLE marks ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE OR FAIL marks SET checksum = row_checksum('marks', kind, project, number);

ALTER TABLE history ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE OR FAIL history SET checksum = row_checksum('history', name, kind, project, number, hash, at, ended,
    user, tool, reason, purged);
