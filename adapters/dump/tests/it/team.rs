//! Users, tokens and the audit: what is saved of them, and what is not.

use reqlore_domain::document::DocumentId;
use reqlore_domain::identity::PresentedToken;
use reqlore_domain::ports::archive::{Archive, Identities, Sink};
use reqlore_domain::ports::documents::{StoreError, StoreResult};
use reqlore_domain::project::ProjectKey;
use serde_json::Value;

use crate::support::{
    All, Place, SECRET, all, dumped, fill_all, identities, marks, read_all, record, rows, token,
    user,
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
async fn what_breaks_the_order_is_not_written() {
    type Wrong = fn(Box<dyn Sink>) -> std::pin::Pin<Box<dyn Future<Output = StoreResult<()>>>>;
    let wrong: [Wrong; 7] = [
        |mut sink| {
            let Identities { mut users, tokens } = identities();
            users.swap(0, 1);
            Box::pin(async move { sink.identities(Identities { users, tokens }).await })
        },
        |mut sink| {
            let users = vec![user("Ada"), user("ada")];
            Box::pin(async move { sink.identities(Identities { users, tokens: vec![] }).await })
        },
        |mut sink| {
            let tokens = vec![token("aaaaaaaaaaaa", "a", 2), token("bbbbbbbbbbbb", "a", 1)];
            Box::pin(async move { sink.identities(Identities { users: vec![], tokens }).await })
        },
        |mut sink| {
            let tokens = vec![token("aaaaaaaaaaaa", "a", 1), token("aaaaaaaaaaaa", "a", 2)];
            Box::pin(async move { sink.identities(Identities { users: vec![], tokens }).await })
        },
        |mut sink| {
            let mut known = token("aaaaaaaaaaaa", "a", 1);
            known.projects = vec![ProjectKey::new("/root")];
            let tokens = vec![known];
            Box::pin(async move { sink.identities(Identities { users: vec![], tokens }).await })
        },
        |mut sink| {
            let mut wrong = rows(2);
            wrong.swap(0, 1);
            Box::pin(async move { sink.audit(wrong).await })
        },
        |mut sink| {
            Box::pin(async move {
                sink.audit(rows(1)).await?;
                sink.identities(identities()).await
            })
        },
    ];
    for (number, wrong) in wrong.into_iter().enumerate() {
        let place = Place::new();
        let fault = wrong(place.dump().fill().await.unwrap()).await.err();
        assert!(matches!(fault, Some(StoreError::Internal(_))), "{number}: {fault:?}");
        assert_eq!(place.files().len(), 0);
    }
    let place = Place::new();
    let mut sink = place.dump().fill().await.unwrap();
    sink.mark(marks()).await.unwrap();
    let late = sink.put(vec![record(DocumentId::section("a"), "", 0)]).await;
    assert!(matches!(late, Err(StoreError::Internal(_))), "{late:?}");
}

/// `audit verify` finds it in what was restored as it does in what was saved.
#[tokio::test]
async fn a_broken_chain_is_saved_as_it_is() {
    let mut broken = rows(5);
    broken.remove(2);
    broken[0].text = "{}".into();
    let place = Place::new();
    fill_all(&place.dump(), All { rows: broken.clone(), ..all() }).await.unwrap();
    assert_eq!(read_all(&place.dump()).await.unwrap().rows, broken);
}

#[tokio::test]
async fn many_rows_come_in_batches() {
    let place = Place::new();
    let many = All { rows: rows(20_000), ..all() };
    fill_all(&place.dump(), many.clone()).await.unwrap();
    let mut source = place.dump().read().await.unwrap();
    while !source.next().await.unwrap().is_empty() {}
    assert!(source.audit().await.unwrap().len() < 10_000);
    assert_eq!(read_all(&place.dump()).await.unwrap(), many);
}
