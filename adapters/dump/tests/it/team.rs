//! Users, tokens and audit rows in a dump.

use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::PresentedToken;
use reqlore_domain::ports::archive::{Archive, ArchiveRecord};
use reqlore_domain::ports::documents::StoreError;
use reqlore_domain::project::ProjectKey;
use serde_json::Value;

use crate::support::{
    Place, SECRET, all_with, dumped, fill, identities, marks, read, record, rows, token, user,
};

#[tokio::test]
async fn a_dump_holds_digests_and_no_secrets() {
    let bytes = dumped().await.bytes();
    let text = String::from_utf8(bytes).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let presented = PresentedToken::new("ZZZZZZZZZZZZ", SECRET).unwrap();
    assert_eq!(lines[17]["token"], "ZZZZZZZZZZZZ");
    assert_eq!(lines[17]["digest"], String::from(presented.digest()));
    assert_eq!(lines[17]["created_at"], "1970-01-01T00:00:00.000000005Z");
    assert_eq!(lines[17]["projects"], serde_json::json!(["an-Other_1", "default"]));
    assert_eq!(lines[18].get("projects"), None, "none means all");
    assert!(!text.contains(SECRET) && !text.contains("reqlore_pat_"));
    assert_eq!(lines[15]["user"], "ada");
    let sealed: Value = serde_json::from_str(lines[19]["text"].as_str().unwrap()).unwrap();
    assert_eq!((&lines[19]["audit"], &sealed["user"]), (&Value::from(7), &Value::from("ada")));
}

#[tokio::test]
async fn write_out_of_order_is_refused_and_leaves_no_file() {
    let users = |names: &[&str]| names.iter().map(|name| ArchiveRecord::User(user(name))).collect();
    let of = |id, created_at| ArchiveRecord::Token(token(id, "a", created_at));
    let mut outside = token("aaaaaaaaaaaa", "a", 1);
    outside.projects = vec![ProjectKey::new("/root")];
    let mut swapped = rows(2);
    swapped.swap(0, 1);
    let late_users = rows(1).into_iter().chain(identities().into_records()).collect();
    let late_document = [marks(), vec![record(DocumentId::section("a"), "", 0)]].concat();
    let wrong: [Vec<ArchiveRecord>; 8] = [
        users(&["Bob", "ada"]),
        users(&["Ada", "ada"]),
        vec![of("aaaaaaaaaaaa", 2), of("bbbbbbbbbbbb", 1)],
        vec![of("aaaaaaaaaaaa", 1), of("aaaaaaaaaaaa", 2)],
        vec![ArchiveRecord::Token(outside)],
        swapped,
        late_users,
        late_document,
    ];
    for (number, wrong) in wrong.into_iter().enumerate() {
        let place = Place::new();
        let error = fill(&place.dump(), wrong).await.err();
        assert!(matches!(error, Some(StoreError::Internal(_))), "{number}: {error:?}");
        assert_eq!(place.files().len(), 0);
    }
}

/// `audit verify` finds it in what was restored as it does in what was saved.
#[tokio::test]
async fn a_broken_chain_is_saved_as_it_is() {
    let mut broken = rows(5);
    broken.remove(2);
    let ArchiveRecord::AuditRow(first) = &mut broken[0] else { unreachable!() };
    first.text = "{}".into();
    let place = Place::new();
    fill(&place.dump(), all_with(broken.clone())).await.unwrap();
    assert!(read(&place.dump()).await.unwrap().ends_with(&broken));
}

#[tokio::test]
async fn many_rows_come_in_batches() {
    let place = Place::new();
    let many = all_with(rows(20_000));
    fill(&place.dump(), many.clone()).await.unwrap();
    assert!(place.dump().read().await.unwrap().next().await.unwrap().len() < 10_000);
    assert_eq!(read(&place.dump()).await.unwrap(), many);
}
