//! Calls whose client has cancelled them.

use std::future::poll_fn;
use std::sync::mpsc;
use std::task::Poll;

use reqlore_domain::ports::search::SearchIndex;
use reqlore_domain::project_key::ProjectKey;
use reqlore_search::{LocalSearchIndex, SearchConfig};
use tokio::runtime::Builder;
use tokio::task::spawn_blocking;

use crate::support::document_with_text;

#[test]
fn cancelled_change_does_not_follow_later_calls() {
    // One thread, so that the order of the work is known.
    let runtime = Builder::new_current_thread().max_blocking_threads(1).build().unwrap();
    let (index, key) = (LocalSearchIndex::new(SearchConfig::default()), ProjectKey::default());
    runtime.block_on(async {
        let (release, released) = mpsc::channel::<()>();
        let busy = spawn_blocking(move || released.recv());
        let documents = vec![document_with_text("a", "", "alpha")];
        let mut change = index.apply_projections(&key, documents, None);
        assert!(poll_fn(|task| Poll::Ready(change.as_mut().poll(task))).await.is_pending());
        drop(change);
        release.send(()).unwrap();
        busy.await.unwrap().unwrap();
        assert_eq!(index.indexed_versions(&key, None, 1).await.unwrap(), []);
    });
}
