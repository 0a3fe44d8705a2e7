//! Domain values in text columns.

use reqlore_domain::ports::documents::StoreError;
use rusqlite::Row;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::DatabaseError;

pub(crate) fn to_text(value: &impl Serialize) -> Result<String, DatabaseError> {
    let text = serde_json::to_string(value);
    text.map_err(|error| StoreError::Internal(error.to_string()).into())
}

/// Decodes the text of [`to_text`]. `object` names the value in the error.
pub(crate) fn from_column<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    object: &str,
) -> Result<T, DatabaseError> {
    let text = row.get_ref(column)?.as_str()?;
    serde_json::from_str(text).map_err(|_| DatabaseError::damaged(object))
}
