//! The visible list of all tools, slice by slice.

use reqlore_domain::ports::project_resolver::Toolset;

use crate::tool::Tool;
use crate::{Ports, backlog, docsets, knowledge, sections};

/// The tools of the slices that the settings name.
pub(crate) fn tools(ports: &Ports) -> Vec<Box<dyn Tool>> {
    let wanted = Toolset::ALL.into_iter().filter(|slice| ports.settings.toolsets.contains(slice));
    wanted.flat_map(|slice| of(slice, ports)).collect()
}

fn of(slice: Toolset, ports: &Ports) -> Vec<Box<dyn Tool>> {
    match slice {
        Toolset::Sections => vec![
            Box::new(sections::get_instructions::GetInstructions),
            Box::new(sections::get_requirements::GetRequirements),
            Box::new(sections::set_requirements::SetRequirements),
            Box::new(sections::delete_requirements::DeleteRequirements),
        ],
        Toolset::Backlog => backlog::tools(),
        Toolset::Docsets => vec![
            Box::new(docsets::search_docs::SearchDocs),
            Box::new(docsets::list_docsets::ListDocsets),
        ],
        Toolset::Knowledge => vec![
            Box::new(knowledge::sync::Sync { takes_over: ports.tree.is_some() }),
            Box::new(knowledge::search::Search),
            Box::new(knowledge::show::Show),
            Box::new(knowledge::graph::Graph),
            Box::new(knowledge::context::ContextPack),
            Box::new(knowledge::tags::Tags),
        ],
    }
}
