//! Ports: the interfaces between the application and its adapters.
//!
//! A method that is asynchronous may do I/O; no port exposes a driver, a protocol or an open
//! transaction.

pub mod accepted_loss;
pub mod administration;
pub mod archive;
pub mod audit;
pub mod authenticator;
pub mod change_page;
pub mod claims;
pub mod clock;
pub mod documents;
pub mod embedder;
pub mod exchange;
pub mod history;
pub mod id_generator;
pub mod idempotency;
pub mod identity;
pub mod observed;
pub mod project_resolver;
mod record_filter;
pub mod record_list;
pub mod search;
pub mod service;
pub mod sessions;
pub mod storage_health;
pub mod store_error;
pub mod transport;
pub mod write_context;

use archive::Archive;
use audit::AuditLog;
use claims::ClaimStore;
use documents::DocumentRepository;
use history::DocumentHistory;
use idempotency::IdempotencyStore;
use identity::IdentityRepository;
use storage_health::StorageHealth;

/// All ports of a storage, so that one value can be passed around.
pub trait Store:
    DocumentRepository + DocumentHistory + TeamStore + Archive + StorageHealth
{
}

impl<T: DocumentRepository + DocumentHistory + TeamStore + Archive + StorageHealth> Store for T {}

/// The ports of a storage for everything besides documents.
pub trait TeamStore: IdentityRepository + AuditLog + IdempotencyStore + ClaimStore {}

impl<T: IdentityRepository + AuditLog + IdempotencyStore + ClaimStore> TeamStore for T {}
