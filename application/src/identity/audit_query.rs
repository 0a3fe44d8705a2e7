//! Lists audit rows, and verifies their chain.
//!
//! The chain proves that no row was changed or removed from its middle. A missing end is proved
//! only against a row's number and hash that were noted elsewhere.

use reqlore_domain::audit_log::{AuditRow, ChainError, ChainHead, ChainVerifier, RowHash};
use reqlore_domain::error::Result;
use reqlore_domain::ports::audit::AuditLog;

/// Rows read at a time.
const BATCH_ROWS: usize = 1_000;

#[derive(Debug, Clone, Default)]
pub struct AuditQuery {
    /// Maximum number of rows, the newest.
    pub last: usize,
    pub user: Option<String>,
    /// A tool's name, or a method.
    pub action: Option<String>,
}

impl AuditQuery {
    /// A row that this version cannot read has no user and no action.
    fn matches_row(&self, row: &AuditRow) -> bool {
        if self.user.is_none() && self.action.is_none() {
            return true;
        }
        let Some(entry) = row.entry() else { return false };
        self.user.as_ref().is_none_or(|user| user.eq_ignore_ascii_case(&entry.user))
            && self.action.as_ref().is_none_or(|action| *action == entry.action)
    }
}

/// The newest rows of a query, by number.
pub async fn list(log: &dyn AuditLog, wanted: &AuditQuery) -> Result<Vec<AuditRow>> {
    let mut found = Vec::new();
    let mut end = log.newest().await?.number + 1;
    while end > 1 && found.len() < wanted.last {
        let from = end.saturating_sub(BATCH_ROWS as u64).max(1);
        let mut part = log.rows(from, BATCH_ROWS).await?;
        // After pruning, the storage returns later rows in place of the first.
        part.retain(|row| row.number < end);
        if part.is_empty() {
            break;
        }
        found.extend(part.into_iter().rev().filter(|row| wanted.matches_row(row)));
        end = from;
    }
    found.truncate(wanted.last);
    found.reverse();
    Ok(found)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AuditVerification {
    /// Number of rows before the first broken one.
    pub rows: u64,
    /// The newest of these.
    pub newest: ChainHead,
    pub broken: Option<ChainError>,
    pub noted: ExpectedRow,
}

/// The state of the row that was noted elsewhere.
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
    pub fn is_whole(&self) -> bool {
        self.broken.is_none() && self.noted != ExpectedRow::Missing
    }
}

/// Verifies all rows, and compares one of them with the noted row.
pub async fn verify(log: &dyn AuditLog, noted: Option<ChainHead>) -> Result<AuditVerification> {
    let mut verifier = ChainVerifier::default();
    let (mut rows, mut newest, mut first) = (0, ChainHead::default(), None);
    let mut seen =
        noted.filter(|noted| noted.number == 0).map(|noted| noted.hash == RowHash::FIRST);
    let mut broken = None;
    while broken.is_none() {
        let part = log.rows(newest.number + 1, BATCH_ROWS).await?;
        let Some(last) = part.last().map(AuditRow::head) else { break };
        if let Err(found) = verifier.next(&part) {
            broken = Some(found);
        }
        let end = match broken {
            Some(ChainError::Changed { number } | ChainError::Missing { number }) => number,
            None => last.number + 1,
        };
        let sound = part.iter().take_while(|row| row.number < end);
        for row in sound {
            first = first.or(Some(row.number));
            rows += 1;
            newest = row.head();
            if let Some(noted) = noted.filter(|noted| noted.number == row.number) {
                seen = Some(noted.hash == row.hash);
            }
        }
    }
    if broken.is_none() {
        broken = verifier.finish().err();
    }
    let is_gone = |noted: ChainHead| first.is_some_and(|first| noted.number < first);
    let noted = match (noted, seen) {
        (None, _) => ExpectedRow::None,
        (Some(_), Some(true)) => ExpectedRow::Found,
        (Some(noted), None) if is_gone(noted) => ExpectedRow::Pruned,
        _ => ExpectedRow::Missing,
    };
    Ok(AuditVerification { rows, newest, broken, noted })
}
