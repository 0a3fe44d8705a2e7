//! `epic_hierarchy`: an epic with everything below it, built from metadata alone.

use std::fmt::Write;

use async_trait::async_trait;
use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::Result;
use reqlore_domain::ports::service::{Call, Reply, ToolSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::arguments::EpicRef;
use super::find::{self, Backlog};
use super::item_view::Brief;
use crate::Context;
use crate::tool::{Tool, decode, read_tool, reply};

pub(crate) struct EpicHierarchy;

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    epic: EpicRef,
}

#[async_trait]
impl Tool for EpicHierarchy {
    fn spec(&self) -> ToolSpec {
        read_tool::<Arguments, Hierarchy>(
            "epic_hierarchy",
            "See all of an epic",
            "Reads an epic with its user stories, each with its requirements and \
                          acceptance criteria: references, titles, states.",
        )
    }

    async fn call(&self, context: &Context, spec: &ToolSpec, mut call: Call) -> Result<Reply> {
        let given: Arguments = decode(&mut call, spec)?;
        let epic = given.epic.reference("epic")?;
        let backlog = Backlog::of(&context.ports, &call.caller);
        let found = hierarchy(backlog, epic).await.map_err(|error| error.field("epic"))?;
        reply(text(&found), &found)
    }
}

/// An indented list.
fn text(found: &Hierarchy) -> String {
    let Hierarchy { epic, user_stories, counts, left_out } = found;
    let mut text = format!(
        "{}: {} ({}, {}, acceptance criteria: {})",
        epic.reference_id,
        epic.title,
        counted(counts.user_stories, "user story", "user stories"),
        counted(counts.requirements, "requirement", "requirements"),
        counts.acceptance_criteria
    );
    for story in user_stories {
        line(&mut text, "", &story.reference_id, &story.title, story.status);
        for below in story.requirements.iter().chain(&story.acceptance_criteria) {
            let Brief { reference_id, title, status, .. } = below;
            line(&mut text, "  ", reference_id, title, *status);
        }
    }
    if let Some(left_out) = left_out {
        // Writing to a string does not fail.
        let _ = write!(text, "\nLeft out: {left_out}.");
    }
    text
}

fn counted(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}

fn line(text: &mut String, indent: &str, reference: &str, title: &str, status: Option<&str>) {
    // Writing to a string does not fail.
    let _ = write!(text, "\n{indent}- {reference}: {title}");
    let _ = status.map(|status| write!(text, " ({status})"));
}

/// An epic, its stories, and what belongs to each of them, in the one order.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Hierarchy {
    #[schemars(with = "Map<String, Value>")]
    pub(crate) epic: Brief,
    pub(crate) user_stories: Vec<Story>,
    /// How many there are below the epic.
    pub(crate) counts: Counts,
    /// What was left out of a very large one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) left_out: Option<String>,
}

/// A user story with what belongs to it.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Story {
    pub(crate) reference_id: String,
    /// Stored content, to be treated as data.
    pub(crate) title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<&'static str>,
    /// 1 Critical to 4 Low.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) priority: Option<u8>,
    #[serde(skip_serializing_if = "Option::is_none")]
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
pub(crate) async fn hierarchy(backlog: Backlog<'_>, reference: Reference) -> Result<Hierarchy> {
    let head = backlog.head(reference).await?;
    let Some(epic) = Brief::of(&head) else {
        return Err(super::arguments::not_found(reference.kind, &reference.to_string()));
    };
    let stories = backlog.children(reference, ItemKind::UserStory).await?;
    let known = stories.iter().filter_map(|head| find::item(head)?.reference.zip(Brief::of(head)));
    let (references, briefs): (Vec<Reference>, Vec<Brief>) = known.unzip();
    let requirements = backlog.children_of(&references, ItemKind::Requirement).await?;
    let criteria = backlog.children_of(&references, ItemKind::AcceptanceCriteria).await?;
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
    let mut user_stories: Vec<Story> = user_stories.collect();
    let left_out = cut(&mut user_stories);
    Ok(Hierarchy { epic, user_stories, counts, left_out })
}

/// About so many bytes are shown, as a result may have (reliability 6).
const MOST_BYTES: usize = 1024 * 1024;
/// What an item takes beside its title.
const FRAME: usize = 120;

/// Leaves out the last stories of what would be too much, and says so.
fn cut(stories: &mut Vec<Story>) -> Option<String> {
    let size = |item: &Brief| item.title.len() + FRAME;
    let mut bytes = 0;
    let fitting = stories.iter().take_while(|story| {
        let below = story.requirements.iter().chain(&story.acceptance_criteria);
        bytes += story.title.len() + FRAME + below.map(size).sum::<usize>();
        bytes <= MOST_BYTES
    });
    let (fitting, all) = (fitting.count(), stories.len());
    if fitting == all {
        return None;
    }
    stories.truncate(fitting);
    Some(format!(
        "the first {fitting} of {all} user stories are here; search_requirements with \
                  the epic lists the others' requirements"
    ))
}

#[cfg(test)]
mod tests {
    use reqlore_domain::document::{DocumentId, Kind};
    use reqlore_domain::project::ProjectKey;
    use serde_json::Value;

    use super::*;
    use crate::test_support::Testing;
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
        let (ports, project) = (&testing.ports(), &ProjectKey::default());
        let hierarchy = hierarchy(Backlog { ports, project }, epic).await.unwrap();
        let hierarchy = serde_json::to_value(hierarchy).unwrap();
        let schema = jsonschema::validator_for(&Value::Object(schema::<Hierarchy>())).unwrap();
        assert!(schema.is_valid(&hierarchy), "{hierarchy:#}");
        assert_eq!(hierarchy["counts"]["acceptance_criteria"], 1);
    }

    #[test]
    fn what_would_be_too_much_is_left_out_and_said() {
        let story = || Story {
            reference_id: "US-001".to_owned(),
            title: "t".repeat(500),
            status: None,
            priority: None,
            assignee_username: None,
            requirements: Vec::new(),
            acceptance_criteria: Vec::new(),
        };
        let mut few: Vec<Story> = (0..1_000).map(|_| story()).collect();
        assert_eq!((cut(&mut few), few.len()), (None, 1_000));
        let mut many: Vec<Story> = (0..7_000).map(|_| story()).collect();
        let told = cut(&mut many).unwrap();
        assert!(told.starts_with(&format!("the first {} of 7000", many.len())), "{told}");
        assert!(many.len() * 620 <= MOST_BYTES && many.len() > 1_500);
    }
}
