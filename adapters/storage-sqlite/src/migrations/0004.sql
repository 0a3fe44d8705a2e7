-- Applied after `add_checksums.sql` of sqlite-team, which copied the column.
ALTER TABLE store DROP COLUMN epoch;

-- The random ID of this database (16 bytes) and the number of its commits (8 bytes, big endian). One
-- value, so that it is found in a page of the log. The file `-commits` has the same one.
ALTER TABLE store ADD COLUMN commits BLOB NOT NULL DEFAULT x'';
UPDATE store SET commits = CAST(randomblob(16) || zeroblob(8) AS BLOB);
