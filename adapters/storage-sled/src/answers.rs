//! The keys of writes that may come twice, and what was answered.
//!
//! The trap: an answer may be a megabyte, and old ones are looked for by their time alone. So the
//! time stands before the rest, where it needs no other piece.

use async_trait::async_trait;
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::idempotency::{IdempotencyRecord, IdempotencyStore};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::time::Timestamp;

use crate::SledStore;
use crate::base::{Base, Batch, KEYS};
use crate::error::of_sled;
use crate::overflow::{beginning, damaged_row, json, read};
use crate::write::Group;

/// The time's bytes.
const TIME: usize = 8;

#[async_trait]
impl IdempotencyStore for SledStore {
    async fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let key = key.to_owned();
        self.look(true, move |base| base.find_record(&key)).await
    }

    async fn save_response(&self, key: &str, answer: String) -> StoreResult<()> {
        let key = key.to_owned();
        self.write(|group| group.keep(key, answer)).await
    }

    async fn expire_records(&self, before: Timestamp) -> StoreResult<()> {
        self.write(move |group| group.forget(before)).await
    }
}

impl Base {
    fn find_record(&self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        let Some(value) = self.long(KEYS, key.as_bytes())? else { return Ok(None) };
        let json = value.get(TIME..).ok_or_else(|| damaged_row(KEYS))?;
        read(KEYS, json).map(Some)
    }

    pub(crate) fn put_earlier(
        &self,
        batch: &mut Batch,
        key: &str,
        earlier: &IdempotencyRecord,
    ) -> StoreResult<()> {
        let value = [&earlier.at.0.to_be_bytes()[..], &json(earlier)?].concat();
        self.put_long(batch, KEYS, key.as_bytes(), &value)
    }
}

/// When what this row begins happened.
fn happened(key: &[u8], row: &[u8]) -> Option<Timestamp> {
    let (_, first) = beginning(key, row)?;
    first.first_chunk().map(|at| Timestamp(i64::from_be_bytes(*at)))
}

impl Group {
    pub(crate) fn check_idempotency(&mut self, act: &WriteContext) -> StoreResult<()> {
        let Some(once) = &act.once else { return Ok(()) };
        let earlier = self.find_record(&once.key)?;
        act.check_idempotency(earlier)
    }

    fn find_record(&mut self, key: &str) -> StoreResult<Option<IdempotencyRecord>> {
        if self.keys.contains(key) {
            self.write()?;
        }
        self.base.find_record(key)
    }

    fn keep(&mut self, key: String, answer: String) -> StoreResult<()> {
        self.make_room()?;
        let Some(earlier) = self.find_record(&key)? else { return Ok(()) };
        let earlier = IdempotencyRecord { answer: Some(answer.into()), ..earlier };
        let mut batch = Batch::default();
        self.base.put_earlier(&mut batch, &key, &earlier)?;
        self.take(batch, None);
        self.keys.insert(key);
        Ok(())
    }

    /// What is damaged stays: it may be a key that still counts.
    fn forget(&mut self, before: Timestamp) -> StoreResult<()> {
        self.write()?;
        let rows = self.base.tree(KEYS).iter();
        for entry in rows {
            let (key, row) = entry.map_err(of_sled)?;
            if happened(&key, &row).is_some_and(|at| at < before) {
                let mut batch = Batch::default();
                self.base.remove_long(&mut batch, KEYS, &key)?;
                self.take(batch, None);
                self.make_room()?;
            }
        }
        Ok(())
    }
}
