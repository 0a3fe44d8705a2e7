//! Reads: queries for one round trip, and the decoding of their rows.

pub(crate) mod changes;
pub(crate) mod documents;
pub(crate) mod entities;
pub(crate) mod history;
pub(crate) mod items;
pub(crate) mod team;

use reqlore_domain::ports::documents::StoreResult;

use crate::database::RowSource;
use crate::row::{RowQuery, TableRow};

/// Runs one query.
pub(crate) async fn read_one(
    source: &dyn RowSource,
    query: RowQuery,
) -> StoreResult<Vec<TableRow>> {
    Ok(source.read(vec![query]).await?.pop().unwrap_or_default())
}
