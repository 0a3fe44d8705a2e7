#!/bin/sh
# Creates the database, the role that owns its tables and the role of the servers. PostgreSQL's
# image runs this once. The statements are those of docs/postgresql.md#roles.
set -eu

psql --quiet --set ON_ERROR_STOP=1 --username postgres <<'SQL'
\set owner_password `cat /run/secrets/owner`
\set server_password `cat /run/secrets/server`
CREATE ROLE reqlore_owner LOGIN PASSWORD :'owner_password';
CREATE ROLE reqlore_server LOGIN PASSWORD :'server_password';
CREATE DATABASE reqlore OWNER reqlore_owner ENCODING 'UTF8' TEMPLATE template0;
REVOKE ALL ON DATABASE reqlore FROM PUBLIC;
GRANT CONNECT ON DATABASE reqlore TO reqlore_server;
\connect reqlore
REVOKE CREATE ON SCHEMA public FROM PUBLIC;
GRANT CREATE ON SCHEMA public TO reqlore_owner;
GRANT USAGE ON SCHEMA public TO reqlore_server;
ALTER DEFAULT PRIVILEGES FOR ROLE reqlore_owner IN SCHEMA public
    GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO reqlore_server;
SQL
