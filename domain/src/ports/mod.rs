//! The hexagon's edges. Driven ports: [`documents`], [`archive`], [`identity`], [`audit`],
//! [`idempotency`], [`project_resolver`], [`search`], [`embedder`], [`clock`], [`id_generator`].
//! Driving ports: [`service`], [`authenticator`] and [`transport`].

pub mod archive;
pub mod audit;
pub mod authenticator;
pub mod clock;
pub mod documents;
pub mod embedder;
pub mod id_generator;
pub mod idempotency;
pub mod identity;
pub mod project_resolver;
pub mod search;
pub mod service;
pub mod store_error;
pub mod transport;
pub mod write_context;

use archive::Archive;
use audit::AuditLog;
use documents::DocumentRepository;
use idempotency::IdempotencyStore;
use identity::IdentityRepository;

/// All that a storage is.
pub trait Store:
    DocumentRepository + IdentityRepository + AuditLog + IdempotencyStore + Archive
{
}

impl<T: DocumentRepository + IdentityRepository + AuditLog + IdempotencyStore + Archive> Store
    for T
{
}
