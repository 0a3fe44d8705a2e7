//! Lists audit rows and verifies their hash chain.
//!
//! The chain proves that no row was changed or removed from the middle. Removed newest rows are
//! detected only by comparing with a row's number and hash that were saved elsewhere.

use reqlore_domain::audit_log::{
    AuditEvent, AuditRow, ChainError, ChainHead, ChainVerifier, RowHash,
};
use reqlore_domain::error::Result;
use reqlore_domain::name_form::fold_name;
use reqlore_domain::ports::administration::{AuditFilter, AuditPage};
use reqlore_domain::ports::audit::AuditLog;

/// Rows per read.
const BATCH_ROWS: usize = 1_000;

/// Seconds by which a row may be older than its successor: it has the time at which its call began.
const MAX_CALL_SECONDS: i64 = 60 * 60;

/// A row that this version cannot parse matches only an empty filter.
fn matches_row(filter: &AuditFilter, row: &AuditRow, event: Option<&AuditEvent>) -> bool {
    let AuditFilter { user, action, target, is_change, scope, from, until, before, limit: _ } =
        filter;
    if before.is_some_and(|before| row.number >= before) {
        return false;
    }
    let Some(event) = event else {
        // It may be a change.
        let is_filtered = user.is_some()
            || action.is_some()
            || target.is_some()
            || scope.is_some()
            || *is_change == Some(false);
        return !is_filtered && from.is_none() && until.is_none();
    };
    let has_target = |part: &String| {
        let part = fold_name(part);
        event.targets.iter().any(|target| fold_name(&target.name).contains(&part))
    };
    user.as_ref().is_none_or(|user| user.eq_ignore_ascii_case(&event.user))
        && action.as_ref().is_none_or(|action| *action == event.action)
        && target.as_ref().is_none_or(has_target)
        && is_change.is_none_or(|is_change| is_change == event.is_change())
        && scope.as_ref().is_none_or(|scope| {
            event.project.as_ref().is_none_or(|project| scope.includes(project))
        })
        && from.is_none_or(|from| event.at >= from)
        && until.is_none_or(|until| event.at < until)
}

/// Returns the newest rows that match a filter, sorted by number.
pub async fn list_rows(log: &dyn AuditLog, filter: &AuditFilter) -> Result<Vec<AuditRow>> {
    let mut rows = read_page(log, filter, u64::MAX).await?.rows;
    rows.reverse();
    Ok(rows)
}

/// Returns the newest rows that match a filter, the newest first. Reads about `max_rows` rows.
pub async fn read_page(
    log: &dyn AuditLog,
    filter: &AuditFilter,
    max_rows: u64,
) -> Result<AuditPage> {
    let mut page = AuditPage::default();
    let mut end = log.newest().await?.number + 1;
    end = filter.before.unwrap_or(end).min(end);
    let mut read = 0;
    while end > 1 {
        if read >= max_rows {
            page.is_cut = true;
            page.next = Some(end);
            return Ok(page);
        }
        let from = end.saturating_sub(BATCH_ROWS as u64).max(1);
        let mut batch = log.rows(from, BATCH_ROWS).await?;
        // If the first rows of the range are pruned, the storage returns later ones instead.
        batch.retain(|row| row.number < end);
        if batch.is_empty() {
            break;
        }
        for row in batch.into_iter().rev() {
            read += 1;
            let event = row.parse_event();
            if let (Some(event), Some(first)) = (&event, filter.from)
                && event.at.seconds() + MAX_CALL_SECONDS < first.seconds()
            {
                return Ok(page);
            }
            if !matches_row(filter, &row, event.as_ref()) {
                continue;
            }
            if page.rows.len() >= filter.limit {
                // One more row matches, so there is a next page.
                page.next = Some(row.number + 1);
                return Ok(page);
            }
            page.rows.push(row);
        }
        end = from;
    }
    Ok(page)
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
