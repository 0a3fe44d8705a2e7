//! Copies all records from one storage to another, and compares two storages.
//!
//! Records are streamed in the order of [`RecordKey`], so memory use is bounded.

use std::cmp::Ordering;
use std::fmt;

use reqlore_domain::error::{Error, Result};
use reqlore_domain::ports::archive::{
    Archive, ArchiveRecord, RecordKey, RecordReader, RecordWriter,
};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::ports::service::ProgressSink;
use serde::Serialize;

pub const MAX_DIFFERENCES: usize = 20;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct CopyReport {
    pub documents: u64,
    /// Total size of the documents.
    pub bytes: u64,
    pub users: u64,
    pub tokens: u64,
    /// Audit rows.
    pub rows: u64,
    /// Earlier versions and deletions of documents.
    pub history: u64,
    /// Earlier versions that the target cannot keep.
    pub history_left_behind: u64,
}

impl CopyReport {
    fn count_record(&mut self, record: &ArchiveRecord) {
        match record {
            ArchiveRecord::Document(record) => {
                self.documents += 1;
                self.bytes += record.document.body.len() as u64;
            }
            ArchiveRecord::HighWaterMark(_) => {}
            ArchiveRecord::History(_) => self.history += 1,
            ArchiveRecord::User(_) => self.users += 1,
            ArchiveRecord::Token(_) => self.tokens += 1,
            ArchiveRecord::AuditRow(_) => self.rows += 1,
        }
    }
}

/// Copies all records of `source` to `target`, which must be empty. Earlier versions are left
/// behind if the target keeps none.
///
/// The source is opened by the caller: an unreadable source must not leave an incomplete target.
/// After an error the target stays marked as incomplete.
pub async fn copy_archive(
    source: Box<dyn RecordReader>,
    target: &dyn Archive,
    progress: &dyn ProgressSink,
) -> Result<CopyReport> {
    let writer = target.import().await?;
    let mut report = copy_records(source, writer, progress).await.map_err(|mut error| {
        error.message.push_str("; the copy is incomplete, start again with an empty target");
        error
    })?;
    if !target.keeps_history() {
        report.history_left_behind = std::mem::take(&mut report.history);
    }
    Ok(report)
}

async fn copy_records(
    mut source: Box<dyn RecordReader>,
    mut writer: Box<dyn RecordWriter>,
    progress: &dyn ProgressSink,
) -> Result<CopyReport> {
    let total = source.total_documents();
    let mut copied = CopyReport::default();
    // Errors name the records that they happened at.
    let mut last = None;
    loop {
        let records =
            source.next_batch().await.map_err(|error| error_after(error, last.as_ref()))?;
        let (Some(first), Some(end)) = (records.first(), records.last()) else { break };
        // Taken before the write, which consumes the records.
        let (first, end) = (first.key(), end.key());
        let documents = copied.documents;
        for record in &records {
            copied.count_record(record);
        }
        writer.write_batch(records).await.map_err(|error| error_between(error, &first, &end))?;
        // Batches of users, tokens or audit rows are not progress in documents.
        if copied.documents > documents {
            report_documents(progress, copied.documents, total, "Copying");
        }
        last = Some(end);
    }
    // Until here the target is marked as incomplete.
    writer.finish().await.map_err(|error| error_at(error, "at the end"))?;
    Ok(copied)
}

/// Reports finished documents, of a total that not every archive knows.
fn report_documents(progress: &dyn ProgressSink, done: u64, total: Option<usize>, message: &str) {
    let done = usize::try_from(done).unwrap_or(usize::MAX);
    progress.progress(done, total.unwrap_or_default(), message);
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct VerifyReport {
    /// Documents that are equal on both sides.
    pub same: u64,
    /// Number of differences in records of any kind.
    pub different: u64,
    /// The first differences, at most [`MAX_DIFFERENCES`].
    pub differences: Vec<TransferDifference>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TransferDifference {
    /// The name of the document or other record.
    pub document: String,
    pub what: Vec<DifferenceKind>,
}

/// How the second side differs from the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DifferenceKind {
    MissingThere,
    ExtraThere,
    OtherBytes,
    OtherTime,
    OtherPath,
    OtherNumber,
    /// Of a present version: its number or origin.
    OtherHistory,
    /// Of an earlier version, a user, a token or an audit row.
    Other,
}

impl fmt::Display for TransferDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.document)?;
        for (position, what) in self.what.iter().enumerate() {
            f.write_str(if position == 0 { "" } else { ", " })?;
            f.write_str(match what {
                DifferenceKind::MissingThere => "missing in the copy",
                DifferenceKind::ExtraThere => "only in the copy",
                DifferenceKind::OtherBytes => "different content",
                DifferenceKind::OtherTime => "different time",
                DifferenceKind::OtherPath => "different path",
                DifferenceKind::OtherHistory => "different history",
                DifferenceKind::OtherNumber | DifferenceKind::Other => "different",
            })?;
        }
        Ok(())
    }
}

