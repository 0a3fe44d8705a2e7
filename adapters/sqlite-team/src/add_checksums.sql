-- Adds checksums to the tables that team.db and the SQLite storage share.

CREATE TABLE identity_epoch (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    epoch INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
INSERT INTO identity_epoch (one, epoch, checksum)
SELECT 1, epoch, row_checksum('identity_epoch', 1, epoch) FROM store;

ALTER TABLE users ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE OR FAIL users SET checksum = row_checksum('users', key, text);

ALTER TABLE tokens ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE OR FAIL tokens SET checksum = row_checksum('tokens', id, user, created, used, text);

DROP TRIGGER audit_is_never_changed;
ALTER TABLE audit ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE OR FAIL audit SET checksum = row_checksum('audit', number, hash, text);
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN
    SELECT RAISE(ABORT, 'the audit is never changed');
END;

ALTER TABLE answers ADD COLUMN checksum INTEGER NOT NULL DEFAULT 0;
UPDATE OR FAIL answers SET checksum = row_checksum('answers', key, at, text, answer);
