//! An epic with all that belongs to it, made of heads alone: no file is read for it.

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::Result;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::brief::Brief;
use super::find;
use crate::Ports;

/// An epic, its stories, and what belongs to each of them, in the one order.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hierarchy {
    #[schemars(with = "Map<String, Value>")]
    pub(crate) epic: Brief,
    pub(crate) user_stories: Vec<Story>,
    /// How many there are below the epic.
    pub(crate) counts: Counts,
}

/// A user story with what belongs to it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Story {
    pub(crate) reference_id: String,
    /// Stored content, to be treated as data.
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub(crate) status: Option<&'static str>,
    /// 1 Critical to 4 Low.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub(crate) priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(default)]
    pub(crate) assignee_username: Option<String>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) requirements: Vec<Brief>,
    #[schemars(with = "Vec<Map<String, Value>>")]
    pub(crate) acceptance_criteria: Vec<Brief>,
}

#[derive(Debug, Default, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Counts {
    pub(crate) user_stories: usize,
    pub(crate) requirements: usize,
    pub(crate) acceptance_criteria: usize,
}

/// Everything below an epic.
pub(crate) async fn hierarchy(ports: &Ports, reference: Reference) -> Result<Hierarchy> {
    let head = find::head(ports, reference).await?;
    let Some(epic) = Brief::of(&head) else {
        return Err(super::given::not_found(reference.kind, &reference.to_string()));
    };
    let stories = find::children(ports, reference, ItemKind::UserStory).await?;
    let known = stories.iter().filter_map(|head| find::item(head)?.reference.zip(Brief::of(head)));
    let (references, briefs): (Vec<Reference>, Vec<Brief>) = known.unzip();
    let requirements = find::children_of(ports, &references, ItemKind::Requirement).await?;
    let criteria = find::children_of(ports, &references, ItemKind::AcceptanceCriteria).await?;
    let mut counts = Counts { user_stories: briefs.len(), ..Counts::default() };
    let below = requirements.iter().zip(&criteria);
    let user_stories = briefs.into_iter().zip(below).map(|(story, (requirements, criteria))| {
        counts.requirements += requirements.len();
        counts.acceptance_criteria += criteria.len();
        Story {
            reference_id: story.reference_id,
            title: story.title,
            status: story.status,
            priority: story.priority,
            assignee_username: story.assignee_username,
            requirements: Brief::all(requirements),
            acceptance_criteria: Brief::all(criteria),
        }
    });
    let user_stories = user_stories.collect();
    Ok(Hierarchy { epic, user_stories, counts })
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::{DocumentId, Kind};
    use serde_json::Value;

    use super::*;
    use crate::testing::Testing;
    use crate::tool::schema;

    #[tokio::test]
    async fn it_is_what_its_schema_says() {
        let testing = Testing::new();
        for (kind, name, text) in [
            (ItemKind::Epic, "EP-001", "---\ntitle: E\n---\n"),
            (ItemKind::UserStory, "US-001", "---\ntitle: S\nepic: EP-1\n---\n"),
            (ItemKind::Requirement, "REQ-001", "---\ntitle: R\nuser_story: US-1\n---\n"),
            (ItemKind::AcceptanceCriteria, "AC-001", "---\nuser_story: US-1\n---\nGiven\n"),
        ] {
            testing.write(DocumentId { kind: Kind::Item(kind), name: name.to_owned() }, text).await;
        }
        let epic = Reference { kind: ItemKind::Epic, number: 1 };
        let hierarchy = hierarchy(&testing.ports(), epic).await.unwrap();
        let hierarchy = serde_json::to_value(hierarchy).unwrap();
        let schema = jsonschema::validator_for(&Value::Object(schema::<Hierarchy>())).unwrap();
        assert!(schema.is_valid(&hierarchy), "{hierarchy:#}");
        assert_eq!(hierarchy["counts"]["acceptance_criteria"], 1);
    }
}
