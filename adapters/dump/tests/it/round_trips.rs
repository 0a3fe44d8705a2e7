//! Every document comes back as it was; a file appears whole or not at all.

use std::os::unix::fs::PermissionsExt;

use bytes::Bytes;
use proptest::prelude::*;
use reqlore_application::transfer::{copy, verify};
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, MAX_BYTES, Version};
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, HighWaterMark};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::project::ProjectKey;
use reqlore_domain::time::Timestamp;
use reqlore_storage_memory::MemoryStore;
use reqlore_storage_sled::SledStore;
use reqlore_storage_sqlite::SqliteStore;
use serde_json::Value;

use crate::support::{Place, all, document, dumped, fill, marks, read, record, records};

#[tokio::test]
async fn records_come_back_as_they_were_put() {
    let place = dumped().await;
    assert_eq!(read(&place.dump()).await.unwrap(), all());
}

#[tokio::test]
async fn wrong_marks_are_refused() {
    let mark = |project, kind, number| {
        let project = ProjectKey::new(project);
        ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number })
    };
    let epic = |number| mark("default", ItemKind::Epic, number);
    let wrong = [
        vec![epic(1_000_000_001)],
        vec![epic(1), epic(2)],
        vec![marks()[2].clone(), epic(1)],
        vec![mark("/root", ItemKind::Epic, 1)],
    ];
    for wrong in wrong {
        let place = Place::new();
        let error = fill(&place.dump(), wrong).await.err().unwrap();
        assert!(matches!(error, StoreError::Internal(_)), "{error}");
        assert_eq!(place.files().len(), 0);
    }
}

/// Through every storage and back.
#[tokio::test]
async fn all_storages_keep_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let first = MemoryStore::default();
    fill(&first, all()).await.unwrap();
    let file = folder.path().join("all.db");
    let sqlite = SqliteStore::open(&reqlore_storage_sqlite::Config { file }).unwrap();
    let sled = reqlore_storage_sled::Config { folder: folder.path().join("sled") };
    let sled = SledStore::open(&sled).unwrap();
    let (place, last) = (Place::new(), MemoryStore::default());
    let dump = place.dump();
    let archives: [&dyn Archive; 5] = [&first, &sqlite, &sled, &dump, &last];
    for pair in archives.windows(2) {
        copy(pair[0].read().await.unwrap(), pair[1], &|_, _| {}).await.unwrap();
        let verified = verify(&first, pair[1], &|_, _| {}).await.unwrap();
        assert_eq!((verified.same, verified.different), (11, 0), "{:?}", verified.differences);
    }
    let mut kept = all();
    // The tombstone has a higher number than any mark of its kind.
    let (project, kind) = (ProjectKey::default(), ItemKind::Requirement);
    let mark = ArchiveRecord::HighWaterMark(HighWaterMark { project, kind, number: 48 });
    kept.insert(records().len() + 2, mark);
    assert_eq!(read(&last).await.unwrap(), kept);
}

#[tokio::test]
async fn nothing_is_a_dump_too() {
    let place = Place::new();
    fill(&place.dump(), Vec::new()).await.unwrap();
    assert_eq!(place.bytes().split(|byte| *byte == b'\n').count(), 3);
    assert!(read(&place.dump()).await.unwrap().is_empty());
}

#[tokio::test]
async fn the_largest_documents_come_back() {
    let records: Vec<_> = [(0, "a"), (0xff, "b")]
        .into_iter()
        .map(|(byte, name)| record(DocumentId::section(name), vec![byte; MAX_BYTES], 0))
        .collect();
    let place = Place::new();
    fill(&place.dump(), records.clone()).await.unwrap();
    let mut source = place.dump().read().await.unwrap();
    for record in records {
        assert_eq!(source.next().await.unwrap(), [record], "one large document at a time");
    }
    assert!(source.next().await.unwrap().is_empty());
    assert!(source.next().await.unwrap().is_empty(), "the end stays the end");
}

#[tokio::test]
async fn many_records_come_in_batches() {
    let body = Bytes::from("x".repeat(1000));
    let names = (0..10_000).map(|number| DocumentId::section(format!("{number:05}")));
    let records: Vec<_> = names.map(|id| record(id, body.clone(), 0)).collect();
    let place = Place::new();
    fill(&place.dump(), records.clone()).await.unwrap();
    let mut source = place.dump().read().await.unwrap();
    assert!(source.next().await.unwrap().len() < 3000);
    assert_eq!(read(&place.dump()).await.unwrap(), records);
}

