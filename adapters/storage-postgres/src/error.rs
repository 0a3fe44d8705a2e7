//! Errors of this storage.

use reqlore_domain::ports::documents::StoreError;

use crate::records::DATABASE_NAME;

pub(crate) fn unavailable(reason: impl Into<String>) -> StoreError {
    let place = DATABASE_NAME.to_owned();
    StoreError::Unavailable { place, reason: reason.into(), source: None }
}
