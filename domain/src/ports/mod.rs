//! The hexagon's edges: what the application needs ([`documents`] and their [`archive`],
//! [`identity`], the [`audit`] with its [`act`]s, [`answers`], [`projects`], [`search`] with its
//! [`embedder`], a [`clock`], [`ids`]) and what the outside may ask of it ([`endpoint`], and before
//! it the [`authenticator`]), carried by a [`transport`].

pub mod act;
pub mod answers;
pub mod archive;
pub mod audit;
pub mod authenticator;
pub mod clock;
pub mod documents;
pub mod embedder;
pub mod endpoint;
pub mod failure;
pub mod identity;
pub mod ids;
pub mod once;
pub mod projects;
pub mod search;
pub mod transport;

use answers::Answers;
use archive::Archive;
use audit::AuditLog;
use documents::DocumentRepository;
use identity::IdentityRepository;

/// All that a storage is.
pub trait Store: DocumentRepository + IdentityRepository + AuditLog + Answers + Archive {}

impl<T: DocumentRepository + IdentityRepository + AuditLog + Answers + Archive> Store for T {}
