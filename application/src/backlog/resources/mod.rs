//! Resources: the items and collections of the backlog as JSON, with lists and completions.

#[cfg(test)]
mod tests;
pub(crate) mod uri;

use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, ItemMeta, Reference, RelationshipType, RequirementType};
use reqlore_domain::bounded_types::truncate_echo;
use reqlore_domain::document::{DocumentKind, DocumentMeta};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::name_form::fold_name;
use reqlore_domain::ports::documents::DocumentFilter;
use reqlore_domain::ports::record_list::{MAX_PAGE_ITEMS, RecordQuery};
use reqlore_domain::ports::service::{
    CompletionRequest, CompletionTarget, CompletionValues, ResourceContent, ResourceInfo,
    ResourcePage,
};
use reqlore_domain::project_key::ProjectKey;
use reqlore_domain::untrusted_text::{encode_json, encode_line};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

pub(crate) use uri::TEMPLATES;

use crate::answers::answer::serialization_error;
use crate::backlog::epic_hierarchy::read_hierarchy;
use crate::backlog::item_lookup::{self, BacklogReader};
use crate::backlog::item_view::{self, ItemRelations};
use crate::backlog::prompts;
use crate::context::ToolContext;
use crate::tools::pagination::{PageCursor, PageReader};
use reqlore_domain::records::answers::items::ItemRecord;
use reqlore_domain::records::fields::relationship_types;
use reqlore_domain::records::schema::RecordSchema;
use uri::{
    COLLECTIONS, CollectionContents, ItemView, JSON, ProjectCollection, ResourceUri, VARIABLE,
    item_uri,
};

/// All records of a list together.
const MAX_LIST_BYTES: usize = 1024 * 1024;

const READ_BATCH_DOCUMENTS: usize = 100;

/// The part of a title in a description.
const MAX_TITLE_CHARS: usize = 200;

const MAX_PAGE_RESOURCES: usize = 100;

/// The limit of the protocol.
const MAX_COMPLETIONS: usize = 100;

/// A longer text has no completions.
const MAX_TYPED_BYTES: usize = 500;

/// Reads a resource; `has_backlog` is false on a server without the backlog.
pub(crate) async fn read(
    context: &ToolContext,
    has_backlog: bool,
    caller: &Caller,
    uri: &str,
) -> Result<ResourceContent> {
    // An invalid URI is the same error with and without the backlog.
    let resource = uri::parse_uri(uri)?;
    if !has_backlog {
        let shown = truncate_echo(uri);
        let message = format!(
            "Resource not found: {shown}; this server runs without the backlog (`--toolsets`)"
        );
        return Err(Error::new(ErrorKind::NotFound, message).reference(shown));
    }
    let backlog = BacklogReader::for_caller(&context.ports, caller);
    match resource {
        ResourceUri::Item(reference, view) => item_content(backlog, reference, view).await,
        ResourceUri::Collection(collection) => collection_content(backlog, collection).await,
    }
}

#[derive(Serialize)]
struct ResourceEnvelope<'a, T> {
    uri: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(flatten)]
    body: &'a T,
}

struct ResourceLabel {
    uri: String,
    name: String,
    description: String,
    /// True for an item, whose body has its own description.
    is_item: bool,
}

impl ResourceLabel {
    fn into_content(self, body: &impl Serialize) -> Result<ResourceContent> {
        let Self { uri, name, description, is_item } = self;
        let envelope_description = if is_item { None } else { Some(description.as_str()) };
        let envelope =
            ResourceEnvelope { uri: &uri, name: &name, description: envelope_description, body };
        let text = encode_json(serde_json::to_string(&envelope).map_err(serialization_error)?);
        Ok(ResourceContent { uri, name, description, mime_type: JSON, text })
    }
}

/// Records under the plural name of their kind.
struct RecordList {
    key: String,
    items: Vec<ItemRecord>,
    /// Size of the records as JSON.
    bytes: usize,
    /// Includes the records that were cut.
    count: usize,
    /// How to find the records that were cut.
    hint: &'static str,
    /// Problems of unreadable files.
    warnings: Vec<String>,
    schema: Arc<RecordSchema>,
}

impl RecordList {
    async fn new(
        backlog: BacklogReader<'_>,
        kind: ItemKind,
        count: usize,
        hint: &'static str,
    ) -> Result<Self> {
        let schema = backlog.ports.schema(backlog.project).await?;
        let (items, warnings) = (Vec::new(), Vec::new());
        Ok(Self { key: plural_name(kind), items, bytes: 0, count, hint, warnings, schema })
    }