#[tokio::test]
async fn other_programs_can_read_it() {
    let place = dumped().await;
    let bytes = place.bytes();
    let lines: Vec<Value> = bytes
        .split_inclusive(|byte| *byte == b'\n')
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(lines[0]["format"], "reqlore-dump");
    assert_eq!(lines[2]["modified"], "2020-09-13T12:26:40.123456789Z");
    assert_eq!(lines[2]["text"], "\u{feff}# A\r\n\r\nno end");
    let mode = std::fs::metadata(&place.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it is for its owner alone");
    let end = &lines[lines.len() - 1];
    assert_eq!(end["records"], records().len());
    let before = bytes.len() - 1 - end.to_string().len();
    let digits = end["sha256"].as_str().unwrap();
    assert_eq!(digits.len(), 64);
    assert!(digits.starts_with(&Version::of(&bytes[..before]).to_string()));
}

#[tokio::test]
async fn a_file_that_is_there_is_not_replaced() {
    let place = Place::new();
    std::fs::write(&place.path, "precious").unwrap();
    let refused = place.dump().fill().await.err().unwrap();
    assert!(refused.to_string().ends_with("name another file or remove it"), "{refused}");
    std::fs::remove_file(&place.path).unwrap();
    std::os::unix::fs::symlink("nowhere", &place.path).unwrap();
    assert!(place.dump().fill().await.is_err(), "nor is a link to nowhere");
    std::fs::remove_file(&place.path).unwrap();

    let sink = place.dump().fill().await.unwrap();
    std::fs::write(&place.path, "came meanwhile").unwrap();
    let refused = sink.finish().await.err().unwrap();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
    assert_eq!((place.bytes(), place.files().len()), (b"came meanwhile".to_vec(), 1));
}

#[tokio::test]
async fn what_was_not_finished_leaves_nothing() {
    let place = Place::new();
    let mut sink = place.dump().fill().await.unwrap();
    sink.put(records()).await.unwrap();
    assert!(std::fs::symlink_metadata(&place.path).is_err(), "not before it is whole");
    assert_eq!(place.files().len(), 1);
    drop(sink);
    assert_eq!(place.files().len(), 0);
    let missing = place.dump().read().await.err().unwrap();
    assert!(matches!(missing, StoreError::Unavailable { .. }), "{missing}");
    let nowhere = reqlore_dump::Dump::new(place.folder.path().join("no/all.jsonl"));
    assert!(matches!(nowhere.fill().await.err().unwrap(), StoreError::Unavailable { .. }));
    let folder = reqlore_dump::Dump::new(place.folder.path());
    assert!(matches!(folder.read().await.err().unwrap(), StoreError::Refused { .. }));
}

#[tokio::test]
async fn what_a_killed_writer_left_is_removed_by_the_next_one() {
    let place = Place::new();
    let file = |name: &str| place.folder.path().join(name);
    let others = [".reqlore-0123456789abcdef.tmp", ".reqlore-backup-x", "x.tmp"];
    for name in [".reqlore-backup-dead.tmp", others[0], others[1], others[2]] {
        std::fs::write(file(name), "half").unwrap();
    }
    std::os::unix::fs::symlink("x.tmp", file(".reqlore-backup-link.tmp")).unwrap();
    let living = reqlore_dump::Dump::new(file("living.jsonl")).fill().await.unwrap();
    let left = place.files().len();
    assert_eq!(left, others.len() + 2, "the living one and the link are there, the dead one not");
    fill(&place.dump(), records()).await.unwrap();
    living.finish().await.unwrap();
    for name in others.iter().chain(&["living.jsonl", ".reqlore-backup-link.tmp"]) {
        assert!(std::fs::symlink_metadata(file(name)).is_ok(), "{name}");
    }
    assert_eq!(place.files().len(), others.len() + 3);
}

#[tokio::test]
async fn what_could_not_be_read_is_not_written() {
    let place = Place::new();
    let mut changed = document(DocumentId::section("a"), "x", 0);
    changed.document.body = Bytes::from_static(b"y");
    let large = record(DocumentId::section("a"), vec![b'x'; MAX_BYTES + 1], 0);
    let twice = vec![records()[0].clone(), records()[0].clone()];
    let mut swapped = records();
    swapped.swap(3, 4);
    let outside = record(DocumentId::entity("../../evil"), "", 0);
    for records in
        [vec![ArchiveRecord::Document(changed)], vec![large], twice, swapped, vec![outside]]
    {
        let fault = fill(&place.dump(), records).await.err().unwrap();
        assert!(matches!(fault, StoreError::Internal(_)), "{fault}");
        assert_eq!(place.files().len(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_name_place_and_time_come_back(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        name in "[^\\p{Cc}./][^\\p{Cc}/]{0,40}(/[^\\p{Cc}./][^\\p{Cc}/]{0,40}){0,5}",
        place in proptest::option::of("[^/\\x00.][^\\x00.]{0,80}"),
        modified in any::<i64>(),
    ) {
        let mut put = document(DocumentId::entity(name), body, 0);
        put.modified = Timestamp(modified);
        put.place = place.map(Into::into);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let put = ArchiveRecord::Document(put);
            let place = Place::new();
            fill(&place.dump(), vec![put.clone()]).await.unwrap();
            assert_eq!(read(&place.dump()).await.unwrap(), [put]);
        });
    }
}

/// Its end told the number of records alone.
#[tokio::test]
async fn a_dump_from_before_there_were_users_is_read() {
    let place = Place::new();
    let old = [records(), marks()].concat();
    fill(&place.dump(), old.clone()).await.unwrap();
    let text = String::from_utf8(place.bytes()).unwrap();
    let end = text.replacen(",\"users\":0,\"tokens\":0,\"audit\":0,", ",", 1);
    assert!(end.lines().last().unwrap().starts_with("{\"records\":11,\"sha256\":"), "{end}");
    std::fs::write(&place.path, end).unwrap();
    assert_eq!(read(&place.dump()).await.unwrap(), old);
}
