//! Changes of items and entities: decoded by a write tool, planned, and decided inside a commit.
//!
//! A single tool commits one change, `apply_changes` a list. Each change sees the earlier ones of
//! its commit, so the decision depends on [`CommitState`] alone and never on the order of lookups.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemSortKey, Reference};
use reqlore_domain::document::{Document, DocumentId, DocumentMeta};
use reqlore_domain::error::Result;
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{BacklinkQuery, ReadSet, SharedMetadata};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::ports::write_context::WriteContext;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::schema::RecordSchema;
use tokio::sync::OnceCell;

use crate::addresses::address::AddressSpace;
use crate::answers::answer::ToolAnswer;
use crate::backlog::item_lookup::BacklogReader;
use crate::context::ToolContext;
use crate::tools::tool::ToolRequest;
use crate::writes::commit_state::{ChangeEffects, CommitState};
use crate::writes::local_names::LocalNames;
use crate::writes::written_rule::WrittenRule;

/// A tool that changes items or entities.
pub(crate) trait WriteTool: Send + Sync {
    fn spec(&self) -> ToolSpec;

    /// Validates the arguments of a call without reading documents. They may contain `names` where
    /// the tool expects IDs.
    fn decode(&self, request: &mut ToolRequest<'_>, names: &LocalNames) -> Result<Box<dyn Change>>;
}

/// A valid change, before its documents are looked up.
#[async_trait]
pub(crate) trait Change: Send + Sync {
    /// The reason in the log and the audit log if the change is committed alone.
    fn reason(&self) -> String;

    /// The project to change. All changes of a commit belong to one.
    async fn project(&self, _: &ToolContext, caller: &Caller) -> Result<ProjectKey> {
        Ok(caller.project.clone())
    }

    /// Looks up the documents that the decision needs. Called again if a decision finds the plan
    /// outdated.
    async fn plan(&self, context: PlanContext<'_>) -> Result<Box<dyn ChangePlan>>;
}

/// The positions that earlier changes of a commit give to items.
type PlannedPositions = Mutex<BTreeMap<Reference, ItemSortKey>>;

/// The state that changes are planned with.
#[derive(Clone, Copy)]
pub(crate) struct PlanContext<'a> {
    pub(crate) tools: &'a ToolContext,
    pub(crate) project: &'a ProjectKey,
    /// Caller and time of the commit.
    pub(crate) write: &'a WriteContext,
    /// Of all plans of the commit.
    pub(crate) shared: &'a Mutex<SharedMetadata>,
    pub(crate) schema: &'a OnceCell<Arc<RecordSchema>>,
    pub(crate) positions: &'a PlannedPositions,
}

impl<'a> PlanContext<'a> {
    pub(crate) fn backlog(self) -> BacklogReader<'a> {
        BacklogReader { ports: &self.tools.ports, project: self.project }
    }

    /// The record schema of the project. Read once, because a commit may have many plans.
    pub(crate) async fn schema(self) -> Result<Arc<RecordSchema>> {
        let read = || self.tools.ports.schema(self.project);
        self.schema.get_or_try_init(read).await.cloned()
    }

    pub(crate) fn address_space(self) -> AddressSpace<'a> {
        AddressSpace::of_project(self.tools, &self.write.caller, self.project.clone())
    }

    /// Returns the metadata of all documents that link to a target of the query, without the links
    /// that are values of custom fields; a document may be in the list twice. Plans share it,
    /// because each keeps it until the commit.
    pub(crate) async fn backlinks(&self, query: &BacklinkQuery) -> Result<Vec<Arc<DocumentMeta>>> {
        let found = self.tools.ports.documents.backlinks(self.project, query).await?;
        let mut found = found.concat();
        self.schema().await?.remove_field_links(&mut found);
        self.shared.lock().unwrap_or_else(PoisonError::into_inner).share(&mut found);
        Ok(found)
    }
}

/// A change with its looked-up documents.
pub(crate) trait ChangePlan: Send + Sync {
    /// Documents, backlinks and sequences that [`Self::decide`] reads.
    fn read_set(&self) -> ReadSet;

    /// Stages the change. `None` if the plan is outdated and must be made again. Pure, because a
    /// storage may repeat it.
    fn decide(&self, state: &mut CommitState<'_>) -> Result<Option<Decision>>;
}

/// The effect of a change on its document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Create,
    Update,
    /// An update without an effect.
    Keep,
    Relate,
    Delete,
}

/// Renders the answer of a single tool from the final document.
pub(crate) type RenderFn = Box<dyn FnOnce(&Document) -> Result<ToolAnswer> + Send>;

/// The result of [`ChangePlan::decide`].
pub(crate) struct Decision {
    pub(crate) action: Action,
    /// The document that the change is about; the tombstone of a deleted item.
    pub(crate) id: DocumentId,
    pub(crate) render: RenderFn,
}

/// The result of a committed change.
pub(crate) struct ChangeOutcome {
    pub(crate) action: Action,
    /// The document after all changes of the commit.
    pub(crate) document: Document,
    pub(crate) render: RenderFn,
    pub(crate) effects: ChangeEffects,
    /// The rule that the change is about.
    pub(crate) rule: Option<WrittenRule>,
}
