//! `apply_changes`: several changes in one commit. Each entry is authorized and decoded as by the
//! tool for one item.

mod answer;
mod entry;
mod errors;
mod same_titles;
mod schema;
pub(crate) mod stored_plans;

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::applied_changes::{AppliedChanges, RenumberedRule};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use self::answer::{change_noun, new_answer};
use self::entry::{Entry, NewKind, local_name};
use self::errors::EntryErrors;
use self::same_titles::NewTitles;
use self::schema::{EntryList, MAX_ENTRIES};
use self::stored_plans::StoredPlan;
use crate::answers::answer::ToolAnswer;
use crate::tools::tool::{ListedTool, Tool, ToolRequest, write_tool};
use crate::writes::batch::{BatchError, ChangeBatch, CommittedBatch};
use crate::writes::change::Change;
use crate::writes::local_names::LocalNames;
use crate::writes::read_versions::ReadVersions;

#[derive(Clone)]
pub(crate) struct ApplyChanges {
    /// The toolsets whose items it creates.
    pub(crate) toolsets: Vec<Toolset>,
    /// The tools that decode its entries.
    pub(crate) tools: Vec<ListedTool>,
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Applied in order.
    changes: Option<EntryList>,
    /// Plan of a dry run; replaces changes.
    plan: Option<BoundedString<100>>,
    /// Writes nothing and returns a plan.
    #[serde(default)]
    dry_run: bool,
}

#[async_trait]
impl Tool for ApplyChanges {
    fn spec(&self) -> ToolSpec {
        let mut spec = ToolSpec {
            is_destructive: true,
            ..write_tool::<Arguments, AppliedChanges>(
                "apply_changes",
                "Create or change many items at once",
                "Applies up to 100 changes of items and rules, all or nothing. Each entry has one \
                 of create (a kind), update, delete, relate, and the arguments of the tool for one \
                 item. A rule has an ID such as checkout:3.",
            )
        };
        let mut schema = Value::Object(std::mem::take(&mut spec.input_schema));
        // A model would try a kind that is listed.
        let create = "/properties/changes/items/properties/create/enum";
        if let Some(kinds) = schema.pointer_mut(create) {
            *kinds = NewKind::names(&self.toolsets).into();
        }
        if let Value::Object(schema) = schema {
            spec.input_schema = schema;
        }
        spec
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        match (arguments.changes, arguments.plan) {
            (Some(EntryList(entries)), None) => {
                // Checked here, because the deserializer does not enforce `maxItems`.
                let count = entries.len();
                if !(1..=MAX_ENTRIES).contains(&count) {
                    let message =
                        format!("changes: it has {count} entries; send 1 to {MAX_ENTRIES}");
                    return Err(argument_error("changes", message));
                }
                self.apply(&request, &entries, arguments.dry_run, None).await
            }
            (None, Some(_)) if arguments.dry_run => {
                let message = "dry_run: not allowed with plan; omit dry_run";
                Err(argument_error("dry_run", message))
            }
            (None, Some(plan)) => {
                let plan = plan.as_str().trim().to_lowercase();
                self.apply_plan(&request, &plan).await
            }
            (Some(_), Some(_)) => {
                Err(argument_error("plan", "plan: send either changes or a plan, not both"))
            }
            (None, None) => Err(argument_error("changes", "changes: send changes or a plan")),
        }
    }
}

fn argument_error(field: &str, message: impl Into<String>) -> Error {
    Error::new(ErrorKind::InvalidArgument, message).field(field)
}

impl ApplyChanges {
    async fn apply_plan(&self, request: &ToolRequest<'_>, id: &str) -> Result<ToolAnswer> {
        let ToolRequest { context, call, .. } = request;
        let now = context.ports.clock.now();
        let plan = context.plans.take(id, &call.caller, now)?;
        let entries: Vec<Value> = serde_json::from_str(&plan.entries).map_err(|error| {
            Error::new(ErrorKind::Internal, "A plan is invalid.").caused_by(error)
        })?;
        let applied = self.apply(request, &entries, false, Some(plan.reads.clone())).await;
        applied.map_err(|mut error| {
            match &error.field {
                // Nothing was written, so the same call may be repeated.
                _ if matches!(error.kind, ErrorKind::Busy | ErrorKind::Unavailable) => {
                    context.plans.insert(plan, now);
                }
                Some(field) if field.starts_with("changes") => {
                    let problem = "plan: it no longer applies; send the changes again";
                    error.message = format!("{problem}.\n{}", error.message);
                }
                _ => {}
            }
            error
        })
    }

