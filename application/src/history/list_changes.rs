//! `list_changes`: the documents that changed since a time or an earlier answer, the newest last.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use reqlore_domain::bounded_types::BoundedString;
use reqlore_domain::document::{Document, DocumentId, DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::knowledge::EntityKind;
use reqlore_domain::ports::change_page::{ChangePage, ChangePosition, Revision};
use reqlore_domain::ports::documents::Refresh;
use reqlore_domain::ports::history::{ChangedDocument, HistoryQuery};
use reqlore_domain::ports::project_resolver::Toolset;
use reqlore_domain::ports::service::ToolSpec;
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::records::answers::changes::{ChangedRecord, ChangesPage};
use reqlore_domain::records::answers::document_label::DocumentLabel;
use reqlore_domain::timestamp::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answers::answer::{ToolAnswer, serialization_error};
use crate::backlog::search_global::{EntityType, parse_entity_types};
use crate::ports::ApplicationPorts;
use crate::tools::pagination::{PageAnswer, PageCursor, PageLimit, PageReader, page_limit};
use crate::tools::tool::{Tool, ToolRequest, read_tool};

const DEFAULT_SECONDS: i64 = 24 * 60 * 60;
/// The time of an unknown token is this much earlier: clocks of servers and of files differ.
const MARGIN_SECONDS: i64 = 2;
/// Changes of one call to the storage.
const PAGE_SIZE: usize = 1_000;

pub(crate) struct ListChanges;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Time or next of an answer, default 24 hours ago.
    #[schemars(with = "Option<String>")]
    since: Option<BoundedString<1_000>>,
    /// Such as decision.
    #[serde(default)]
    #[schemars(with = "Vec<String>")]
    kinds: Vec<BoundedString<100>>,
    /// 1 to 100, default 50.
    limit: Option<PageLimit>,
    // From the previous page.
    cursor: Option<PageCursor>,
}

/// A moment in the history of the caller's projects.
#[derive(Clone, Default, Serialize, Deserialize)]
struct Moment {
    at: Timestamp,
    /// Storage, writer and revision of each project; empty for a time.
    positions: Vec<(String, u64, u64)>,
}

/// The start of a page.
#[derive(Serialize, Deserialize)]
struct Position {
    /// The moment of the first page, so that changes between two pages are not missed.
    next: Moment,
    last: (Timestamp, DocumentId),
}

#[async_trait]
impl Tool for ListChanges {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, ChangesPage>(
            "list_changes",
            "List what changed",
            "Lists the changed documents, the newest last.",
        )
    }

    async fn call(&self, mut request: ToolRequest<'_>) -> Result<ToolAnswer> {
        let arguments: Arguments = request.decode()?;
        let ToolRequest { context, call, spec } = request;
        let (ports, caller) = (&context.ports, &call.caller);
        let mut projects = vec![caller.project.clone()];
        if ports.settings.toolsets.contains(&Toolset::Knowledge) {
            // Entities may be in a project above the caller's.
            projects.push(ports.projects.resolve(caller, None, Toolset::Knowledge).await?);
            projects.dedup();
        }
        let kinds = parse_entity_types(&arguments.kinds)?;
        let moments = PageReader::new(&caller.project, &"moments");
        let since = arguments.since.as_ref().map(BoundedString::as_str);
        let names: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        let pages = PageReader::new(&caller.project, &(spec.name, since, names));
        let position: Option<Position> = pages.position(arguments.cursor.as_ref())?;
        let (next, last) = position.map(|Position { next, last }| (next, last)).unzip();
        let now = next.as_ref().map_or(ports.clock.now(), |next: &Moment| next.at);
        let since = parse_since(since, &moments, now)?;
        let mut newest = Moment { at: ports.clock.now(), positions: Vec::new() };
        let mut notes = Vec::new();
        let mut changes = Vec::new();
        for (index, project) in projects.iter().enumerate() {
            let after = since.positions.get(index).and_then(parse_position);
            let (ids, position) = changed_ids(ports, project, after).await?;
            newest.positions.push(position_parts(position));
            let mut time = since.at;
            if ids.is_none() && !since.positions.is_empty() {
                time = Timestamp::new(time.seconds() - MARGIN_SECONDS, 0);
                notes.push(format!(
                    "since: this store does not know the token; these are the changes since {}",
                    time.to_rfc3339()
                ));
            }
            let mut documents = ports.history.changed_documents(project, time, ids).await?;
            // A tombstone repeats the deletion of its document.
            documents.retain(|one| {
                let is_entity = one.id.kind == DocumentKind::Entity;
                (index == 0 || is_entity) && one.id.kind != DocumentKind::Deleted
            });
            let metas = read_metas(ports, project, &documents).await?;
            for one in documents {
                let meta = metas.get(&one.id).cloned();
                if kinds.is_empty()
                    || kinds.iter().any(|kind| is_of(*kind, &one.id, meta.as_deref()))
                {
                    changes.push((project.clone(), one, meta));
                }
            }
        }
        changes.sort_by(|(_, a, _), (_, b, _)| (a.entry.at, &a.id).cmp(&(b.entry.at, &b.id)));
        let total = changes.len();
        changes.retain(|(_, one, _)| {
            last.as_ref().is_none_or(|(at, id)| (*at, id) < (one.entry.at, &one.id))
        });
        let has_more = changes.len() > page_limit(arguments.limit);
        changes.truncate(page_limit(arguments.limit));
        let next = next.unwrap_or(newest);
        let mut records = Vec::with_capacity(changes.len());
        for (project, one, meta) in &changes {
            records.push(read_record(ports, project, one, meta.as_deref()).await?);
        }
        let positions = changes.into_iter().map(|(_, one, _)| (one.entry.at, one.id)).collect();
        let listed = ListedChanges { pages, next, positions };
        let token = moments.cursor(&listed.next);
        if !has_more {
            notes.push(format!("for later changes, pass since: {token}"));
        }
        let mut answer = listed.answer(records, total, token, has_more)?;
        answer.add_notes(notes);
        Ok(answer)
    }
}

