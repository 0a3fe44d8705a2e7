//! What a team needs besides documents: users and tokens, the audit, and the keys of writes.
//!
//! It lies in `.reqlore/local` of the default project, once for all projects of a store. The locks
//! are taken in one order: a project's, then that of one of these folders, held for moments only.

mod chain;
pub(crate) mod doubt;
mod file_kind;
mod folder;
mod identity;
mod keys;
mod ports;
mod private;
mod segment;
mod work;

use chain::Chain;
use identity::Identities;

/// What this process knows of it.
#[derive(Debug, Default)]
pub(crate) struct Team {
    chain: Chain,
    identities: Identities,
}
