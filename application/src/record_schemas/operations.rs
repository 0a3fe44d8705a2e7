//! `get_record_schema` and `set_record_schema`: the operations of pages and commands that read and
//! change the custom fields and statuses of a project. Models do not see them.

use async_trait::async_trait;
use reqlore_domain::document::{Document, DocumentId, VersionPrefix};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Access;
use reqlore_domain::ports::documents::{DocumentChange, ReadSet, Snapshot};
use reqlore_domain::ports::record_list::RecordQuery;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::record_schema::{RecordSchemaAnswer, RecordSchemaChange};
use reqlore_domain::records::kinds::{EntityKind, ItemKind};
use reqlore_domain::records::schema::RecordSchema;
use reqlore_domain::records::values::value_key;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::answers::answer::{ToolAnswer, body_answer, text_answer};
use crate::documents::get_one;
use crate::ports::ApplicationPorts;
use crate::tools::tool::{Tool, ToolRequest, whole_tool, write_tool};
use crate::writes::transaction::{check_version, commit_decision};

pub(crate) struct GetRecordSchema;

pub(crate) struct SetRecordSchema;

/// The reason of a change that found no document, so that an undo may delete it.
pub(crate) const CREATE_REASON: &str = "create the custom fields and statuses";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The whole document in TOML; may be empty.
    text: String,
    /// Current version; empty for a document that must not exist.
    if_version: Option<String>,
}

#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct ReadArguments {
    /// Also return the users that records may name, for callers who may write.
    users: bool,
}

#[async_trait]
impl Tool for GetRecordSchema {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_listed: false,
            ..whole_tool::<ReadArguments, RecordSchemaAnswer>(
                "get_record_schema",
                "Read the custom fields and statuses",
                "Returns the custom fields and statuses of the project.",
            )
        }
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let ReadArguments { users } = request.decode()?;
        let ToolRequest { context, call, .. } = request;
        let (project, id) = (&call.caller.project, DocumentId::schema());
        let document = get_one(&*context.ports.documents, project, &id).await?;
        let document = document.as_ref();
        let schemas = &context.ports.schemas;
        let schema = document.map(|one| schemas.parse(project, one)).unwrap_or_default();
        let can_edit = call.caller.is_administrator();
        let mut answer = RecordSchemaAnswer::new(project.to_string(), document, &schema, can_edit);
        if users && call.caller.is_allowed(Access::Write) {
            answer.users = context.ports.user_names().await?;
        }
        let mut lines = vec![match answer.version.get(..8) {
            Some(version) => format!("{id} (version {version})"),
            None => format!("{id} does not exist"),
        }];
        lines.extend(answer.diagnostics.iter().map(|one| problem_line(one.line, &one.message)));
        body_answer(format!("{}\n\n{}", lines.join("\n"), answer.text), &answer)
    }
}

#[async_trait]
impl Tool for SetRecordSchema {
    fn spec(&self) -> ToolSpec {
        ToolSpec {
            is_listed: false,
            is_whole: true,
            is_destructive: true,
            is_idempotent: true,
            ..write_tool::<Arguments, RecordSchemaChange>(
                "set_record_schema",
                "Change the custom fields and statuses",
                "Replaces the custom fields and statuses of the project.",
            )
        }
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let Arguments { text, if_version } = request.decode()?;
        let ToolRequest { context, call, .. } = &request;
        let expected = ExpectedState::parse(if_version)?;
        let document = Document::new(DocumentId::schema(), text.into_bytes().into());
        let schema = RecordSchema::of_document(&document);
        check_entries(&schema)?;
        let (ports, project) = (&*context.ports, call.caller.project.clone());
        let write = request.write_context(match expected {
            ExpectedState::Missing => CREATE_REASON,
            _ => "change the custom fields and statuses",
        });
        let version = document.version.to_string();
        let reads = ReadSet { documents: vec![document.id.clone()], ..ReadSet::default() };
        let decide = move |snapshot: &Snapshot| decide(snapshot, &document, &expected);
        let (old, _) = commit_decision(ports, &project, reads, write, decide).await?;
        // An error now would say that the change, which is stored, failed.
        let notes = kept_value_notes(ports, &project, &old, &schema).await.unwrap_or_default();
        let short = version.get(..8).unwrap_or_default();
        let text = format!("Changed {} (version {short})", DocumentId::schema());
        let change = RecordSchemaChange { project: project.to_string(), version, notes: vec![] };
        let mut answer = text_answer(text, &change)?;
        answer.add_notes(notes);
        Ok(answer)
    }
}

