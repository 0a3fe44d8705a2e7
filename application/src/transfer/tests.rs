//! Tests of copying and comparing, also with storages that fail.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_domain::audit_log::{AuditEvent, AuditRow, ChainHead};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId};
use reqlore_domain::identity::{Access, Token, User, UserRole};
use reqlore_domain::ports::archive::{DocumentRecord, HighWaterMark, IdentityRecords};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::ports::service::NoProgress;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_storage_memory::{RowStore, memory_store};

use super::*;
use crate::test_support::team::TestTeam;

const SILENT: &NoProgress = &NoProgress;

fn record(name: &str, body: &'static str) -> DocumentRecord {
    DocumentRecord {
        project: ProjectKey::default(),
        document: Document::new(DocumentId::section(name), Bytes::from(body)),
        modified: Timestamp(1),
        path: Some(format!("docs/{name}.md").into()),
        entry: PresentEntry::default(),
    }
}

async fn store(records: impl IntoIterator<Item = ArchiveRecord>) -> RowStore {
    let store = memory_store();
    let mut writer = store.import().await.unwrap();
    writer.write_batch(records.into_iter().collect()).await.unwrap();
    writer.finish().await.unwrap();
    store
}

/// An archive with batches of two records that fails after a number of records.
struct FailingArchive {
    records: Vec<ArchiveRecord>,
    fails_after: usize,
    target: Arc<RowStore>,
}

fn failing_archive(count: usize, fails_after: usize) -> FailingArchive {
    let records = (0..count)
        .map(|number| ArchiveRecord::Document(record(&format!("s{number}"), "x")))
        .collect();
    FailingArchive { records, fails_after, target: Arc::new(memory_store()) }
}

fn disk_full() -> StoreError {
    let (subject, reason) = ("disk".to_owned(), "no space".to_owned());
    StoreError::Unavailable { subject, reason, source: None }
}

#[async_trait]
impl Archive for FailingArchive {
    async fn export(&self) -> StoreResult<Box<dyn RecordReader>> {
        let records = self.records.clone().into_iter();
        Ok(Box::new(FailingReader { records, left: self.fails_after }))
    }

    async fn import(&self) -> StoreResult<Box<dyn RecordWriter>> {
        Ok(Box::new(FailingWriter { writer: self.target.import().await?, left: self.fails_after }))
    }

    fn keeps_history(&self) -> bool {
        self.target.keeps_history()
    }
}

struct FailingReader {
    records: std::vec::IntoIter<ArchiveRecord>,
    left: usize,
}

#[async_trait]
impl RecordReader for FailingReader {
    fn total_documents(&self) -> Option<usize> {
        None
    }

    async fn next_batch(&mut self) -> StoreResult<Vec<ArchiveRecord>> {
        let records: Vec<ArchiveRecord> = self.records.by_ref().take(2).collect();
        self.left = self.left.checked_sub(records.len()).ok_or_else(disk_full)?;
        Ok(records)
    }
}

struct FailingWriter {
    writer: Box<dyn RecordWriter>,
    left: usize,
}

#[async_trait]
impl RecordWriter for FailingWriter {
    async fn write_batch(&mut self, records: Vec<ArchiveRecord>) -> StoreResult<()> {
        self.left = self.left.checked_sub(records.len()).ok_or_else(disk_full)?;
        self.writer.write_batch(records).await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.writer.finish().await
    }
}

#[derive(Debug, Default)]
struct ProgressLog(Mutex<Vec<String>>);

impl ProgressLog {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl ProgressSink for ProgressLog {
    fn is_cancelled(&self) -> bool {
        false
    }

