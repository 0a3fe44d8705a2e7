//! Records that are easily lost, and dumps in a folder of their own.

use std::path::PathBuf;

use bytes::Bytes;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, Kind};
use reqlore_domain::ports::archive::{Archive, Mark, Record};
use reqlore_domain::ports::documents::StoreResult;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use reqlore_dump::Dump;
use tempfile::TempDir;

/// A folder with room for a dump.
pub(crate) struct Place {
    pub(crate) folder: TempDir,
    pub(crate) path: PathBuf,
}

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { path: folder.path().join("all.jsonl"), folder }
    }

    pub(crate) fn dump(&self) -> Dump {
        Dump::new(&self.path)
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.path).unwrap()
    }

    pub(crate) fn files(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.path()).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

pub(crate) fn record(id: DocumentId, body: impl Into<Bytes>, modified: i64) -> Record {
    let place = Some(format!("docs/{}.md", id.name).into());
    let document = Document::new(id, body.into());
    Record { project: ProjectKey::default(), document, modified: Timestamp(modified), place }
}

/// In order; bytes, times and places of every sort.
pub(crate) fn records() -> Vec<Record> {
    let section = DocumentId::section;
    let mut records = vec![
        record(DocumentId::instructions(), "\u{feff}# A\r\n\r\nno end", 1_600_000_000_123_456_789),
        record(section("empty"), "", 0),
        record(section("latin"), b"**1.** \xff\xfe is no text\n".as_slice(), -1),
        record(section("null"), b"\0\x01\x1f\x7f \\ \" \t\n\r".as_slice(), i64::MIN),
        record(section("\u{20ac} \u{1f600} e\u{301}"), "\u{2028}\u{85}\u{fffd}\n", i64::MAX),
        record(DocumentId::docsets(), "docsets: {}\n", -1_000_000_000),
        record(DocumentId::entity("decisions/deep/dec-1d2c8f"), "---\nid: x\n---\n", 1),
        record(DocumentId::entity("n\u{f6}te"), "\n\n", 10),
        record(item(Kind::Item(ItemKind::Epic), "EP-001"), "---\ntitle: E\n---\n", 11),
        record(item(Kind::Deleted, "REQ-048-3f9a1c"), "---\ntitle: R\n---\n", 12),
    ];
    records[1].place = None;
    records[2].place = Some("".into());
    let mut other = record(section("a"), "in another project", 7);
    other.project = ProjectKey::new("an-Other_1");
    records.insert(0, other);
    records
}

fn item(kind: Kind, name: &str) -> DocumentId {
    DocumentId { kind, name: name.to_owned() }
}

/// In order; one of a project that has nothing else, and the highest number.
pub(crate) fn marks() -> Vec<Mark> {
    let mark = |project, kind, number| Mark { project: ProjectKey::new(project), kind, number };
    vec![
        mark("Empty", ItemKind::UserStory, 0),
        mark("default", ItemKind::Epic, 7),
        mark("default", ItemKind::AcceptanceCriteria, 1_000_000_000),
    ]
}

pub(crate) async fn fill(archive: &dyn Archive, records: Vec<Record>) -> StoreResult<()> {
    let mut sink = archive.fill().await?;
    for record in records {
        sink.put(vec![record]).await?;
    }
    sink.finish().await
}

pub(crate) async fn read(archive: &dyn Archive) -> StoreResult<Vec<Record>> {
    let mut source = archive.read().await?;
    let mut all = Vec::new();
    loop {
        let records = source.next().await?;
        if records.is_empty() {
            assert_eq!(source.total(), Some(all.len()));
            return Ok(all);
        }
        all.extend(records);
    }
}

pub(crate) async fn read_marks(archive: &dyn Archive) -> StoreResult<Vec<Mark>> {
    let mut source = archive.read().await?;
    while !source.next().await?.is_empty() {}
    source.marks().await
}

/// A dump of [`records`] and [`marks`].
pub(crate) async fn dumped() -> Place {
    let place = Place::new();
    let mut sink = place.dump().fill().await.unwrap();
    sink.put(records()).await.unwrap();
    sink.mark(marks()).await.unwrap();
    sink.finish().await.unwrap();
    place
}
