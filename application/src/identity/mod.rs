//! Users and tokens: who a client is, and the administration of both.

pub mod authenticate;
