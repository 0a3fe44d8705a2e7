//! Commits of several changes: all or nothing, with the errors of all of them at once.

use std::sync::Mutex;

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentKind};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::{DocumentChange, Snapshot};
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::applied_changes::RenumberedRule;
use tokio::sync::OnceCell;

use crate::answers::answer::ToolAnswer;
use crate::backlog::claims::end_finished_claims;
use crate::context::ToolContext;
use crate::tools::tool::{Tool, ToolRequest};
use crate::writes::change::{Change, ChangeOutcome, ChangePlan, Decision, PlanContext, WriteTool};
use crate::writes::commit_state::{CommitState, MergedReads};
use crate::writes::local_names::LocalNames;
use crate::writes::read_versions::ReadVersions;
use crate::writes::transaction::{check_merged, commit_decision};
use crate::writes::write_guard::CallGuard;

#[async_trait]
impl<T: WriteTool> Tool for T {
    fn spec(&self) -> ToolSpec {
        WriteTool::spec(self)
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        // Without local names: a single change has no earlier entry.
        let change = self.decode(&mut request, &LocalNames::default())?;
        let batch = ChangeBatch {
            reason: change.reason(),
            changes: vec![change],
            positions: vec![0],
            is_dry_run: false,
            expected: None,
        };
        let committed = batch.commit(&request).await.map_err(BatchError::first)?;
        let Some(outcome) = committed.outcomes.into_iter().next() else {
            return Err(Error::new(ErrorKind::Internal, "The change has no outcome."));
        };
        let mut answer = (outcome.render)(&outcome.document)?;
        answer.add_notes(outcome.effects.notes);
        Ok(answer)
    }

    fn as_write_tool(&self) -> Option<&dyn WriteTool> {
        Some(self)
    }
}

/// The result of a committed batch.
#[derive(Default)]
pub(crate) struct CommittedBatch {
    pub(crate) project: ProjectKey,
    /// In the order of the changes.
    pub(crate) outcomes: Vec<ChangeOutcome>,
    pub(crate) renumbered: Vec<RenumberedRule>,
    /// The documents that the decision read.
    pub(crate) reads: ReadVersions,
}

/// Plans by the position of their change in the call, counted from 0.
type PositionedPlans = Vec<(usize, Box<dyn ChangePlan>)>;
/// Errors by the position of their change in the call, counted from 0.
type ChangeErrors = Vec<(usize, Error)>;

/// The errors of a batch, which wrote nothing.
pub(crate) enum BatchError {
    Changes(ChangeErrors),
    /// The storage failed, or the batch as a whole was refused.
    Whole(Error),
}

impl From<Error> for BatchError {
    fn from(error: Error) -> Self {
        Self::Whole(error)
    }
}

impl BatchError {
    /// The error of a batch with one change.
    fn first(self) -> Error {
        match self {
            Self::Whole(error) => error,
            Self::Changes(errors) => match errors.into_iter().next() {
                Some((_, error)) => error,
                None => Error::new(ErrorKind::Internal, "A batch failed without an error."),
            },
        }
    }
}

/// True for an error of one change; false if the server cannot work.
fn concerns_change(error: &Error) -> bool {
    use ErrorKind::{
        Conflict, Forbidden, InvalidArgument, NotFound, Refused, UnknownTool, Unreadable,
    };
    matches!(
        error.kind,
        InvalidArgument | UnknownTool | NotFound | Conflict | Refused | Forbidden | Unreadable
    )
}

/// Changes for one commit: all or nothing.
pub(crate) struct ChangeBatch {
    /// The reason in the log and the audit log.
    pub(crate) reason: String,
    pub(crate) changes: Vec<Box<dyn Change>>,
    /// The positions of the changes in the call, which may have invalid entries between them.
    pub(crate) positions: Vec<usize>,
    /// Decides everything and writes nothing.
    pub(crate) is_dry_run: bool,
    /// The documents that an earlier dry run read. If one of them has changed, nothing is written.
    pub(crate) expected: Option<ReadVersions>,
}