    fn progress(&self, done: usize, total: usize, message: &str) {
        self.0.lock().unwrap().push(format!("{message} {done}/{total}"));
    }
}

async fn run_copy(
    from: &dyn Archive,
    to: &dyn Archive,
    progress: &dyn ProgressSink,
) -> Result<CopyReport> {
    copy_archive(from.export().await?, to, progress).await
}

#[tokio::test]
async fn copy_reports_counts_and_verifies_as_equal() {
    let (from, to) = (failing_archive(5, 5), memory_store());
    let progress = ProgressLog::default();
    let done = run_copy(&from, &to, &progress).await.unwrap();
    assert_eq!(done, CopyReport { documents: 5, bytes: 5, ..CopyReport::default() });
    assert_eq!(progress.take(), ["Copying 2/0", "Copying 4/0", "Copying 5/0"]);
    let verified = verify_archives(&from, &to, &progress).await.unwrap();
    assert_eq!(verified, VerifyReport { same: 5, ..VerifyReport::default() });
    assert_eq!(progress.take().last().unwrap(), "Comparing 5/0");
}

#[tokio::test]
async fn copy_failure_names_document_and_marks_target() {
    let to = failing_archive(0, 3);
    let error = run_copy(&failing_archive(6, 6), &to, SILENT).await.unwrap_err();
    let expected = "disk: no space (between section s2 and section s3); the copy is incomplete";
    assert!(error.message.starts_with(expected), "{error}");
    let incomplete = to.target.export().await.err().unwrap();
    assert!(incomplete.to_string().contains("incomplete"), "{incomplete}");

    let to = memory_store();
    let error = run_copy(&failing_archive(6, 3), &to, SILENT).await.unwrap_err();
    assert!(error.message.starts_with("disk: no space (after section s1);"), "{error}");
    assert!(to.export().await.is_err());
    let error = run_copy(&failing_archive(6, 1), &memory_store(), SILENT).await.unwrap_err();
    assert!(error.message.starts_with("disk: no space (at the first document);"), "{error}");
}

#[tokio::test]
async fn verify_names_each_kind_of_difference() {
    let mut other = [record("b", "b"), record("c", "c"), record("d", "other")];
    other[0].modified = Timestamp(2);
    other[1].path = None;
    other[2].modified = Timestamp(2);
    let mut elsewhere = record("z", "");
    elsewhere.project = ProjectKey::new("/other");
    let here = ["a", "b", "c", "d", "same"].map(|name| record(name, "b"));
    let there = [&other[..], &[record("extra", ""), record("same", "b"), elsewhere]].concat();
    let (here, there) =
        (here.map(ArchiveRecord::Document), there.into_iter().map(ArchiveRecord::Document));
    let (here, there) = (store(here).await, store(there).await);
    let verified = verify_archives(&here, &there, SILENT).await.unwrap();
    let differences: Vec<String> = verified.differences.iter().map(ToString::to_string).collect();
    assert_eq!(
        differences,
        [
            "section z in /other: only in the copy",
            "section a: missing in the copy",
            "section b: different time",
            "section c: different content, different path",
            "section d: different content, different time",
            "section extra: only in the copy",
        ]
    );
    assert_eq!((verified.same, verified.different), (1, 6));
}

#[tokio::test]
async fn verify_reports_different_high_water_marks() {
    let mark = |project, number| {
        let (project, kind) = (ProjectKey::new(project), ItemKind::Requirement);
        ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number })
    };
    let here = store([mark("default", 7), mark("a", 1), mark("same", 2)]).await;
    let there = store([mark("default", 8), mark("none", 0), mark("same", 2)]).await;
    let verified = verify_archives(&here, &there, SILENT).await.unwrap();
    let differences: Vec<String> = verified.differences.iter().map(ToString::to_string).collect();
    let named =
        ["next number of requirement in a: different", "next number of requirement: different"];
    assert_eq!((differences, verified.different), (named.map(str::to_owned).to_vec(), 2));
    let to = memory_store();
    run_copy(&here, &to, SILENT).await.unwrap();
    assert_eq!(verify_archives(&here, &to, SILENT).await.unwrap(), VerifyReport::default());
}

#[tokio::test]
async fn verify_counts_all_differences_and_lists_the_first() {
    let (here, there) = (failing_archive(50, 50), memory_store());
    let verified = verify_archives(&here, &there, SILENT).await.unwrap();
    assert_eq!((verified.different, verified.differences.len()), (50, MAX_DIFFERENCES));
}

/// A chain of sealed rows; the user name distinguishes chains.
fn rows(count: usize, user: &str) -> Vec<AuditRow> {
    let mut head = ChainHead::default();
    let row = |_| {
        let entry =
            AuditEvent { user: user.to_owned(), ..AuditEvent::unconfirmed(1, Timestamp(1)) };
        let row = AuditRow::seal_after(head, entry);
        head = row.head();
        row
    };
    (0..count).map(row).collect()
}

async fn with(identities: IdentityRecords, rows: Vec<AuditRow>) -> RowStore {
    let rows = rows.into_iter().map(ArchiveRecord::AuditRow);
    store(identities.into_records().chain(rows)).await
}

#[tokio::test]
async fn verify_reports_users_tokens_and_audit_rows() {
    let team = TestTeam::new();
    let user = |name| team.user(name, UserRole::User);
    let token = |letter| team.token(letter, "ada", Access::Write);
    let (users, tokens) = (["ada", "bob", "Cay"].map(user).to_vec(), vec![token('a'), token('b')]);
    let here = with(IdentityRecords { users, tokens }, rows(3, "ada")).await;
    let disabled = User { disabled_at: Some(Timestamp(3)), ..user("bob") };
    let users = vec![user("bert"), disabled, user("Cay")];
    let tokens = vec![Token { revoked_at: Some(Timestamp(3)), ..token('b') }];
    let chain = vec![rows(1, "ada").remove(0), rows(2, "eve").remove(1)];
    let there = with(IdentityRecords { users, tokens }, chain).await;
    let differences = async |a: &RowStore, b: &RowStore| {
        let verified = verify_archives(a, b, SILENT).await.unwrap();
        assert_eq!(verified.different, verified.differences.len() as u64);
        verified.differences.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    let expected = [
        "user ada: missing in the copy",
        "user bert: only in the copy",
        "user bob: different",
        "token aaaaaaaaaaaa: missing in the copy",
        "token bbbbbbbbbbbb: different",
        "row 2 of the audit: different",
        "row 3 of the audit: missing in the copy",
    ];
    assert_eq!(differences(&here, &there).await, expected);
    assert!(
        differences(&there, &here)
            .await
            .contains(&"row 3 of the audit: only in the copy".to_owned())
    );
}
