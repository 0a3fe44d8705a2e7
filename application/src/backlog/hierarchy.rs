//! An epic with all that belongs to it, made of heads alone: no file is read for it.

use reqlore_domain::backlog::{ItemKind, Reference};
use reqlore_domain::error::Result;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::brief::Brief;
use super::find::{self, Backlog};

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
    #[schemars(default)]
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
pub(crate) async fn hierarchy(backlog: Backlog<'_>, reference: Reference) -> Result<Hierarchy> {
    let head = backlog.head(reference).await?;
    let Some(epic) = Brief::of(&head) else {
        return Err(super::given::not_found(reference.kind, &reference.to_string()));
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
