//! Values of the domain in columns of text.

use reqlore_domain::ports::documents::StoreError;
use rusqlite::Row;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::Failed;
use crate::read::{unreadable, wrong_type};

/// What is kept as JSON.
pub(crate) fn written(value: &impl Serialize) -> Result<String, Failed> {
    let text = serde_json::to_string(value);
    text.map_err(|error| StoreError::Internal(error.to_string()).into())
}

/// What [`written`] wrote.
pub(crate) fn parsed<T: DeserializeOwned>(
    row: &Row<'_>,
    column: usize,
    what: &str,
) -> Result<T, Failed> {
    let text = row.get_ref(column)?.as_str().map_err(wrong_type)?;
    serde_json::from_str(text).map_err(|_| unreadable(what))
}
