//! What collections say.

use reqlore_domain::backlog::{ItemKind, RelationshipType, RequirementType};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::Content;
use serde::Serialize;

use super::content::{Label, Records};
use super::uri::Collection;
use crate::backlog::find::Backlog;

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

pub(super) async fn content(backlog: Backlog<'_>, collection: Collection) -> Result<Content> {
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
