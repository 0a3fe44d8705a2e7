//! The file storage and the local state directory.

use std::sync::Arc;

use reqlore_domain::ports::Store;
use reqlore_domain::ports::accepted_loss::AcceptedLoss;
use reqlore_domain::ports::documents::{DocumentRepository, StoreResult};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_storage_fs::{Config, FsStore};

pub(crate) use reqlore_local_state::private_text::{read_text, write_text};
pub(super) use reqlore_storage_fs::create_local_state_dir;

pub(super) fn open(config: &Config) -> StoreResult<Arc<dyn Store>> {
    Ok(Arc::new(FsStore::open(config)?))
}

/// The files of a project whose documents are in a database.
pub(super) fn open_tree(config: &Config) -> Arc<dyn DocumentRepository> {
    Arc::new(FsStore::new(config))
}

/// `None` if a change is in progress or was interrupted.
pub(super) fn open_to_inspect(config: &Config) -> StoreResult<Option<Arc<dyn Store>>> {
    Ok(FsStore::open_to_inspect(config)?.map(|store| Arc::new(store) as _))
}

pub(super) fn accept_loss(config: &Config, context: WriteContext) -> StoreResult<AcceptedLoss> {
    FsStore::accept_loss(config, context)
}
