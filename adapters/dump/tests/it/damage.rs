//! A damaged dump is refused before it returns a record.

use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::archive::Archive;
use reqlore_domain::ports::documents::StoreError;

use crate::support::{DumpFolder, all_records_with, example_dump, record, rows, write_records};

/// Returns the reason why a dump with these bytes is refused.
async fn read_error(bytes: &[u8]) -> String {
    let place = DumpFolder::new();
    std::fs::write(&place.path, bytes).unwrap();
    match place.dump().export().await.err() {
        Some(StoreError::Unreadable { reason, .. }) => {
            assert!(reason.starts_with("line "), "{reason}");
            assert!(reason.ends_with("; nothing was changed"), "{reason}");
            reason
        }
        Some(StoreError::Refused { reason, .. }) => reason,
        other => panic!("{other:?} of {:?}", String::from_utf8_lossy(bytes)),
    }
}

async fn dump_lines() -> Vec<Vec<u8>> {
    let bytes = example_dump().await.bytes();
    bytes.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect()
}

/// Returns the example dump with one text replaced.
async fn dump_with(old: &str, new: &str) -> Vec<u8> {
    let text = String::from_utf8(example_dump().await.bytes()).unwrap();
    assert!(text.contains(old), "{old} in {text}");
    text.replacen(old, new, 1).into_bytes()
}

#[tokio::test]
async fn every_changed_byte_is_refused() {
    let whole = example_dump().await.bytes();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        // Another bit in each byte, so that every position is tested.
        changed[at] ^= 1 << (at % 8);
        read_error(&changed).await;
    }
}

#[tokio::test]
async fn every_truncation_is_refused() {
    let whole = example_dump().await.bytes();
    for at in 0..whole.len() {
        let reason = read_error(&whole[..at]).await;
        let line = whole[..at].split(|byte| *byte == b'\n').count();
        let named = [format!("line {line}: "), format!("line {}: ", line - 1)];
        assert!(named.iter().any(|named| reason.starts_with(named)), "{reason} at {at}");
        assert!(reason.contains("cut off"), "{reason}");
    }
}

#[tokio::test]
async fn repeated_removed_and_swapped_lines_are_refused() {
    let whole = dump_lines().await;
    for at in 0..whole.len() {
        let mut twice = whole.clone();
        twice.insert(at, whole[at].clone());
        read_error(&twice.concat()).await;
        let mut gone = whole.clone();
        gone.remove(at);
        read_error(&gone.concat()).await;
        for other in 0..at {
            let mut swapped = whole.clone();
            swapped.swap(other, at);
            read_error(&swapped.concat()).await;
        }
    }
}

#[tokio::test]
async fn moved_and_missing_parts_are_refused() {
    let whole = dump_lines().await;
    for (key, expected) in [
        ("mark", "the checksum does not match"),
        ("user", "there are 0 users, not 2"),
        ("token", "there are 0 tokens, not 2"),
        ("audit", "there are 0 audit rows, not 3"),
    ] {
        let key = format!("{{\"{key}\":");
        let is_part = |line: &Vec<u8>| line.starts_with(key.as_bytes());
        let first = whole.iter().position(is_part).unwrap();
        let mut early = whole.clone();
        early.swap(first - 1, first);
        let refused = read_error(&early.concat()).await;
        assert!(refused.contains("out of order"), "{refused}");
        let gone: Vec<_> = whole.iter().filter(|line| !is_part(line)).cloned().collect();
        let refused = read_error(&gone.concat()).await;
        assert!(refused.contains(expected), "{expected} in {refused}");
    }
}

#[tokio::test]
async fn bytes_after_the_end_line_are_refused() {
    let whole = dump_lines().await;
    for more in [&b"\n"[..], b"x", b" ", b"{}\n", &whole[1], &whole[whole.len() - 1], b"\0\n"] {
        let mut bytes = whole.concat();
        bytes.extend_from_slice(more);
        read_error(&bytes).await;
    }
    let two = [whole.concat(), whole.concat()].concat();
    let end = whole.len();
    let reason = read_error(&two).await;
    let expected = format!("line {end}: the file continues after its end line");
    assert!(reason.starts_with(&expected), "{reason}");
}

