//! Export of a whole store and import into an empty one.

use bytes::Bytes;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{Document, DocumentId, DocumentKind};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, DocumentRecord, RecordReader};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::ports::history::PresentEntry;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::Storage;

fn record(id: DocumentId, place: &str, body: &'static [u8], modified: i64) -> DocumentRecord {
    // NTFS stores times in units of 100 ns.
    let unit = if cfg!(windows) { 100 } else { 1 };
    let modified = modified.div_euclid(unit) * unit;
    DocumentRecord {
        project: ProjectKey::default(),
        document: Document::new(id, Bytes::from_static(body)),
        modified: Timestamp(modified),
        path: Some(place.into()),
        entry: PresentEntry::default(),
    }
}

/// Documents of each kind in order, with unusual bytes, times and places.
fn records() -> Vec<DocumentRecord> {
    vec![
        record(
            DocumentId::instructions(),
            "docs/dev/req/AGENTS.md",
            b"\xef\xbb\xbf# A\r\n\r\nno end",
            1_600_000_000_123_456_789,
        ),
        record(
            DocumentId::section("general"),
            "docs/dev/req/general.md",
            b"**1.** \xff not UTF-8\n",
            -1,
        ),
        record(DocumentId::section("zero"), "docs/dev/req/zero.md", b"", 0),
        record(DocumentId::docsets(), ".knowledge/config.yaml", b"docsets: {}\n", 1),
        record(DocumentId::schema(), ".reqlore/project.toml", b"[fields]\n", 1),
        record(DocumentId::template("epic"), ".reqlore/templates/epic.md", b"Why?\n", 1),
        record(
            DocumentId::entity("decisions/deep/dec-1d2c8f"),
            ".ixchel/decisions/deep/dec-1d2c8f.md",
            b"---\nid: dec-1d2c8f\n---\n",
            1_700_000_000_000_000_000,
        ),
        record(DocumentId::entity("n\u{f6}te"), ".ixchel/n\u{f6}te.md", b"\n\n", 2),
        record(
            requirement("REQ-048-3f9a1c"),
            ".reqlore/backlog/requirements/REQ-048-3f9a1c.md",
            b"---\ntitle: By hand\n---\n",
            1_500_000_000_000_000_000,
        ),
        record(
            DocumentId { kind: DocumentKind::Deleted, name: "EP-007".to_owned() },
            ".reqlore/backlog/deleted/EP-007.md",
            b"---\ntitle: Gone\ndeleted_at: 2026-01-01\n---\n",
            3,
        ),
    ]
}

fn requirement(name: &str) -> DocumentId {
    DocumentId { kind: DocumentKind::Item(ItemKind::Requirement), name: name.to_owned() }
}

async fn import_records(archive: &dyn Archive, records: Vec<DocumentRecord>) -> StoreResult<()> {
    let mut writer = archive.import().await?;
    for record in records {
        writer.write_batch(vec![ArchiveRecord::Document(record)]).await?;
    }
    writer.finish().await
}

/// Returns all records of an archive, in order.
pub async fn read_records(archive: &dyn Archive) -> StoreResult<Vec<ArchiveRecord>> {
    read_all(archive.export().await?).await
}

async fn read_all(mut reader: Box<dyn RecordReader>) -> StoreResult<Vec<ArchiveRecord>> {
    let mut all = Vec::new();
    loop {
        let records = reader.next_batch().await?;
        if records.is_empty() {
            let is_document =
                |record: &&ArchiveRecord| matches!(record, ArchiveRecord::Document(_));
            let count = all.iter().filter(is_document).count();
            assert_eq!(reader.total_documents(), Some(count));
            return Ok(all);
        }
        all.extend(records);
    }
}

/// Returns all documents of an archive, in order.
pub async fn read_documents(archive: &dyn Archive) -> StoreResult<Vec<DocumentRecord>> {
    Ok(documents_of(read_records(archive).await?))
}

