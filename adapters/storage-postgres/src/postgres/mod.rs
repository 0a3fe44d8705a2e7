//! PostgreSQL below the seam: connections, SQL, schema.

mod connect_options;
mod connector;
mod errors;
mod password_file;
mod pool;
#[cfg(test)]
mod tests;
mod tls;

pub use connect_options::{PasswordSources, PostgresConfig};
