//! The rules of every store, as one list of cases; [`suite!`] makes a named test of each.
//!
//! A case takes a fresh [`Storage`] and proves one rule of a port. There are no exceptions for a
//! store, except that one in memory can't be opened again.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::print_stdout,
    missing_debug_implementations,
    reason = "this crate is tests"
)]

pub mod archive;
pub mod audit;
pub mod commit;
pub mod documents;
pub mod identity;
pub mod items;
pub mod model;

use std::any::Any;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use reqlore_domain::document::{DocumentId, DocumentKind};
use reqlore_domain::error::Error;
use reqlore_domain::identity::{Access, Caller};
use reqlore_domain::ports::Store;
use reqlore_domain::ports::documents::{
    CommitRequest, CommitResult, DocumentChange, ReadSet, Snapshot, StoreError, StoreResult,
};
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::timestamp::Timestamp;

/// Opens the same store again, as the next process would. A store for one process closes itself
/// first: [`Storage::store`] is not used after this.
pub type Reopen = Box<
    dyn Fn() -> Pin<Box<dyn Future<Output = StoreResult<Arc<dyn Store>>> + Send>> + Send + Sync,
>;

/// A fresh store with two projects; `guard` must live as long as the store.
pub struct Storage {
    pub store: Arc<dyn Store>,
    pub reopen: Option<Reopen>,
    pub project: ProjectKey,
    pub other: ProjectKey,
    pub guard: Box<dyn Any + Send + Sync>,
}

impl Storage {
    /// A store that ends with its process.
    pub fn fleeting(store: impl Store + 'static) -> Self {
        Self {
            store: Arc::new(store),
            reopen: None,
            project: ProjectKey::default(),
            other: ProjectKey::new("/other"),
            guard: Box::new(()),
        }
    }

    /// Commits the changes that `decide` makes from the newest state of `ids`.
    pub async fn decide(
        &self,
        ids: &[DocumentId],
        decide: impl FnMut(&Snapshot) -> Result<Vec<DocumentChange>, Error> + Send + 'static,
    ) -> StoreResult<CommitResult> {
        let reads =
            ReadSet { metadata_of: Some(DocumentKind::Section), ..ReadSet::of(ids.to_vec()) };
        self.commit(reads, decide).await
    }

    pub async fn commit(
        &self,
        reads: ReadSet,
        decide: impl FnMut(&Snapshot) -> Result<Vec<DocumentChange>, Error> + Send + 'static,
    ) -> StoreResult<CommitResult> {
        let commit = CommitRequest { reads, decide: Box::new(decide), context: act() };
        self.store.commit(&self.project, commit).await
    }

    /// The store as the next process opens it; `None` for a store in memory.
    pub async fn reopened(&self) -> Option<Arc<dyn Store>> {
        let reopen = self.reopen.as_ref()?;
        Some(reopen().await.expect("the store opens again"))
    }

    /// Asserts that the store refuses an import, because it is not empty.
    pub async fn assert_not_filled(&self) {
        let refused = self.store.fill().await.err();
        assert!(matches!(refused, Some(StoreError::Refused { .. })), "{refused:?}");
    }

    pub async fn put(&self, id: &DocumentId, body: &'static str) -> CommitResult {
        let change = DocumentChange::put(id.clone(), Bytes::from_static(body.as_bytes()));
        let put = self.decide(std::slice::from_ref(id), move |_| Ok(vec![change.clone()])).await;
        put.expect("a plain put is committed")
    }

    pub async fn delete(&self, id: &DocumentId) -> CommitResult {
        let change = DocumentChange::Delete { id: id.clone() };
        let delete = self.decide(std::slice::from_ref(id), move |_| Ok(vec![change.clone()])).await;
        delete.expect("a plain delete is committed")
    }

    pub async fn body(&self, id: &DocumentId) -> Option<Bytes> {
        let mut found = self.store.get(&self.project, std::slice::from_ref(id)).await.expect("get");
        found.remove(0).map(|document| document.body)
    }
}

pub fn act() -> WriteContext {
    WriteContext {
        caller: Arc::new(Caller::local("tester", Access::Write)),
        tool: "contract",
        reason: "to hold the store to its contract".to_owned(),
        correlation_id: "contract".to_owned(),
        at: Timestamp::new(1_700_000_000, 123_456_789),
        audited: None,
        idempotency_key: None,
    }
}

/// Makes a named test of every case for one store: `suite!(open())`, where `open()` is a future of
/// a fresh [`Storage`].
#[macro_export]
macro_rules! suite {
    ($open:expr) => {
        #[test]
        fn any_history_gives_the_same_answers() {
            $crate::model::check(|| Box::pin($open));
        }

        $crate::cases! { $open;
            documents: what_is_not_there_is_none bytes_come_back_as_they_were_put
                get_keeps_the_order_asked projects_are_apart versions_are_those_of_get
                find_sorts_by_name find_pages_with_the_true_total
                an_unreadable_document_is_listed_with_its_fault
                documents_of_every_kind_are_kept entities_may_lie_at_any_depth
                heads_of_entities_tell_what_they_say a_word_names_by_reference_and_by_name
                a_reference_may_be_claimed_twice names_follow_every_commit;
            commit: the_decision_sees_the_newest_state a_refused_decision_changes_nothing
                all_changes_of_a_commit_take_effect concurrent_commits_all_take_effect
                a_change_of_what_was_not_read_is_refused
                a_commit_without_changes_keeps_the_revision what_was_committed_outlives_a_restart
                changes_tell_what_changed_since changes_are_of_one_kind
                an_unknown_revision_is_a_reset;
            items: heads_of_items_tell_what_they_say links_are_found_by_their_target
                links_follow_every_commit an_item_with_a_free_number_need_not_be_read
                a_number_is_never_given_twice a_number_put_by_name_counts
                a_tombstone_keeps_its_number numbers_outlive_a_restart
                a_decision_sees_who_links_to_what marks_come_back_as_they_were_put;
            archive: records_come_back_as_they_were_put records_come_in_one_order
                a_storage_that_holds_something_is_not_filled what_was_not_finished_is_incomplete
                what_was_filled_outlives_a_restart a_copy_shows_one_moment;
            identity: users_are_listed_by_name tokens_are_listed_by_age
                a_token_is_found_with_its_user the_epoch_changes_with_every_identity_commit
                a_refused_identity_decision_changes_nothing a_user_is_made_once
                the_last_use_only_grows identities_outlive_a_restart
                a_storage_that_holds_tokens_alone_is_not_filled
                identities_come_back_as_they_were_put;
            audit: rows_are_chained_in_the_order_they_came rows_are_read_from_any_number
                a_commit_is_audited_with_its_change a_change_its_row_and_its_key_come_together
                what_changed_nothing_is_not_audited_here
                an_identity_commit_is_audited_with_its_change pruning_says_what_is_gone
                many_rows_are_pruned_when_it_is_repeated
                a_storage_that_holds_rows_alone_is_not_filled
                the_audit_comes_back_as_it_was_put a_key_is_used_once
                a_key_is_kept_only_with_a_change an_answer_is_kept old_keys_are_forgotten;
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! cases {
    ($open:expr; $($topic:ident: $($case:ident)+;)+) => {
        $(mod $topic {
            #[allow(unused_imports, reason = "`open` names what the caller has in scope")]
            use super::*;
            $(#[test]
            fn $case() {
                $crate::run(async { $crate::$topic::$case(&$open.await).await });
            })+
        })+
    };
}

/// Runs a case. Stores do their blocking work on threads, so one thread of ours is enough.
pub fn run<T>(case: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(case)
}
