//! PostgreSQL below the seam: connections, SQL, schema.

mod connect_options;
mod connection_log;
mod connector;
mod errors;
mod inspect;
mod password_file;
mod pool;
mod rows;
mod schema;
mod session;
mod statements;
mod system;
#[cfg(test)]
mod tests;
mod tls;

pub use connect_options::{PasswordSources, PostgresConfig};
pub(crate) use errors::{DatabaseError, NextStep};
pub use inspect::{ServerReport, inspect_server};
pub use schema::{PendingStatement, SchemaStatus, inspect_schema, migrate_schema};
pub(crate) use session::PostgresDatabase;