    /// Adds records until the list is full. Returns false if it is.
    async fn add(
        &mut self,
        backlog: BacklogReader<'_>,
        metas: &[Arc<DocumentMeta>],
    ) -> Result<bool> {
        // The list may end at any record, so only one batch of documents is read ahead.
        for batch in metas.chunks(READ_BATCH_DOCUMENTS) {
            let records = item_view::read_records(backlog, &self.schema, batch).await?;
            for (meta, record) in batch.iter().zip(records) {
                let record = match record {
                    Some(record) => self.record_or_warning(backlog.project, meta, record),
                    // The document was removed after the metadata was read.
                    None => None,
                };
                let Some(record) = record else {
                    self.count -= 1;
                    continue;
                };
                self.bytes += serde_json::to_string(&record).map_or(0, |text| text.len());
                if self.bytes > MAX_LIST_BYTES {
                    return Ok(false);
                }
                self.items.push(record);
            }
        }
        Ok(true)
    }

    /// Adds a warning for an unreadable file, whose record has no description.
    fn record_or_warning(
        &mut self,
        project: &ProjectKey,
        meta: &DocumentMeta,
        record: Result<ItemRecord>,
    ) -> Option<ItemRecord> {
        match record {
            Ok(record) => Some(record),
            Err(error) => {
                self.warnings.push(error.message);
                let item = item_lookup::item_meta(meta)?;
                let (name, version) = (&meta.id.name, meta.version);
                Some(ItemRecord::new(project, item, name, version, "", &self.schema))
            }
        }
    }
}

