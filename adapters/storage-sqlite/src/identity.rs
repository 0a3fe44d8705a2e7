//! Users and tokens: a row each, JSON beside what it is found by.
//!
//! The trap: when a token was last used is a column of its own. It is noted all the time, and is no
//! change of identities.

use async_trait::async_trait;
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::archive::Identities;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::identity::{IdentityChange, IdentityCommit, IdentityRepository};
use reqlore_domain::time::Timestamp;
use reqlore_group_commit::unbroken;
use rusqlite::{Connection, Row};

use crate::error::Failed;
use crate::{SqliteStore, audit, json};

#[async_trait]
impl IdentityRepository for SqliteStore {
    async fn users(&self) -> StoreResult<Vec<User>> {
        self.pool.large(users).await
    }

    async fn tokens(&self) -> StoreResult<Vec<Token>> {
        self.pool.large(tokens).await
    }

    async fn holder(&self, id: &TokenId) -> StoreResult<Option<TokenOwner>> {
        let id = id.clone();
        self.pool.single(move |connection| holder(connection, &id)).await
    }

    /// In the database, so it tells of every process.
    async fn epoch(&self) -> StoreResult<u64> {
        self.pool.single(epoch).await
    }

    async fn commit_identities(&self, commit: IdentityCommit) -> StoreResult<()> {
        self.writer.run(|engine| engine.step(|connection| apply(connection, commit))).await
    }

    async fn used(&self, uses: Vec<(TokenId, Timestamp)>) -> StoreResult<()> {
        if uses.is_empty() {
            return Ok(());
        }
        self.writer.run(move |engine| engine.step(|connection| used(connection, &uses))).await
    }
}

fn users(connection: &Connection) -> Result<Vec<User>, Failed> {
    let mut select = connection.prepare_cached("SELECT text FROM users ORDER BY key")?;
    let mut rows = select.query([])?;
    let mut users = Vec::new();
    while let Some(row) = rows.next()? {
        users.push(user(row, 0)?);
    }
    Ok(users)
}

fn tokens(connection: &Connection) -> Result<Vec<Token>, Failed> {
    let select = "SELECT text, used FROM tokens ORDER BY created, id";
    let mut select = connection.prepare_cached(select)?;
    let mut rows = select.query([])?;
    let mut tokens = Vec::new();
    while let Some(row) = rows.next()? {
        tokens.push(token(row)?);
    }
    Ok(tokens)
}

pub(crate) fn all(connection: &Connection) -> Result<Identities, Failed> {
    Ok(Identities { users: users(connection)?, tokens: tokens(connection)? })
}

fn holder(connection: &Connection, id: &TokenId) -> Result<Option<TokenOwner>, Failed> {
    let mut select = connection.prepare_cached(
        "SELECT t.text, t.used, u.text FROM tokens t JOIN users u ON u.key = t.user \
         WHERE t.id = ?1",
    )?;
    let mut rows = select.query([id.as_str()])?;
    let holder = |row: &_| Ok(TokenOwner { token: token(row)?, user: user(row, 2)? });
    rows.next()?.map(holder).transpose()
}

fn epoch(connection: &Connection) -> Result<u64, Failed> {
    Ok(connection.prepare_cached("SELECT epoch FROM store")?.query_one([], |row| row.get(0))?)
}

fn apply(connection: &Connection, mut commit: IdentityCommit) -> Result<(), Failed> {
    let users = named(connection, &commit)?;
    let tokens = known(connection, &commit.tokens)?;
    let (changes, audit) = unbroken(|| commit.decide(&users, &tokens))?;
    if changes.is_empty() {
        return Ok(());
    }
    for change in &changes {
        match change {
            IdentityChange::User(user) => put_user(connection, user)?,
            IdentityChange::Token(token) => put_token(connection, token)?,
        }
    }
    count(connection)?;
    audit::append(connection, audit)
}

/// The users that a commit looks at.
fn named(connection: &Connection, commit: &IdentityCommit) -> Result<Vec<Option<User>>, Failed> {
    let mut select = connection.prepare_cached("SELECT text FROM users WHERE key = ?1")?;
    let mut named = Vec::with_capacity(commit.users.len());
    for name in &commit.users {
        let mut rows = select.query([name.key()])?;
        named.push(rows.next()?.map(|row| user(row, 0)).transpose()?);
    }
    Ok(named)
}

fn known(connection: &Connection, ids: &[TokenId]) -> Result<Vec<Option<Token>>, Failed> {
    let mut select = connection.prepare_cached("SELECT text, used FROM tokens WHERE id = ?1")?;
    let mut known = Vec::with_capacity(ids.len());
    for id in ids {
        let mut rows = select.query([id.as_str()])?;
        known.push(rows.next()?.map(token).transpose()?);
    }
    Ok(known)
}

/// Takes all in, as a copy brings them.
pub(crate) fn put_all(connection: &Connection, all: &Identities) -> Result<(), Failed> {
    all.users.iter().try_for_each(|user| put_user(connection, user))?;
    all.tokens.iter().try_for_each(|token| put_token(connection, token))?;
    count(connection)
}

fn put_user(connection: &Connection, user: &User) -> Result<(), Failed> {
    let mut upsert = connection.prepare_cached(
        "INSERT INTO users (key, text) VALUES (?1, ?2) \
         ON CONFLICT (key) DO UPDATE SET text = excluded.text",
    )?;
    upsert.execute((user.name.key(), json::written(user)?))?;
    Ok(())
}

fn put_token(connection: &Connection, token: &Token) -> Result<(), Failed> {
    let text = json::written(&Token { last_used_at: None, ..token.clone() })?;
    let used = token.last_used_at.map(|at| at.0);
    let mut upsert = connection.prepare_cached(
        "INSERT INTO tokens (id, user, created, used, text) VALUES (?1, ?2, ?3, ?4, ?5) \
         ON CONFLICT (id) DO UPDATE SET user = excluded.user, created = excluded.created, \
         used = excluded.used, text = excluded.text",
    )?;
    upsert.execute((token.id.as_str(), token.user.key(), token.created_at.0, used, text))?;
    Ok(())
}

fn used(connection: &Connection, uses: &[(TokenId, Timestamp)]) -> Result<(), Failed> {
    let mut update = connection.prepare_cached(
        "UPDATE tokens SET used = ?2 WHERE id = ?1 AND (used IS NULL OR used < ?2)",
    )?;
    for (id, at) in uses {
        update.execute((id.as_str(), at.0))?;
    }
    Ok(())
}

/// Whoever keeps what was looked up looks again.
fn count(connection: &Connection) -> Result<(), Failed> {
    connection.prepare_cached("UPDATE store SET epoch = epoch + 1")?.execute([])?;
    Ok(())
}

fn user(row: &Row<'_>, column: usize) -> Result<User, Failed> {
    json::parsed(row, column, "a user is")
}

/// Of a row of text and last use.
fn token(row: &Row<'_>) -> Result<Token, Failed> {
    let token: Token = json::parsed(row, 0, "a token is")?;
    Ok(Token { last_used_at: row.get::<_, Option<i64>>(1)?.map(Timestamp), ..token })
}
