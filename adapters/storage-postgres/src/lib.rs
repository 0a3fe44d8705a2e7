//! Driver of the row store for PostgreSQL or a compatible distributed database, shared by any
//! number of servers.

mod postgres;

use std::sync::Arc;

use reqlore_domain::ports::documents::StoreResult;
use reqlore_row_store::RowStore;
pub use reqlore_row_store::in_read_scope;

use postgres::{DatabaseError, NextStep, PostgresDatabase};
pub use postgres::{
    PasswordSources, PendingStatement, PostgresConfig, SchemaStatus, ServerReport, inspect_schema,
    inspect_server, migrate_schema,
};

/// Connects to a database. Creates or migrates its tables if the role may. Errors of these
/// functions are for operators: they may name hosts, roles and files.
pub async fn open(config: PostgresConfig) -> StoreResult<RowStore> {
    let database = PostgresDatabase::of_config(config)?;
    database.update_schema().await.map_err(DatabaseError::into_operator_error)?;
    RowStore::start(Arc::new(database)).await
}

/// Inspects the schema, and opens the database if it is accepted. Otherwise changes nothing.
pub async fn open_if(
    config: PostgresConfig,
    is_accepted: impl Fn(&SchemaStatus) -> bool,
) -> StoreResult<(SchemaStatus, Option<RowStore>)> {
    let database = PostgresDatabase::of_config(config)?;
    let status = database.schema_status().await;
    let status = status.map_err(DatabaseError::into_operator_error)?;
    if !is_accepted(&status) {
        return Ok((status, None));
    }
    database.update_schema().await.map_err(DatabaseError::into_operator_error)?;
    Ok((status, Some(RowStore::start(Arc::new(database)).await?)))
}

/// Like [`open`], for a server. The second value is false if the database cannot be reached now:
/// all calls fail until it can, and the first of them then updates the tables.
pub async fn open_for_server(config: PostgresConfig) -> StoreResult<(RowStore, bool)> {
    let database = PostgresDatabase::of_config(config)?;
    match database.update_schema().await {
        Ok(()) => Ok((RowStore::start(Arc::new(database)).await?, true)),
        Err(error) if error.next == NextStep::Reconnect => {
            database.warn_of_start(&error);
            Ok((RowStore::start_disconnected(Arc::new(database))?, false))
        }
        // Waiting does not help.
        Err(error) => Err(error.into_operator_error()),
    }
}

#[cfg(test)]
mod tests;
