//! Contract suite of all stores: [`suite!`] turns its list of cases into named tests.
//!
//! A case takes a fresh [`Storage`] and checks one rule of a port. The rules have no exceptions for
//! single stores. [`seam_suite!`] does the same for drivers of the row store, which [`faulty`] can
//! disturb.

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
pub mod changes;
pub mod claims;
pub mod commit;
pub mod documents;
pub mod entity_list;
pub mod faulty;
pub mod history;
pub mod identity;
pub mod item_list;
pub mod items;
pub mod killed_process;
pub mod large;
pub mod model;
pub mod model_store;
pub mod seam;

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

/// Opens the same store again, as the next process would. A store for a single process closes
/// first, so [`Storage::store`] must not be used after this.
pub type ReopenStore = Box<
    dyn Fn() -> Pin<Box<dyn Future<Output = StoreResult<Arc<dyn Store>>> + Send>> + Send + Sync,
>;

/// A future that opens a fresh store.
pub type OpenStorage = Pin<Box<dyn Future<Output = Storage>>>;

/// A fresh store with two projects. `guard` keeps its files and must outlive the store.
pub struct Storage {
    pub store: Arc<dyn Store>,
    pub reopen: Option<ReopenStore>,
    pub project: ProjectKey,
    pub other: ProjectKey,
    pub guard: Box<dyn Any + Send + Sync>,
}

impl Storage {
    /// A store that cannot be opened again.
    pub fn in_memory(store: impl Store + 'static) -> Self {
        Self {
            store: Arc::new(store),
            reopen: None,
            project: ProjectKey::default(),
            other: ProjectKey::new("/other"),
            guard: Box::new(()),
        }
    }

    /// Opens a store on a database that several stores may have open.
    pub async fn reopenable<S, Opening>(
        open: impl Fn() -> Opening + Send + Sync + 'static,
    ) -> StoreResult<Self>
    where
        S: Store + 'static,
        Opening: Future<Output = StoreResult<S>> + Send + 'static,
    {
        let store = open().await?;
        let reopen: ReopenStore = Box::new(move || {
            let opening = open();
            Box::pin(async move { Ok(Arc::new(opening.await?) as Arc<dyn Store>) })
        });
        Ok(Self { reopen: Some(reopen), ..Self::in_memory(store) })
    }

    /// Commits the changes that `decide` returns for the newest state of `ids`.
    pub async fn commit_from(
        &self,
        ids: &[DocumentId],
        decide: impl FnMut(&Snapshot) -> Result<Vec<DocumentChange>, Error> + Send + 'static,
    ) -> StoreResult<CommitResult> {
        let reads = ReadSet {
            titles_of: Some(DocumentKind::Section),
            ..ReadSet::of_documents(ids.to_vec())
        };
        self.commit(reads, decide).await
    }

    pub async fn commit(
        &self,
        reads: ReadSet,
        decide: impl FnMut(&Snapshot) -> Result<Vec<DocumentChange>, Error> + Send + 'static,
    ) -> StoreResult<CommitResult> {
        let commit =
            CommitRequest { read_set: reads, decide: Box::new(decide), context: test_context() };
        self.store.commit(&self.project, commit).await
    }

    /// Opens the store as the next process would; `None` for a store in memory.
    pub async fn reopen_store(&self) -> Option<Arc<dyn Store>> {
        let reopen = self.reopen.as_ref()?;
        Some(reopen().await.expect("the store opens again"))
    }

    /// Asserts that the store refuses an import, because it is not empty.
    pub async fn assert_rejects_import(&self) {
        let refused = self.store.import().await.err();
        assert!(matches!(refused, Some(StoreError::Refused { .. })), "{refused:?}");
    }

    pub async fn put(&self, id: &DocumentId, body: impl Into<Bytes>) -> CommitResult {
        let change = DocumentChange::put(id.clone(), body.into());
        let put =
            self.commit_from(std::slice::from_ref(id), move |_| Ok(vec![change.clone()])).await;
        put.expect("a plain put is committed")
    }

    pub async fn delete(&self, id: &DocumentId) -> CommitResult {
        let change = DocumentChange::Delete { id: id.clone() };
        let delete =
            self.commit_from(std::slice::from_ref(id), move |_| Ok(vec![change.clone()])).await;
        delete.expect("a plain delete is committed")
    }

    pub async fn read_body(&self, id: &DocumentId) -> Option<Bytes> {
        let mut found = self.store.get(&self.project, std::slice::from_ref(id)).await.expect("get");
        found.remove(0).map(|document| document.body)
    }
}

pub fn test_context() -> WriteContext {
    WriteContext {
        caller: Arc::new(Caller::local("tester", Access::Write)),
        tool: "contract",
        reason: "contract test".to_owned(),
        correlation_id: "contract".to_owned(),
        at: Timestamp::new(1_700_000_000, 123_456_789),
        audited: None,
        idempotency_key: None,
    }
}

