//! `import_items`: imports the items of a pasted document in one commit.

use std::io::Cursor;

use async_trait::async_trait;
use reqlore_domain::backlog::ItemKind;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::ports::exchange::{
    ARCHIVE_MARK, ExchangeFormat, ImportMapping, ImportedItems, SourceFile, find_format,
    format_names,
};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::record_list::RecordQuery;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::records::answers::applied_changes::AppliedChanges;
use reqlore_domain::records::schema::RecordSchema;
use schemars::JsonSchema;
use serde::Deserialize;

use super::{ImportOptions, ImportPlan};
use crate::answers::answer::ToolAnswer;
use crate::apply_changes::ApplyChanges;
use crate::backlog::arguments::EpicRef;
use crate::backlog::item_lookup::BacklogReader;
use crate::backlog::record_contents::listed_records;
use crate::tools::tool::{Tool, ToolRequest, write_tool};

/// Bounds the duration of the commit.
const MAX_CHANGES: usize = 1_000;
const MAX_CONTENT_BYTES: usize = 1 << 20;
/// Maximum lines of each section of the report.
const MAX_LINES: usize = 20;
const PAGE_RECORDS: usize = 1_000;

pub(crate) struct ImportItems(pub(crate) ApplyChanges);

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Of the source, such as specs/login/spec.md. The same path updates.
    #[schemars(with = "String")]
    path: BoundedString<300>,
    /// At most 1 MiB.
    content: String,
    /// openspec, kiro, spec-kit, markdown, csv, json, ...; default: recognized.
    #[schemars(with = "Option<String>")]
    format: Option<BoundedString<40>>,
    /// Epic for items that have none.
    into: Option<EpicRef>,
    /// Also overwrites items edited on both sides.
    #[serde(default)]
    update: bool,
    /// Writes nothing and returns a plan for apply_changes.
    #[serde(default)]
    dry_run: bool,
}

#[async_trait]
impl Tool for ImportItems {
    fn spec(&self) -> ToolSpec {
        write_tool::<Arguments, AppliedChanges>(
            "import_items",
            "Import a specification",
            "Imports a specification or backlog of another tool as items. Importing it again \
             updates them.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let Arguments { path, content, format, into, update, dry_run } = request.decode()?;
        let ToolRequest { context, call, .. } = &request;
        let ports = &*context.ports;
        if content.len() > MAX_CONTENT_BYTES {
            return Err(content_error("larger than 1 MiB; split it"));
        }
        if content.starts_with(ARCHIVE_MARK) {
            return Err(content_error("it is an archive, not text; use `reqlore import`"));
        }
        let path = path.as_str().trim();
        let format = choose_format(ports.exchange_formats, format.as_ref(), path, &content)?;
        let into = into.as_ref().map(|epic| epic.parse_folded("into")).transpose()?;
        let schema = ports.schema(&call.caller.project).await?;
        let (imported, mapping) = read_content(format, &schema, path, content)?;
        let options = ImportOptions {
            format: format.name().to_owned(),
            into: into.map(|epic| epic.to_string()),
            update,
            values: mapping.values,
            users: ports.user_names().await?,
        };
        let mut plan = ImportPlan::new(&schema, options, imported);
        add_stored(&request, &schema, &mut plan).await?;
        plan.decide();
        let report = plan.report();
        if !report.problems.is_empty() {
            let first: Vec<&str> =
                report.problems.iter().take(MAX_LINES).map(String::as_str).collect();
            return Err(content_error(&first.join("\n")));
        }
        let text = report.text(false, MAX_LINES).trim_end().to_owned();
        let count = report.created.len() + report.updated.len() + report.links;
        if count == 0 {
            let project = call.caller.project.to_string();
            let answer = AppliedChanges { project, dry_run, ..AppliedChanges::default() };
            let mut answer = ToolAnswer::new(answer);
            answer.add_notes([text]);
            return Ok(answer);
        }
        if count > MAX_CHANGES {
            return Err(content_error(&format!(
                "it needs {count} changes; at most {MAX_CHANGES} are allowed, so split it or use \
                 `reqlore import`"
            )));
        }
        let Some(changes) = plan.one_batch() else {
            let problem = "links of entities need two commits; use `reqlore import`";
            return Err(content_error(problem));
        };
        let applied = self.0.apply(&request, &changes, dry_run, None).await;
        let mut answer = applied.map_err(|error| error.field("content"))?;
        answer.add_notes([text]);
        Ok(answer)
    }
}

fn content_error(problem: &str) -> Error {
    let message = format!("content: {problem}");
    Error::new(ErrorKind::InvalidArgument, message).field("content")
}

/// The named format, or the first one that recognizes the content.
fn choose_format(
    formats: &[&'static dyn ExchangeFormat],
    name: Option<&BoundedString<40>>,
    path: &str,
    content: &str,
) -> Result<&'static dyn ExchangeFormat> {
    let found = match name {
        Some(name) => find_format(formats, name.as_str()),
        None => formats.iter().copied().find(|format| format.recognizes(path, content)).ok_or_else(
            || format!("it was not recognized; use one of {}", format_names(formats).join(", ")),
        ),
    };
    found.map_err(|problem| {
        Error::new(ErrorKind::InvalidArgument, format!("format: {problem}")).field("format")
    })
}

fn read_content(
    format: &dyn ExchangeFormat,
    schema: &RecordSchema,
    path: &str,
    content: String,
) -> Result<(ImportedItems, ImportMapping)> {
    let mut mapping = ImportMapping::default().for_format(format, schema);
    let file = SourceFile { path: path.to_owned(), content: Box::new(Cursor::new(content)) };
    let imported = format.read(vec![file], &mut mapping);
    let imported = imported.map_err(|problem| content_error(&problem))?;
    if imported.items.is_empty() {
        let name = format.name();
        return Err(content_error(&format!(
            "it has no item in the format {name}; correct path or format"
        )));
    }
    Ok((imported, mapping))
}

/// Adds all records of the project.
async fn add_stored(
    ToolRequest { context, call, .. }: &ToolRequest<'_>,
    schema: &RecordSchema,
    plan: &mut ImportPlan<'_>,
) -> Result<()> {
    let backlog = BacklogReader::for_caller(&context.ports, &call.caller);
    let mut queries: Vec<RecordQuery> =
        ItemKind::ALL.map(|kind| RecordQuery::of_items(kind, PAGE_RECORDS)).into();
    if context.ports.settings.toolsets.contains(&Toolset::Knowledge) {
        queries.push(RecordQuery::of_entities(None, PAGE_RECORDS));
    }
    for mut query in queries {
        loop {
            let page = backlog.ports.documents.list(backlog.project, &query).await?;
            for record in listed_records(backlog, schema, &page.metadata).await? {
                plan.add_stored(&record);
            }
            query.after = page.next;
            if query.after.is_none() {
                break;
            }
        }
    }
    Ok(())
}
