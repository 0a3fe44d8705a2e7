//! The backlog: tools, resources and prompts over epics, user stories, requirements and acceptance
//! criteria.

mod acceptance_criteria;
pub(crate) mod arguments;
pub(crate) mod check;
mod delete_item;
pub(crate) mod epic;
pub(crate) mod find;
mod get_item;
pub(crate) mod item_view;
pub(crate) mod prompts;
mod relationship;
pub mod repair;
mod requirement;
pub(crate) mod resources;
mod search;
#[cfg(test)]
mod tests;
mod user_story;
mod write_item;

use crate::tool::Tool;

pub(crate) fn tools() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(epic::CreateEpic),
        Box::new(epic::UpdateEpic),
        Box::new(user_story::CreateUserStory),
        Box::new(user_story::UpdateUserStory),
        Box::new(get_item::GetUserStoryRequirements),
        Box::new(requirement::CreateRequirement),
        Box::new(requirement::UpdateRequirement),
        Box::new(acceptance_criteria::CreateAcceptanceCriteria),
        Box::new(acceptance_criteria::UpdateAcceptanceCriteria),
        Box::new(relationship::CreateRelationship),
        Box::new(relationship::DeleteRelationship),
        Box::new(get_item::GetItem),
        Box::new(delete_item::DeleteItem),
        Box::new(epic::ListEpics),
        Box::new(epic::EpicHierarchy),
        Box::new(search::SearchGlobal),
        Box::new(search::SearchRequirements),
    ]
}
