//! Resources: the backlog's items and collections as JSON, read by URI, listed in pages, and
//! completed while a user types.

#[cfg(test)]
mod tests;
pub(crate) mod uri;

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use reqlore_domain::backlog::{ItemKind, ItemMeta, Reference, RelationshipType, RequirementType};
use reqlore_domain::document::{DocumentKind, DocumentMeta, Version};
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::documents::DocumentFilter;
use reqlore_domain::ports::service::{
    CompletionRequest, CompletionTarget, CompletionValues, ResourceContent, ResourceInfo,
    ResourcePage,
};
use reqlore_domain::project_key::ProjectKey;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};

use crate::ToolContext;
use crate::backlog::epic_hierarchy::hierarchy;
use crate::backlog::item_lookup::{self, BacklogReader};
use crate::backlog::item_view::{self, ItemRecord, ItemRelations, ItemSummary};
use crate::backlog::prompts;
pub(crate) use uri::TEMPLATES;
use uri::{
    COLLECTIONS, CollectionContents, ItemView, JSON, ProjectCollection, ResourceUri, VARIABLE, uri,
};

/// A list is cut when its records are longer than this, in bytes.
const MAX_LIST_BYTES: usize = 1024 * 1024;

/// Documents read at a time.
const BATCH: usize = 100;

/// Characters of a title in a description.
const MAX_TITLE_CHARS: usize = 200;

/// Resources of a page.
const PAGE: usize = 100;

/// The cursors of the server are shorter: a kind, and the name of a file.
const MAX_CURSOR_BYTES: usize = 1_000;

/// The protocol allows no more values.
const MAX_COMPLETIONS: usize = 100;

/// A longer text completes nothing.
const MAX_TYPED_BYTES: usize = 500;

/// Reads a resource; `is_on` is false on a server without the backlog.
pub(crate) async fn read(
    context: &ToolContext,
    is_on: bool,
    caller: &Caller,
    uri: &str,
) -> Result<ResourceContent> {
    let found = uri::read(uri)?;
    if !is_on {
        let message = format!(
            "There is no resource {uri}: this server runs without the backlog (`--toolsets`)."
        );
        return Err(Error::new(ErrorKind::NotFound, message).reference(uri));
    }
    let backlog = BacklogReader::of(&context.ports, caller);
    match found {
        ResourceUri::Item(reference, view) => item_content(backlog, reference, view).await,
        ResourceUri::Collection(collection) => collection_content(backlog, collection).await,
    }
}

#[derive(Serialize)]
struct Envelope<'a, T> {
    uri: &'a str,
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(flatten)]
    body: &'a T,
}

struct Label {
    uri: String,
    name: String,
    description: String,
    /// The body of an item has a description of its own.
    is_item: bool,
}

impl Label {
    fn content(self, body: &impl Serialize) -> Result<ResourceContent> {
        let Self { uri, name, description, is_item } = self;
        let shown = (!is_item).then_some(description.as_str());
        let envelope = Envelope { uri: &uri, name: &name, description: shown, body };
        let text = serde_json::to_string(&envelope).map_err(|error| {
            Error::new(ErrorKind::Internal, "The resource could not be written.").caused_by(error)
        })?;
        Ok(ResourceContent { uri, name, description, mime_type: JSON, text })
    }
}

/// Records under the plural name of their kind.
struct Records {
    key: &'static str,
    items: Vec<ItemRecord>,
    /// Counts those that were cut too.
    count: usize,
    /// Tells how to find the others.
    hint: &'static str,
    /// Files that cannot be read.
    warnings: Vec<String>,
}

