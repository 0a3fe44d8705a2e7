//! Users and tokens: one row each, with JSON text and the columns that queries need.
//!
//! The last use of a token has its own column, because recording it must not change the epoch.

use std::sync::LazyLock;

use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::archive::IdentityRecords;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit};
use reqlore_domain::timestamp::Timestamp;
use rusqlite::{Connection, Row};

use crate::checksum::TableLayout;
use crate::error::DatabaseError;
use crate::{audit, json};

pub const EPOCH: TableLayout = TableLayout { name: "identity_epoch", columns: &["one", "epoch"] };
pub const USERS: TableLayout = TableLayout { name: "users", columns: &["key", "text"] };
pub const TOKENS: TableLayout =
    TableLayout { name: "tokens", columns: &["id", "user", "created", "used", "text"] };

pub fn users(connection: &Connection) -> Result<Vec<User>, DatabaseError> {
    let select = format!("SELECT text, {} FROM users ORDER BY key", USERS.verify(""));
    connection.prepare_cached(&select)?.query_and_then([], |row| decode_user(row, 0))?.collect()
}

/// Returns all tokens without sessions.
pub fn tokens(connection: &Connection) -> Result<Vec<Token>, DatabaseError> {
    let mut tokens = tokens_and_sessions(connection)?;
    tokens.retain(|token| !token.is_session());
    Ok(tokens)
}

/// Removes the sessions that have ended.
pub fn expire_sessions(connection: &Connection, now: Timestamp) -> Result<(), DatabaseError> {
    let mut delete = connection.prepare_cached("DELETE FROM tokens WHERE id = ?1")?;
    for token in tokens_and_sessions(connection)? {
        if token.is_ended_session(now) {
            delete.execute([token.id.as_str()])?;
        }
    }
    Ok(())
}

fn tokens_and_sessions(connection: &Connection) -> Result<Vec<Token>, DatabaseError> {
    let verify = TOKENS.verify("");
    let select = format!("SELECT text, used, {verify} FROM tokens ORDER BY created, id");
    connection.prepare_cached(&select)?.query_and_then([], decode_token)?.collect()
}

pub fn all_identities(connection: &Connection) -> Result<IdentityRecords, DatabaseError> {
    Ok(IdentityRecords { users: users(connection)?, tokens: tokens(connection)? })
}

pub fn token_owner(
    connection: &Connection,
    id: &TokenId,
) -> Result<Option<TokenOwner>, DatabaseError> {
    // Both rows are verified, and a token without its user is damage: users are never deleted.
    static SELECT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "SELECT t.text, t.used, u.text, u.key IS NOT NULL, {}, u.key IS NULL OR {} \
             FROM tokens t LEFT JOIN users u ON u.key = t.user WHERE t.id = ?1",
            TOKENS.verify("t."),
            USERS.verify("u.")
        )
    });
    let mut select = connection.prepare_cached(&SELECT)?;
    let mut rows = select.query([id.as_str()])?;
    match rows.next()? {
        Some(row) if !row.get::<_, bool>(3)? => {
            let Token { id, .. } = decode_token(row)?;
            Err(DatabaseError::damaged(&format!("the user of token {}", id.as_str())))
        }
        Some(row) => Ok(Some(TokenOwner { token: decode_token(row)?, user: decode_user(row, 2)? })),
        None => Ok(None),
    }
}

pub fn epoch(connection: &Connection) -> Result<u64, DatabaseError> {
    static SELECT: LazyLock<String> =
        LazyLock::new(|| format!("SELECT epoch, {} FROM identity_epoch", EPOCH.verify("")));
    Ok(connection.prepare_cached(&SELECT)?.query_one([], |row| row.get(0))?)
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
    let select = format!("SELECT text, {} FROM users WHERE key = ?1", USERS.verify(""));
    let mut select = connection.prepare_cached(&select)?;
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
    let select = format!("SELECT text, used, {} FROM tokens WHERE id = ?1", TOKENS.verify(""));
    let mut select = connection.prepare_cached(&select)?;
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
    let mut upsert = connection.prepare_cached(&USERS.upsert("key"))?;
    upsert.execute((user.name.key(), json::to_text(user)?))?;
    Ok(())
}

pub(crate) fn put_token(connection: &Connection, token: &Token) -> Result<(), DatabaseError> {
    // The last use is only in its column: a later use does not rewrite the text.
    let text = json::to_text(&Token { last_used_at: None, ..token.clone() })?;
    let used = token.last_used_at.map(|at| at.0);
    let mut upsert = connection.prepare_cached(&TOKENS.upsert("id"))?;
    upsert.execute((token.id.as_str(), token.user.key(), token.created_at.0, used, text))?;
    Ok(())
}

/// Records last uses. A stored later time is kept.
pub fn record_uses(
    connection: &Connection,
    uses: &[(TokenId, Timestamp)],
) -> Result<(), DatabaseError> {
    let is_later = "id = ?1 AND (used IS NULL OR used < ?2)";
    let mut update = connection.prepare_cached(&TOKENS.update(&[("used", "?2")], is_later))?;
    for (id, at) in uses {
        update.execute((id.as_str(), at.0))?;
    }
    Ok(())
}

/// Invalidates the caches of all connections and processes.
pub(crate) fn raise_epoch(connection: &Connection) -> Result<(), DatabaseError> {
    let update = EPOCH.update(&[("epoch", "epoch + 1")], "one = 1");
    if connection.prepare_cached(&update)?.execute([])? == 1 {
        return Ok(());
    }
    Err(DatabaseError::damaged("the epoch of users and tokens"))
}

fn decode_user(row: &Row<'_>, column: usize) -> Result<User, DatabaseError> {
    json::from_column(row, column, "a user")
}

/// Decodes a row that starts with the text and the last use.
fn decode_token(row: &Row<'_>) -> Result<Token, DatabaseError> {
    let token: Token = json::from_column(row, 0, "a token")?;
    Ok(Token { last_used_at: row.get::<_, Option<i64>>(1)?.map(Timestamp), ..token })
}