/// A plan becomes outdated when another call adds a child or a link in the meantime.
const MAX_ATTEMPTS: usize = 5;

impl ChangeBatch {
    /// Commits the changes.
    pub(crate) async fn commit(
        &self,
        request: &ToolRequest<'_>,
    ) -> Result<CommittedBatch, BatchError> {
        let ToolRequest { context, spec, call } = request;
        let project = self.project(context, &call.caller).await?;
        let write = request.write_context(self.reason.clone());
        let guard = context.call_guard(&call.caller, &project);
        // Planned again from the start, because one outdated plan may invalidate the others.
        for _ in 0..MAX_ATTEMPTS {
            let (shared, schema, positions) = (Mutex::default(), OnceCell::new(), Mutex::default());
            let plan_context = PlanContext {
                tools: context,
                project: &project,
                write: &write,
                shared: &shared,
                schema: &schema,
                positions: &positions,
            };
            let (plans, mut errors) = self.plan(plan_context).await?;
            let mut reads = MergedReads::default();
            for (_, plan) in &plans {
                reads.add(plan.read_set());
            }
            let (read_set, has_errors) = (reads.set.clone(), !errors.is_empty());
            let (is_dry_run, expected, shown) =
                (self.is_dry_run, self.expected.clone(), guard.clone());
            let decide = move |snapshot: &Snapshot| {
                let versions = ReadVersions::of_snapshot(snapshot);
                if let Some(expected) = &expected {
                    expected.check_unchanged(&versions)?;
                }
                let state = CommitState::new(&reads, snapshot, &shown);
                // The others are decided too, so that the caller gets all errors at once.
                let (mut changes, result) = decide_all(&plans, state, has_errors)?;
                if is_dry_run {
                    check_merged(snapshot, &changes)?;
                }
                let written = reads.written(snapshot, &changes);
                if is_dry_run || has_errors {
                    // After all decisions, so that a dry run reports the errors of a real one.
                    changes.clear();
                }
                Ok((changes, (result, versions, written)))
            };
            let ((result, reads, written), _) =
                commit_decision(&context.ports, &project, read_set, write.clone(), decide).await?;
            match result {
                DecisionResult::Outdated => {}
                DecisionResult::Failed(failed) => {
                    errors.extend(failed);
                    return Err(BatchError::Changes(errors));
                }
                DecisionResult::Decided(..) if has_errors => {
                    return Err(BatchError::Changes(errors));
                }
                DecisionResult::Decided(outcomes, renumbered) => {
                    if !self.is_dry_run {
                        note_written(&guard, spec.name, &written, &outcomes, &renumbered);
                        end_finished_claims(&context.ports, &project, &written).await;
                    }
                    return Ok(CommittedBatch { project, outcomes, renumbered, reads });
                }
            }
        }
        let message = format!(
            "{}: other calls keep adding links to these items; nothing was written, try again",
            self.reason
        );
        Err(Error::new(ErrorKind::Busy, message).into())
    }

    /// Returns the plans and the errors, each with its position in the call.
    async fn plan(&self, context: PlanContext<'_>) -> Result<(PositionedPlans, ChangeErrors)> {
        let mut plans = Vec::with_capacity(self.changes.len());
        let mut errors = Vec::new();
        for (position, change) in self.positions.iter().zip(&self.changes) {
            match change.plan(context).await {
                Ok(plan) => plans.push((*position, plan)),
                Err(error) if concerns_change(&error) => errors.push((*position, error)),
                Err(error) => return Err(error),
            }
        }
        Ok((plans, errors))
    }

