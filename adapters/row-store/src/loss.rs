//! Accepts that a database lost commits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::identity::Token;
use reqlore_domain::ports::accepted_loss::{AcceptedLoss, KnownReferences};
use reqlore_domain::ports::archive::{HighWaterMark, RecordReader as _};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::timestamp::Timestamp;
use reqlore_group_commit::run_alone;

use crate::archive::SnapshotReader;
use crate::database::{RowSource, WriteSession};
use crate::read::read_one;
use crate::records::{decode_token, encode_token};
use crate::row::{RowChange, RowQuery, TableRow, Value};
use crate::run_blocking;
use crate::tables::{IDEMPOTENCY, SEQUENCES, TOKENS, Table};
use crate::writer::{GroupWriterEngine, ReadPlan, random};

/// The highest number that each kind of item has in any project of a database, by its name.
type IssuedNumbers = BTreeMap<String, u32>;

/// Raises numbers to those in the changes of a table.
pub fn raise_issued_numbers(numbers: &mut IssuedNumbers, table: &Table, changes: &[RowChange]) {
    for change in changes.iter().take_while(|_| *table == SEQUENCES) {
        if let RowChange::Insert(row) | RowChange::Update { row, .. } = change
            && let (Value::Text(kind), Value::Integer(number)) = (row.value(1), row.value(2))
            && let Ok(number) = u32::try_from(number)
        {
            let highest = numbers.entry(kind.to_owned()).or_default();
            *highest = number.max(*highest);
        }
    }
}

/// The references with these numbers.
pub fn issued_references(numbers: IssuedNumbers) -> impl Iterator<Item = Reference> {
    numbers.into_iter().filter_map(|(kind, number)| {
        ItemKind::from_name(&kind).map(|kind| Reference { kind, number })
    })
}

/// Accepts that a database lost commits: raises its sequences above every number that its content
/// or `issued` mentions, appends an audit row with the loss, and gives it a new ID. No other
/// process may have it open.
pub fn accept_loss(
    session: Box<dyn WriteSession>,
    loss: String,
    issued: impl Iterator<Item = Reference>,
    context: WriteContext,
) -> StoreResult<AcceptedLoss> {
    let session = Arc::new(Mutex::new(session));
    let mut known = known_references(&session)?;
    issued.for_each(|reference| known.add_unscoped(reference));
    let Some(session) = Arc::into_inner(session) else {
        return Err(StoreError::Internal("the session is used".to_owned()));
    };
    let session = session.into_inner().unwrap_or_else(PoisonError::into_inner);
    let marks = known.into_high_water_marks();
    write_loss(session, move |engine| engine.raise_and_audit(&loss, &marks, &context))
}

/// Accepts that a database without documents lost commits: revokes all tokens, because a revocation
/// may be lost, appends an audit row with the loss, and gives it a new ID.
pub fn accept_team_loss(
    session: Box<dyn WriteSession>,
    loss: &str,
    context: WriteContext,
) -> StoreResult<AcceptedLoss> {
    let loss = format!("{loss}; all tokens were revoked, because a revocation may be lost");
    write_loss(session, move |engine| {
        engine.revoke_tokens(context.at)?;
        engine.raise_and_audit(&loss, &[], &context)
    })
}

fn write_loss(
    session: Box<dyn WriteSession>,
    mut work: impl FnMut(&mut GroupWriterEngine) -> StoreResult<AcceptedLoss>,
) -> StoreResult<AcceptedLoss> {
    let mut engine = GroupWriterEngine::new(session, Arc::default())?;
    run_alone(&mut engine, &ReadPlan::default(), |engine| engine.run_job(&mut work))
}

/// Collects the references in all records and in idempotency records.
fn known_references(session: &Arc<Mutex<Box<dyn WriteSession>>>) -> StoreResult<KnownReferences> {
    let source = SessionSource(Arc::clone(session));
    source.lock().begin(&[]).map_err(|error| error.to_store_error())?;
    let read = async {
        let mut known = KnownReferences::default();
        let mut reader = SnapshotReader::of(Box::new(source), Arc::default()).await?;
        loop {
            let records = reader.next_batch().await?;
            if records.is_empty() {
                break;
            }
            for record in &records {
                known.add_record(record);
            }
        }
        for row in read_one(&*reader.snapshot, RowQuery::all(&IDEMPOTENCY)).await? {
            for value in row.values() {
                if let Value::Text(text) = value {
                    known.add_text(None, text);
                }
            }
        }
        Ok(known)
    };
    run_blocking(read)
}

impl GroupWriterEngine {
    fn revoke_tokens(&mut self, now: Timestamp) -> StoreResult<()> {
        for row in self.transaction.select_one(RowQuery::all(&TOKENS))? {
            let token = decode_token(&row)?;
            if token.revoked_at.is_none() {
                let token = Token { revoked_at: Some(now), ..token };
                self.transaction.put(&TOKENS, encode_token(&token)?);
            }
        }
        self.renew_epoch()
    }

    fn raise_and_audit(
        &mut self,
        loss: &str,
        marks: &[HighWaterMark],
        context: &WriteContext,
    ) -> StoreResult<AcceptedLoss> {
        let mut accepted = AcceptedLoss { loss: loss.to_owned(), raised: Vec::new() };
        for mark in marks {
            let HighWaterMark { project, kind, number } = mark;
            if self.raise_sequence(project, kind.name(), *number)? {
                let row = self.project_row(project)?;
                self.begin_revision(project, row)?;
                accepted.raised.push(mark.clone());
            }
        }
        self.append_events(accepted.audit_event(context.clone()))?;
        let mut row = self.store_row()?;
        row.store_id = random()?;
        self.put_store_row(&row);
        Ok(accepted)
    }
}

/// Reads the rows of the open transaction of a session.
struct SessionSource(Arc<Mutex<Box<dyn WriteSession>>>);

impl SessionSource {
    fn lock(&self) -> MutexGuard<'_, Box<dyn WriteSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl RowSource for SessionSource {
    async fn read(&self, queries: Vec<RowQuery>) -> StoreResult<Vec<Vec<TableRow>>> {
        self.lock().read(&queries).map_err(|error| error.to_store_error())
    }
}