fn documents_of(records: Vec<ArchiveRecord>) -> Vec<DocumentRecord> {
    let mut documents = Vec::new();
    for record in records {
        if let ArchiveRecord::Document(document) = record {
            documents.push(document);
        }
    }
    documents
}

pub async fn records_survive_a_round_trip(s: &Storage) {
    import_records(&*s.store, records()).await.unwrap();
    assert_eq!(read_documents(&*s.store).await.unwrap(), records());
    for record in records() {
        assert_eq!(s.read_body(&record.document.id).await, Some(record.document.body));
    }
    let words = ["dec-1d2c8f".to_owned()];
    let found = s.store.lookup(&s.project, DocumentKind::Entity, &words).await.unwrap();
    assert_eq!(found[0].len(), 1, "imported documents are found by reference");
    let words = ["REQ-048".to_owned()];
    let kind = DocumentKind::Item(ItemKind::Requirement);
    let found = s.store.lookup(&s.project, kind, &words).await.unwrap();
    let item = found[0][0].item.as_ref().unwrap();
    assert_eq!(item.created_at.seconds(), 1_500_000_000, "the file's time is imported");
}

pub async fn records_have_one_order(s: &Storage) {
    let [a, b] = ["a", "b"];
    let ids = [
        DocumentId::instructions(),
        DocumentId::section(a),
        DocumentId::section(b),
        DocumentId::docsets(),
        DocumentId::entity(a),
        DocumentId::entity("a/c"),
        DocumentId::entity(b),
        requirement("REQ-001"),
        requirement("REQ-002"),
        DocumentId { kind: DocumentKind::Deleted, name: "REQ-003".to_owned() },
    ];
    for index in [5, 9, 2, 6, 8, 0, 3, 7, 1, 4] {
        s.put(&ids[index], "x").await;
    }
    let records = read_documents(&*s.store).await.unwrap();
    let found: Vec<DocumentId> = records.into_iter().map(|record| record.document.id).collect();
    assert_eq!(found, ids);
}

pub async fn import_rejects_a_store_with_documents(s: &Storage) {
    let id = DocumentId::section("a");
    s.put(&id, "kept").await;
    s.assert_rejects_import().await;
    assert_eq!(s.read_body(&id).await, Some(Bytes::from_static(b"kept")));
}

pub async fn unfinished_import_is_incomplete(s: &Storage) {
    let mut writer = s.store.import().await.unwrap();
    writer.write_batch(records().into_iter().map(ArchiveRecord::Document).collect()).await.unwrap();
    drop(writer);
    let is_refused = |error: &StoreError| {
        matches!(error, StoreError::Refused { .. }) && error.to_string().contains("incomplete")
    };
    assert!(s.store.export().await.err().as_ref().is_some_and(is_refused));
    assert!(s.store.import().await.err().as_ref().is_some_and(is_refused));
    if let Some(reopen) = &s.reopen {
        assert!(reopen().await.err().as_ref().is_some_and(is_refused), "refused at the next start");
    }
}

pub async fn import_survives_restart(s: &Storage) {
    import_records(&*s.store, records()).await.unwrap();
    let Some(reopened) = s.reopen_store().await else { return };
    assert_eq!(read_documents(&*reopened).await.unwrap(), records());
}

pub async fn export_is_a_snapshot(s: &Storage) {
    s.put(&DocumentId::section("before"), "x").await;
    let reader = s.store.export().await.unwrap();
    let meanwhile = async {
        s.put(&DocumentId::section("after"), "x").await;
        s.put(&DocumentId::section("before"), "y").await;
    };
    let ((), copied) = futures_util::join!(meanwhile, read_all(reader));
    let copied = documents_of(copied.unwrap());
    let bodies: Vec<_> = copied.iter().map(|r| (&*r.document.id.name, &*r.document.body)).collect();
    assert_eq!(bodies, [("before", &b"x"[..])]);
}
