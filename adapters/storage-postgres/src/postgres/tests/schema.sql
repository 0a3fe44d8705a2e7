CREATE TABLE IF NOT EXISTS leases (name TEXT COLLATE "C" NOT NULL, holder TEXT COLLATE "C" NOT NULL, expires BIGINT NOT NULL, PRIMARY KEY (name));

CREATE TABLE IF NOT EXISTS migrations (version BIGINT NOT NULL, step BIGINT NOT NULL, statement TEXT COLLATE "C" NOT NULL, PRIMARY KEY (version, step));

CREATE TABLE IF NOT EXISTS schema_version (id BIGINT NOT NULL, version BIGINT NOT NULL, min_server_version BIGINT NOT NULL, PRIMARY KEY (id));

CREATE TABLE IF NOT EXISTS group_lock (id BIGINT NOT NULL, turn BIGINT NOT NULL, PRIMARY KEY (id));

CREATE TABLE IF NOT EXISTS store (
    id BIGINT NOT NULL,
    state TEXT COLLATE "C" NOT NULL,
    store_id BYTEA NOT NULL,
    epoch BIGINT NOT NULL,
    audit_number BIGINT NOT NULL,
    audit_hash BYTEA NOT NULL,
    metadata_format BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE IF NOT EXISTS server_groups (
    server BYTEA NOT NULL,
    group_id BYTEA NOT NULL,
    at BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (server)
);

CREATE TABLE IF NOT EXISTS projects (
    project TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    complete_from BIGINT NOT NULL,
    writer BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project)
);

CREATE TABLE IF NOT EXISTS writers (
    project TEXT COLLATE "C" NOT NULL,
    first_revision BIGINT NOT NULL,
    writer BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, first_revision)
);

CREATE TABLE IF NOT EXISTS sequences (
    project TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    highest BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, kind)
);

CREATE TABLE IF NOT EXISTS documents (
    project TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    revision BIGINT NOT NULL,
    number BIGINT NOT NULL,
    version TEXT COLLATE "C",
    modified BIGINT,
    parts BIGINT,
    path TEXT COLLATE "C",
    reference TEXT COLLATE "C",
    position BYTEA,
    status TEXT COLLATE "C",
    type TEXT COLLATE "C",
    updated TEXT COLLATE "C",
    author TEXT COLLATE "C",
    tool TEXT COLLATE "C",
    reason TEXT COLLATE "C",
    meta BYTEA,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, kind, name)
);

CREATE TABLE IF NOT EXISTS bodies (
    project TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    part BIGINT NOT NULL,
    bytes BYTEA NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, kind, name, part)
);

CREATE TABLE IF NOT EXISTS texts (
    project TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    hash BYTEA NOT NULL,
    part BIGINT NOT NULL,
    bytes BYTEA NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, kind, name, hash, part)
);

CREATE TABLE IF NOT EXISTS history (
    project TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    version TEXT COLLATE "C",
    hash BYTEA,
    parts BIGINT NOT NULL,
    at BIGINT NOT NULL,
    ended BIGINT NOT NULL,
    author TEXT COLLATE "C",
    tool TEXT COLLATE "C",
    reason TEXT COLLATE "C",
    purged BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, kind, name, number)
);

CREATE TABLE IF NOT EXISTS links (
    project TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    relation TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, target, kind, name, relation)
);

CREATE TABLE IF NOT EXISTS field_values (
    project TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    field TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    name TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, kind, field, value, name)
);

CREATE TABLE IF NOT EXISTS item_fields (
    project TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    field TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    position BYTEA NOT NULL,
    custom BYTEA,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, kind, field, value, status, type, position)
);

CREATE TABLE IF NOT EXISTS item_counts (
    project TEXT COLLATE "C" NOT NULL,
    field TEXT COLLATE "C" NOT NULL,
    value TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    status TEXT COLLATE "C" NOT NULL,
    type TEXT COLLATE "C" NOT NULL,
    priority BIGINT NOT NULL,
    number BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, field, value, kind, status, type, priority)
);

CREATE TABLE IF NOT EXISTS counts (
    project TEXT COLLATE "C" NOT NULL,
    counter TEXT COLLATE "C" NOT NULL,
    kind TEXT COLLATE "C" NOT NULL,
    number BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, counter, kind)
);

CREATE TABLE IF NOT EXISTS users (
    key TEXT COLLATE "C" NOT NULL,
    text TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE IF NOT EXISTS tokens (
    id TEXT COLLATE "C" NOT NULL,
    owner TEXT COLLATE "C" NOT NULL,
    created BIGINT NOT NULL,
    used BIGINT,
    text TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (id)
);

CREATE TABLE IF NOT EXISTS audit (
    number BIGINT NOT NULL,
    hash BYTEA NOT NULL,
    text TEXT COLLATE "C" NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (number)
);

CREATE TABLE IF NOT EXISTS idempotency (
    key TEXT COLLATE "C" NOT NULL,
    at BIGINT NOT NULL,
    record TEXT COLLATE "C" NOT NULL,
    response TEXT COLLATE "C",
    checksum BIGINT NOT NULL,
    PRIMARY KEY (key)
);

CREATE TABLE IF NOT EXISTS claims (
    project TEXT COLLATE "C" NOT NULL,
    story TEXT COLLATE "C" NOT NULL,
    claim TEXT COLLATE "C" NOT NULL,
    holder TEXT COLLATE "C" NOT NULL,
    until BIGINT NOT NULL,
    checksum BIGINT NOT NULL,
    PRIMARY KEY (project, story)
);

CREATE INDEX IF NOT EXISTS documents_by_revision ON documents (project, revision);

CREATE INDEX IF NOT EXISTS documents_by_reference ON documents (project, kind, reference) WHERE reference IS NOT NULL;

CREATE INDEX IF NOT EXISTS documents_by_position ON documents (project, kind, position) WHERE position IS NOT NULL;

CREATE INDEX IF NOT EXISTS documents_by_group ON documents (project, kind, status, type, position) WHERE position IS NOT NULL;

CREATE INDEX IF NOT EXISTS documents_by_time ON documents (project, kind, updated, position) WHERE updated IS NOT NULL;

CREATE INDEX IF NOT EXISTS history_by_end ON history (ended);

CREATE INDEX IF NOT EXISTS idempotency_by_age ON idempotency (at);

INSERT INTO group_lock (id, turn) VALUES (1, 0) ON CONFLICT (id) DO NOTHING;

INSERT INTO store (id, state, store_id, epoch, audit_number, audit_hash, metadata_format, checksum) VALUES …

INSERT INTO schema_version (id, version, min_server_version) VALUES (1, 4, 4) ON CONFLICT (id) DO UPDATE SET version = excluded.version, min_server_version = excluded.min_server_version;

