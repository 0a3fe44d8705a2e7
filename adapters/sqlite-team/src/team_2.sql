-- Schema 2 of team.db, after `add_checksums.sql`.

DROP TABLE store;

ALTER TABLE pending ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE pending
SET checksum = row_checksum('pending', project, audit_number, idempotency_key, withdrawn);

CREATE TABLE commits (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    number INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
INSERT INTO commits VALUES (1, 0, row_checksum('commits', 1, 0));