    /// Applies entries. `expected` is what the dry run of their plan read.
    pub(crate) async fn apply(
        &self,
        request: &ToolRequest<'_>,
        entries: &[Value],
        dry_run: bool,
        expected: Option<ReadVersions>,
    ) -> Result<ToolAnswer> {
        let mut names = LocalNames::of_call();
        let mut errors = EntryErrors::new(entries);
        let mut positions = Vec::with_capacity(entries.len());
        let mut changes: Vec<Box<dyn Change>> = Vec::with_capacity(entries.len());
        for (position, entry) in entries.iter().enumerate() {
            if errors.uses_unknown_name(entry) {
                continue;
            }
            let decoded = match Entry::parse(entry.clone()) {
                Ok(entry) => {
                    errors.set_operation(position, entry.operation);
                    entry.decode(request, &self.tools, position, &mut names)
                }
                Err(error) => {
                    errors.add_unknown_name(entry);
                    Err(error)
                }
            };
            match decoded {
                Ok(change) => {
                    positions.push(position);
                    changes.push(change);
                }
                Err(error) => errors.push(position, error),
            }
        }
        let count = entries.len();
        let reason = format!("apply {count} {}", change_noun(count));
        // With an error nothing will be written, but the other entries may have errors too.
        let is_dry_run = dry_run || !errors.is_empty();
        let batch = ChangeBatch { reason, changes, positions, is_dry_run, expected };
        match batch.commit(request).await {
            Err(BatchError::Whole(error)) if errors.is_empty() => return Err(error),
            Err(BatchError::Changes(found)) => {
                for (position, error) in found {
                    errors.push(position, error);
                }
            }
            Ok(batch) if errors.is_empty() => {
                return render(request, entries, batch, dry_run).await;
            }
            // The errors of the entries are more useful.
            Err(BatchError::Whole(_)) | Ok(_) => {}
        }
        Err(errors.merge(request, &names).await)
    }
}

async fn render(
    request: &ToolRequest<'_>,
    entries: &[Value],
    mut batch: CommittedBatch,
    dry_run: bool,
) -> Result<ToolAnswer> {
    let mut notes = Vec::new();
    for (position, outcome) in batch.outcomes.iter_mut().enumerate() {
        notes.extend(outcome.effects.notes.drain(..).map(|note| (position, note)));
    }
    let names = entries.iter().map(local_name).collect();
    let mut answer = new_answer(&batch, names, dry_run);
    let new_titles = NewTitles::of_batch(&batch);
    let CommittedBatch { project, renumbered, reads, .. } = batch;
    notes.extend(new_titles.find_existing(request.context, &project).await);
    let mut plan_note = None;
    if dry_run {
        (answer.plan, plan_note) = store_plan(request, entries, reads)?;
    }
    let mut answer = ToolAnswer::new(answer);
    answer.add_notes(plan_note);
    answer.add_notes(list_notes(notes));
    answer.add_notes(describe_renumbered(&renumbered));
    Ok(answer)
}

/// Stores the plan of a valid dry run. Returns its ID, or the reason against it.
fn store_plan(
    ToolRequest { context, call, .. }: &ToolRequest<'_>,
    entries: &[Value],
    reads: ReadVersions,
) -> Result<(Option<String>, Option<String>)> {
    const ID_LETTERS: usize = 4;
    let letters = context.ports.ids.random_letters(ID_LETTERS)?;
    // In one case, because a model may not keep it.
    let id = format!("p{}", letters.to_lowercase());
    let now = context.ports.clock.now();
    let entries = Value::from(entries).to_string();
    let plan = StoredPlan::new(id.clone(), &call.caller, now, entries, reads);
    if context.plans.insert(plan, now) {
        return Ok((Some(id), None));
    }
    let note = "The changes are too large to be kept as a plan; send them again to apply them.";
    Ok((None, Some(note.to_owned())))
}

/// The first warnings, each with its entry.
fn list_notes(mut notes: Vec<(usize, String)>) -> Vec<String> {
    const MAX_NOTES: usize = 20;
    notes.sort_by_key(|(position, _)| *position);
    let more = notes.len().saturating_sub(MAX_NOTES);
    notes.truncate(MAX_NOTES);
    let mut lines = Vec::with_capacity(notes.len() + 1);
    for (position, note) in notes {
        lines.push(format!("entry {}: {note}", position + 1));
    }
    if more > 0 {
        lines.push(format!("{more} more notes"));
    }
    lines
}

/// A note; `None` if no rule was renumbered.
fn describe_renumbered(renumbered: &[RenumberedRule]) -> Option<String> {
    const MAX_LISTED: usize = 50;
    if renumbered.is_empty() {
        return None;
    }
    let mut moves = Vec::new();
    for rule in renumbered.iter().take(MAX_LISTED) {
        moves.push(format!("{} is now {}", rule.from, rule.to));
    }
    if renumbered.len() > MAX_LISTED {
        moves.push(format!("{} more", renumbered.len() - MAX_LISTED));
    }
    Some(format!("Rules were renumbered to keep the order: {}.", moves.join(", ")))
}

#[cfg(test)]
mod tests;
