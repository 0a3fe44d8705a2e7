//! The backlog: tools, resources and prompts over epics, user stories, requirements and acceptance
//! criteria.

pub(crate) mod arguments;
pub(crate) mod check;
mod create_acceptance_criteria;
mod create_epic;
mod create_relationship;
mod create_requirement;
mod create_user_story;
pub(crate) mod delete_item;
mod delete_relationship;
mod epic_hierarchy;
mod get_item;
mod get_user_story_requirements;
pub(crate) mod item_lookup;
pub(crate) mod item_view;
mod list_epics;
pub(crate) mod list_items;
pub(crate) mod prompts;
mod relationship;
pub mod repair;
pub(crate) mod resources;
mod search;
mod search_global;
mod search_requirements;
#[cfg(test)]
mod tests;
mod update_acceptance_criteria;
mod update_epic;
mod update_requirement;
mod update_user_story;
pub(crate) mod write_item;

use crate::tools::tool::Tool;

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
        Box::new(list_items::ListItems),
        Box::new(list_epics::ListEpics),
        Box::new(epic_hierarchy::EpicHierarchy),
        Box::new(search_global::SearchGlobal),
        Box::new(search_requirements::SearchRequirements),
    ]
}
