//! Documents in PostgreSQL, or in a distributed database that understands it, for any number of
//! servers at once.

mod database;
mod row;
mod tables;

#[cfg(test)]
mod tests;