/// The state of the document that a change expects.
enum ExpectedState {
    Any,
    Missing,
    Version(VersionPrefix),
}

impl ExpectedState {
    fn parse(if_version: Option<String>) -> Result<Self> {
        match if_version {
            None => Ok(Self::Any),
            Some(text) if text.is_empty() => Ok(Self::Missing),
            Some(text) => VersionPrefix::try_from(text).map(Self::Version).map_err(|problem| {
                let message = format!("if_version: {problem}");
                Error::new(ErrorKind::InvalidArgument, message).field("if_version")
            }),
        }
    }
}

/// A problem of the whole document stands at its first line.
fn problem_line(line: Option<usize>, message: &str) -> String {
    format!("line {}: {message}", line.unwrap_or(1))
}

/// Rejects a text with an invalid entry. A file may have one, but a caller would not notice it.
fn check_entries(schema: &RecordSchema) -> Result<()> {
    if schema.diagnostics.is_empty() {
        return Ok(());
    }
    let problems = schema.diagnostics.iter().map(|one| problem_line(one.line, &one.message));
    let problems: Vec<String> = problems.collect();
    let message = format!("text: {}. Nothing was written.", problems.join(". "));
    Err(Error::new(ErrorKind::InvalidArgument, message).field("text"))
}

/// Returns the change and the schema before it.
fn decide(
    snapshot: &Snapshot,
    document: &Document,
    expected: &ExpectedState,
) -> Result<(Vec<DocumentChange>, RecordSchema)> {
    let present = snapshot.documents.first().and_then(Option::as_ref);
    match (expected, present) {
        (ExpectedState::Missing, Some(present)) => {
            let version = present.version;
            return Err(conflict(document, &format!("exists at version {version}")));
        }
        (ExpectedState::Version(_), None) => return Err(conflict(document, "was deleted")),
        (ExpectedState::Version(version), Some(present)) => {
            check_version(Some(*version), present, &document.id)?;
        }
        _ => {}
    }
    let old = present.map(RecordSchema::of_document).unwrap_or_default();
    if present.is_some_and(|present| present.version == document.version) {
        return Ok((Vec::new(), old));
    }
    Ok((vec![DocumentChange::Put { document: document.clone() }], old))
}

fn conflict(document: &Document, state: &str) -> Error {
    let id = &document.id;
    let message = format!("Conflict: {id} {state}. Nothing was changed; read it again.");
    Error::new(ErrorKind::Conflict, message).field("if_version").reference(id.to_string())
}

/// Returns a note for each field and status that records keep and the new schema lacks.
async fn kept_value_notes(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    old: &RecordSchema,
    new: &RecordSchema,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    for field in old.fields.iter().filter(|field| new.field(&field.name).is_none()) {
        notes.push(format!("The values of {} stay in the documents.", field.name));
    }
    for kind in ItemKind::ALL.into_iter().filter(|kind| new.statuses(*kind) != old.statuses(*kind))
    {
        let page = ports.documents.list(project, &RecordQuery::of_items(kind, 0)).await?;
        let unlisted = page.by_status.iter().filter(|(one, _)| !new.statuses(kind).contains(one));
        let [one, several] = kind.row().words;
        notes.extend(
            unlisted.map(|(status, count)| kept_status_note(*count, [one, several], status.name())),
        );
    }
    for kind in EntityKind::all() {
        let statuses = new.entity_statuses(kind.name());
        let Some(statuses) = statuses.filter(|new| old.entity_statuses(kind.name()) != Some(new))
        else {
            continue;
        };
        let query = RecordQuery::of_entities(Some(kind.name().to_owned()), 0);
        for (status, count) in ports.documents.list(project, &query).await?.by_text {
            if !statuses.iter().any(|(name, _)| value_key(name) == value_key(&status)) {
                notes.push(kept_status_note(count, kind.row().words, &status));
            }
        }
    }
    Ok(notes)
}

fn kept_status_note(count: usize, [one, several]: [&str; 2], status: &str) -> String {
    let (noun, verb) = if count == 1 { (one, "keeps") } else { (several, "keep") };
    format!("{count} {noun} {verb} the status {status:?}, which is not in the order.")
}
