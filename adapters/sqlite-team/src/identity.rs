//! Users and tokens: one row each, with JSON text and the columns that queries need.
//!
//! The last use of a token has its own column, because recording it must not change the epoch.

use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::archive::IdentityRecords;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit};
use reqlore_domain::timestamp::Timestamp;
use rusqlite::{Connection, Row};

use crate::error::DatabaseError;
use crate::{audit, json};

pub fn users(connection: &Connection) -> Result<Vec<User>, DatabaseError> {
    let mut select = connection.prepare_cached("SELECT text FROM users ORDER BY key")?;
    select.query_and_then([], |row| decode_user(row, 0))?.collect()
}

pub fn tokens(connection: &Connection) -> Result<Vec<Token>, DatabaseError> {
    let select = "SELECT text, used FROM tokens ORDER BY created, id";
    connection.prepare_cached(select)?.query_and_then([], decode_token)?.collect()
}

pub fn all_identities(connection: &Connection) -> Result<IdentityRecords, DatabaseError> {
    Ok(IdentityRecords { users: users(connection)?, tokens: tokens(connection)? })
}

pub fn token_owner(
    connection: &Connection,
    id: &TokenId,
) -> Result<Option<TokenOwner>, DatabaseError> {
    let mut select = connection.prepare_cached(
        "SELECT t.text, t.used, u.text FROM tokens t JOIN users u ON u.key = t.user \
         WHERE t.id = ?1",
    )?;
    let mut rows = select.query([id.as_str()])?;
    match rows.next()? {
        Some(row) => Ok(Some(TokenOwner { token: decode_token(row)?, user: decode_user(row, 2)? })),
        None => Ok(None),
    }
}

pub fn epoch(connection: &Connection) -> Result<u64, DatabaseError> {
    Ok(connection.prepare_cached("SELECT epoch FROM store")?.query_one([], |row| row.get(0))?)
}

/// Applies an identity commit and appends its audit row.
pub fn commit(connection: &Connection, mut commit: IdentityCommit) -> Result<(), DatabaseError> {
    let users = users_by_name(connection, &commit)?;
    let tokens = tokens_by_id(connection, &commit.tokens)?;
    let (changes, event) = commit.decide(&users, &tokens)?;
    if changes.is_empty() {
        return Ok(());
    }
    for change in &changes {
        match change {
            IdentityChange::User(user) => put_user(connection, user)?,
            IdentityChange::Token(token) => put_token(connection, token)?,
        }
    }
    raise_epoch(connection)?;
    audit::append_events(connection, event).map(drop)
}

fn users_by_name(
    connection: &Connection,
    commit: &IdentityCommit,
) -> Result<Vec<Option<User>>, DatabaseError> {
    let mut select = connection.prepare_cached("SELECT text FROM users WHERE key = ?1")?;
    let mut users = Vec::with_capacity(commit.users.len());
    for name in &commit.users {
        let mut rows = select.query([name.key()])?;
        users.push(rows.next()?.map(|row| decode_user(row, 0)).transpose()?);
    }
    Ok(users)
}

fn tokens_by_id(
    connection: &Connection,
    ids: &[TokenId],
) -> Result<Vec<Option<Token>>, DatabaseError> {
    let mut select = connection.prepare_cached("SELECT text, used FROM tokens WHERE id = ?1")?;
    let mut tokens = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = select.query([id.as_str()])?;
        tokens.push(rows.next()?.map(decode_token).transpose()?);
    }
    Ok(tokens)
}

/// Inserts users and tokens of an archive.
pub fn insert_all(connection: &Connection, all: &IdentityRecords) -> Result<(), DatabaseError> {
    for user in &all.users {
        put_user(connection, user)?;
    }
    for token in &all.tokens {
        put_token(connection, token)?;
    }
    raise_epoch(connection)
}

fn put_user(connection: &Connection, user: &User) -> Result<(), DatabaseError> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO users (key, text) VALUES (?1, ?2) \
         ON CONFLICT (key) DO UPDATE SET text = excluded.text",
    )?;
    upsert.execute((user.name.key(), json::to_text(user)?))?;
    Ok(())
}

fn put_token(connection: &Connection, token: &Token) -> Result<(), DatabaseError> {
    // The last use is only in its column: a later use does not rewrite the text.
    let text = json::to_text(&Token { last_used_at: None, ..token.clone() })?;
    let used = token.last_used_at.map(|at| at.0);
    let mut upsert = connection.prepare_cached(
        "INSERT INTO tokens (id, user, created, used, text) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (id) DO UPDATE SET user = excluded.user, created = excluded.created, \
         used = excluded.used, text = excluded.text",
    )?;
    upsert.execute((token.id.as_str(), token.user.key(), token.created_at.0, used, text))?;
    Ok(())
}

/// Records last uses. A stored later time is kept.
pub fn record_uses(
    connection: &Connection,
    uses: &[(TokenId, Timestamp)],
) -> Result<(), DatabaseError> {
    let mut update = connection.prepare_cached(
        "UPDATE tokens SET used = ?2 WHERE id = ?1 AND (used IS NULL OR used < ?2)",
    )?;
    for (id, at) in uses {
        update.execute((id.as_str(), at.0))?;
    }
    Ok(())
}

/// Invalidates the caches of all connections and processes.
fn raise_epoch(connection: &Connection) -> Result<(), DatabaseError> {
    connection.prepare_cached("UPDATE store SET epoch = epoch + 1")?.execute([])?;
    Ok(())
}

fn decode_user(row: &Row<'_>, column: usize) -> Result<User, DatabaseError> {
    json::from_column(row, column, "a user")
}

/// Decodes a row that starts with the text and the last use.
fn decode_token(row: &Row<'_>) -> Result<Token, DatabaseError> {
    let token: Token = json::from_column(row, 0, "a token")?;
    Ok(Token { last_used_at: row.get::<_, Option<i64>>(1)?.map(Timestamp), ..token })
}
