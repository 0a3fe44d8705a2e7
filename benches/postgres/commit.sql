-- The rows of `create_requirement`, for pgbench. One round trip, as the server does it.
\startpipeline
BEGIN;
UPDATE store SET audit_number = audit_number + 1, audit_hash = sha256(audit_hash)
    WHERE id = :client_id;
UPDATE server_groups SET group_id = uuid_send(gen_random_uuid()) WHERE server = :client_id;
UPDATE projects SET revision = revision + 1 WHERE project = :client_id;
UPDATE sequences SET highest = highest + 1 WHERE project = :client_id AND kind = 'requirement';
UPDATE item_counts SET number = number + 1 WHERE project = :client_id AND kind = 'requirement';
INSERT INTO documents SELECT :client_id, 'requirement', 'REQ-' || highest, highest,
    sha256(int8send(highest)), repeat('{"title":"words of a title"}', 8), 'REQ-' || highest,
    int8send(highest), 'Draft', 'Functional', 'US-' || highest / 10
    FROM sequences WHERE project = :client_id;
INSERT INTO texts SELECT :client_id, 'requirement', 'REQ-' || highest, sha256(int8send(highest)),
    0, convert_to(repeat('A line of a requirement. ', 24), 'UTF8')
    FROM sequences WHERE project = :client_id;
INSERT INTO links SELECT :client_id, 'US-' || highest / 10, 'requirement', 'REQ-' || highest,
    'parent' FROM sequences WHERE project = :client_id;
INSERT INTO audit SELECT :client_id, highest, sha256(int8send(highest)),
    repeat('{"tool":"create_requirement"}', 10) FROM sequences WHERE project = :client_id;
COMMIT;
\endpipeline
