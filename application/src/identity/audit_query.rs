//! Lists audit rows and verifies their hash chain.
//!
//! The chain proves that no row was changed or removed from the middle. Removed newest rows are
//! detected only by comparing with a row's number and hash that were saved elsewhere.

use reqlore_domain::audit_log::{AuditRow, ChainError, ChainHead, ChainVerifier, RowHash};
use reqlore_domain::error::Result;
use reqlore_domain::ports::audit::AuditLog;

/// Rows per read.
const BATCH_ROWS: usize = 1_000;

#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Maximum number of rows; the newest ones are returned.
    pub limit: usize,
    pub user: Option<String>,
    /// Name of a tool or method.
    pub action: Option<String>,
}

impl AuditQuery {
    /// A row that this version cannot parse matches only a query without filters.
    fn matches_row(&self, row: &AuditRow) -> bool {
        if self.user.is_none() && self.action.is_none() {
            return true;
        }
        let Some(event) = row.parse_event() else { return false };
        if let Some(user) = &self.user
            && !user.eq_ignore_ascii_case(&event.user)
        {
            return false;
        }
        match &self.action {
            Some(action) => *action == event.action,
            None => true,
        }
    }
}

/// Returns the newest rows that match a query, sorted by number.
pub async fn list_rows(log: &dyn AuditLog, query: &AuditQuery) -> Result<Vec<AuditRow>> {
    let mut newest_first = Vec::new();
    let mut end = log.newest().await?.number + 1;
    while end > 1 && newest_first.len() < query.limit {
        let from = end.saturating_sub(BATCH_ROWS as u64).max(1);
        let mut batch = log.rows(from, BATCH_ROWS).await?;
        // If the first rows of the range are pruned, the storage returns later ones instead.
        batch.retain(|row| row.number < end);
        if batch.is_empty() {
            break;
        }
        newest_first.extend(batch.into_iter().rev().filter(|row| query.matches_row(row)));
        end = from;
    }
    newest_first.truncate(query.limit);
    newest_first.reverse();
    Ok(newest_first)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditVerification {
    /// Number of valid rows before the first broken one.
    pub rows: u64,
    /// The newest valid row.
    pub newest: ChainHead,
    pub broken: Option<ChainError>,
    pub expected: ExpectedRow,
}

/// The state of a row whose number and hash were saved elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExpectedRow {
    /// No row was given.
    None,
    /// Present and unchanged.
    Found,
    /// Pruned, so it proves nothing.
    Pruned,
    /// Missing or changed.
    Missing,
}

impl AuditVerification {
    pub fn is_intact(&self) -> bool {
        self.broken.is_none() && self.expected != ExpectedRow::Missing
    }
}

/// Verifies the chain of all rows, and compares it with a row that was saved elsewhere.
pub async fn verify_chain(
    log: &dyn AuditLog,
    expected: Option<ChainHead>,
) -> Result<AuditVerification> {
    let mut verifier = ChainVerifier::default();
    let (mut rows, mut newest, mut first_number) = (0, ChainHead::default(), None);
    // Set when the expected row is read: true if the hashes are equal.
    let mut is_equal = match expected {
        Some(ChainHead { number: 0, hash }) => Some(hash == RowHash::FIRST),
        _ => None,
    };
    let mut broken = None;
    while broken.is_none() {
        let batch = log.rows(newest.number + 1, BATCH_ROWS).await?;
        let Some(last) = batch.last() else { break };
        if let Err(error) = verifier.verify_rows(&batch) {
            broken = Some(error);
        }
        let end = match broken {
            Some(ChainError::Changed { number } | ChainError::Missing { number }) => number,
            None => last.number + 1,
        };
        for row in batch.iter().take_while(|row| row.number < end) {
            first_number.get_or_insert(row.number);
            rows += 1;
            newest = row.head();
            if let Some(expected) = expected
                && expected.number == row.number
            {
                is_equal = Some(expected.hash == row.hash);
            }
        }
    }
    if broken.is_none() {
        broken = verifier.finish().err();
    }
    let row_state = match (expected, is_equal, first_number) {
        (None, _, _) => ExpectedRow::None,
        (Some(_), Some(true), _) => ExpectedRow::Found,
        (Some(expected), None, Some(first)) if expected.number < first => ExpectedRow::Pruned,
        _ => ExpectedRow::Missing,
    };
    Ok(AuditVerification { rows, newest, broken, expected: row_state })
}