fn parse_since(since: Option<&str>, moments: &PageReader, now: Timestamp) -> Result<Moment> {
    let Some(since) = since.map(str::trim) else {
        let at = Timestamp::new(now.seconds().saturating_sub(DEFAULT_SECONDS), 0);
        return Ok(Moment { at, ..Moment::default() });
    };
    if let Some(at) = Timestamp::parse(since) {
        return Ok(Moment { at, ..Moment::default() });
    }
    let token = PageCursor::from(since.to_owned());
    moments.position(Some(&token)).map(Option::unwrap_or_default).map_err(|_| {
        let message = "since: neither a time such as 2027-03-01T08:00:00Z nor next of an answer; \
                       pass one of them, or omit it";
        Error::new(ErrorKind::InvalidArgument, message).field("since")
    })
}

fn position_parts(position: ChangePosition) -> (String, u64, u64) {
    // As text, because JSON numbers are shorter.
    (position.store_id.to_string(), position.writer_id, position.revision.0)
}

fn parse_position((store, writer_id, revision): &(String, u64, u64)) -> Option<ChangePosition> {
    let (store_id, revision) = (store.parse().ok()?, Revision(*revision));
    Some(ChangePosition { store_id, writer_id: *writer_id, revision })
}

/// Returns the documents that changed after a position, `None` if the storage does not know it,
/// and the newest position.
async fn changed_ids(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    after: Option<ChangePosition>,
) -> Result<(Option<Vec<DocumentId>>, ChangePosition)> {
    let mut changed = Vec::new();
    let mut after = after;
    loop {
        let refresh = Refresh::Incremental;
        match ports.documents.changes_since(project, after, PAGE_SIZE, refresh).await? {
            ChangePage::Reset { position } => return Ok((None, position)),
            ChangePage::Since { ids, position, has_more } => {
                changed.extend(ids);
                if !has_more {
                    return Ok((Some(changed), position));
                }
                after = Some(position);
            }
        }
    }
}

