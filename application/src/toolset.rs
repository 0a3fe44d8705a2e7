//! The visible list of all tools, slice by slice.

use reqlore_domain::ports::projects::Slice;

use crate::tool::Tool;
use crate::{docsets, knowledge, sections};

/// The tools of some slices.
pub(crate) fn tools(slices: &[Slice]) -> Vec<Box<dyn Tool>> {
    let wanted = Slice::ALL.into_iter().filter(|slice| slices.contains(slice));
    wanted.flat_map(of).collect()
}

fn of(slice: Slice) -> Vec<Box<dyn Tool>> {
    match slice {
        Slice::Sections => vec![
            Box::new(sections::get_instructions::GetInstructions),
            Box::new(sections::get_requirements::GetRequirements),
            Box::new(sections::set_requirements::SetRequirements),
            Box::new(sections::delete_requirements::DeleteRequirements),
        ],
        Slice::Docsets => vec![
            Box::new(docsets::search_docs::SearchDocs),
            Box::new(docsets::list_docsets::ListDocsets),
        ],
        Slice::Knowledge => vec![
            Box::new(knowledge::sync::Sync),
            Box::new(knowledge::search::Search),
            Box::new(knowledge::show::Show),
            Box::new(knowledge::graph::Graph),
            Box::new(knowledge::context::ContextPack),
            Box::new(knowledge::tags::Tags),
        ],
    }
}
