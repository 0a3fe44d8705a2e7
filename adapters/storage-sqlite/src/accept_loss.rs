//! Acceptance of a database that lost commits.

use reqlore_domain::ports::accepted_loss::{AcceptedLoss, nothing_to_accept};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::write_context::WriteContext;

use crate::{SqliteConfig, SqliteStore};

impl SqliteStore {
    /// Accepts that the database lost commits. No process may have it open.
    pub fn accept_loss(config: &SqliteConfig, _context: WriteContext) -> StoreResult<AcceptedLoss> {
        Err(nothing_to_accept(&config.file.display().to_string()))
    }
}