/// Texts of the dump, their replacements, and a part of the error.
const EDITS: &[(&str, &str, &str)] = &[
    ("reqlore-dump", "other", "line 1: this is not a Reqlore dump"),
    ("\"version\":2", "\"version\":0", "line 1: the format is not 1 to 2"),
    ("\"version\":2", "\"version\":3,\"more\":1", "written by a newer Reqlore (format 3,"),
    ("\"version\":2", "\"version\":2,\"more\":1", "line 1: unknown field `more`"),
    ("\"name\":\"empty\"", "\"name\":\"empty\",\"more\":1", "line 4: unknown field `more`"),
    ("\"name\":\"empty\"", "\"name\":\"a\",\"name\":\"b\"", "line 4: duplicate field `name`"),
    ("\"name\":\"empty\"", "\"name\":\"empt\"", "the checksum does not match"),
    (
        "\"name\":\"empty\"",
        "\"name\":\"z\"",
        "line 5: section latin is out of order, after section z",
    ),
    ("\"name\":\"empty\"", "\"name\":\"latin\"", "line 5: section latin occurs twice"),
    ("\"kind\":\"docsets\"", "\"kind\":\"story\"", "line 8: unknown kind \"story\""),
    ("docsets: {}", "docsets: []", "line 8: .knowledge/config.yaml was changed"),
    ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59+00:00", "line 8: \"1969-12-31T23:59:59+00"),
    ("1969-12-31T23:59:59Z", "yesterday", "line 8: \"yesterday\" is not a time like"),
    ("1969-12-31T23:59:59Z", "1500-01-01T00:00:00Z", "is not a time like"),
    ("\"base64\"", "\"text\":\"\",\"base64\"", "line 5: a record has either `text` or"),
    ("\"base64\":\"", "\"base64\":\"=", "line 5: "),
    ("{\"mark\":\"epic\"", "{\"mark\":\"story\"", "line 14: unknown variant `story`"),
    ("\"number\":7}", "\"number\":6}", "line 23: the checksum does not match"),
    ("\"number\":7}", "\"number\":-1}", "line 14: invalid value"),
    ("\"number\":7}", "\"number\":7,\"more\":1}", "line 14: unknown field `more`"),
    ("1000000000}", "1000000001}", "is 1000000001; the limit is 1000000000"),
    (
        "k\":\"epic\"",
        "k\":\"acceptance_criteria\"",
        "line 15: next number of acceptance_criteria occurs twice",
    ),
    ("\"Empty\"", "\"z\"", "line 14: next number of epic is out of order"),
    ("\"Empty\"", "\"/etc\"", "line 13: a project's key has 1 to 64 letters"),
    ("{\"mark\":", "{ \"mark\":", "line 13: unknown field `mark`"),
    ("{\"records\":11", "{\"records\":10", "line 23: there are 11 records, not 10"),
    // Users, tokens and audit rows.
    ("{\"user\":\"ada\"", "{\"user\":\"a b\"", "line 16: \"a b\" is not a user name"),
    ("{\"user\":\"ada\"", "{\"user\":\"bob\"", "line 17: user bob occurs twice"),
    ("{\"user\":\"ada\"", "{\"user\":\"zoe\"", "line 17: user bob is out of order"),
    ("\"commenter\"", "\"Commenter\"", "line 17: unknown variant `Commenter`"),
    ("\"disabled_at\"", "\"more\"", "line 17: unknown field `more`"),
    ("{\"token\":\"ZZZZ", "{\"token\":\"ZZ", "line 18: the id of a token is 12 letters"),
    ("ZZZZZZZZZZZZ", "aaaaaaaaaaaa", "line 19: token aaaaaaaaaaaa occurs twice"),
    ("ZZZZZZZZZZZZ", "zzzzzzzzzzzz", "line 19: token aaaaaaaaaaaa is out of order"),
    ("\"user\":\"BOB\"", "\"user\":\"\"", "line 18: \"\" is not a user name"),
    ("\"digest\":\"", "\"digest\":\"x", "line 18: a digest is 64 hexadecimal digits"),
    ("\"scope\":\"read\"", "\"scope\":\"all\"", "line 18: unknown variant `all`"),
    ("[\"an-Other_1\"", "[\"/etc\"", "line 18: a project's key has 1 to 64 letters"),
    ("\"last_used_at\":\"", "\"last_used_at\":\"x", "line 18: \"x1970-01-01T00:00:07.00000"),
    ("{\"audit\":7", "{\"audit\":8", "line 21: row 8 of the audit occurs twice"),
    ("{\"audit\":7,\"hash\":\"", "{\"audit\":7,\"hash\":\"x", "line 20: a hash is 64 hexad"),
    ("\\\"micros\\\":12", "\\\"micros\\\":13", "line 23: the checksum does not match"),
    ("\"users\":2", "\"users\":3", "line 23: there are 2 users, not 3"),
    ("\"tokens\":2", "\"tokens\":1", "line 23: there are 2 tokens, not 1"),
    ("\"audit\":3", "\"audit\":4", "line 23: there are 3 audit rows, not 4"),
    // Names and paths outside the project.
    ("decisions/deep/dec-1d2c8f", "../../evil", "line 9: \"../../evil\" is not a valid name"),
    ("decisions/deep/dec-1d2c8f", "/etc/passwd", "line 9: \"/etc/passwd\" is not a valid name"),
    ("decisions/deep/dec-1d2c8f", "a\\u0000", "line 9: \"a\\0\" is not a valid name"),
    ("\"empty\"", "\"a/../../b\"", "line 4: \"a/../../b\" is not a section key"),
    ("\"AGENTS\"", "\"other\"", "line 3: a document of this kind is called \"AGENTS\""),
    ("\"config\"", "\"x/config\"", "line 8: a document of this kind is called \"config\""),
    ("\"default\"", "\"\"", "line 3: a project's key has 1 to 64 letters"),
    ("\"default\"", "\"/etc\"", "line 3: a project's key has 1 to 64 letters"),
    ("docs/AGENTS.md", "/docs/AGENTS.md", "line 3: \"/docs/AGENTS.md\" is not allowed"),
    ("docs/AGENTS.md", "docs/../../x", "line 3: \"docs/../../x\" is not allowed"),
    ("docs/AGENTS.md", "\\u0000", "line 3: \"\\0\" is not a path"),
];

