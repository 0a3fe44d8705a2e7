//! Earlier versions in dumps: round trip, wrong lines, and dumps of format 1.

use bytes::Bytes;
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::archive::{Archive, ArchiveRecord, DocumentRecord, HistoryRecord};
use reqlore_domain::ports::history::{PastContent, PastEntry, PresentEntry, TextHash};
use reqlore_domain::ports::write_context::ChangeOrigin;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::support::{DumpFolder, document, read_records, write_records};

fn entry(name: &str, number: u64, content: PastContent) -> ArchiveRecord {
    let user = Some("Ann \u{1f600}".to_owned());
    let origin = ChangeOrigin { user, tool: Some("update_epic".to_owned()), reason: None };
    let (at, ended) = (Timestamp(number.cast_signed()), Timestamp::new(1_700_000_000, 1));
    ArchiveRecord::History(HistoryRecord {
        project: ProjectKey::default(),
        document: DocumentId::entity(name),
        entry: PastEntry { number, at, ended, origin, content },
    })
}

fn history() -> Vec<ArchiveRecord> {
    let reason = Some("why\n".to_owned());
    let origin = ChangeOrigin { reason, ..ChangeOrigin::default() };
    let present = DocumentRecord {
        entry: PresentEntry { number: 12, origin },
        ..document(DocumentId::entity("a"), "now", 7)
    };
    let secret = TextHash::of_bytes(b"secret");
    vec![
        ArchiveRecord::Document(present),
        entry("a", 9, PastContent::Text(Bytes::new())),
        entry("a", 10, PastContent::Text(Bytes::from_static(b"\xff"))),
        entry("a", 11, PastContent::Purged(secret)),
        entry("gone", 1, PastContent::Text("text".into())),
        entry("gone", 2, PastContent::Deleted),
    ]
}

#[tokio::test]
async fn history_survives_a_round_trip() {
    let place = DumpFolder::new();
    write_records(&place.dump(), history()).await.unwrap();
    assert_eq!(read_records(&place.dump()).await.unwrap(), history());
    let text = String::from_utf8(place.bytes()).unwrap();
    assert!(text.lines().last().unwrap().contains(",\"history\":5,"), "{text}");
}

#[tokio::test]
async fn wrong_history_lines_are_refused() {
    let place = DumpFolder::new();
    write_records(&place.dump(), history()).await.unwrap();
    let text = String::from_utf8(place.bytes()).unwrap();
    let long = format!("\"tool\":\"{}\"", "x".repeat(1_001));
    for (old, new, expected) in [
        ("{\"history\":9", "{\"history\":10", "line 4: version 10 of .ixchel/a.md occurs twice"),
        ("{\"history\":9", "{\"history\":11", "line 4: version 10 of .ixchel/a.md is out of order"),
        ("{\"history\":9", "{\"history\":-1", "line 3: invalid value"),
        ("\"name\":\"gone\"", "\"name\":\"../x\"", "line 6: \"../x\" is not a valid name"),
        ("\"purged\":\"", "\"purged\":\"x", "line 5: a hash is 64 hexadecimal digits"),
        ("\"purged\":\"", "\"text\":\"x\",\"purged\":\"", "line 5: a purged version has no text"),
        ("\"base64\"", "\"text\":\"\",\"base64\"", "line 4: a record has either `text` or"),
        ("\"tool\":\"update_epic\"", &long, "line 3: the user, tool and reason of a change have"),
        ("\"history\":5,", "\"history\":4,", "line 8: there are 5 earlier versions, not 4"),
        ("\"text\":\"text\"", "\"text\":\"other\"", "line 8: the checksum does not match"),
    ] {
        assert!(text.contains(old), "{old}");
        std::fs::write(&place.path, text.replacen(old, new, 1)).unwrap();
        let error = place.dump().export().await.err().unwrap().to_string();
        assert!(error.contains(expected), "{expected} in {error}");
    }
}

#[tokio::test]
async fn dump_of_format_1_starts_with_the_present_version() {
    let place = DumpFolder::new();
    let old = vec![ArchiveRecord::Document(document(DocumentId::entity("a"), "now", 7))];
    write_records(&place.dump(), old.clone()).await.unwrap();
    let text = String::from_utf8(place.bytes()).unwrap();
    let (lines, _) = text.split_once("{\"records\"").unwrap();
    let lines = lines.replacen("\"version\":2", "\"version\":1", 1);
    let end = hex_sha256(&lines);
    let text = format!("{lines}{{\"records\":1,\"sha256\":\"{end}\"}}\n");
    std::fs::write(&place.path, text).unwrap();
    assert_eq!(read_records(&place.dump()).await.unwrap(), old);
}

fn hex_sha256(text: &str) -> String {
    TextHash::of_bytes(text.as_bytes()).to_string()
}
