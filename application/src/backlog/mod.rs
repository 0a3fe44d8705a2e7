//! The backlog (S2; S5 6 to 8): tools, resources and prompts over epics, user stories, requirements
//! and acceptance criteria.

pub(crate) mod brief;
mod change;
pub(crate) mod changed;
pub(crate) mod check;
mod choice;
mod create_acceptance_criteria;
mod create_epic;
mod create_relationship;
mod create_requirement;
mod create_user_story;
mod delete_item;
mod delete_relationship;
mod epic_hierarchy;
pub(crate) mod find;
mod found;
mod get_item;
mod get_user_story_requirements;
pub(crate) mod given;
pub(crate) mod hierarchy;
mod list_epics;
mod make;
pub mod mended;
pub(crate) mod prompts;
pub(crate) mod record;
mod relationship;
pub(crate) mod relink;
pub(crate) mod renumber;
pub(crate) mod resources;
mod search_global;
mod search_requirements;
pub(crate) mod surroundings;
#[cfg(test)]
mod tests;
mod update_acceptance_criteria;
mod update_epic;
mod update_requirement;
mod update_user_story;

use reqlore_domain::backlog::fields::{Assignee, Description, Tags};
use reqlore_domain::identity::Access;
use reqlore_domain::ports::service::ToolSpec;
use schemars::JsonSchema;

use crate::tool::{Tool, answer_schema, schema};

pub(crate) fn tools() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(create_epic::CreateEpic),
        Box::new(update_epic::UpdateEpic),
        Box::new(create_user_story::CreateUserStory),
        Box::new(update_user_story::UpdateUserStory),
        Box::new(get_user_story_requirements::GetUserStoryRequirements),
        Box::new(create_requirement::CreateRequirement),
        Box::new(update_requirement::UpdateRequirement),
        Box::new(create_acceptance_criteria::CreateAcceptanceCriteria),
        Box::new(update_acceptance_criteria::UpdateAcceptanceCriteria),
        Box::new(create_relationship::CreateRelationship),
        Box::new(delete_relationship::DeleteRelationship),
        Box::new(get_item::GetItem),
        Box::new(delete_item::DeleteItem),
        Box::new(list_epics::ListEpics),
        Box::new(epic_hierarchy::EpicHierarchy),
        Box::new(search_global::SearchGlobal),
        Box::new(search_requirements::SearchRequirements),
    ]
}

// What is promised of the answer to a change: the whole record, of which these tell what was
// written (rulings 1). Naming every key at each of nine tools would cost models more than it tells.
// Clients would read a doc comment.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "a schema")]
struct Written {
    project: String,
    reference_id: String,
    version: String,
}

/// A tool that makes or changes one item and answers with its record.
fn writing<Arguments: JsonSchema>(
    name: &'static str,
    title: &'static str,
    description: &'static str,
) -> ToolSpec {
    ToolSpec {
        name,
        title,
        description,
        input_schema: schema::<Arguments>(),
        output_schema: answer_schema::<Written>(),
        access: Access::Write,
        may_change: true,
        destructive: false,
        idempotent: name.starts_with("update_"),
    }
}

fn description(given: Option<Description>) -> String {
    given.map(|text| text.as_str().to_owned()).unwrap_or_default()
}

fn assignee(given: Option<Assignee>) -> Option<String> {
    given.and_then(|assignee| assignee.name().map(str::to_owned))
}

fn tags(given: Option<Tags>) -> Option<Vec<String>> {
    given.map(Tags::into_vec)
}
