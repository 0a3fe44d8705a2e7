//! The backlog: tools, resources and prompts over epics, user stories, requirements and acceptance
//! criteria.

pub(crate) mod arguments;
pub(crate) mod check;
pub(crate) mod claims;
pub(crate) mod delete_item;
mod epic_hierarchy;
mod get_item;
mod get_user_story_requirements;
pub(crate) mod item_lookup;
mod item_tools;
pub(crate) mod item_view;
mod list_epics;
pub(crate) mod list_items;
mod list_ready;
pub(crate) mod prompts;
pub(crate) mod record_contents;
pub(crate) mod relationship;
mod relationship_tools;
pub mod repair;
pub(crate) mod resources;
mod search;
pub(crate) mod search_global;
mod search_requirements;
#[cfg(test)]
mod tests;

use reqlore_domain::backlog::ItemKind;

use self::item_tools::{CreateItem, UpdateItem};
use self::relationship_tools::RelationshipTool;
use crate::tools::tool::Tool;

pub(crate) fn tools() -> Vec<Box<dyn Tool>> {
    let mut tools: Vec<Box<dyn Tool>> = vec![
        Box::new(get_user_story_requirements::GetUserStoryRequirements),
        Box::new(RelationshipTool { is_removal: false }),
        Box::new(RelationshipTool { is_removal: true }),
        Box::new(get_item::GetItem),
        Box::new(delete_item::DeleteItem),
        Box::new(list_items::ListItems),
        Box::new(list_ready::ListReady),
        Box::new(claims::ClaimItem),
        Box::new(claims::UnclaimItem),
        Box::new(list_epics::ListEpics),
        Box::new(epic_hierarchy::EpicHierarchy),
        Box::new(search_global::SearchGlobal { is_typed: false }),
        Box::new(search_global::SearchGlobal { is_typed: true }),
        Box::new(search_requirements::SearchRequirements),
    ];
    for kind in ItemKind::ALL {
        tools.push(Box::new(CreateItem(kind)));
        tools.push(Box::new(UpdateItem(kind)));
    }
    tools
}