impl Records {
    async fn of(
        backlog: BacklogReader<'_>,
        kind: ItemKind,
        heads: &[Arc<DocumentMeta>],
        hint: &'static str,
    ) -> Result<Self> {
        let (items, warnings) = (Vec::new(), Vec::new());
        let mut list = Self { key: plural(kind), items, count: heads.len(), hint, warnings };
        let mut bytes = 0;
        for heads in heads.chunks(BATCH) {
            for (head, found) in heads.iter().zip(item_view::all(backlog, heads).await?) {
                // It may have been removed in between.
                let Some(record) =
                    found.and_then(|found| list.record(backlog.project, head, found))
                else {
                    list.count -= 1;
                    continue;
                };
                bytes += serde_json::to_string(&record).map_or(0, |text| text.len());
                if bytes > MAX_LIST_BYTES {
                    return Ok(list);
                }
                list.items.push(record);
            }
        }
        Ok(list)
    }

    /// A file that cannot be read is a warning.
    fn record(
        &mut self,
        project: &ProjectKey,
        head: &DocumentMeta,
        found: Result<ItemRecord>,
    ) -> Option<ItemRecord> {
        match found {
            Ok(record) => Some(record),
            Err(error) => {
                self.warnings.push(error.message);
                let item = item_lookup::item(head)?;
                Some(ItemRecord::new(project, item, &head.id.name, head.version, ""))
            }
        }
    }
}

impl Serialize for Records {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry(self.key, &self.items)?;
        map.serialize_entry("count", &self.count)?;
        if self.items.len() < self.count {
            map.serialize_entry("truncated", &true)?;
            let (here, count) = (self.items.len(), self.count);
            let hint = format!("the first {here} of {count} are here; {}", self.hint);
            map.serialize_entry("hint", &hint)?;
        }
        if !self.warnings.is_empty() {
            map.serialize_entry("warnings", &self.warnings)?;
        }
        map.end()
    }
}

#[derive(Serialize)]
struct WholeItem {
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
    let head = backlog.head(reference).await?;
    let title = item_lookup::item(&head).map_or("", |item| &item.title);
    match view {
        ItemView::Item => {
            let record = item_view::one(backlog, &head).await?;
            let label = label(reference, view, &record.title, contains(reference.kind));
            label.content(&whole(backlog, reference, &head, record).await?)
        }
        ItemView::Hierarchy => {
            let hierarchy = hierarchy(backlog, reference, &head).await?;
            label(reference, view, title, "with all items below it").content(&hierarchy)
        }
        ItemView::Children(kind) => {
            let heads = backlog.children(reference, kind).await?;
            let hint = "search_requirements and search_global find the rest, get_item reads one";
            let records = Records::of(backlog, kind, &heads, hint).await?;
            let what = format!("its {}", records.key.replace('_', " "));
            label(reference, view, title, &what).content(&records)
        }
        ItemView::Relationships => {
            let relationships = ItemRelations::of(backlog, reference, &head).await?.relationships;
            let count = relationships.outgoing.len() + relationships.incoming.len();
            let body = json!({ "count": count, "relationships": relationships });
            label(reference, view, title, "its relationships to other requirements").content(&body)
        }
    }
}

/// An item with its children, relationships, links and the fault of its file.
async fn whole(
    backlog: BacklogReader<'_>,
    reference: Reference,
    head: &DocumentMeta,
    record: ItemRecord,
) -> Result<WholeItem> {
    let around = ItemRelations::of(backlog, reference, head).await?;
    let mut relations = Map::new();
    for kind in ItemKind::ALL.into_iter().filter(|kind| kind.parent() == Some(reference.kind)) {
        let children = ItemSummary::all(&around.children_of_kind(kind));
        relations.insert(plural(kind).to_owned(), json!(children));
    }
    if reference.kind == ItemKind::Requirement {
        relations.insert("relationships".to_owned(), json!(around.relationships));
    }
    relations.insert("links".to_owned(), json!(around.links));
    if let Some(fault) = item_lookup::fault(head) {
        relations.insert("warnings".to_owned(), json!([fault]));
    }
    Ok(WholeItem { record, relations })
}

/// The parts of an item's own resource, for its description.
fn contains(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Epic => "with its user stories",
        ItemKind::UserStory => "with its requirements and acceptance criteria",
        ItemKind::Requirement => "with its relationships and links",
        ItemKind::AcceptanceCriteria => "with its links",
    }
}

