//! Reads: queries for one round trip, and the decoding of their rows.

pub(crate) mod changes;
pub(crate) mod documents;
pub(crate) mod entities;
mod field_order;
pub(crate) mod history;
pub(crate) mod item_list;
mod items;
pub(crate) mod team;

use reqlore_domain::ports::documents::StoreResult;

use crate::database::RowSource;
use crate::row::{RowQuery, TableRow};

/// Runs queries on one state, in one round trip. A row that does not match its query is damage.
pub(crate) async fn read_all(
    source: &dyn RowSource,
    queries: Vec<RowQuery>,
) -> StoreResult<Vec<Vec<TableRow>>> {
    let results = source.read(queries.clone()).await?;
    for (query, rows) in queries.iter().zip(&results) {
        query.check_rows(rows)?;
    }
    Ok(results)
}

/// Runs one query, unless it can have no rows.
pub(crate) async fn read_one(
    source: &dyn RowSource,
    query: RowQuery,
) -> StoreResult<Vec<TableRow>> {
    if query.tuples.is_empty() {
        return Ok(Vec::new());
    }
    Ok(read_all(source, vec![query]).await?.pop().unwrap_or_default())
}
