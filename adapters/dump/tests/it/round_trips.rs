//! Round trips of records, and files that are created whole or not at all.

use std::os::unix::fs::{PermissionsExt, symlink};

use bytes::Bytes;
use proptest::prelude::*;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::document::{DocumentId, MAX_DOCUMENT_BYTES, Version};
use reqlore_domain::identity::PresentedToken;
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;
use reqlore_dump::DumpFile;
use serde_json::Value;

use crate::support::{
    DumpFolder, SECRET, all_records, all_records_with, document, example_dump, identities, mark,
    marks, read_records, record, records, rows, token, user, write_records,
};

#[tokio::test]
async fn records_survive_a_round_trip() {
    let mut broken_chain = rows(5);
    broken_chain.remove(2);
    let ArchiveRecord::AuditRow(first) = &mut broken_chain[0] else { unreachable!() };
    first.text = "{}".into();
    // `audit verify` must report the same problems in a restored storage.
    for records in [all_records(), all_records_with(broken_chain), Vec::new()] {
        let place = DumpFolder::new();
        write_records(&place.dump(), records.clone()).await.unwrap();
        assert_eq!(read_records(&place.dump()).await.unwrap(), records);
    }
}

/// The end line of an old dump counts only documents.
#[tokio::test]
async fn dump_without_user_counts_is_read() {
    let place = DumpFolder::new();
    let old = [records(), marks()].concat();
    write_records(&place.dump(), old.clone()).await.unwrap();
    let text = String::from_utf8(place.bytes()).unwrap();
    let text = text.replacen(",\"users\":0,\"tokens\":0,\"audit\":0,\"history\":0,", ",", 1);
    assert!(text.lines().last().unwrap().starts_with("{\"records\":11,\"sha256\":"), "{text}");
    std::fs::write(&place.path, text).unwrap();
    assert_eq!(read_records(&place.dump()).await.unwrap(), old);
}

#[tokio::test]
async fn largest_documents_are_returned_one_by_one() {
    let records: Vec<_> = [(0, "a"), (0xff, "b")]
        .into_iter()
        .map(|(byte, name)| record(DocumentId::section(name), vec![byte; MAX_DOCUMENT_BYTES], 0))
        .collect();
    let place = DumpFolder::new();
    write_records(&place.dump(), records.clone()).await.unwrap();
    let mut reader = place.dump().export().await.unwrap();
    for record in records {
        assert_eq!(reader.next_batch().await.unwrap(), [record]);
    }
    assert!(reader.next_batch().await.unwrap().is_empty());
    assert!(reader.next_batch().await.unwrap().is_empty(), "the end is final");
}

#[tokio::test]
async fn many_records_are_returned_in_batches() {
    let body = Bytes::from("x".repeat(1000));
    let names = (0..10_000).map(|number| DocumentId::section(format!("{number:05}")));
    let documents = names.map(|id| record(id, body.clone(), 0)).collect();
    for (records, limit) in [(documents, 3_000), (rows(8_000), 8_000)] {
        let place = DumpFolder::new();
        write_records(&place.dump(), records.clone()).await.unwrap();
        assert!(place.dump().export().await.unwrap().next_batch().await.unwrap().len() < limit);
        assert_eq!(read_records(&place.dump()).await.unwrap(), records);
    }
}

#[tokio::test]
async fn dump_is_plain_json_without_secrets() {
    let place = example_dump().await;
    let bytes = place.bytes();
    let text = str::from_utf8(&bytes).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines[0]["format"], "reqlore-dump");
    assert_eq!(lines[2]["modified"], "2020-09-13T12:26:40.123456789Z");
    assert_eq!(lines[2]["text"], "\u{feff}# A\r\n\r\nno end");
    assert_eq!(lines[14]["mark"], "acceptance_criteria");
    assert_eq!((&lines[15]["user"], &lines[15]["role"]), (&"ada".into(), &"administrator".into()));
    let presented = PresentedToken::new("ZZZZZZZZZZZZ", SECRET).unwrap();
    assert_eq!(lines[17]["token"], "ZZZZZZZZZZZZ");
    assert_eq!(lines[17]["digest"], String::from(presented.digest()));
    assert_eq!(lines[17]["scope"], "read");
    assert_eq!(lines[17]["created_at"], "1970-01-01T00:00:00.000000005Z");
    assert_eq!(lines[17]["projects"], serde_json::json!(["an-Other_1", "default"]));
    assert_eq!(lines[18].get("projects"), None, "none means all");
    assert!(!text.contains(SECRET) && !text.contains("reqlore_pat_"));
    let sealed: Value = serde_json::from_str(lines[19]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&lines[19]["audit"], &sealed["user"]), (&7.into(), &"ada".into()));
    let mode = std::fs::metadata(&place.path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "only its owner may read it");
    let end = &lines[lines.len() - 1];
    assert_eq!(end["records"], records().len());
    let before = bytes.len() - 1 - end.to_string().len();
    let digits = end["sha256"].as_str().unwrap();
    assert_eq!(digits.len(), 64);
    assert!(digits.starts_with(&Version::of_bytes(&bytes[..before]).to_string()));
}

#[tokio::test]
async fn existing_file_is_not_replaced() {
    let place = DumpFolder::new();
    std::fs::write(&place.path, "precious").unwrap();
    let refused = place.dump().import().await.err().unwrap();
    assert!(refused.to_string().ends_with("name another file or remove it"), "{refused}");
    std::fs::remove_file(&place.path).unwrap();
    symlink("nowhere", &place.path).unwrap();
    assert!(place.dump().import().await.is_err(), "a link to nowhere");
    std::fs::remove_file(&place.path).unwrap();

    let writer = place.dump().import().await.unwrap();
    std::fs::write(&place.path, "a new file").unwrap();
    let refused = writer.finish().await.err().unwrap();
    assert!(matches!(refused, StoreError::Refused { .. }), "{refused}");
    assert_eq!((place.bytes(), place.files().len()), (b"a new file".to_vec(), 1));
}

