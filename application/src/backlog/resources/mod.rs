//! Resources: the backlog's items and collections as JSON, read by URI.

mod complete;
mod list;
#[cfg(test)]
mod tests;
pub(crate) mod uri;

use std::sync::Arc;

use reqlore_domain::backlog::{ItemKind, Reference, RelationshipType, RequirementType};
use reqlore_domain::document::DocumentMeta;
use reqlore_domain::error::{Error, ErrorKind, Result};
use reqlore_domain::identity::Caller;
use reqlore_domain::ports::service::{Completion, CompletionRequest, Content, Resources};
use reqlore_domain::project::ProjectKey;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::Context;
use crate::backlog::epic_hierarchy::hierarchy;
use crate::backlog::find::{self, Backlog};
use crate::backlog::item_view::{self, Brief, Record};
use crate::backlog::surroundings::{Links, Relationships, Surroundings};
pub(crate) use uri::TEMPLATES;
use uri::{Collection, JSON, Uri, View, uri};

pub(crate) async fn list(
    context: &Context,
    caller: &Caller,
    cursor: Option<String>,
) -> Result<Resources> {
    list::page(Backlog::of(&context.ports, caller), cursor.as_deref()).await
}

/// `is_on`: does this server have a backlog at all?
pub(crate) async fn read(
    context: &Context,
    is_on: bool,
    caller: &Caller,
    uri: &str,
) -> Result<Content> {
    let found = uri::read(uri)?;
    if !is_on {
        let message = format!(
            "There is no resource {uri}: this server runs without the backlog (`--toolsets`)."
        );
        return Err(Error::new(ErrorKind::NotFound, message).reference(uri));
    }
    let backlog = Backlog::of(&context.ports, caller);
    match found {
        Uri::Item(reference, view) => item_content(backlog, reference, view).await,
        Uri::Collection(collection) => collection_content(backlog, collection).await,
    }
}

pub(crate) async fn complete(
    context: &Context,
    caller: &Caller,
    begun: &CompletionRequest,
) -> Result<Completion> {
    complete::complete(Backlog::of(&context.ports, caller), begun).await
}

/// A list is cut when its records are longer than this, in bytes.
const MOST_BYTES: usize = 1024 * 1024;

/// So many documents are read at once.
const AT_ONCE: usize = 100;

/// A title in a sentence is cut there.
const MOST_TITLE: usize = 200;

#[derive(Serialize)]
struct Envelope<'a, T> {
    uri: &'a str,
    name: &'a str,
    /// An item has one of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    #[serde(flatten)]
    body: &'a T,
}

/// What tells a resource from others.
struct Label {
    uri: String,
    name: String,
    description: String,
}

impl Label {
    /// A resource of which the body tells no description.
    fn content(self, body: &impl Serialize) -> Result<Content> {
        let description = self.description.clone();
        self.with(Some(&description), body)
    }

    /// A resource with a body that has a description.
    fn described(self, body: &impl Serialize) -> Result<Content> {
        self.with(None, body)
    }

    fn with(self, description: Option<&str>, body: &impl Serialize) -> Result<Content> {
        let envelope = Envelope { uri: &self.uri, name: &self.name, description, body };
        let text = serde_json::to_string(&envelope).map_err(|error| {
            Error::new(ErrorKind::Internal, "The resource could not be written.").caused_by(error)
        })?;
        let Self { uri, name, description } = self;
        Ok(Content { uri, name, description, mime_type: JSON, text })
    }
}

/// A title as sentences have it.
fn short(title: &str) -> String {
    let mut short: String = title.chars().take(MOST_TITLE).collect();
    if short.len() < title.len() {
        short.push('…');
    }
    short
}

/// Records under the plural name of their kind, with their true number.
struct Records {
    key: &'static str,
    items: Vec<Record>,
    count: usize,
    /// What to do where not all of them are here.
    hint: &'static str,
    /// What can't be read.
    warnings: Vec<String>,
}

impl Records {
    /// The records of these heads, until there are too many.
    async fn of(
        backlog: Backlog<'_>,
        heads: &[Arc<DocumentMeta>],
        key: &'static str,
        hint: &'static str,
    ) -> Result<Self> {
        let (items, warnings) = Default::default();
        let mut list = Self { key, items, count: heads.len(), hint, warnings };
        let mut bytes = 0;
        for heads in heads.chunks(AT_ONCE) {
            for (head, found) in heads.iter().zip(item_view::all(backlog, heads).await?) {
                // It may have gone meanwhile.
                let Some(record) =
                    found.and_then(|found| list.record(backlog.project, head, found))
                else {
                    list.count -= 1;
                    continue;
                };
                bytes += serde_json::to_string(&record).map_or(0, |text| text.len());
                if bytes > MOST_BYTES {
                    return Ok(list);
                }
                list.items.push(record);
            }
        }
        Ok(list)
    }

