//! Copies and comparisons, also of storages that fail in the middle.

use std::cell::RefCell;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use reqlore_domain::audit::{AuditEvent, AuditRow, ChainHead};
use reqlore_domain::document::Document;
use reqlore_domain::ports::archive::{Identities, Mark};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::time::Timestamp;
use reqlore_storage_memory::MemoryStore;

use super::*;

mod team;

const SILENT: Progress<'static> = &|_, _| {};

fn record(name: &str, body: &'static str) -> Record {
    Record {
        project: ProjectKey::default(),
        document: Document::new(DocumentId::section(name), Bytes::from(body)),
        modified: Timestamp(1),
        place: Some(format!("docs/{name}.md").into()),
    }
}

async fn store(records: Vec<Record>) -> MemoryStore {
    let store = MemoryStore::default();
    let mut sink = store.fill().await.unwrap();
    sink.put(records).await.unwrap();
    sink.finish().await.unwrap();
    store
}

/// Gives its records in batches of two, or takes so many and fails.
struct Bounded {
    records: Vec<Record>,
    fails_after: usize,
    target: Arc<MemoryStore>,
}

fn bounded(count: usize, fails_after: usize) -> Bounded {
    let records = (0..count).map(|number| record(&format!("s{number}"), "x")).collect();
    Bounded { records, fails_after, target: Arc::default() }
}

fn full() -> StoreError {
    let (place, reason) = ("disk".to_owned(), "no space".to_owned());
    StoreError::Unavailable { place, reason, source: None }
}

#[async_trait]
impl Archive for Bounded {
    async fn read(&self) -> StoreResult<Box<dyn Source>> {
        let records = self.records.clone().into_iter();
        Ok(Box::new(Giving { records, left: self.fails_after }))
    }

    async fn fill(&self) -> StoreResult<Box<dyn Sink>> {
        Ok(Box::new(Taking { sink: self.target.fill().await?, left: self.fails_after }))
    }
}

struct Giving {
    records: std::vec::IntoIter<Record>,
    left: usize,
}

#[async_trait]
impl Source for Giving {
    fn total(&self) -> Option<usize> {
        None
    }

    async fn next(&mut self) -> StoreResult<Vec<Record>> {
        let records: Vec<Record> = self.records.by_ref().take(2).collect();
        self.left = self.left.checked_sub(records.len()).ok_or_else(full)?;
        Ok(records)
    }

    async fn marks(&mut self) -> StoreResult<Vec<Mark>> {
        Ok(Vec::new())
    }

    async fn identities(&mut self) -> StoreResult<Identities> {
        Ok(Identities::default())
    }

    async fn audit(&mut self) -> StoreResult<Vec<AuditRow>> {
        Ok(Vec::new())
    }
}

struct Taking {
    sink: Box<dyn Sink>,
    left: usize,
}

#[async_trait]
impl Sink for Taking {
    async fn put(&mut self, records: Vec<Record>) -> StoreResult<()> {
        self.left = self.left.checked_sub(records.len()).ok_or_else(full)?;
        self.sink.put(records).await
    }

    async fn mark(&mut self, marks: Vec<Mark>) -> StoreResult<()> {
        self.sink.mark(marks).await
    }

    async fn identities(&mut self, identities: Identities) -> StoreResult<()> {
        self.sink.identities(identities).await
    }

    async fn audit(&mut self, rows: Vec<AuditRow>) -> StoreResult<()> {
        self.sink.audit(rows).await
    }

    async fn finish(self: Box<Self>) -> StoreResult<()> {
        self.sink.finish().await
    }
}

async fn copied(from: &dyn Archive, to: &dyn Archive, tell: Progress<'_>) -> Result<Copied> {
    copy(from.read().await?, to, tell).await
}

