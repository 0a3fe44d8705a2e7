-- The tables that a commit writes, with the columns and indexes that cost most. Each client of
-- pgbench has its own project and its own row in `store`, so that no client waits for another.
CREATE TABLE store (id BIGINT PRIMARY KEY, audit_number BIGINT, audit_hash BYTEA);
CREATE TABLE server_groups (server BIGINT PRIMARY KEY, group_id BYTEA);
CREATE TABLE projects (project BIGINT PRIMARY KEY, revision BIGINT);
CREATE TABLE sequences (project BIGINT, kind TEXT, highest BIGINT, PRIMARY KEY (project, kind));
CREATE TABLE item_counts (project BIGINT, kind TEXT, number BIGINT, PRIMARY KEY (project, kind));
CREATE TABLE documents (project BIGINT, kind TEXT, name TEXT, revision BIGINT, hash BYTEA,
    meta TEXT, reference TEXT, position BYTEA, status TEXT, type TEXT, parent TEXT,
    PRIMARY KEY (project, kind, name));
CREATE INDEX ON documents (project, revision);
CREATE INDEX ON documents (project, kind, reference);
CREATE INDEX ON documents (project, kind, position);
CREATE INDEX ON documents (project, kind, status, type, position);
CREATE INDEX ON documents (project, kind, parent, position);
CREATE TABLE texts (project BIGINT, kind TEXT, name TEXT, hash BYTEA, part BIGINT, bytes BYTEA,
    PRIMARY KEY (project, kind, name, hash, part));
CREATE TABLE links (project BIGINT, target TEXT, kind TEXT, name TEXT, relation TEXT,
    PRIMARY KEY (project, target, kind, name, relation));
CREATE TABLE audit (project BIGINT, number BIGINT, hash BYTEA, text TEXT,
    PRIMARY KEY (project, number));
INSERT INTO store SELECT client, 0, '' FROM generate_series(0, 1023) client;
INSERT INTO server_groups SELECT client, '' FROM generate_series(0, 1023) client;
INSERT INTO projects SELECT client, 0 FROM generate_series(0, 1023) client;
INSERT INTO sequences SELECT client, 'requirement', 0 FROM generate_series(0, 1023) client;
INSERT INTO item_counts SELECT client, 'requirement', 0 FROM generate_series(0, 1023) client;
