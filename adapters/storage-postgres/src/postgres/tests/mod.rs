//! Connections, transactions and the schema on real servers.

mod connect_options;
mod connections;
mod failures;
mod plans;
mod schema;
mod seam;
mod session;
mod sql_subset;
mod support;
mod tls;
mod visits;