#[tokio::test]
async fn a_copy_is_the_same_and_is_counted() {
    let (from, to) = (bounded(5, 5), MemoryStore::default());
    let told = RefCell::new(Vec::new());
    let tell = |done, total| told.borrow_mut().push((done, total));
    let done = copied(&from, &to, &tell).await.unwrap();
    assert_eq!(done, Copied { documents: 5, bytes: 5, ..Copied::default() });
    assert_eq!(told.take(), [(2, None), (4, None), (5, None)]);
    let verified = verify(&from, &to, &tell).await.unwrap();
    assert_eq!(verified, Verified { same: 5, ..Verified::default() });
    assert_eq!(told.take().last(), Some(&(5, None)));
    let again = copied(&from, &to, SILENT).await.unwrap_err();
    assert!(again.message.contains("is not empty"), "{again}");
}

#[tokio::test]
async fn nothing_is_copied_too() {
    let (from, to) = (MemoryStore::default(), MemoryStore::default());
    assert_eq!(copied(&from, &to, SILENT).await.unwrap(), Copied::default());
    assert_eq!(verify(&from, &to, SILENT).await.unwrap(), Verified::default());
}

#[tokio::test]
async fn a_failure_names_the_document_and_leaves_the_target_incomplete() {
    let to = bounded(0, 3);
    let error = copied(&bounded(6, 6), &to, SILENT).await.unwrap_err();
    let told = "disk: no space (between section s2 and section s3); the copy is not complete";
    assert!(error.message.starts_with(told), "{error}");
    let incomplete = to.target.read().await.err().unwrap();
    assert!(incomplete.to_string().contains("incomplete"), "{incomplete}");

    let to = MemoryStore::default();
    let error = copied(&bounded(6, 3), &to, SILENT).await.unwrap_err();
    assert!(error.message.starts_with("disk: no space (after section s1);"), "{error}");
    assert!(to.read().await.is_err());
    let error = copied(&bounded(6, 1), &MemoryStore::default(), SILENT).await.unwrap_err();
    assert!(error.message.starts_with("disk: no space (at the first document);"), "{error}");
}

#[tokio::test]
async fn every_kind_of_difference_is_named() {
    let mut other = [record("b", "b"), record("c", "c"), record("d", "other")];
    other[0].modified = Timestamp(2);
    other[1].place = None;
    other[2].modified = Timestamp(2);
    let mut elsewhere = record("z", "");
    elsewhere.project = ProjectKey::new("/other");
    let here = ["a", "b", "c", "d", "same"].map(|name| record(name, "b"));
    let there = [&other[..], &[record("extra", ""), record("same", "b"), elsewhere]].concat();
    let (here, there) = (store(here.to_vec()).await, store(there).await);
    let verified = verify(&here, &there, SILENT).await.unwrap();
    let told: Vec<String> = verified.differences.iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "section z in /other: extra there",
            "section a: missing there",
            "section b: other time",
            "section c: other bytes, other place",
            "section d: other bytes, other time",
            "section extra: extra there",
        ]
    );
    assert_eq!((verified.same, verified.different), (1, 6));
}

#[tokio::test]
async fn other_numbers_are_differences() {
    let mark = |project, number| Mark {
        project: ProjectKey::new(project),
        kind: ItemKind::Requirement,
        number,
    };
    let marked = async |marks| {
        let store = MemoryStore::default();
        let mut sink = store.fill().await.unwrap();
        sink.mark(marks).await.unwrap();
        sink.finish().await.unwrap();
        store
    };
    let here = marked(vec![mark("default", 7), mark("a", 1), mark("same", 2)]).await;
    let there = marked(vec![mark("default", 8), mark("none", 0), mark("same", 2)]).await;
    let verified = verify(&here, &there, SILENT).await.unwrap();
    let told: Vec<String> = verified.differences.iter().map(ToString::to_string).collect();
    let named = ["next number of requirement in a: other", "next number of requirement: other"];
    assert_eq!((told, verified.different), (named.map(str::to_owned).to_vec(), 2));
    let to = MemoryStore::default();
    copied(&here, &to, SILENT).await.unwrap();
    assert_eq!(verify(&here, &to, SILENT).await.unwrap(), Verified::default());
}

#[tokio::test]
async fn many_differences_are_counted_and_the_first_named() {
    let (here, there) = (bounded(50, 50), MemoryStore::default());
    let verified = verify(&here, &there, SILENT).await.unwrap();
    assert_eq!((verified.different, verified.differences.len()), (50, NAMED));
}
