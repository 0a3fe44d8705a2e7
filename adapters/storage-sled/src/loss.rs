//! Detects that a database lost commits, and accepts the loss on request.

use std::path::Path;
use std::sync::Arc;

use reqlore_domain::ports::accepted_loss::{AcceptedLoss, nothing_to_accept};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_durable_fs::commit_counter::DatabaseId;
use reqlore_row_store::loss::issued_references;

use crate::database::lock;
use crate::error::{PUT_BACK_HINT, folder_error, folder_refused, name_folder};
use crate::files::DB;
use crate::open::{COPY_TIMEOUT, OpenedDatabase, open_unchecked};
use crate::session::SledSession;

/// Accepts that the database lost commits.
pub(crate) fn accept_loss(folder: &Path, context: WriteContext) -> StoreResult<AcceptedLoss> {
    if !std::fs::metadata(folder.join(DB)).is_ok_and(|db| db.len() > 0) {
        let reason = format!("has no file db, so the loss cannot be accepted; {PUT_BACK_HINT}");
        return Err(folder_refused(folder, &reason));
    }
    let OpenedDatabase { database, state, loss, .. } =
        open_unchecked(folder, Box::new(std::fs::File::sync_all), COPY_TIMEOUT, true)?;
    let Some(loss) = loss else { return Err(nothing_to_accept(&folder.display().to_string())) };
    if let Some((counter, _)) = &state.counter {
        // Higher than the old counter, so that the new slot of the file is the newest one.
        let mut state = lock(&database.state);
        state.commits = state.commits.max(counter.commits);
    }
    let mut session = SledSession::new(Arc::new(database));
    // The history of this database differs from that of every copy from now on.
    let new_id = DatabaseId::random().map_err(|error| folder_error(folder, "name it", error))?;
    session.new_id = Some(new_id);
    let issued = state.counter.into_iter().flat_map(|(_, numbers)| issued_references(numbers));
    let accepted = reqlore_row_store::loss::accept_loss(Box::new(session), loss, issued, context);
    accepted.map_err(|error| name_folder(folder, error))
}
