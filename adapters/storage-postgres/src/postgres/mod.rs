//! PostgreSQL below the seam: connections, SQL, schema.

mod errors;
mod pool;