/// Compares all records of two storages. Progress counts the documents of the first one.
pub async fn verify_archives(
    first: &dyn Archive,
    second: &dyn Archive,
    progress: &dyn ProgressSink,
) -> Result<VerifyReport> {
    // Only what both sides can keep is compared.
    let with_history = first.keeps_history() && second.keeps_history();
    let mut here = RecordCursor::new(first, with_history).await?;
    let mut there = RecordCursor::new(second, with_history).await?;
    let mut report = VerifyReport::default();
    let (mut left, mut right) = (here.next().await?, there.next().await?);
    loop {
        // Both sides are sorted: the smaller key is missing on the other side.
        let order = match (&left, &right) {
            (None, None) => return Ok(report),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => left.key().cmp(&right.key()),
        };
        let mut here_record = None;
        let mut there_record = None;
        if order.is_le() {
            here_record = std::mem::replace(&mut left, here.next().await?);
        }
        if order.is_ge() {
            there_record = std::mem::replace(&mut right, there.next().await?);
        }
        report.add_records(here_record.as_ref(), there_record.as_ref());
        if let Some(ArchiveRecord::Document(_)) = here_record {
            let total = here.reader.total_documents();
            report_documents(progress, here.documents, total, "Comparing");
        }
    }
}

impl VerifyReport {
    /// Adds the result for two records with the same key, of which one may be missing.
    fn add_records(&mut self, here: Option<&ArchiveRecord>, there: Option<&ArchiveRecord>) {
        let Some(record) = here.or(there) else { return };
        let what = match (here, there) {
            (Some(here), Some(there)) => record_differences(here, there),
            // A missing high-water mark equals a mark of 0.
            _ if matches!(record, ArchiveRecord::HighWaterMark(mark) if mark.number == 0) => {
                Vec::new()
            }
            _ if matches!(record, ArchiveRecord::HighWaterMark(_)) => {
                vec![DifferenceKind::OtherNumber]
            }
            (_, None) => vec![DifferenceKind::MissingThere],
            (None, _) => vec![DifferenceKind::ExtraThere],
        };
        if what.is_empty() {
            self.same += u64::from(matches!(record, ArchiveRecord::Document(_)));
            return;
        }
        // All differences are counted, only the first ones are listed.
        self.different += 1;
        if self.differences.len() < MAX_DIFFERENCES {
            self.differences.push(TransferDifference { document: record.key().to_string(), what });
        }
    }
}

fn record_differences(here: &ArchiveRecord, there: &ArchiveRecord) -> Vec<DifferenceKind> {
    match (here, there) {
        (ArchiveRecord::Document(here), ArchiveRecord::Document(there)) => {
            let [a, b] = [&here.document, &there.document];
            let mut differences = Vec::new();
            if a.body != b.body || a.version != b.version {
                differences.push(DifferenceKind::OtherBytes);
            }
            if here.modified != there.modified {
                differences.push(DifferenceKind::OtherTime);
            }
            // A document that never was a file has a path only in files.
            if here.path.is_some() && here.path != there.path {
                differences.push(DifferenceKind::OtherPath);
            }
            if here.entry != there.entry {
                differences.push(DifferenceKind::OtherHistory);
            }
            differences
        }
        _ if here == there => Vec::new(),
        (ArchiveRecord::HighWaterMark(_), ArchiveRecord::HighWaterMark(_)) => {
            vec![DifferenceKind::OtherNumber]
        }
        _ => vec![DifferenceKind::Other],
    }
}

/// Reads an archive in batches and returns its records one by one.
struct RecordCursor {
    reader: Box<dyn RecordReader>,
    batch: std::vec::IntoIter<ArchiveRecord>,
    documents: u64,
    last: Option<RecordKey>,
    with_history: bool,
}

impl RecordCursor {
    async fn new(archive: &dyn Archive, with_history: bool) -> Result<Self> {
        let (reader, batch) = (archive.export().await?, Vec::new().into_iter());
        Ok(Self { reader, batch, documents: 0, last: None, with_history })
    }

    async fn next(&mut self) -> Result<Option<ArchiveRecord>> {
        loop {
            let mut record = self.next_record().await?;
            if !self.with_history {
                match &mut record {
                    Some(ArchiveRecord::History(_)) => continue,
                    Some(ArchiveRecord::Document(record)) => record.entry = PresentEntry::default(),
                    _ => {}
                }
            }
            return Ok(record);
        }
    }

    async fn next_record(&mut self) -> Result<Option<ArchiveRecord>> {
        if self.batch.as_slice().is_empty() {
            let next = self.reader.next_batch().await;
            let records = next.map_err(|error| error_after(error, self.last.as_ref()))?;
            if let Some(last) = records.last() {
                self.last = Some(last.key());
            }
            self.batch = records.into_iter();
        }
        let record = self.batch.next();
        self.documents += u64::from(matches!(record, Some(ArchiveRecord::Document(_))));
        Ok(record)
    }
}

fn error_after(error: StoreError, last: Option<&RecordKey>) -> Error {
    match last {
        Some(last) => error_at(error, &format!("after {last}")),
        None => error_at(error, "at the first document"),
    }
}

fn error_between(error: StoreError, first: &RecordKey, last: &RecordKey) -> Error {
    if first == last {
        return error_at(error, &format!("at {first}"));
    }
    error_at(error, &format!("between {first} and {last}"))
}

fn error_at(error: StoreError, subject: &str) -> Error {
    let mut error = Error::from(error);
    error.message = format!("{} ({subject})", error.message);
    error
}

#[cfg(test)]
mod tests;
