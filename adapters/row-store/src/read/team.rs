//! Users, tokens, the audit log, idempotency records and claims.

use reqlore_domain::audit_log::AuditRow;
use reqlore_domain::backlog::claim::Claim;
use reqlore_domain::idempotency::IdempotencyRecord;
use reqlore_domain::identity::{Token, TokenId, TokenOwner, User};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project_key::ProjectKey;

use super::read_one;
use crate::database::RowSource;
use crate::error::damaged;
use crate::records::{
    decode_audit_row, decode_claim, decode_record, decode_token, decode_user, integer, project_key,
};
use crate::row::{RowQuery, TableRow, Value};
use crate::tables::{AUDIT, CLAIMS, IDEMPOTENCY, TOKENS, USERS};

pub(crate) async fn users(source: &dyn RowSource) -> StoreResult<Vec<User>> {
    let rows = read_one(source, RowQuery::all(&USERS).sorted_by(&["key"])).await?;
    rows.iter().map(decode_user).collect()
}

/// All tokens without sessions.
pub(crate) async fn tokens(source: &dyn RowSource) -> StoreResult<Vec<Token>> {
    let query = RowQuery::all(&TOKENS).sorted_by(&["created", "id"]);
    let mut tokens = Vec::new();
    for row in read_one(source, query).await? {
        tokens.push(decode_token(&row)?);
    }
    tokens.retain(|token| !token.is_session());
    Ok(tokens)
}

pub(crate) async fn token_owner(
    source: &dyn RowSource,
    id: &TokenId,
) -> StoreResult<Option<TokenOwner>> {
    let query = RowQuery::keys(&TOKENS, vec![TableRow::of(&[id.as_str().into()])]);
    let Some(row) = read_one(source, query).await?.pop() else { return Ok(None) };
    let token = decode_token(&row)?;
    let query = RowQuery::keys(&USERS, vec![TableRow::of(&[(&token.user.key()).into()])]);
    // Users are never deleted.
    let Some(row) = read_one(source, query).await?.pop() else {
        return Err(damaged(&format!("the user of token {}", id.as_str())));
    };
    Ok(Some(TokenOwner { token, user: decode_user(&row)? }))
}

pub(crate) async fn audit_rows(
    source: &dyn RowSource,
    from: u64,
    limit: usize,
) -> StoreResult<Vec<AuditRow>> {
    let query = RowQuery::all(&AUDIT)
        .within("number", integer(from)..Value::Integer(i64::MAX))
        .sorted_by(&["number"])
        .limited_to(limit);
    let mut rows: Vec<AuditRow> = Vec::new();
    for row in read_one(source, query).await? {
        let row = decode_audit_row(&row)?;
        // Pruning removes only the oldest rows, so a gap is damage.
        if rows.last().is_some_and(|last| row.number != last.number + 1) {
            return Err(damaged("the order of the audit log"));
        }
        rows.push(row);
    }
    Ok(rows)
}

pub(crate) async fn find_record(
    source: &dyn RowSource,
    key: &str,
) -> StoreResult<Option<IdempotencyRecord>> {
    let query = RowQuery::keys(&IDEMPOTENCY, vec![TableRow::of(&[key.into()])]);
    read_one(source, query).await?.first().map(decode_record).transpose()
}

/// All claims of a project, also those that have ended.
pub(crate) async fn claims(
    source: &dyn RowSource,
    project: &ProjectKey,
) -> StoreResult<Vec<Claim>> {
    let query = RowQuery::keys(&CLAIMS, vec![project_key(project)]);
    read_one(source, query).await?.iter().map(decode_claim).collect()
}
