//! Who calls, and what they may do: users with roles, and the tokens that stand for them (S5 4;
//! rulings 7).

mod access;
mod caller;
mod redact;
mod role;
pub mod token;
mod user;

pub use access::Access;
pub use caller::{Caller, ProjectScope};
pub use redact::redact;
pub use role::Role;
pub use token::{Digest, PresentedToken, Token, TokenError, TokenId, TokenOwner};
pub use user::{User, UserName};