fn plural(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Epic => "epics",
        ItemKind::UserStory => "user_stories",
        ItemKind::Requirement => "requirements",
        ItemKind::AcceptanceCriteria => "acceptance_criteria",
    }
}

fn label(reference: Reference, view: ItemView, title: &str, what: &str) -> Label {
    Label {
        uri: uri(reference, view),
        name: reference.to_string(),
        description: described(reference, title, what),
        is_item: view == ItemView::Item,
    }
}

fn described(reference: Reference, title: &str, what: &str) -> String {
    let mut short: String = title.chars().take(MAX_TITLE_CHARS).collect();
    if short.len() < title.len() {
        short.push('…');
    }
    format!("{} {reference}: {short}, {what}", reference.kind.noun())
}

async fn collection_content(
    backlog: BacklogReader<'_>,
    collection: &ProjectCollection,
) -> Result<ResourceContent> {
    let label = Label {
        uri: collection.uri(),
        name: collection.name.to_owned(),
        description: collection.description.to_owned(),
        is_item: false,
    };
    match collection.contents {
        CollectionContents::Items(kind, hint) => {
            let heads = backlog.all(kind).await?;
            label.content(&Records::of(backlog, kind, &heads, hint).await?)
        }
        CollectionContents::RequirementTypes => {
            let all = RequirementType::ALL.map(|t| (t.name(), t.description()));
            label.content(&types("requirement_types", &all))
        }
        CollectionContents::RelationshipTypes => {
            let all = RelationshipType::ALL.map(|t| (t.name(), t.description()));
            label.content(&types("relationship_types", &all))
        }
    }
}

fn types(key: &str, all: &[(&str, &str)]) -> Value {
    let as_json =
        |(name, description): &(&str, &str)| json!({ "name": name, "description": description });
    let types: Vec<Value> = all.iter().map(as_json).collect();
    json!({ key: types, "count": all.len() })
}