/// Reads the metadata of the documents; of deleted ones from their tombstones.
async fn read_metas(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    changed: &[ChangedDocument],
) -> Result<HashMap<DocumentId, Arc<DocumentMeta>>> {
    let mut metas = HashMap::new();
    for kind in DocumentKind::ALL {
        let present = changed.iter().filter(|one| one.id.kind == kind);
        let present = present.filter(|one| one.entry.version.is_some());
        let names: Vec<String> = present.map(|one| one.id.name.clone()).collect();
        for names in names.chunks(PAGE_SIZE) {
            let found = ports.documents.lookup(project, kind, names).await?;
            metas.extend(found.into_iter().flatten().map(|meta| (meta.id.clone(), meta)));
        }
    }
    let deleted = changed.iter().filter(|one| one.entry.version.is_none());
    let deleted: Vec<DocumentId> = deleted.map(|one| one.id.clone()).collect();
    for ids in deleted.chunks(PAGE_SIZE) {
        let tombstones: Vec<DocumentId> = ids.iter().map(DocumentId::tombstone).collect();
        let texts = ports.documents.get(project, &tombstones).await?;
        for (id, tombstone) in ids.iter().zip(texts) {
            if let Some(tombstone) = tombstone {
                // A tombstone has the front matter of the document.
                metas.insert(id.clone(), meta_of(&Document { id: id.clone(), ..tombstone }));
            }
        }
    }
    Ok(metas)
}

fn meta_of(document: &Document) -> Arc<DocumentMeta> {
    Arc::new(DocumentMeta::from_document(document, Timestamp::default()))
}

fn is_of(kind: EntityType, id: &DocumentId, meta: Option<&DocumentMeta>) -> bool {
    match kind {
        EntityType::Documents(kind) => id.kind == kind,
        EntityType::Entities(kind) => {
            let entity = meta.and_then(|meta| meta.entity.as_ref());
            let kind_of = entity.and_then(|entity| EntityKind::parse(&entity.kind));
            id.kind == DocumentKind::Entity && kind_of == Some(kind)
        }
    }
}

async fn read_record(
    ports: &ApplicationPorts,
    project: &ProjectKey,
    ChangedDocument { id, entry, is_new }: &ChangedDocument,
    meta: Option<&DocumentMeta>,
) -> Result<ChangedRecord> {
    let mut user = entry.origin.user.clone();
    let mut lost = None;
    if entry.origin.tool.is_none() && user.is_none() {
        // Git knows its author, and the text of a deleted file.
        let query = HistoryQuery { after: None, limit: 2 };
        let entries = ports.history.history(project, id, &query).await?.entries;
        let newest = entries.iter().find(|found| found.version == entry.version);
        user = newest.and_then(|newest| newest.origin.user.clone());
        let version = entries.iter().find_map(|found| found.version);
        if let (None, Some(version)) = (meta, version) {
            lost = ports.history.document_at(project, id, version).await?.as_ref().map(meta_of);
        }
    }
    let meta = meta.or(lost.as_deref());
    let name = meta.and_then(DocumentMeta::reference).map_or_else(
        || match id.kind {
            DocumentKind::Section => id.name.clone(),
            _ => id.to_string(),
        },
        Cow::into_owned,
    );
    let change = match (entry.version, is_new) {
        (None, _) => "deleted",
        (Some(_), true) => "created",
        (Some(_), false) => "changed",
    };
    Ok(ChangedRecord {
        at: entry.at.to_rfc3339(),
        user,
        tool: entry.origin.tool.clone().unwrap_or_else(|| "by hand".to_owned()),
        change: change.to_owned(),
        title: meta.and_then(|meta| DocumentLabel::from_meta(meta, String::new()).title),
        id: name,
        version: entry.version.map(|version| version.to_string()),
    })
}

/// The state that the cursors of a page need.
struct ListedChanges {
    pages: PageReader,
    next: Moment,
    positions: Vec<(Timestamp, DocumentId)>,
}

impl ListedChanges {
    fn cursor_after(&self, shown: usize) -> Option<String> {
        let next = self.next.clone();
        let last = self.positions.get(shown.checked_sub(1)?)?.clone();
        Some(self.pages.cursor(&Position { next, last }))
    }

    fn answer(
        self,
        changes: Vec<ChangedRecord>,
        total: usize,
        next: String,
        has_more: bool,
    ) -> Result<ToolAnswer> {
        let lines = changes.iter().map(|change| format!("- {}", change.line())).collect();
        let next_cursor = if has_more { self.cursor_after(changes.len()) } else { None };
        let page = ChangesPage { changes, next, next_cursor, notes: Vec::new() };
        let noun = if total == 1 { "document" } else { "documents" };
        Ok(ToolAnswer::new(PageAnswer {
            heading: Box::new(move |_| format!("{total} {noun} changed")),
            lines,
            data: Arc::new(serde_json::to_value(&page).map_err(serialization_error)?),
            key: "changes",
            cursor_after: Box::new(move |shown| self.cursor_after(shown)),
        }))
    }
}
