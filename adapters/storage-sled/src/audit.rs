//! The audit: one row for each number, and each sealed behind the one before.
//!
//! The trap: the newest row may be pending, so the writer's word counts and not the trees'. It
//! seals into a batch, and what came of that is the newest row only when the batch is taken.

use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::audit::{AuditEvent, AuditRow, ChainHead, Hash};
use reqlore_domain::ports::audit::AuditLog;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::time::Timestamp;

use crate::base::{AUDIT, Base, Batch};
use crate::error::of_sled;
use crate::overflow::{damaged_row, put_new};
use crate::write::Group;
use crate::{FEW, SledStore};

/// So many rows are removed at once: one transaction holds them all.
const MOST_PRUNED: usize = if cfg!(test) { 50 } else { 5_000 };

#[async_trait]
impl AuditLog for SledStore {
    async fn record(&self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        self.write(|group| group.record(entries)).await
    }

    async fn rows(&self, from: u64, limit: usize) -> StoreResult<Vec<AuditRow>> {
        self.look(limit <= FEW, move |base| base.audit(from).take(limit).collect()).await
    }

    async fn newest(&self) -> StoreResult<ChainHead> {
        self.look(true, Base::newest).await
    }

    async fn prune(&self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        self.write(move |group| group.prune(older_than, now)).await
    }
}

impl Base {
    /// The rows from this number on.
    pub(crate) fn audit(&self, from: u64) -> impl Iterator<Item = StoreResult<AuditRow>> {
        self.tree(AUDIT).range(from.to_be_bytes()..).map(|entry| {
            let (key, row) = entry.map_err(of_sled)?;
            let value = self.whole(AUDIT, &key, &row)?;
            decoded(&key, &value).ok_or_else(|| damaged_row(AUDIT))
        })
    }

    fn newest(&self) -> StoreResult<ChainHead> {
        let Some((key, row)) = self.tree(AUDIT).last().map_err(of_sled)? else {
            return Ok(ChainHead::default());
        };
        let value = self.whole(AUDIT, &key, &row)?;
        let row = decoded(&key, &value).ok_or_else(|| damaged_row(AUDIT))?;
        Ok(row.head())
    }
}

/// Puts a row behind all others: its number is a new one.
pub(crate) fn put_row(batch: &mut Batch, row: &AuditRow) {
    let value = [&row.hash.0, row.text.as_bytes()].concat();
    put_new(batch, AUDIT, &row.number.to_be_bytes(), &value);
}

/// A value is the hash and behind it the text.
fn decoded(key: &[u8], value: &[u8]) -> Option<AuditRow> {
    let number = u64::from_be_bytes(key.try_into().ok()?);
    let (hash, text) = value.split_first_chunk()?;
    let text = std::str::from_utf8(text).ok()?;
    Some(AuditRow { number, hash: Hash(*hash), text: text.into() })
}

impl Group {
    /// Seals entries behind the newest row, in a batch; what comes back belongs to
    /// [`Group::take`].
    pub(crate) fn chained(
        &self,
        batch: &mut Batch,
        entries: impl IntoIterator<Item = AuditEvent>,
    ) -> StoreResult<Option<ChainHead>> {
        let mut newest = None;
        for entry in entries {
            let head = match newest.or(self.newest) {
                Some(head) => head,
                None => self.base.newest()?,
            };
            let row = AuditRow::after(head, entry);
            put_row(batch, &row);
            newest = Some(row.head());
        }
        Ok(newest)
    }

    fn record(&mut self, entries: Vec<AuditEvent>) -> StoreResult<()> {
        self.make_room()?;
        let mut batch = Batch::default();
        let newest = self.chained(&mut batch, entries)?;
        self.take(batch, newest);
        Ok(())
    }

    pub(crate) fn prune(&mut self, older_than: Timestamp, now: Timestamp) -> StoreResult<u64> {
        // The oldest rows may be pending.
        self.write()?;
        let mut batch = Batch::default();
        let (mut last, mut gone) = (0, 0);
        let base = Arc::clone(&self.base);
        for row in base.audit(0).take(MOST_PRUNED) {
            let row = row?;
            let Some(entry) = row.entry() else {
                self.tell_of(row.number);
                break;
            };
            if entry.at >= older_than {
                break;
            }
            base.remove_long(&mut batch, AUDIT, &row.number.to_be_bytes())?;
            (last, gone) = (row.number, gone + 1);
        }
        if gone > 0 {
            let newest = self.chained(&mut batch, [AuditEvent::pruned(last, now)])?;
            self.take(batch, newest);
        }
        Ok(gone)
    }

    /// Says once that the pruning gets no further than to this row.
    fn tell_of(&mut self, number: u64) {
        if !std::mem::replace(&mut self.told_of_row, true) {
            tracing::warn!(
                row = number,
                "a row of the audit can't be read, so nobody knows how old it is; it stays, and so \
                 do all rows behind it. `reqlore audit verify` says more"
            );
        }
    }
}
