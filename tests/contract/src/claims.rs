//! Claims of user stories.

use std::collections::BTreeSet;
use std::slice;

use futures_util::future::join_all;
use reqlore_domain::backlog::claim::{Claim, ClaimAction, ClaimChange, ClaimRefusal};
use reqlore_domain::document::DocumentId;
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::Refresh;
use reqlore_domain::ports::history::HistoryQuery;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

use crate::{Storage, test_context};

/// The clock of a server may differ, so the tests use long claims and claims without a duration.
const HOUR: i64 = 3_600;

fn now() -> Timestamp {
    test_context().at
}

fn change(story: &str, action: ClaimAction) -> ClaimChange {
    ClaimChange { story: story.to_owned(), action, at: now() }
}

fn claim(id: &str, seconds: i64) -> ClaimAction {
    ClaimAction::Claim { id: id.to_owned(), holder: format!("holder of {id}"), seconds }
}

async fn decide(
    store: &dyn Store,
    project: &ProjectKey,
    uid: &str,
    action: ClaimAction,
) -> Result<Option<Claim>, ClaimRefusal> {
    store.change_claim(project, change(uid, action)).await.expect("a decision").0
}

async fn live_ids(store: &dyn Store, project: &ProjectKey) -> Vec<String> {
    let claims = store.live_claims(project, now()).await.expect("claims");
    claims.into_iter().map(|claim| claim.id).collect()
}

pub async fn claims_end_at_their_time(storage: &Storage) {
    let (store, project) = (&*storage.store, &storage.project);
    assert!(live_ids(store, project).await.is_empty());
    let held = decide(store, project, "u1", claim("a", HOUR)).await.unwrap().unwrap();
    assert_eq!((&*held.id, &*held.holder), ("a", "holder of a"));
    assert_eq!(live_ids(store, project).await, ["a"]);
    let refused = decide(store, project, "u1", claim("b", HOUR)).await;
    assert_eq!(refused, Err(ClaimRefusal::Held(held.clone())));
    let renew = ClaimAction::Renew { id: "a".to_owned(), seconds: 2 * HOUR };
    let renewed = decide(store, project, "u1", renew).await.unwrap().unwrap();
    assert!(renewed.until > held.until);
    // It ends at once.
    let renew = ClaimAction::Renew { id: "a".to_owned(), seconds: 0 };
    decide(store, project, "u1", renew).await.unwrap();
    assert!(live_ids(store, project).await.is_empty());
    let release = ClaimAction::Release { id: Some("a".to_owned()) };
    assert_eq!(decide(store, project, "u1", release).await, Err(ClaimRefusal::Ended));
    assert_eq!(decide(store, project, "u1", claim("b", HOUR)).await.unwrap().unwrap().id, "b");
    let release = ClaimAction::Release { id: None };
    assert_eq!(decide(store, project, "u1", release).await, Ok(None));
    assert!(live_ids(store, project).await.is_empty());
    if let Some(next) = storage.reopen_store().await {
        decide(&*next, project, "u2", claim("c", HOUR)).await.unwrap();
        assert_eq!(live_ids(&*next, project).await, ["c"]);
    }
}

pub async fn claims_are_isolated_by_project(storage: &Storage) {
    let store = &*storage.store;
    for (project, id) in [(&storage.project, "a"), (&storage.other, "b")] {
        assert_eq!(decide(store, project, "u1", claim(id, HOUR)).await.unwrap().unwrap().id, id);
    }
    assert_eq!(live_ids(store, &storage.project).await, ["a"]);
    assert_eq!(live_ids(store, &storage.other).await, ["b"]);
}

pub async fn concurrent_callers_claim_a_story_once(storage: &Storage) {
    const CALLERS: usize = 8;
    const STORIES: usize = 5;
    let mut calls = Vec::new();
    for caller in 0..CALLERS {
        for story in 0..STORIES {
            let id = format!("{caller}-{story}");
            calls.push(async move {
                let (key, action) = (format!("u{story}"), claim(&id, HOUR));
                let claimed = decide(&*storage.store, &storage.project, &key, action).await;
                claimed.is_ok().then_some(id)
            });
        }
    }
    let won: BTreeSet<String> = join_all(calls).await.into_iter().flatten().collect();
    assert_eq!(won.len(), STORIES, "{won:?}");
    let live: BTreeSet<String> =
        live_ids(&*storage.store, &storage.project).await.into_iter().collect();
    assert_eq!(live, won);
}

pub async fn claims_change_no_document(storage: &Storage) {
    let (store, project, id) = (&*storage.store, &storage.project, DocumentId::section("a"));
    storage.put(&id, "# A\n").await;
    let state = async || {
        let query = HistoryQuery { after: None, limit: 10 };
        let changes = store.changes_since(project, None, 10, Refresh::Incremental).await.unwrap();
        let history = store.history(project, &id, &query).await.unwrap();
        (changes.position(), store.versions(project, slice::from_ref(&id)).await.unwrap(), history)
    };
    let before = state().await;
    decide(store, project, "u1", claim("a", HOUR)).await.unwrap();
    assert_eq!(state().await, before);
}