#[tokio::test]
async fn each_error_names_its_line() {
    let long_place = format!("\"place\":\"{}\"", "x".repeat(3_000_000));
    let long_kind = format!("\"kind\":\"{}\"", "x".repeat(3_000_000));
    let long = [
        ("\"place\":\"docs/AGENTS.md\"", &*long_place, "line 3: a path has at most 4096 bytes"),
        ("\"kind\":\"instructions\"", &*long_kind, "line 3: unknown kind"),
    ];
    for (old, new, expected) in EDITS.iter().copied().chain(long) {
        let reason = read_error(&dump_with(old, new).await).await;
        assert!(reason.contains(expected) && reason.len() < 9_000, "{expected} in {reason:.2000}");
    }
    assert!(read_error(b"").await.contains("cut off"));
    assert!(read_error(&[b'x'; 5000]).await.starts_with("line 1: it is longer than 4096 bytes"));
}

#[tokio::test]
async fn endless_line_is_refused_in_bounded_memory() {
    let mut bytes = dump_lines().await[0].clone();
    bytes.resize(80 << 20, b' ');
    assert!(read_error(&bytes).await.starts_with("line 2: it is longer than"));
}

#[tokio::test]
async fn file_changed_during_reading_fails_at_its_end() {
    let large = record(DocumentId::entity("y"), "x".repeat(3 << 20), 0);
    let last = record(DocumentId::entity("z"), "", 0);
    // Covered only by the checksum: a path, and the text of an audit row.
    for (records, old, new) in [
        (vec![large, last], "docs/z.md", "docs/x.md"),
        (all_records_with(rows(8_000)), "\\\"micros\\\":12", "\\\"micros\\\":13"),
    ] {
        let place = DumpFolder::new();
        write_records(&place.dump(), records).await.unwrap();
        let mut reader = place.dump().export().await.unwrap();
        let whole = String::from_utf8(place.bytes()).unwrap();
        let (before, after) = whole.rsplit_once(old).unwrap();
        std::fs::write(&place.path, format!("{before}{new}{after}")).unwrap();
        let mut count = 0;
        let error = loop {
            match reader.next_batch().await {
                Ok(records) if records.is_empty() => panic!("an end after {count} records"),
                Ok(records) => count += records.len(),
                Err(error) => break error.to_string(),
            }
        };
        assert!(count > 0 && error.contains("the checksum does not match"), "{count}: {error}");
        let after = reader.next_batch().await.err().unwrap();
        assert!(matches!(after, StoreError::Internal(_)), "an error is not the end: {after}");
    }
}
