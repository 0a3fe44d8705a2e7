-- Applied after `add_checksums.sql` of sqlite-team, which copied the column.
ALTER TABLE store DROP COLUMN epoch;
