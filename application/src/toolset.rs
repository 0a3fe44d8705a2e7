//! The visible list of all tools.

use crate::tool::Tool;
use crate::{docsets, knowledge, sections};

pub(crate) fn tools() -> Vec<Box<dyn Tool>> {
    vec![
        Box::new(sections::get_instructions::GetInstructions),
        Box::new(sections::get_requirements::GetRequirements),
        Box::new(sections::set_requirements::SetRequirements),
        Box::new(sections::delete_requirements::DeleteRequirements),
        Box::new(knowledge::sync::Sync),
        Box::new(knowledge::search::Search),
        Box::new(knowledge::show::Show),
        Box::new(knowledge::graph::Graph),
        Box::new(knowledge::context::ContextPack),
        Box::new(knowledge::tags::Tags),
        Box::new(docsets::search_docs::SearchDocs),
        Box::new(docsets::list_docsets::ListDocsets),
    ]
}