impl Serialize for RecordList {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(&self.key, &self.items)?;
        map.serialize_entry("count", &self.count)?;
        if self.items.len() < self.count {
            map.serialize_entry("truncated", &true)?;
            let hint =
                format!("the first {} of {} items; {}", self.items.len(), self.count, self.hint);
            map.serialize_entry("hint", &hint)?;
        }
        if !self.warnings.is_empty() {
            map.serialize_entry("warnings", &self.warnings)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct ItemResource {
    #[serde(flatten)]
    record: ItemRecord,
    #[serde(flatten)]
    relations: Map<String, Value>,
}

async fn item_content(
    backlog: BacklogReader<'_>,
    reference: Reference,
    view: ItemView,
) -> Result<ResourceContent> {
    let meta = backlog.find_item(reference).await?;
    let title = item_lookup::item_meta(&meta).map_or("", |item| &item.title);
    match view {
        ItemView::Item => {
            let schema = backlog.ports.schema(backlog.project).await?;
            let record = item_view::read_record(backlog, &schema, &meta).await?;
            let label =
                item_label(reference, view, &record.title, &content_summary(reference.kind));
            label.into_content(
                &item_with_relations((backlog, &schema), reference, &meta, record).await?,
            )
        }
        ItemView::Hierarchy => {
            let (hierarchy, _) = read_hierarchy(backlog, reference, &meta).await?;
            item_label(reference, view, title, "with all items below it").into_content(&hierarchy)
        }
        ItemView::Children(kind) => {
            let metas = backlog.children(reference, kind).await?;
            let hint = "search_requirements and search_global find the rest, get_item reads one";
            let mut records = RecordList::new(backlog, kind, metas.len(), hint).await?;
            records.add(backlog, &metas).await?;
            let summary = format!("its {}", records.key.replace('_', " "));
            item_label(reference, view, title, &summary).into_content(&records)
        }
        ItemView::Relationships => {
            let relationships = ItemRelations::read(backlog, &meta).await?.relationships;
            let count = relationships.outgoing.len() + relationships.incoming.len();
            let body = json!({ "count": count, "relationships": relationships });
            item_label(reference, view, title, "its relationships to other requirements")
                .into_content(&body)
        }
    }
}

/// Adds the children, relationships and links of an item and the diagnostic of its file.
async fn item_with_relations(
    (backlog, schema): (BacklogReader<'_>, &RecordSchema),
    reference: Reference,
    meta: &DocumentMeta,
    record: ItemRecord,
) -> Result<ItemResource> {
    let relations = ItemRelations::read(backlog, meta).await?;
    let mut fields = Map::new();
    for kind in ItemKind::ALL {
        if kind.parent() == Some(reference.kind) {
            let children = relations.children_of_kind(kind);
            let children = item_view::read_summaries(backlog, schema, &children).await?;
            fields.insert(plural_name(kind), json!(children));
        }
    }
    if reference.kind == ItemKind::Requirement {
        fields.insert("relationships".to_owned(), json!(relations.relationships.bounded()));
    }
    fields.insert("links".to_owned(), json!(relations.links));
    if let Some(diagnostic) = item_lookup::record_diagnostic(meta, schema) {
        fields.insert("warnings".to_owned(), json!([diagnostic]));
    }
    Ok(ItemResource { record, relations: fields })
}

/// The relations in an item's resource, for its description.
fn content_summary(kind: ItemKind) -> String {
    let mut parts: Vec<&str> = kind.row().children.iter().map(|kind| kind.row().words[1]).collect();
    if parts.is_empty() {
        parts.extend((!relationship_types(kind).is_empty()).then_some("relationships"));
        parts.push("links");
    }
    format!("with its {}", parts.join(" and "))
}

fn plural_name(kind: ItemKind) -> String {
    kind.row().words[1].replace(' ', "_")
}

fn item_label(reference: Reference, view: ItemView, title: &str, summary: &str) -> ResourceLabel {
    ResourceLabel {
        uri: item_uri(reference, view),
        name: reference.to_string(),
        description: describe_item(reference, title, summary),
        is_item: view == ItemView::Item,
    }
}

fn describe_item(reference: Reference, title: &str, summary: &str) -> String {
    let mut short_title: String = title.chars().take(MAX_TITLE_CHARS).collect();
    if short_title.len() < title.len() {
        short_title.push('…');
    }
    let short_title = encode_line(&short_title);
    format!("{} {reference}: {short_title}, {summary}", reference.kind.noun())
}

async fn collection_content(
    backlog: BacklogReader<'_>,
    collection: &ProjectCollection,
) -> Result<ResourceContent> {
    let label = ResourceLabel {
        uri: collection.uri(),
        name: collection.name.to_owned(),
        description: collection.description.to_owned(),
        is_item: false,
    };
    match collection.contents {
        CollectionContents::Items(kind, hint) => {
            let mut query = RecordQuery::of_items(kind, MAX_PAGE_ITEMS);
            let (mut page, warnings) = backlog.list_items(&query).await?;
            let mut records = RecordList::new(backlog, kind, page.total, hint).await?;
            while records.add(backlog, &page.metadata).await? && page.next.is_some() {
                query.after = page.next;
                page = backlog.list_items(&query).await?.0;
            }
            records.warnings.extend(warnings.into_list());
            label.into_content(&records)
        }
        CollectionContents::RequirementTypes => {
            let all = RequirementType::ALL.map(|kind| (kind.name(), kind.description()));
            label.into_content(&type_list("requirement_types", &all))
        }
        CollectionContents::RelationshipTypes => {
            let all = RelationshipType::SETTABLE.map(|kind| (kind.name(), kind.description()));
            label.into_content(&type_list("relationship_types", &all))
        }
    }
}

fn type_list(key: &str, all: &[(&str, &str)]) -> Value {
    let mut types = Vec::with_capacity(all.len());
    for (name, description) in all {
        types.push(json!({ "name": name, "description": description }));
    }
    json!({ key: types, "count": all.len() })
}

/// A page of the resources: the collections first, then all items, sorted by kind and file name.
pub(crate) async fn list(
    context: &ToolContext,
    caller: &Caller,
    cursor: Option<String>,
) -> Result<ResourcePage> {
    let backlog = BacklogReader::for_caller(&context.ports, caller);
    let pages = PageReader::new(backlog.project, &"resources/list");
    let cursor = cursor.map(PageCursor::from);
    // The kind and the name of the last file. The empty name sorts before all files.
    let last: Option<(usize, String)> = pages.position(cursor.as_ref())?;
    let mut resources = Vec::new();
    if last.is_none() {
        resources.extend(COLLECTIONS.iter().map(collection_resource));
    }
    let (mut position, last_name) = last.unwrap_or_default();
    // Two files with the same reference are one resource, also on two pages.
    let mut listed = Reference::from_document_name(&last_name);
    let mut after = Some(last_name);
    while let Some(kind) = ItemKind::ALL.get(position) {
        let remaining = MAX_PAGE_RESOURCES - resources.len();
        // A full page reads one item of the next kind, to decide if a cursor is needed.
        let limit = remaining.max(1);
        let filter =
            DocumentFilter { kind: DocumentKind::Item(*kind), after_name: after.take(), limit };
        let page = backlog.ports.documents.find(backlog.project, &filter).await?;
        if remaining == 0 && !page.metadata.is_empty() {
            let next_cursor = Some(pages.cursor(&(position, "")));
            return Ok(ResourcePage { resources, next_cursor });
        }
        for meta in &page.metadata {
            let reference = item_lookup::item_meta(meta).and_then(|item| item.reference);
            if reference.is_some() && reference == listed {
                continue;
            }
            listed = reference;
            resources.extend(item_resource(meta));
        }
        if let Some(next) = page.next_name {
            let next_cursor = Some(pages.cursor(&(position, next)));
            return Ok(ResourcePage { resources, next_cursor });
        }
        position += 1;
    }
    Ok(ResourcePage { resources, next_cursor: None })
}

fn collection_resource(collection: &ProjectCollection) -> ResourceInfo {
    ResourceInfo {
        uri: collection.uri(),
        name: collection.name.to_owned(),
        title: collection.title.to_owned(),
        description: collection.description.to_owned(),
        mime_type: JSON,
    }
}

/// `None` for a file without a reference, because it has no URI.
fn item_resource(meta: &DocumentMeta) -> Option<ResourceInfo> {
    let item = item_lookup::item_meta(meta)?;
    let reference = item.reference?;
    Some(ResourceInfo {
        uri: item_uri(reference, ItemView::Item),
        name: reference.to_string(),
        title: encode_line(&item.title).into_owned(),
        description: describe_item(reference, &item.title, &content_summary(reference.kind)),
        mime_type: JSON,
    })
}

/// Completes references by number or by words of their titles.
///
/// A completion is only a hint, so an unknown argument has an empty list instead of an error.
pub(crate) async fn complete(
    context: &ToolContext,
    caller: &Caller,
    request: &CompletionRequest,
) -> Result<CompletionValues> {
    let typed = fold_name(request.value.trim());
    let Some(kind) = completion_kind(request) else { return Ok(CompletionValues::default()) };
    if typed.len() > MAX_TYPED_BYTES {
        return Ok(CompletionValues::default());
    }
    let backlog = BacklogReader::for_caller(&context.ports, caller);
    let mut query = RecordQuery::of_items(kind, MAX_PAGE_ITEMS);
    let mut matches: Vec<(MatchRank, Reference)> = Vec::new();
    loop {
        let page = backlog.ports.documents.list(backlog.project, &query).await?;
        for meta in &page.metadata {
            let Some(item) = item_lookup::item_meta(meta) else { continue };
            let Some(reference) = item.reference else { continue };
            if let Some(rank) = match_rank(item, reference, &typed) {
                matches.push((rank, reference));
            }
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    // Matches by title keep the order of all lists; the others are sorted by number.
    matches.sort_by_key(|(rank, reference)| {
        (*rank, if *rank == MatchRank::TitleWords { 0 } else { reference.number })
    });
    // Files with the same reference are neighbours now.
    matches.dedup_by_key(|(_, reference)| *reference);
    let total = matches.len();
    let values = matches.iter().take(MAX_COMPLETIONS).map(|(_, reference)| reference.to_string());
    Ok(CompletionValues { values: values.collect(), total })
}

/// The kind of items that the argument takes.
fn completion_kind(request: &CompletionRequest) -> Option<ItemKind> {
    match &request.target {
        CompletionTarget::Template(uri) => {
            let form = TEMPLATES.iter().find(|form| form.spec.uri_template == uri)?;
            if request.argument == VARIABLE { Some(form.kind) } else { None }
        }
        CompletionTarget::Prompt(name) => prompts::argument_item_kind(name, &request.argument),
    }
}

/// Ordered from the best match to the worst.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum MatchRank {
    WholeReference,
    ReferencePrefix,
    PartOfNumber,
    TitleWords,
}

/// Ranks the text that a user typed, in lower case; `None` if the item does not match.
fn match_rank(item: &ItemMeta, reference: Reference, typed: &str) -> Option<MatchRank> {
    // Users type REQ-007, REQ-7 or only the number.
    let padded = reference.to_string().to_lowercase();
    let number = reference.number.to_string();
    let unpadded = format!("{}-{number}", reference.kind.prefix().to_lowercase());
    if typed == padded || typed == unpadded || typed == number {
        Some(MatchRank::WholeReference)
    } else if padded.starts_with(typed) || unpadded.starts_with(typed) {
        Some(MatchRank::ReferencePrefix)
    } else if number.starts_with(typed) || padded.ends_with(&format!("-{typed}")) {
        Some(MatchRank::PartOfNumber)
    } else if has_words(&item.title, typed) {
        Some(MatchRank::TitleWords)
    } else {
        None
    }
}

/// True if `typed` has a word, and each of its words is the prefix of a word of the title.
fn has_words(title: &str, typed: &str) -> bool {
    if !typed.contains(char::is_alphanumeric) {
        return false;
    }
    let title = fold_name(title);
    let title_words = split_words(&title);
    split_words(typed).all(|typed| title_words.clone().any(|word| word.starts_with(typed)))
}

fn split_words(text: &str) -> impl Iterator<Item = &str> + Clone {
    text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty())
}