/// Generates a named test of every case for one store: `suite!(open())`, where `open()` is a future
/// of a fresh [`Storage`].
#[macro_export]
macro_rules! suite {
    ($open:expr) => {
        #[test]
        fn any_history_matches_the_model() {
            $crate::model::check_histories(|| Box::pin($open));
        }

        $crate::cases! { $open;
            documents: missing_documents_are_none bytes_survive_a_round_trip get_keeps_the_order
                projects_are_isolated versions_match_get find_sorts_by_name pages_have_every_document_once
                unreadable_document_is_listed_with_a_diagnostic every_document_kind_is_stored
                entities_may_be_nested entity_metadata_matches_the_body
                lookup_matches_reference_and_name lookup_returns_all_claims_of_a_reference
                lookup_reflects_every_commit composed_and_decomposed_names_are_one;
            commit: decision_reads_the_newest_state rejected_decision_changes_nothing
                commit_applies_all_changes concurrent_commits_lose_no_update
                change_of_an_unread_document_is_rejected empty_commit_keeps_the_revision
                commits_survive_restart;
            changes: changes_have_the_order_of_commits
                change_pages_end_with_a_revision
                concurrent_commits_skip_no_change changes_without_a_position_are_a_reset
                future_revision_is_a_reset position_of_another_store_is_a_reset
                position_of_another_writer_is_a_reset;
            items: item_metadata_matches_the_body backlinks_are_found_by_target
                mentions_in_sections_are_backlinks
                backlinks_of_several_targets_share_metadata
                backlinks_reflect_every_commit new_item_needs_no_read numbers_are_never_reused
                several_new_items_of_a_commit_raise_the_sequence
                number_in_a_name_raises_the_sequence tombstone_keeps_its_number
                numbers_survive_restart decision_reads_backlinks marks_survive_a_round_trip;
            item_list: items_have_the_order_of_lists items_have_the_order_by_hand
                items_are_filtered_and_counted
                items_need_a_reference item_pages_survive_changes items_are_filtered_by_details
                items_are_sorted_in_each_order items_are_filtered_by_custom_fields
                items_are_sorted_by_a_custom_field pages_by_field_survive_changes
                entities_are_filtered_and_sorted
                entity_lists_equal_a_plain_filter
                children_are_counted_by_status documents_with_diagnostics_are_listed;
            entity_list: entities_are_counted_by_kind_and_tag untagged_entities_are_listed_by_kind
                similar_entities_are_found_by_case_and_part;
            archive: records_survive_a_round_trip records_have_one_order
                import_rejects_a_store_with_documents unfinished_import_is_incomplete
                import_survives_restart export_is_a_snapshot;
            identity: users_are_listed_by_name tokens_are_listed_by_age token_is_found_with_its_user ended_sessions_are_removed
                epoch_changes_with_every_identity_commit rejected_identity_decision_changes_nothing
                concurrent_commits_create_a_user_once last_use_never_decreases
                identities_survive_restart import_rejects_a_store_with_tokens
                identities_survive_a_round_trip;
            audit: rows_are_chained_in_recording_order rows_are_read_from_any_number
                commit_writes_its_audit_row change_row_and_key_are_atomic
                empty_and_rejected_commits_write_no_row identity_commit_writes_its_audit_row
                pruning_records_a_row repeated_pruning_removes_all_old_rows
                import_rejects_a_store_with_audit_rows audit_rows_survive_a_round_trip
                keys_are_used_once idempotency_key_needs_a_change answer_is_stored
                old_idempotency_keys_expire;
            claims: claims_end_at_their_time claims_are_isolated_by_project
                concurrent_callers_claim_a_story_once claims_change_no_document;
        }
    };
}

/// Generates a test of every case about history, for a database: `history_suite!(open())`.
#[macro_export]
macro_rules! history_suite {
    ($open:expr) => {
        $crate::local_history_suite!($open);

        mod history_of_databases {
            #[allow(unused_imports, reason = "`open` names what the caller has in scope")]
            use super::*;
            $crate::cases! { $open;
                history: earlier_text_is_read_by_version last_change_of_a_document_wins
                    pruning_removes_ended_entries
                    history_survives_a_round_trip import_rejects_a_store_with_history;
            }
        }
    };
}

/// The cases about history for files as well, which have it until Git takes over.
#[macro_export]
macro_rules! local_history_suite {
    ($open:expr) => {
        #[test]
        fn history_replayed_equals_the_documents() {
            $crate::history::check_replay(|| Box::pin($open));
        }

        $crate::cases! { $open;
            history: history_lists_versions_newest_first put_of_the_same_text_adds_no_entry
                deleted_document_keeps_its_history history_pages_survive_new_changes
                history_is_isolated_by_project recent_changes_are_listed_newest_first
                changed_documents_are_listed_once
                purge_erases_the_text_and_keeps_the_entry purge_erases_stored_responses
                present_text_is_never_purged;
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

/// Runs a case on one thread, because stores block only on their own threads.
pub fn run<T>(case: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(case)
}
