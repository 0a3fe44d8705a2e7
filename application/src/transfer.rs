//! Moves everything from one storage to another, and compares two of them.
//!
//! Memory stays the same however much there is: both sides are streamed, in the one order that all
//! storages keep. Trap: reading begins before filling, because a source that can't be read must
//! not leave a target that was begun; so [`copy`] takes a source, and no archive, to copy from.

use std::cmp::Ordering;
use std::fmt;

use reqlore_domain::document::DocumentId;
use reqlore_domain::error::{Error, Result};
use reqlore_domain::ports::archive::{Archive, Record, Sink, Source};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::project::ProjectKey;
use serde::Serialize;

/// How many differences are named.
pub const NAMED: usize = 20;

/// Is told how many documents are done, and how many there are where that is known.
pub type Progress<'a> = &'a dyn Fn(u64, Option<usize>);

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Copied {
    pub documents: u64,
    pub bytes: u64,
}

/// Fills `to`, which must be empty, with all that is in `source`. After an error `to` is incomplete
/// and says so when it is used.
pub async fn copy(
    source: Box<dyn Source>,
    to: &dyn Archive,
    progress: Progress<'_>,
) -> Result<Copied> {
    let sink = to.fill().await?;
    pump(source, sink, progress).await.map_err(|mut error| {
        error.message.push_str("; the copy is not complete, start again with an empty target");
        error
    })
}

async fn pump(
    mut source: Box<dyn Source>,
    mut sink: Box<dyn Sink>,
    progress: Progress<'_>,
) -> Result<Copied> {
    let total = source.total();
    let mut copied = Copied::default();
    let mut last = None;
    loop {
        let records = source.next().await.map_err(|error| after(error, last.as_deref()))?;
        let (Some(first), Some(end)) = (records.first().map(name), records.last().map(name)) else {
            break;
        };
        copied.documents += records.len() as u64;
        copied.bytes += records.iter().map(|record| record.document.body.len() as u64).sum::<u64>();
        sink.put(records).await.map_err(|error| within(error, &first, &end))?;
        progress(copied.documents, total);
        last = Some(end);
    }
    let behind = |error| after(error, last.as_deref());
    sink.mark(source.marks().await.map_err(behind)?).await.map_err(behind)?;
    sink.finish().await.map_err(behind)?;
    Ok(copied)
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Documents that are the same on both sides.
    pub same: u64,
    /// Documents that are not.
    pub different: u64,
    /// The first of these, [`NAMED`] at most.
    pub differences: Vec<Difference>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    pub document: String,
    pub what: Vec<What>,
}

/// How the second side differs from the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    MissingThere,
    ExtraThere,
    OtherBytes,
    OtherTime,
    OtherPlace,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.document)?;
        for (at, what) in self.what.iter().enumerate() {
            f.write_str(if at == 0 { "" } else { ", " })?;
            f.write_str(match what {
                What::MissingThere => "missing there",
                What::ExtraThere => "extra there",
                What::OtherBytes => "other bytes",
                What::OtherTime => "other time",
                What::OtherPlace => "other place",
            })?;
        }
        Ok(())
    }
}

/// Compares all that is in `a` with all that is in `b`.
pub async fn verify(a: &dyn Archive, b: &dyn Archive, progress: Progress<'_>) -> Result<Verified> {
    let (mut here, mut there) = (Cursor::new(a).await?, Cursor::new(b).await?);
    let mut verified = Verified::default();
    let (mut left, mut right) = (here.next().await?, there.next().await?);
    loop {
        let order = match (&left, &right) {
            (None, None) => return Ok(verified),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(left), Some(right)) => key(left).cmp(&key(right)),
        };
        let mut one = None;
        let mut other = None;
        if order.is_le() {
            one = std::mem::replace(&mut left, here.next().await?);
        }
        if order.is_ge() {
            other = std::mem::replace(&mut right, there.next().await?);
        }
        verified.add(one.as_ref(), other.as_ref());
        if one.is_some() {
            progress(here.given, here.source.total());
        }
    }
}

impl Verified {
    fn add(&mut self, here: Option<&Record>, there: Option<&Record>) {
        let (what, record) = match (here, there) {
            (Some(here), Some(there)) => (differences(here, there), here),
            (Some(here), None) => (vec![What::MissingThere], here),
            (None, Some(there)) => (vec![What::ExtraThere], there),
            (None, None) => return,
        };
        if what.is_empty() {
            self.same += 1;
            return;
        }
        self.different += 1;
        if self.differences.len() < NAMED {
            self.differences.push(Difference { document: name(record), what });
        }
    }
}

fn differences(here: &Record, there: &Record) -> Vec<What> {
    let [a, b] = [&here.document, &there.document];
    let bytes = a.body != b.body || a.version != b.version;
    let found = [
        (bytes, What::OtherBytes),
        (here.modified != there.modified, What::OtherTime),
        (here.place != there.place, What::OtherPlace),
    ];
    found.into_iter().filter(|(differs, _)| *differs).map(|(_, what)| what).collect()
}

/// A source, record by record.
struct Cursor {
    source: Box<dyn Source>,
    batch: std::vec::IntoIter<Record>,
    given: u64,
    last: Option<String>,
}

impl Cursor {
    async fn new(archive: &dyn Archive) -> Result<Self> {
        let (source, batch) = (archive.read().await?, Vec::new().into_iter());
        Ok(Self { source, batch, given: 0, last: None })
    }

    async fn next(&mut self) -> Result<Option<Record>> {
        if self.batch.as_slice().is_empty() {
            let next = self.source.next().await;
            let records = next.map_err(|error| after(error, self.last.as_deref()))?;
            self.last = records.last().map(name);
            self.batch = records.into_iter();
        }
        let record = self.batch.next();
        self.given += u64::from(record.is_some());
        Ok(record)
    }
}

fn key(record: &Record) -> (&ProjectKey, &DocumentId) {
    (&record.project, &record.document.id)
}

/// What people call it; projects other than the default one are named.
fn name(record: &Record) -> String {
    let Record { project, document, .. } = record;
    if project.is_default() {
        return document.id.to_string();
    }
    format!("{} in {project}", document.id)
}

fn after(error: StoreError, last: Option<&str>) -> Error {
    at(error, &last.map_or_else(|| "at the first document".to_owned(), |l| format!("after {l}")))
}

fn within(error: StoreError, first: &str, last: &str) -> Error {
    if first == last {
        return at(error, &format!("at {first}"));
    }
    at(error, &format!("between {first} and {last}"))
}

fn at(error: StoreError, place: &str) -> Error {
    let mut error = Error::from(error);
    error.message = format!("{} ({place})", error.message);
    error
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::Arc;

    use async_trait::async_trait;
    use bytes::Bytes;
    use reqlore_domain::document::Document;
    use reqlore_domain::ports::archive::Mark;
    use reqlore_domain::ports::documents::StoreResult;
    use reqlore_domain::time::Timestamp;
    use reqlore_storage_memory::MemoryStore;

    use super::*;

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
        assert_eq!(done, Copied { documents: 5, bytes: 5 });
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
    async fn many_differences_are_counted_and_the_first_named() {
        let (here, there) = (bounded(50, 50), MemoryStore::default());
        let verified = verify(&here, &there, SILENT).await.unwrap();
        assert_eq!((verified.different, verified.differences.len()), (50, NAMED));
    }
}