/// A page of all resources: the collections, then every item, kind by kind.
pub(crate) async fn list(
    context: &ToolContext,
    caller: &Caller,
    cursor: Option<String>,
) -> Result<ResourcePage> {
    let backlog = BacklogReader::of(&context.ports, caller);
    let (mut position, mut after, mut resources) = match cursor.as_deref() {
        None => (0, None, COLLECTIONS.iter().map(collection_resource).collect()),
        Some(cursor) => {
            let found = read_cursor(backlog.project, cursor);
            let (position, after) = found.ok_or_else(|| unknown_cursor(cursor))?;
            (position, Some(after), Vec::new())
        }
    };
    while let Some(kind) = ItemKind::ALL.get(position) {
        let room = PAGE - resources.len();
        let limit = Some(room.max(1));
        let filter = DocumentFilter { kind: DocumentKind::Item(*kind), after: after.take(), limit };
        let page = backlog.ports.documents.find(backlog.project, &filter).await?;
        if room == 0 && !page.metadata.is_empty() {
            let next_cursor = Some(write_cursor(backlog.project, *kind, ""));
            return Ok(ResourcePage { resources, next_cursor });
        }
        resources.extend(page.metadata.iter().filter_map(|head| item_resource(head)));
        // Two files may claim one reference; it is one resource.
        resources.dedup_by(|a, b| a.uri == b.uri);
        if let Some(next) = page.next {
            let next_cursor = Some(write_cursor(backlog.project, *kind, &next));
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

/// `None` for a file without a reference, which no URI can name.
fn item_resource(head: &DocumentMeta) -> Option<ResourceInfo> {
    let item = item_lookup::item(head)?;
    let reference = item.reference?;
    Some(ResourceInfo {
        uri: uri(reference, ItemView::Item),
        name: reference.to_string(),
        title: item.title.clone(),
        description: described(reference, &item.title, contains(reference.kind)),
        mime_type: JSON,
    })
}

/// The cursor of the page after this name. Its digest tells it from other texts.
fn write_cursor(project: &ProjectKey, kind: ItemKind, name: &str) -> String {
    let place = format!("{}\n{name}", kind.name());
    URL_SAFE_NO_PAD.encode(format!("{}{place}", cursor_digest(project, &place)))
}

fn read_cursor(project: &ProjectKey, cursor: &str) -> Option<(usize, String)> {
    if cursor.len() > MAX_CURSOR_BYTES {
        return None;
    }
    let text = String::from_utf8(URL_SAFE_NO_PAD.decode(cursor).ok()?).ok()?;
    let (found, place) = text.split_at_checked(16)?;
    let (kind, name) = place.split_once('\n').filter(|_| found == cursor_digest(project, place))?;
    let kind = ItemKind::ALL.iter().position(|known| known.name() == kind)?;
    Some((kind, name.to_owned()))
}

fn cursor_digest(project: &ProjectKey, place: &str) -> String {
    Version::of(format!("resources\n{project}\n{place}").as_bytes()).to_string()
}

fn unknown_cursor(cursor: &str) -> Error {
    let shown: String = cursor.chars().take(100).collect();
    let message = format!(
        "`cursor` {shown:?} does not belong to this list; pass `nextCursor` of the previous page, \
         or omit it to start"
    );
    Error::new(ErrorKind::InvalidArgument, message).field("cursor")
}

/// References that begin with the typed text, or whose titles have its words. A completion is only
/// a hint, so an unknown argument has none.
pub(crate) async fn complete(
    context: &ToolContext,
    caller: &Caller,
    begun: &CompletionRequest,
) -> Result<CompletionValues> {
    let typed = begun.value.trim().to_lowercase();
    let Some(kind) = completed_kind(begun).filter(|_| typed.len() <= MAX_TYPED_BYTES) else {
        return Ok(CompletionValues::default());
    };
    let heads = BacklogReader::of(&context.ports, caller).all(kind).await?;
    let ranked = |head: &Arc<DocumentMeta>| {
        let item = item_lookup::item(head)?;
        let reference = item.reference?;
        Some((rank(item, reference, &typed)?, reference))
    };
    let mut found: Vec<(u8, Reference)> = heads.iter().filter_map(ranked).collect();
    // Words of titles keep the one order; references count up.
    found.sort_by_key(|(rank, reference)| {
        (*rank, if *rank == BY_TITLE { 0 } else { reference.number })
    });
    found.dedup_by_key(|(_, reference)| *reference);
    let total = found.len();
    let values = found.iter().take(MAX_COMPLETIONS).map(|(_, reference)| reference.to_string());
    Ok(CompletionValues { values: values.collect(), total })
}

/// The kind of items that the argument names.
fn completed_kind(begun: &CompletionRequest) -> Option<ItemKind> {
    match &begun.of {
        CompletionTarget::Template(uri) => {
            let form = TEMPLATES.iter().find(|form| form.spec.uri_template == uri)?;
            (begun.argument == VARIABLE).then_some(form.kind)
        }
        CompletionTarget::Prompt(name) => prompts::kind(name, &begun.argument),
    }
}

const BY_TITLE: u8 = 3;

/// The rank of an item, the best first; `None` if it does not match.
fn rank(item: &ItemMeta, reference: Reference, typed: &str) -> Option<u8> {
    let printed = reference.to_string().to_lowercase();
    let number = reference.number.to_string();
    let bare = format!("{}-{number}", reference.kind.prefix().to_lowercase());
    if typed == printed || typed == bare || typed == number {
        Some(0)
    } else if printed.starts_with(typed) || bare.starts_with(typed) {
        Some(1)
    } else if number.starts_with(typed) || printed.ends_with(&format!("-{typed}")) {
        Some(2)
    } else {
        has_words(&item.title, typed).then_some(BY_TITLE)
    }
}

/// True if each typed word begins a word of the title.
fn has_words(title: &str, typed: &str) -> bool {
    let title = title.to_lowercase();
    let of_title = || title.split(|c: char| !c.is_alphanumeric());
    let mut words = typed.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    let has_any = typed.contains(char::is_alphanumeric);
    has_any && words.all(|word| of_title().any(|other| other.starts_with(word)))
}
