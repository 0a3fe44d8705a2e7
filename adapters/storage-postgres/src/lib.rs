//! Documents in PostgreSQL, or in a distributed database that understands it, for any number of
//! servers at once.

mod database;
mod postgres;
mod row;
mod tables;

pub use postgres::{
    PasswordSources, PendingStatement, PostgresConfig, SchemaStatus, inspect_schema, migrate_schema,
};

#[cfg(test)]
mod tests;