#[tokio::test]
async fn unfinished_dump_leaves_no_file() {
    let place = DumpFolder::new();
    let mut writer = place.dump().import().await.unwrap();
    writer.write_batch(records()).await.unwrap();
    assert!(std::fs::symlink_metadata(&place.path).is_err(), "named before it is complete");
    assert_eq!(place.files().len(), 1);
    drop(writer);
    assert_eq!(place.files().len(), 0);
    let missing = place.dump().export().await.err().unwrap();
    assert!(matches!(missing, StoreError::Unavailable { .. }), "{missing}");
    let nowhere = DumpFile::new(place.folder.path().join("no/all.jsonl"));
    assert!(matches!(nowhere.import().await.err().unwrap(), StoreError::Unavailable { .. }));
    let folder = DumpFile::new(place.folder.path());
    assert!(matches!(folder.export().await.err().unwrap(), StoreError::Refused { .. }));
}

#[tokio::test]
async fn temporary_files_of_killed_writers_are_removed() {
    let place = DumpFolder::new();
    let file = |name: &str| place.folder.path().join(name);
    let others = [".reqlore-0123456789abcdef.tmp", ".reqlore-backup-x", "x.tmp"];
    for name in others.iter().chain(&[".reqlore-backup-dead.tmp"]) {
        std::fs::write(file(name), "half").unwrap();
    }
    symlink("x.tmp", file(".reqlore-backup-link.tmp")).unwrap();
    let living = DumpFile::new(file("living.jsonl")).import().await.unwrap();
    assert_eq!(place.files().len(), others.len() + 2, "the living one and the link");
    write_records(&place.dump(), records()).await.unwrap();
    living.finish().await.unwrap();
    for name in others.iter().chain(&["living.jsonl", ".reqlore-backup-link.tmp"]) {
        assert!(std::fs::symlink_metadata(file(name)).is_ok(), "{name}");
    }
    assert_eq!(place.files().len(), others.len() + 3);
}

#[tokio::test]
async fn invalid_records_are_not_written() {
    let mut changed = document(DocumentId::section("a"), "x", 0);
    changed.document.body = Bytes::from_static(b"y");
    let large = record(DocumentId::section("a"), vec![b'x'; MAX_DOCUMENT_BYTES + 1], 0);
    let [mut swapped, mut swapped_rows] = [records(), rows(2)];
    swapped.swap(3, 4);
    swapped_rows.swap(0, 1);
    let epic = |number| mark("default", ItemKind::Epic, number);
    let users = |names: [&str; 2]| names.map(|name| ArchiveRecord::User(user(name))).to_vec();
    let token_of = |id, created_at| ArchiveRecord::Token(token(id, "a", created_at));
    let mut foreign = token("aaaaaaaaaaaa", "a", 1);
    foreign.projects = vec![ProjectKey::new("/root")];
    let wrong: [(&str, Vec<ArchiveRecord>); 17] = [
        ("changed bytes", vec![ArchiveRecord::Document(changed)]),
        ("too large", vec![large]),
        ("twice", vec![records()[0].clone(), records()[0].clone()]),
        ("out of order", swapped),
        ("a name outside", vec![record(DocumentId::entity("../../evil"), "", 0)]),
        ("a mark too high", vec![epic(1_000_000_001)]),
        ("two marks of a kind", vec![epic(1), epic(2)]),
        ("marks out of order", vec![marks()[2].clone(), epic(1)]),
        ("a mark of a foreign project", vec![mark("/root", ItemKind::Epic, 1)]),
        ("a late document", [marks(), vec![record(DocumentId::section("a"), "", 0)]].concat()),
        ("users out of order", users(["Bob", "ada"])),
        ("a user twice", users(["Ada", "ada"])),
        ("tokens out of order", vec![token_of("aaaaaaaaaaaa", 2), token_of("bbbbbbbbbbbb", 1)]),
        ("a token twice", vec![token_of("aaaaaaaaaaaa", 1), token_of("aaaaaaaaaaaa", 2)]),
        ("a token of a foreign project", vec![ArchiveRecord::Token(foreign)]),
        ("rows out of order", swapped_rows),
        ("late users", rows(1).into_iter().chain(identities().into_records()).collect()),
    ];
    for (name, records) in wrong {
        let place = DumpFolder::new();
        let error = write_records(&place.dump(), records).await.err();
        assert!(matches!(error, Some(StoreError::Internal(_))), "{name}: {error:?}");
        assert_eq!(place.files().len(), 0, "{name}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_document_survives_a_round_trip(
        body in proptest::collection::vec(any::<u8>(), 0..200),
        name in "[^\\p{Cc}./][^\\p{Cc}/]{0,40}(/[^\\p{Cc}./][^\\p{Cc}/]{0,40}){0,5}",
        place in proptest::option::of("[^/\\x00.][^\\x00.]{0,80}"),
        modified in any::<i64>(),
    ) {
        let mut put = document(DocumentId::entity(name), body, 0);
        put.modified = Timestamp(modified);
        put.path = place.map(Into::into);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let put = ArchiveRecord::Document(put);
            let place = DumpFolder::new();
            write_records(&place.dump(), vec![put.clone()]).await.unwrap();
            assert_eq!(read_records(&place.dump()).await.unwrap(), [put]);
        });
    }
}
