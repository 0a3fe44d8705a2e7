//! What an item's resources say.

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::Content;
use serde::Serialize;

use super::content::{Label, Records, short};
use super::uri::{View, uri};
use crate::backlog::brief::Brief;
use crate::backlog::find::{self, Backlog};
use crate::backlog::hierarchy::hierarchy;
use crate::backlog::record::{self, Record};
use crate::backlog::surroundings::{Links, Relationships, Surroundings};

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

pub(super) async fn content(
    backlog: Backlog<'_>,
    reference: Reference,
    view: View,
) -> Result<Content> {
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
    let record = record::one(backlog, &head).await?;
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
pub(super) fn described(reference: Reference, title: &str, what: &str) -> String {
    format!("{} {reference}: {}, {what}", reference.kind.noun(), short(title))
}

/// One sentence on an item in a list.
pub(super) fn listed(reference: Reference, title: &str) -> String {
    described(reference, title, contains(reference.kind))
}