    /// One bad file harms no other.
    fn record(
        &mut self,
        project: &ProjectKey,
        head: &DocumentMeta,
        found: Result<Record>,
    ) -> Option<Record> {
        match found {
            Ok(record) => Some(record),
            Err(error) => {
                self.warnings.push(error.message);
                let item = find::item(head)?;
                Some(Record::new(project, item, &head.id.name, head.version, ""))
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

/// An item with what belongs to it.
#[derive(Serialize)]
struct Whole {
    #[serde(flatten)]
    record: Record,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_stories: Option<Vec<Brief>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requirements: Option<Vec<Brief>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    acceptance_criteria: Option<Vec<Brief>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relationships: Option<Relationships>,
    links: Links,
    /// What should be mended in its file.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

#[derive(Serialize)]
struct Related {
    count: usize,
    relationships: Relationships,
}

async fn item_content(backlog: Backlog<'_>, reference: Reference, view: View) -> Result<Content> {
    match view {
        View::Item => whole(backlog, reference).await,
        View::Hierarchy => {
            let hierarchy = hierarchy(backlog, reference).await?;
            let what = "with everything below it";
            label(reference, view, &hierarchy.epic.title, what).content(&hierarchy)
        }
        View::Children(kind) => children(backlog, reference, kind).await,
        View::Relationships => {
            let head = backlog.head(reference).await?;
            let around = Surroundings::of(backlog, reference, &head).await?;
            let relationships = around.relationships;
            let count = relationships.outgoing.len() + relationships.incoming.len();
            let title = find::item(&head).map_or("", |item| &item.title);
            let what = "its relationships to other requirements";
            label(reference, view, title, what).content(&Related { count, relationships })
        }
    }
}

async fn whole(backlog: Backlog<'_>, reference: Reference) -> Result<Content> {
    let head = backlog.head(reference).await?;
    let record = item_view::one(backlog, &head).await?;
    let around = Surroundings::of(backlog, reference, &head).await?;
    let of = |kind: ItemKind| {
        (kind.parent() == Some(reference.kind)).then(|| Brief::all(&around.of_kind(kind)))
    };
    let (user_stories, requirements) = (of(ItemKind::UserStory), of(ItemKind::Requirement));
    let acceptance_criteria = of(ItemKind::AcceptanceCriteria);
    let is_requirement = reference.kind == ItemKind::Requirement;
    let relationships = is_requirement.then_some(around.relationships);
    let label = label(reference, View::Item, &record.title, contains(reference.kind));
    label.described(&Whole {
        record,
        user_stories,
        requirements,
        acceptance_criteria,
        relationships,
        links: around.links,
        warnings: find::fault(&head).into_iter().collect(),
    })
}

/// What an item's own resource has beside it.
fn contains(kind: ItemKind) -> &'static str {
    match kind {
        ItemKind::Epic => "with its user stories",
        ItemKind::UserStory => "with its requirements and acceptance criteria",
        ItemKind::Requirement => "with its relationships and links",
        ItemKind::AcceptanceCriteria => "with its links",
    }
}

async fn children(backlog: Backlog<'_>, reference: Reference, kind: ItemKind) -> Result<Content> {
    let head = backlog.head(reference).await?;
    let heads = backlog.children(reference, kind).await?;
    let hint = "search_requirements and search_global find the others, get_item reads one";
    let (key, what) = match kind {
        ItemKind::Epic => ("epics", "its epics"),
        ItemKind::UserStory => ("user_stories", "its user stories"),
        ItemKind::Requirement => ("requirements", "its requirements"),
        ItemKind::AcceptanceCriteria => ("acceptance_criteria", "its acceptance criteria"),
    };
    let records = Records::of(backlog, &heads, key, hint).await?;
    let title = find::item(&head).map_or("", |item| &item.title);
    label(reference, View::Children(kind), title, what).content(&records)
}

fn label(reference: Reference, view: View, title: &str, what: &str) -> Label {
    Label {
        uri: uri(reference, view),
        name: reference.to_string(),
        description: described(reference, title, what),
    }
}

/// One sentence on an item.
fn described(reference: Reference, title: &str, what: &str) -> String {
    format!("{} {reference}: {}, {what}", reference.kind.noun(), short(title))
}

/// One sentence on an item in a list.
fn listed(reference: Reference, title: &str) -> String {
    described(reference, title, contains(reference.kind))
}

#[derive(Serialize)]
struct Named {
    name: &'static str,
    description: &'static str,
}

#[derive(Serialize)]
struct RequirementTypes {
    requirement_types: Vec<Named>,
    count: usize,
}

#[derive(Serialize)]
struct RelationshipTypes {
    relationship_types: Vec<Named>,
    count: usize,
}

async fn collection_content(backlog: Backlog<'_>, collection: Collection) -> Result<Content> {
    let label = Label {
        uri: collection.uri(),
        name: collection.name().to_owned(),
        description: collection.description().to_owned(),
    };
    let (kind, key, hint) = match collection {
        Collection::RequirementTypes => {
            let all = RequirementType::ALL.map(|t| (t.name(), t.description()));
            let requirement_types = named(&all);
            let count = requirement_types.len();
            return label.content(&RequirementTypes { requirement_types, count });
        }
        Collection::RelationshipTypes => {
            let all = RelationshipType::ALL.map(|t| (t.name(), t.description()));
            let relationship_types = named(&all);
            let count = relationship_types.len();
            return label.content(&RelationshipTypes { relationship_types, count });
        }
        Collection::Epics => {
            (ItemKind::Epic, "epics", "list_epics pages through all, search_global finds some")
        }
        Collection::UserStories => (
            ItemKind::UserStory,
            "user_stories",
            "read those of one epic, like epic://EP-001/user-stories, or use search_global",
        ),
        Collection::Requirements => (
            ItemKind::Requirement,
            "requirements",
            "use search_requirements, or read those of one story, like \
             user-story://US-001/requirements",
        ),
    };
    let heads = backlog.all(kind).await?;
    label.content(&Records::of(backlog, &heads, key, hint).await?)
}

fn named(all: &[(&'static str, &'static str)]) -> Vec<Named> {
    all.iter().map(|(name, description)| Named { name, description }).collect()
}