    async fn project(
        &self,
        context: &ToolContext,
        caller: &Caller,
    ) -> Result<ProjectKey, BatchError> {
        let mut project = None;
        let mut errors = Vec::new();
        for (position, change) in self.positions.iter().copied().zip(&self.changes) {
            match change.project(context, caller).await {
                Ok(own) if *project.get_or_insert_with(|| own.clone()) == own => {}
                Ok(_) => {
                    let message = "the entry belongs to a different project than earlier entries; \
                                   send it in a call of its own";
                    errors.push((position, Error::new(ErrorKind::Refused, message)));
                }
                Err(error) if concerns_change(&error) => errors.push((position, error)),
                Err(error) => return Err(error.into()),
            }
        }
        if !errors.is_empty() {
            return Err(BatchError::Changes(errors));
        }
        Ok(project.unwrap_or_else(|| caller.project.clone()))
    }
}

/// Notes what the caller wrote. Rules are noted one by one, because others of their section may
/// have changes that the caller was not shown.
fn note_written(
    guard: &CallGuard,
    tool: &str,
    documents: &[(Option<Document>, Document)],
    outcomes: &[ChangeOutcome],
    renumbered: &[RenumberedRule],
) {
    for (before, document) in documents {
        if document.id.kind == DocumentKind::Section {
            guard.note_write(&document.id, document.version, tool);
        } else {
            guard.note_written(before.as_ref(), Some(document), tool);
        }
    }
    let mut written = Vec::new();
    for ChangeOutcome { rule, effects, .. } in outcomes {
        match (rule, &effects.rule_text) {
            (Some(rule), Some(text)) => written.push((&rule.address, text)),
            // First, because another rule may have its address afterwards.
            (Some(deleted), None) => guard.note_rule(&deleted.address, String::new()),
            (None, _) => {}
        }
    }
    guard.move_rules(renumbered);
    for (address, text) in written {
        guard.note_rule(address, text.clone());
    }
}

/// The result of the decisions of a batch.
enum DecisionResult {
    Decided(Vec<ChangeOutcome>, Vec<RenumberedRule>),
    /// The caller plans again and decides from the new state.
    Outdated,
    /// By the position of the change.
    Failed(Vec<(usize, Error)>),
}

/// Decides the plans in order. No changes unless all of them succeed.
fn decide_all(
    plans: &[(usize, Box<dyn ChangePlan>)],
    mut state: CommitState<'_>,
    has_errors: bool,
) -> Result<(Vec<DocumentChange>, DecisionResult)> {
    let mut decisions = Vec::with_capacity(plans.len());
    let mut errors: Vec<(usize, Error)> = Vec::new();
    for (entry, plan) in plans {
        let entry = *entry;
        state.entry = entry;
        let is_complete = !has_errors && errors.is_empty();
        match plan.decide(&mut state) {
            Ok(Some(decision)) => decisions.push((entry, decision)),
            Ok(None) if is_complete => return Ok((Vec::new(), DecisionResult::Outdated)),
            Err(error) if concerns_change(&error) => {
                // A deletion may need the change that failed.
                if is_complete || error.field.as_deref() != Some("cascade") {
                    errors.push((entry, error));
                }
            }
            Err(error) if is_complete => return Err(error),
            // After an error the state lacks a change, which may be the reason.
            Ok(None) | Err(_) => {}
        }
    }
    if !errors.is_empty() {
        return Ok((Vec::new(), DecisionResult::Failed(errors)));
    }
    state.apply_all_unlinks()?;
    state.end_superseded()?;
    state.warn_of_drafts();
    let (mut rules, renumbered) = state.rule_results()?;
    // After the last decision, so that each outcome shows the final document.
    let mut outcomes = Vec::with_capacity(decisions.len());
    for (entry, Decision { action, id, render }) in decisions {
        // A later change may have added a relationship to the document.
        let Some(document) = state.document(&id).cloned() else {
            let message = format!("{id} was decided and does not exist.");
            return Err(Error::new(ErrorKind::Internal, message));
        };
        let effects = state.effects.remove(&entry).unwrap_or_default();
        let rule = rules.remove(&entry);
        outcomes.push(ChangeOutcome { action, document, render, effects, rule });
    }
    let changes = state.changes.into_iter().map(|staged| staged.change).collect();
    Ok((changes, DecisionResult::Decided(outcomes, renumbered)))
}
