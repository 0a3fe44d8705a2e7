//! Moves everything from one storage to another, and compares two of them.
//!
//! Memory stays the same however much there is: both sides are streamed, in the one order that all
//! storages keep. Trap: reading begins before filling, because a source that can't be read must
//! not leave a target that was begun; so [`copy`] takes a source, and no archive, to copy from.

mod team;

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use reqlore_domain::backlog::ItemKind;
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
    /// Of the documents.
    pub bytes: u64,
    pub users: u64,
    pub tokens: u64,
    /// Of the audit.
    pub rows: u64,
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
    team::copy(&mut *source, &mut *sink, &mut copied).await?;
    sink.finish().await.map_err(|error| at(error, "at the end"))?;
    Ok(copied)
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Documents that are the same on both sides.
    pub same: u64,
    /// Documents that are not, kinds of items whose next numbers differ, users, tokens and rows of
    /// the audit.
    pub different: u64,
    /// The first of these, [`NAMED`] at most.
    pub differences: Vec<Difference>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// A document, the next number of a kind of items, a user, a token or a row of the audit.
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
    OtherNumber,
    /// Of a user, a token or a row.
    Other,
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
                What::OtherNumber | What::Other => "other",
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
            (None, None) => break,
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
    verified.numbers(&here.numbers().await?, &there.numbers().await?);
    team::compare(&mut *here.source, &mut *there.source, &mut verified).await?;
    Ok(verified)
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
        self.differ(name(record), what);
    }

    fn numbers(&mut self, here: &Numbers, there: &Numbers) {
        // A kind that never had a number is at the same point as one whose highest is 0.
        let mark = |marks: &Numbers, of: &_| marks.get(of).copied().unwrap_or_default();
        let both: BTreeMap<_, _> = here.iter().chain(there).collect();
        for of in both.into_keys().filter(|of| mark(here, of) != mark(there, of)) {
            self.differ(next_number(of), vec![What::OtherNumber]);
        }
    }

    fn differ(&mut self, document: String, what: Vec<What>) {
        self.different += 1;
        if self.differences.len() < NAMED {
            self.differences.push(Difference { document, what });
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

    /// The highest numbers, behind all records.
    async fn numbers(&mut self) -> Result<Numbers> {
        let marks = self.source.marks().await;
        let marks = marks.map_err(|error| after(error, self.last.as_deref()))?;
        Ok(marks.into_iter().map(|mark| ((mark.project, mark.kind), mark.number)).collect())
    }
}

/// The highest number of each project's items of each kind.
type Numbers = BTreeMap<(ProjectKey, ItemKind), u32>;

fn key(record: &Record) -> (&ProjectKey, &DocumentId) {
    (&record.project, &record.document.id)
}

/// What people call it; projects other than the default one are named.
fn name(record: &Record) -> String {
    let Record { project, document, .. } = record;
    in_project(document.id.to_string(), project)
}

fn next_number((project, kind): &(ProjectKey, ItemKind)) -> String {
    in_project(format!("next number of {}", kind.name()), project)
}

fn in_project(what: String, project: &ProjectKey) -> String {
    if project.is_default() { what } else { format!("{what} in {project}") }
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
mod tests;
